"""HitNet: capsules that hit or miss (Deliège, Cioppa and Van Droogenbroeck, 2018).

Names are imported when they are first used, so that `import hitnet` is quick and loads only what is needed.
"""

import ast
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:  # the only list of public names: type checkers import from it, `_room_of_each_name` reads it
    from hitnet.audit import Audit as Audit
    from hitnet.audit import Judges as Judges
    from hitnet.audit import audit_labels as audit_labels
    from hitnet.audit import open_audit as open_audit
    from hitnet.capsules import HitOrMiss as HitOrMiss
    from hitnet.capsules import distances as distances
    from hitnet.data import Data as Data
    from hitnet.data import Images as Images
    from hitnet.data import check_data as check_data
    from hitnet.data import fetch_data as fetch_data
    from hitnet.data import list_data as list_data
    from hitnet.data import open_data as open_data
    from hitnet.errors import HitNetError as HitNetError
    from hitnet.features import extract_features as extract_features
    from hitnet.inference import Evaluation as Evaluation
    from hitnet.inference import Prediction as Prediction
    from hitnet.losses import CentripetalLoss as CentripetalLoss
    from hitnet.losses import centripetal_loss as centripetal_loss
    from hitnet.losses import misfit as misfit
    from hitnet.models import HitNet as HitNet
    from hitnet.models import HitOrMissClassifier as HitOrMissClassifier
    from hitnet.models import ModelConfig as ModelConfig
    from hitnet.models import Network as Network
    from hitnet.models import choose_model as choose_model
    from hitnet.models import list_models as list_models
    from hitnet.models import open_backbone as open_backbone
    from hitnet.models import with_backbone as with_backbone
    from hitnet.plots import plot_history as plot_history
    from hitnet.review import serve_review as serve_review
    from hitnet.runtime import Progress as Progress
    from hitnet.synthesis import augment as augment
    from hitnet.synthesis import capsule_distributions as capsule_distributions
    from hitnet.synthesis import generate as generate
    from hitnet.synthesis import prototypes as prototypes  # type: ignore[no-redef]
    from hitnet.synthesis import traverse as traverse
    from hitnet.training import Recipe as Recipe
    from hitnet.training import Run as Run
    from hitnet.training import TensorBoard as TensorBoard
    from hitnet.training import analyse_ghosts as analyse_ghosts
    from hitnet.training import choose_recipe as choose_recipe
    from hitnet.training import evaluate as evaluate
    from hitnet.training import open_run as open_run
    from hitnet.training import predict as predict
    from hitnet.training import train as train  # type: ignore[no-redef]
    from hitnet.training import train_many as train_many


def _room_of_each_name() -> dict[str, str]:
    """The module of each public name, from the list above."""
    block = next(node for node in ast.parse(Path(__file__).read_text("utf-8")).body if isinstance(node, ast.If))
    imports = (node for node in block.body if isinstance(node, ast.ImportFrom))
    return {alias.name: str(node.module) for node in imports for alias in node.names}


_ROOM_OF = _room_of_each_name()
_ROOMS = {*_ROOM_OF.values(), "hitnet.sklearn"}
__all__ = sorted(_ROOM_OF)


def __getattr__(name: str) -> Any:
    if name in _ROOM_OF:
        value = getattr(importlib.import_module(_ROOM_OF[name]), name)
    elif f"hitnet.{name}" in _ROOMS:
        try:
            value = importlib.import_module(f"hitnet.{name}")
        except ImportError as error:  # of a package that is not installed; `hasattr` takes no other error than this
            raise AttributeError(str(error)) from error
    else:
        raise AttributeError(f"module 'hitnet' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOM_OF, *(room.removeprefix("hitnet.") for room in _ROOM_OF.values())})
