"""Which labels are wrong? Ghost capsules, scores, the table, the review page and its corrections."""

from hitnet.audit.audit import Audit, audit, judge
from hitnet.audit.corrections import Applied, apply_corrections
from hitnet.audit.export import label_studio, pred_probs, write_pred_probs
from hitnet.audit.ghosts import Ghosts, find_ghosts
from hitnet.audit.page import write_page

__all__ = [
    "Applied",
    "Audit",
    "Ghosts",
    "apply_corrections",
    "audit",
    "find_ghosts",
    "judge",
    "label_studio",
    "pred_probs",
    "write_page",
    "write_pred_probs",
]
