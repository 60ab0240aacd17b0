"""Which labels are wrong? Judges, scores, the table, the review page and the audit's folder."""

from hitnet.audit.judgement import Case, Judgement
from hitnet.audit.judges import Judges
from hitnet.audit.labels import audit_labels
from hitnet.audit.results import Audit, apply_corrections, export_audit, open_audit
from hitnet.audit.summary import Summary
from hitnet.features.opinions import Opinion

__all__ = [
    "Audit",
    "Case",
    "Judgement",
    "Judges",
    "Opinion",
    "Summary",
    "apply_corrections",
    "audit_labels",
    "export_audit",
    "open_audit",
]
