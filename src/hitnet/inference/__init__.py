"""What trained networks say: evaluation, predictions, ONNX files."""

from hitnet.inference.evaluation import Evaluation, evaluate, mean_distances, network_distances
from hitnet.inference.ghosts import Ghosts, analyse_ghosts, find_ghosts
from hitnet.inference.onnx_export import export_run
from hitnet.inference.onnx_file import OnnxNetwork, is_onnx, open_onnx, predict_onnx
from hitnet.inference.prediction import DecisionRule, Prediction, check_share, misfit_limit, misfits
from hitnet.inference.predictions import predict

__all__ = [
    "DecisionRule",
    "Evaluation",
    "Ghosts",
    "OnnxNetwork",
    "Prediction",
    "analyse_ghosts",
    "check_share",
    "evaluate",
    "export_run",
    "find_ghosts",
    "is_onnx",
    "mean_distances",
    "misfit_limit",
    "misfits",
    "network_distances",
    "open_onnx",
    "predict",
    "predict_onnx",
]
