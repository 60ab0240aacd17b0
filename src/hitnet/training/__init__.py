"""Training: recipes, the engine, run folders, evaluation and prediction."""

from hitnet.inference import Prediction
from hitnet.training.api import train, train_many
from hitnet.training.callbacks import Callback, Training
from hitnet.training.evaluation import Evaluation, evaluate
from hitnet.training.onnx_export import export_run
from hitnet.training.predictions import predict
from hitnet.training.progress import Progress
from hitnet.training.recipes import RECIPES, Recipe, RecipeChoice, choose_recipe
from hitnet.training.run_config import RunConfig
from hitnet.training.run_folder import RunFolder
from hitnet.training.runs import Run, open_run
from hitnet.training.tensorboard import TensorBoard

__all__ = [
    "RECIPES",
    "Callback",
    "Evaluation",
    "Prediction",
    "Progress",
    "Recipe",
    "RecipeChoice",
    "Run",
    "RunConfig",
    "RunFolder",
    "TensorBoard",
    "Training",
    "choose_recipe",
    "evaluate",
    "export_run",
    "open_run",
    "predict",
    "train",
    "train_many",
]
