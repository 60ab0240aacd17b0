"""The weights of backbones: published ones and files, checked against the network before they are loaded.

Weights are read from safetensors files only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from hitnet.errors import HitNetError
from hitnet.models import efficientnet_lite

AUXILIARY = ("AuxLogits", "aux1", "aux2")  # further classifiers in files of weights, for training only


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
        heads = [layer.partition(".")[0] for layer in _names(config.get("classifier"))]  # what is around the last layer
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
        raise HitNetError(f"weights: there is no file {path}.")
    try:
        state = load_file(path)
    except (OSError, SafetensorError) as error:
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


def _names(given: str | Iterable[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


def _first(names: list[str]) -> str:
    return f" (first: {names[0]})" if names else ""
