"""HitNet as a classifier of scikit-learn."""

from hitnet.errors import HitNetError

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    raise HitNetError("`hitnet.sklearn` needs the package scikit-learn: pip install 'hitnet[sklearn]'.") from error

from hitnet.sklearn.classifier import HitNetClassifier

__all__ = ["HitNetClassifier"]
