"""Training: recipes, the trainer, run folders, and what can be done with a finished run."""

from hitnet.training.api import train, train_many
from hitnet.training.choosing import MINUTES
from hitnet.training.committees import analyse_ghosts, evaluate
from hitnet.training.jobs import Job, seed_jobs, train_jobs
from hitnet.training.recipes import RECIPES, Recipe, RecipeChoice, choose_recipe
from hitnet.training.run_config import RunConfig
from hitnet.training.run_folder import RunFolder
from hitnet.training.runs import Run, export_run, open_run, predict
from hitnet.training.scheduler import AT_ONCE
from hitnet.training.tensorboard import TensorBoard

__all__ = [
    "AT_ONCE",
    "MINUTES",
    "RECIPES",
    "Job",
    "Recipe",
    "RecipeChoice",
    "Run",
    "RunConfig",
    "RunFolder",
    "TensorBoard",
    "analyse_ghosts",
    "choose_recipe",
    "evaluate",
    "export_run",
    "open_run",
    "predict",
    "seed_jobs",
    "train",
    "train_jobs",
    "train_many",
]
