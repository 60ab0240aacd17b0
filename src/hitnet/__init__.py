"""HitNet: capsules that hit or miss (Deliège, Cioppa and Van Droogenbroeck, 2018)."""

from hitnet import startup  # noqa: F401  (before all that takes time)
from hitnet.audit import Audit, audit
from hitnet.capsules import HitOrMiss, distances, dynamic_routing, mask, squash
from hitnet.data import Images
from hitnet.errors import HitNetError
from hitnet.losses import CentripetalLoss, MarginLoss, centripetal_loss, margin_loss, staircase
from hitnet.models import HitNet, Network, Output, build
from hitnet.training import Evaluation, Recipe, Run, evaluate, load, recipe, train

__version__ = "0.1.0"

__all__ = [
    "Audit",
    "CentripetalLoss",
    "Evaluation",
    "HitNet",
    "HitNetError",
    "HitOrMiss",
    "Images",
    "MarginLoss",
    "Network",
    "Output",
    "Recipe",
    "Run",
    "audit",
    "build",
    "centripetal_loss",
    "distances",
    "dynamic_routing",
    "evaluate",
    "load",
    "margin_loss",
    "mask",
    "recipe",
    "squash",
    "staircase",
    "train",
]
