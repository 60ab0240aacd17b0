"""Training: recipes, the engine, run folders and evaluation."""

from hitnet.training.evaluation import Evaluation, evaluate
from hitnet.training.recipe import RECIPES, Recipe, recipe
from hitnet.training.run import Run, RunConfig, RunFolder, load
from hitnet.training.train import train

__all__ = ["RECIPES", "Evaluation", "Recipe", "Run", "RunConfig", "RunFolder", "evaluate", "load", "recipe", "train"]
