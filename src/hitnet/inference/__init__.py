"""What trained networks say: evaluation, predictions, ghosts, ONNX files."""

from hitnet.inference.evaluation import Evaluation, mean_distances, network_distances
from hitnet.inference.ghosts import Ghosts, find_ghosts
from hitnet.inference.onnx_file import OnnxNetwork, is_onnx, open_onnx
from hitnet.inference.prediction import DecisionRule, Prediction, check_share, misfit_limit, misfits

__all__ = [
    "DecisionRule",
    "Evaluation",
    "Ghosts",
    "OnnxNetwork",
    "Prediction",
    "check_share",
    "find_ghosts",
    "is_onnx",
    "mean_distances",
    "misfit_limit",
    "misfits",
    "network_distances",
    "open_onnx",
]
