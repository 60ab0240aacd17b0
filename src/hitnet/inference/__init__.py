"""Predictions from distances, and from ONNX files: no network of PyTorch is built."""

from hitnet.inference.onnx_file import OnnxNetwork, is_onnx, open_onnx, predict_onnx
from hitnet.inference.prediction import DecisionRule, Prediction, check_share, misfit_limit, misfits

__all__ = [
    "DecisionRule",
    "OnnxNetwork",
    "Prediction",
    "check_share",
    "is_onnx",
    "misfit_limit",
    "misfits",
    "open_onnx",
    "predict_onnx",
]
