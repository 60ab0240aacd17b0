"""scikit-learn's own checks of estimators. Quick settings that still learn what the checks ask for."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from hitnet.sklearn import HitNetClassifier

# Checks that may fail, with the reason. There are none; docs/scikit-learn.md says so.
EXPECTED_FAILURES: dict[str, str] = {}


@parametrize_with_checks(
    [HitNetClassifier(epochs=10, capsule_dim=8)], expected_failed_checks=lambda estimator: EXPECTED_FAILURES
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)
