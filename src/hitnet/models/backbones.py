"""Backbones: networks whose features others are fitted on, opened by name with their weights and settings.

`open_backbone("efficientnet-lite0")` ships with the package, `open_backbone("timm:NAME")` needs timm, and any
`nn.Module` from images (B, 3, H, W) to features (B, D) will do. Weights are read from safetensors files only.
"""

import hashlib
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from hitnet.errors import HitNetError, MissingFileError, need, unknown_name, whole
from hitnet.models import efficientnet_lite
from hitnet.runtime.device import sent

DEFAULT = efficientnet_lite.NAME
AUXILIARY = ("AuxLogits", "aux1", "aux2")  # further classifiers in files of weights, for training only
Triple = tuple[float, float, float]


@dataclass(frozen=True)
class Backbone:
    """A network in evaluation mode and what its images must look like."""

    name: str  # what it was opened by, or the class of the module
    module: nn.Module  # normalised images (B, 3, H, W) → features (B, num_features)
    input_size: int  # height and width in pixels that it was trained for
    mean: Triple  # of each channel of images in [0, 1]; subtracted
    std: Triple  # of each channel; divided by
    num_features: int  # per image
    fingerprint: str  # checksum of structure, weights and normalisation: equal if and only if features are

    def normalise(self, pixels: Tensor) -> Tensor:
        """uint8 images (B, 1 or 3, H, W) → what `module` takes: float32 (B, 3, H, W)."""
        mean, std = torch.tensor([self.mean, self.std], dtype=torch.float64)
        numbers = torch.stack([1 / (255 * std), mean / std]).float()
        scale, shift = sent(numbers, pixels.device)[:, :, None, None]
        # A grey image is the same in all three channels: multiplying by (3, 1, 1) repeats it.
        return (pixels * scale).sub_(shift)


def open_backbone(
    backbone: str | nn.Module | Backbone,
    weights: str | Path | None = None,
    *,
    input_size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Backbone:
    """A backbone by name, or around a module.

    Args:
        backbone: "efficientnet-lite0" (ships; seen at two depths, see `DeepLite0`), "timm:NAME", or a module from
            normalised images (B, 3, H, W) to features (B, D). A `Backbone` is returned as it is.
        weights: A .safetensors file. None: the weights that ship, or for timm those of the Hugging Face hub (from its
            cache, else downloaded). A module keeps the weights that it has.
        input_size: Height and width of images; None: the backbone's own, 224 for a module.
        mean: Of each channel in [0, 1]; None: the backbone's own, 0.5 for a module.
        std: The same for the standard deviation.

    Raises:
        HitNetError: The name is unknown, its package is not installed, or its weights cannot be had.
    """
    if isinstance(backbone, Backbone):
        return backbone
    if isinstance(backbone, nn.Module):
        name, module, settings = type(backbone).__name__, backbone, Settings(224, (0.5,) * 3, (0.5,) * 3)
        if weights is not None:
            module.load_state_dict(fitting(module, weights, name), strict=False)
    else:
        name = backbone
        module, settings = architecture(name)
        load_weights(module, name, weights)
    size = settings.input_size if input_size is None else whole("open_backbone", "input_size", input_size, 8)
    means = settings.mean if mean is None else _triple("mean", mean)
    deviations = settings.std if std is None else _triple("std", std)
    if min(deviations) <= 0:
        raise HitNetError(f"open_backbone: std must be above 0; got {tuple(deviations)}.")
    module = module.eval()
    count = count_features(module, name, (size, size), "Is `input_size` right?")
    return Backbone(name, module, size, means, deviations, count, _fingerprint(module, (*means, *deviations)))


@dataclass(frozen=True)
class Settings:
    """What a backbone's images must look like; see `Backbone`."""

    input_size: int
    mean: Triple
    std: Triple


def architecture(name: str) -> tuple[nn.Module, Settings]:
    """A backbone by name, without weights and without its classifier, and what its images must look like."""
    family, _, model = name.partition(":")
    if name == DEFAULT:
        lite = efficientnet_lite
        return lite.DeepLite0(), Settings(lite.INPUT_SIZE, lite.MEAN, lite.STD)
    if family == "timm" and model:
        return _timm_architecture(model)
    raise unknown_backbone(name)


def unknown_backbone(name: str) -> HitNetError:
    return unknown_name("backbone", name, [DEFAULT, "timm:NAME"])


def _timm_architecture(model: str) -> tuple[nn.Module, Settings]:
    timm = need("A backbone of timm", "timm")
    if not re.fullmatch(r"[\w.]+", model):  # "hf-hub:…" would contact a network, "local-dir:…" read a folder
        raise HitNetError(f"timm:{model}: only networks of timm itself are built by name. Give others as a module.")
    try:
        module = timm.create_model(model, pretrained=False, num_classes=0)
    except Exception as error:
        near = timm.list_models(f"*{model.split('.')[0]}*")[:3] or timm.list_models(f"{model[:6]}*")[:3]
        hint = f" Similar: {', '.join(near)}." if near else ""
        reason = str(error).rstrip(".")
        raise HitNetError(f"timm cannot build {model!r}: {reason}.{hint}") from error
    config: Any = module.pretrained_cfg
    mean, std = (_triple(name, config[name]) for name in ("mean", "std"))
    return module, Settings(int(config["input_size"][-1]), mean, std)


def _triple(name: str, values: Sequence[float]) -> Triple:
    numbers = [float(value) for value in values]
    if len(numbers) != 3:
        raise HitNetError(f"open_backbone: {name} must be three numbers, one per channel; got {tuple(values)}.")
    return numbers[0], numbers[1], numbers[2]


def count_features(module: nn.Module, name: str, size: tuple[int, int], advice: str) -> int:
    """D of a module (B, 3, H, W) → (B, D), found by a trial with an image of `size`; the module stays as it is.

    If it fails, the error names the module and gives the `advice`.
    """
    place = next(module.parameters(), torch.zeros(0))
    training = module.training
    module.eval()  # else batch-norm would count the trial
    try:
        with torch.inference_mode():
            features = module(torch.zeros(1, 3, *size, device=place.device, dtype=place.dtype))
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise HitNetError(
            f"The backbone {name} fails on an image (1, 3, {size[0]}, {size[1]}): {reason.rstrip('.')}. {advice}"
        ) from error
    finally:
        module.train(training)
    if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != 1:
        got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise HitNetError(f"The backbone {name} must give features (B, D); for one image it gave {got}.")
    return features.shape[1]


def _fingerprint(module: nn.Module, numbers: Iterable[float]) -> str:
    """Checksum over structure, normalisation and all weights."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(f"{type(module).__module__}.{module!r} {tuple(numbers)}".encode())
    for key, value in sorted(module.state_dict().items()):
        digest.update(f"{key} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def load_weights(module: nn.Module, name: str, weights: str | Path | None = None) -> None:
    """Load a backbone's weights: a .safetensors file or, for None, its published ones."""
    module.load_state_dict(read_weights(module, name, weights), strict=False)


def read_weights(module: nn.Module, name: str, weights: str | Path | None = None) -> dict[str, Tensor]:
    """A backbone's weights, once they are here and fit the module; see `load_weights`."""
    family = name.partition(":")[0]
    if name == efficientnet_lite.NAME and weights is None:
        return efficientnet_lite.shipped_weights()
    if family == "timm":
        config: Any = module.pretrained_cfg
        file = weights if weights is not None else _from_hub(name, config)
        last = config.get("classifier") or ()
        heads = [layer.partition(".")[0] for layer in ([last] if isinstance(last, str) else last)]  # what is around it
        return fitting(module, file, name, [*heads, *AUXILIARY])
    return fitting(module, str(weights), name)


def _from_hub(name: str, config: dict[str, Any]) -> Path:
    """The file of weights in the Hugging Face hub's cache, downloaded where it is not there yet."""
    place = config.get("hf_hub_id")
    if not place:
        raise HitNetError(f"No weights are published for the backbone {name}. Give a .safetensors file as `weights`.")
    file = config.get("hf_hub_filename") or "model.safetensors"
    try:
        from huggingface_hub import hf_hub_download

        return Path(hf_hub_download(place, file))
    except Exception as error:
        raise HitNetError(
            f"The weights of the backbone {name} are not in the Hugging Face cache and cannot be downloaded "
            f"({type(error).__name__}). On a machine with a network, download https://huggingface.co/{place}/resolve/"
            f"main/{file}, copy it here and give its path as `weights`."
        ) from error


def fitting(
    module: nn.Module, weights: str | Path, name: str, ignored: Iterable[str] = ("classifier",)
) -> dict[str, Tensor]:
    """The content of a safetensors file that fits a module, without parameters under `ignored` that it has not."""
    path = Path(weights)
    if not path.is_file():
        raise MissingFileError(f"weights: there is no file {path}.")
    try:
        state = load_file(path)
    except (OSError, SafetensorError, MemoryError) as error:
        raise HitNetError(f"weights: {path} is not a readable safetensors file ({error}).") from error
    state = _as_in_timm(module, state)
    own, prefixes = module.state_dict(), tuple(f"{part}." for part in ignored)
    state = {key: value for key, value in state.items() if key in own or not key.startswith(prefixes)}
    missing = [key for key in own if key not in state and not key.endswith("num_batches_tracked")]
    other = [key for key in state if key not in own or state[key].shape != own[key].shape]
    if missing or other:
        raise HitNetError(
            f"weights: {path} does not fit the backbone {name}: {len(missing)} parameters are missing"
            f"{_first(missing)}, {len(other)} are unknown or of another shape{_first(other)}."
        )
    return state


def _as_in_timm(module: nn.Module, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The parameters under the names that timm gives them today; some files keep those of the first publication."""
    convert = getattr(sys.modules.get(type(module).__module__), "checkpoint_filter_fn", None)
    if convert is None:
        return state
    try:
        return dict(convert(dict(state), module))
    except Exception:  # weights of another network: what does not fit is named later
        return state


def _first(names: list[str]) -> str:
    return f" (first: {names[0]})" if names else ""
