"""A copy of a network for inference: normalisations become part of convolutions and, on a CPU, activations, too."""

import copy
import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from hitnet.models.efficientnet_lite import SameConv

# Activations that oneDNN applies to what a convolution gives, by its name and with its numbers.
ACTIVATIONS: dict[type[nn.Module], tuple[str, list[float]]] = {
    nn.Identity: ("none", []),
    nn.ReLU: ("relu", []),
    nn.ReLU6: ("hardtanh", [0.0, 6.0]),
}


def folded(module: nn.Module, input_size: int, *, packed: bool = False) -> nn.Module:
    """A copy for inference, in which each batch normalisation is part of the convolution registered just before it.

    A network may use its parts in another order than they are registered in. So the copy is compared with the original
    on random images, and where they differ, the copy is given with nothing folded.

    Args:
        packed: Whether convolutions become `Packed`, for float32 on a CPU; without it where oneDNN cannot.
    """
    plain = copy.deepcopy(module).eval()
    place = next(plain.parameters(), torch.zeros(0))
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(2, 3, input_size, input_size, generator=generator).to(place.device, place.dtype)
    with torch.inference_mode():
        expected = plain(images)
    for pack in (True, False) if packed else (False,):
        try:
            merged = _merged(copy.deepcopy(plain), pack)
            with torch.inference_mode():
                same = torch.allclose(merged(images), expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))
        except (RuntimeError, AttributeError):  # shapes that do not fit, or a build of PyTorch without oneDNN
            continue
        if same:
            return merged
    return plain


def _merged(module: nn.Module, packed: bool) -> nn.Module:
    for part in list(module.modules()):
        names = list(part._modules)
        for first, second in itertools.pairwise(names):
            convolution, norm = part._modules[first], part._modules[second]
            if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d) and norm.track_running_stats:
                merged = fuse_conv_bn_eval(convolution, norm)
                # A normalisation may end with the activation, as in timm.
                activation = getattr(norm, "act", None)
                activation = activation if isinstance(activation, nn.Module) else nn.Identity()
                if packed and packable(merged) and type(activation) in ACTIVATIONS:
                    setattr(part, first, Packed(merged, activation))
                    activation = nn.Identity()
                else:
                    setattr(part, first, merged)
                setattr(part, second, activation)
    return module


def packable(convolution: nn.Conv2d) -> bool:
    """Whether `Packed` does what this convolution does: no class of others, no words for its padding."""
    known = type(convolution) in (nn.Conv2d, SameConv)
    return known and convolution.padding_mode == "zeros" and not isinstance(convolution.padding, str)


class Packed(nn.Module):
    """A convolution of square maps and its activation as one call of oneDNN, with weights in oneDNN's own order.

    A `SameConv` with stride 2 pads maps of an even size more at one side, which copies them. Here, a row and a column
    of zeros before the kernel shift it instead.
    """

    def __init__(self, convolution: nn.Conv2d, activation: nn.Module) -> None:
        super().__init__()
        self.shifting = isinstance(convolution, SameConv) and convolution.stride[0] > 1
        padding = [size // 2 for size in convolution.kernel_size] if self.shifting else [*convolution.padding]
        self.layout = (padding, [*convolution.stride], [*convolution.dilation], convolution.groups)
        self.bias, self.activation = convolution.bias, ACTIVATIONS[type(activation)]
        weight = convolution.weight.detach()
        weights = [weight, F.pad(weight, (1, 0, 1, 0))] if self.shifting else [weight]
        self.weights = [torch._C._nn.mkldnn_reorder_conv2d_weight(each.to_mkldnn(), *self.layout) for each in weights]

    def forward(self, maps: Tensor) -> Tensor:
        weight = self.weights[self.shifting and maps.shape[2] % 2 == 0]
        result: Tensor = torch.ops.mkldnn._convolution_pointwise(
            maps, weight, self.bias, *self.layout, *self.activation, ""
        )
        return result
