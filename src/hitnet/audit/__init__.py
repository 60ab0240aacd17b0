"""Which labels are wrong? Judges, scores, the table, the review page and its corrections."""

from hitnet.audit.corrections import Applied
from hitnet.audit.export import label_studio, write_pred_probs
from hitnet.audit.feature_judges import FeatureHeads
from hitnet.audit.fine_tuned import FineTuned
from hitnet.audit.judges import Case, FinishedRuns, Judgement, Judges, NewNetworks
from hitnet.audit.labels import audit_labels, judge
from hitnet.audit.mixed import NetworksAndHeads
from hitnet.audit.page import write_page
from hitnet.audit.results import Audit, apply_corrections, export_audit, open_audit

__all__ = [
    "Applied",
    "Audit",
    "Case",
    "FeatureHeads",
    "FineTuned",
    "FinishedRuns",
    "Judgement",
    "Judges",
    "NetworksAndHeads",
    "NewNetworks",
    "apply_corrections",
    "audit_labels",
    "export_audit",
    "judge",
    "label_studio",
    "open_audit",
    "write_page",
    "write_pred_probs",
]
