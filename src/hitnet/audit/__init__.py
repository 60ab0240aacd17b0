"""Which labels are wrong? Judges, scores, the table, the review page and the audit's folder."""

from hitnet.audit.audit_table import Summary as Summary
from hitnet.audit.judgement import Case as Case
from hitnet.audit.judgement import Judgement as Judgement
from hitnet.audit.judges import Judges as Judges
from hitnet.audit.labels import audit_labels as audit_labels
from hitnet.audit.results import Audit as Audit
from hitnet.audit.results import open_audit as open_audit
from hitnet.features.opinions import Opinion as Opinion
