"""Training: recipes, the engine and run folders."""

from hitnet.training.api import train, train_many
from hitnet.training.callbacks import Callback, Training
from hitnet.training.plans import TrainingPlan, train_plans
from hitnet.training.recipes import RECIPES, Recipe, RecipeChoice, choose_recipe
from hitnet.training.run_config import RunConfig
from hitnet.training.run_folder import RunFolder
from hitnet.training.runs import Run, open_run
from hitnet.training.scheduler import AT_ONCE
from hitnet.training.tensorboard import TensorBoard

__all__ = [
    "AT_ONCE",
    "RECIPES",
    "Callback",
    "Recipe",
    "RecipeChoice",
    "Run",
    "RunConfig",
    "RunFolder",
    "TensorBoard",
    "Training",
    "TrainingPlan",
    "choose_recipe",
    "open_run",
    "train",
    "train_many",
    "train_plans",
]
