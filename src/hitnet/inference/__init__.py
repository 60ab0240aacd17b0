"""What trained networks say: evaluation, predictions, ghosts, ONNX files."""

from hitnet.inference.evaluation import Evaluation as Evaluation
from hitnet.inference.evaluation import mean_distances as mean_distances
from hitnet.inference.evaluation import network_distances as network_distances
from hitnet.inference.ghosts import Ghosts as Ghosts
from hitnet.inference.ghosts import find_ghosts as find_ghosts
from hitnet.inference.onnx_file import open_onnx as open_onnx
from hitnet.inference.prediction import DecisionRule as DecisionRule
from hitnet.inference.prediction import Prediction as Prediction
from hitnet.inference.prediction import Predictions as Predictions
from hitnet.inference.prediction import check_share as check_share
from hitnet.inference.prediction import misfit_limit as misfit_limit
from hitnet.inference.prediction import misfits as misfits
