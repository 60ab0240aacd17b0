"""A copy of a network for inference: normalisations become part of convolutions and, on a CPU, activations, too."""

import copy
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from platform import machine
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from hitnet.models.efficientnet_lite import SameConv

PACKS = machine() in ("x86_64", "AMD64")  # packed convolutions take two thirds of the time; not measured on others
# Activations that oneDNN applies to what a convolution gives, by its name and with its numbers.
ACTIVATIONS: dict[type[nn.Module], tuple[str, list[float]]] = {
    nn.Identity: ("none", []),
    nn.ReLU: ("relu", []),
    nn.ReLU6: ("hardtanh", [0.0, 6.0]),
    nn.Hardswish: ("hardswish", []),
    nn.SiLU: ("swish", []),
}


def folded(module: nn.Module, size: tuple[int, int], *, packed: bool = False) -> nn.Module:
    """A copy for inference, in which each batch normalisation is part of the convolution registered just before it.

    A network may use its parts in another order than they are registered in. So the copy is compared with the original
    on random images, and where they differ, the copy is given with nothing folded.

    Args:
        size: Height and width of the images that it will get; of others, it takes longer.
        packed: Whether convolutions become `Packed`, for float32 on a CPU; without it where oneDNN cannot.
    """
    plain = copy.deepcopy(module).eval()
    place = next(plain.parameters(), torch.zeros(0))
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(2, 3, *size, generator=generator).to(place.device, place.dtype)
    with torch.inference_mode(), _shapes_of_maps(plain) as shapes:
        expected = plain(images)
    for known in (shapes, {}) if packed else ({},):
        try:
            merged = _merged(copy.deepcopy(plain), known)
            with torch.inference_mode():
                same = torch.allclose(merged(images), expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))
        except (RuntimeError, AttributeError):  # shapes that do not fit, or a build of PyTorch without oneDNN
            continue
        if same:
            return merged
    return plain


@contextmanager
def _shapes_of_maps(module: nn.Module) -> Iterator[dict[str, torch.Size]]:
    """What shape of maps each convolution gets, by its name."""
    shapes: dict[str, torch.Size] = {}

    def note(name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        return lambda _, given: shapes.update({name: given[0].shape})

    convolutions = [(name, part) for name, part in module.named_modules() if isinstance(part, nn.Conv2d)]
    hooks = [part.register_forward_pre_hook(note(name)) for name, part in convolutions]
    yield shapes
    for hook in hooks:
        hook.remove()


def _merged(module: nn.Module, shapes: dict[str, torch.Size]) -> nn.Module:
    """The module with normalisations folded, and convolutions packed of which the shape of their maps is given."""
    for prefix, part in list(module.named_modules()):
        for first, second in itertools.pairwise(list(part._modules)):
            convolution, norm = part._modules[first], part._modules[second]
            if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d) and norm.track_running_stats:
                merged = fuse_conv_bn_eval(convolution, norm)
                # A normalisation may end with the activation, as in timm.
                activation = getattr(norm, "act", None)
                activation = activation if isinstance(activation, nn.Module) else nn.Identity()
                shape = shapes.get(f"{prefix}.{first}".removeprefix("."))
                setattr(part, second, activation)
                if shape is None or not packable(merged):
                    setattr(part, first, merged)
                elif type(activation) in ACTIVATIONS:
                    setattr(part, first, Packed(merged, activation, shape))
                    setattr(part, second, nn.Identity())
                else:
                    setattr(part, first, Packed(merged, nn.Identity(), shape))
    return module


def packable(convolution: nn.Conv2d) -> bool:
    """Whether `Packed` does what this convolution does: no class of others, no words for its padding."""
    known = type(convolution) in (nn.Conv2d, SameConv)
    return known and convolution.padding_mode == "zeros" and not isinstance(convolution.padding, str)


class Packed(nn.Module):
    """A convolution and its activation as one call of oneDNN, with weights in its order for maps of a shape.

    A `SameConv` with stride 2 pads maps of an even size more at one side, which copies them. Here, a row and a column
    of zeros before the kernel shift it instead.
    """

    def __init__(self, convolution: nn.Conv2d, activation: nn.Module, shape: torch.Size) -> None:
        super().__init__()
        self.shifting = isinstance(convolution, SameConv) and convolution.stride[0] > 1
        padding = [size // 2 for size in convolution.kernel_size] if self.shifting else [*convolution.padding]
        self.layout = (padding, [*convolution.stride], [*convolution.dilation], convolution.groups)
        self.bias, self.activation = convolution.bias, ACTIVATIONS[type(activation)]
        # Without the shape, it may choose an order that is 15 times slower.
        order: Any = torch._C._nn.mkldnn_reorder_conv2d_weight
        self.weights: dict[tuple[bool, bool], Tensor] = {}  # by whether height and width are to be shifted
        for down, across in itertools.product((False, True) if self.shifting else (False,), repeat=2):
            weight = F.pad(convolution.weight.detach(), (int(across), 0, int(down), 0))
            self.weights[down, across] = order(weight.to_mkldnn(), *self.layout, shape)

    def forward(self, maps: Tensor) -> Tensor:
        height, width = maps.shape[2:]
        weight = self.weights[self.shifting and height % 2 == 0, self.shifting and width % 2 == 0]
        result: Tensor = torch.ops.mkldnn._convolution_pointwise(
            maps, weight, self.bias, *self.layout, *self.activation, ""
        )
        return result
