"""Export a network to an ONNX file, which ONNX Runtime and other programs run without PyTorch."""

import copy
import inspect
import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hitnet import __version__
from hitnet.errors import HitNetError, need
from hitnet.inference.onnx_file import FORMAT, LARGEST, About, write_about
from hitnet.inference.prediction import DecisionRule
from hitnet.models.network import Network, unit_images
from hitnet.runtime.files import expand, replacing

OPSET = 17  # ONNX Runtime 1.12 and later
BATCH = "images"  # the name of the dimension that may have any size
LATER_EXPORTER = "dynamo"  # what later versions of PyTorch use by default; it needs further packages
WORDS = "images: uint8, grey or RGB. The class with the smallest distance wins; if all miss, none does."
TOLERANCE, RELATIVE = 1e-4, 1e-5  # a misfit is a sum over all classes


def export_network(
    network: Network, out: str | Path, *, rule: Callable[[], DecisionRule], model_name: str, data: str
) -> Path:
    """Export a trained network to an ONNX file; see `Run.export`.

    `rule` gives how distances become a class; it is called once the other arguments are checked.
    """
    target = expand(out)
    if target.suffix.lower() != ".onnx":
        raise HitNetError(f"{out}: choose a file name that ends in .onnx as `out`.")
    onnx, runtime = need("ONNX files", "onnx", "onnxruntime")
    network = copy.deepcopy(network).cpu().float().eval()
    if sum(value.nbytes for value in network.state_dict().values()) > LARGEST:
        raise HitNetError("The network's weights take more than 2 GB, which an ONNX file cannot hold.")
    decide = rule()
    graph = Graph(network)
    content = _exported(graph)
    check_same_values(graph, content, runtime)
    model = onnx.load_model_from_string(content)
    model.producer_name, model.producer_version = "hitnet", __version__
    model.doc_string = WORDS
    facts: Any = {"format": FORMAT, "model_name": model_name, "data": data, "hitnet": __version__}
    config = network.config
    write_about(model, About(in_shape=config.in_shape, crop=config.pretrained, **facts, **vars(decide)))
    with replacing(target) as temporary:
        temporary.write_bytes(model.SerializeToString())
    return target


class Graph(nn.Module):
    """Images (B, C, H, W), uint8 → distances (B, K), capsules (B, K, n), extra components (B, e), misfits (B,)."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = with_plain_pools(network)
        extra, fit = ("extra",) if network.extra else (), ("misfit",) if network.head.loss == "centripetal" else ()
        self.outputs = ("distances", "capsules", *extra, *fit)

    def examples(self, count: int) -> Tensor:
        return torch.randint(0, 256, (count, *self.network.config.in_shape), dtype=torch.uint8)

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        output = self.network(unit_images(images), reconstruct=False)
        parts = (output.distances, output.capsules, output.extra, output.misfit)
        return tuple(part for part in parts if part is not None)


class MatrixPool(nn.Module):
    """`nn.AdaptiveAvgPool2d` as two products of matrices, for sizes that ONNX's own pooling cannot express."""

    def __init__(self, size: tuple[int, int]) -> None:
        super().__init__()
        self.size = size

    def forward(self, maps: Tensor) -> Tensor:
        rows, columns = (_means(int(old), new) for old, new in zip(maps.shape[2:], self.size, strict=True))
        return rows @ maps @ columns.T


def _means(old: int, new: int) -> Tensor:
    """The matrix (new, old) that averages `old` values to `new`, as adaptive pooling does."""
    matrix = torch.zeros(new, old)
    for i in range(new):
        start, stop = i * old // new, -(-(i + 1) * old // new)
        matrix[i, start:stop] = 1 / (stop - start)
    return matrix


def with_plain_pools(module: Any) -> Any:
    """Replace adaptive pooling, in place, except where it is a plain mean."""
    for name, child in module.named_children():
        if isinstance(child, nn.AdaptiveAvgPool2d) and child.output_size not in (1, (1, 1)):
            setattr(module, name, MatrixPool(tuple(child.output_size)))  # type: ignore[arg-type]
        else:
            with_plain_pools(child)
    return module


def check_same_values(graph: Graph, content: bytes, runtime: Any) -> None:
    """Raise HitNetError if ONNX Runtime does not compute what PyTorch computes, for batches of other sizes, too."""
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        for count in (1, 3):
            images = graph.examples(count)
            values = map(torch.from_numpy, session.run(list(graph.outputs), {"images": images.numpy()}))
            pairs = list(zip(values, graph(images), strict=True))
            if not all(a.shape == b.shape and torch.allclose(a, b, rtol=RELATIVE, atol=TOLERANCE) for a, b in pairs):
                raise HitNetError(
                    "This network cannot be exported: ONNX Runtime computes other values than PyTorch. Choose another "
                    "network or backbone."
                )


@contextmanager
def plain_attention() -> Iterator[None]:
    """Compute `nn.MultiheadAttention` step by step: its fast path is one operator, which ONNX lacks."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _exported(graph: Graph) -> bytes:
    """The graph as ONNX, by the exporter that all promised versions of PyTorch have."""
    content = io.BytesIO()
    later = LATER_EXPORTER in inspect.signature(torch.onnx.export).parameters
    options: dict[str, Any] = {LATER_EXPORTER: False} if later else {}
    silence = redirect_stdout(io.StringIO())  # of a failure, the exporter prints the whole graph
    with silence, warnings.catch_warnings(), torch.random.fork_rng(devices=[]), torch.no_grad(), plain_attention():
        warnings.simplefilter("ignore")  # sizes other than the batch's are constants, as they should be
        try:
            torch.onnx.export(
                graph.eval(),
                (graph.examples(2),),
                content,  # type: ignore[arg-type]
                input_names=["images"],
                output_names=list(graph.outputs),
                dynamic_axes={name: {0: BATCH} for name in ("images", *graph.outputs)},
                opset_version=OPSET,
                **options,
            )
        except Exception as error:  # an operator that ONNX lacks makes the exporter raise almost anything
            reason = str(error).partition("\n")[0]
            raise HitNetError(f"PyTorch cannot export this network to ONNX: {reason}") from error
    return content.getvalue()
