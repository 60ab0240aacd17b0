"""Training: recipes, the trainer, run folders, and what can be done with a finished run."""

from hitnet.training.api import MINUTES as MINUTES
from hitnet.training.api import train as train
from hitnet.training.api import train_many as train_many
from hitnet.training.committees import analyse_ghosts as analyse_ghosts
from hitnet.training.committees import evaluate as evaluate
from hitnet.training.jobs import Job as Job
from hitnet.training.jobs import seed_jobs as seed_jobs
from hitnet.training.jobs import train_jobs as train_jobs
from hitnet.training.recipes import RECIPES as RECIPES
from hitnet.training.recipes import Recipe as Recipe
from hitnet.training.recipes import RecipeChoice as RecipeChoice
from hitnet.training.recipes import choose_recipe as choose_recipe
from hitnet.training.run_config import RunConfig as RunConfig
from hitnet.training.run_folder import RunFolder as RunFolder
from hitnet.training.runs import Run as Run
from hitnet.training.runs import open_run as open_run
from hitnet.training.runs import predict as predict
from hitnet.training.scheduler import AT_ONCE as AT_ONCE
from hitnet.training.tensorboard import TensorBoard as TensorBoard
