"""HitNet as a classifier of scikit-learn."""

from hitnet.errors import MissingPackageError

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    raise MissingPackageError("`hitnet.sklearn`", "scikit-learn") from error

from hitnet.sklearn.classifier import HitNetClassifier as HitNetClassifier
