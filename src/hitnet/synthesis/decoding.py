"""Decode capsules to images: prototypes and traversals.

The prototype of a class is decoded from its central capsule. A traversal sweeps one component of a capsule and keeps
the others fixed, to show what the component draws. The paper sweeps [0.5 − 2m/√n, 0.5 + 2m/√n]: two expected standard
deviations to each side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hitnet.data import read_image
from hitnet.errors import HitNetError, check_entries, finite, whole
from hitnet.models.hybrid import BATCH, component_spread, decode_batch, need_decoder
from hitnet.models.network import Network, to_device
from hitnet.runtime.device import Device, pick_device
from hitnet.training.runs import Run, RunLike, open_run


@dataclass(frozen=True)
class Prototypes:
    """One prototype per class."""

    images: Tensor  # (K, C, H, W), floats in [0, 1] on the CPU
    class_names: tuple[str, ...]  # (K,)


def prototypes(run: RunLike, *, classes: Sequence[str] | None = None, device: Device = "auto") -> Prototypes:
    """The prototypes of all classes of a run, or of those that are named."""
    trained = open_decoder(run, device=device)
    chosen = class_indices(trained.class_names, classes)
    images = class_prototypes(trained.model, torch.tensor(chosen))
    return Prototypes(images.cpu(), tuple(trained.class_names[k] for k in chosen))


def class_prototypes(network: Network, classes: Tensor) -> Tensor:
    """Decode the central capsule of each class (B,) to an image: (B, C, H, W)."""
    centre = need_centre(network)
    return decode(network, torch.full((len(classes), network.config.capsule_dim), centre), classes)


def open_decoder(run: RunLike, *, device: Device = "auto") -> Run:
    """A trained run with a decoder, its network in evaluation mode on `device`."""
    trained = open_run(run)
    need_decoder(trained.model)
    trained.model.to(pick_device(device)).eval()
    return trained


def need_centre(network: Network) -> float:
    """Value of the central capsule's components; raise HitNetError if the central capsule stands for no class."""
    decoder = need_decoder(network)
    if network.head.loss != "centripetal":
        raise HitNetError(
            "This network drives the capsule of the true class away from the centre, so its central capsule stands "
            "for no class. Train a network whose name starts with hitnet, or generate from capsules fitted to data."
        )
    if network.head.centre == 0 and not decoder.standardised:
        raise HitNetError(
            "This network's central capsule is 0, which its decoder cannot distinguish from a masked capsule: all "
            "classes would look the same. Train it with decoder 'standardised' or 'conv'."
        )
    return network.head.centre


def class_indices(class_names: Sequence[str], chosen: Sequence[str] | None) -> list[int]:
    """Indices of the chosen classes, in that order and without repeats; all classes for None."""
    if chosen is None:
        return list(range(len(class_names)))
    if isinstance(chosen, str) or not all(isinstance(name, str) for name in chosen):
        raise HitNetError(f"classes must be a list of class names; got {chosen!r}.")
    check_entries("class", chosen, class_names)
    if not chosen:
        raise HitNetError("classes must name at least one class; got an empty list.")
    return [class_names.index(name) for name in dict.fromkeys(chosen)]


@torch.no_grad()
def decode(network: Network, capsules: Tensor, classes: Tensor, extra: Tensor | None = None) -> Tensor:
    """Decode capsules (B, n) of classes (B,) to images (B, C, H, W) in [0, 1], in batches, on the network's device.

    Extra components (B, e) are for a network that has them. None means their mean, 0.
    """
    need_decoder(network)
    config = network.config
    if capsules.shape != (len(classes), config.capsule_dim):
        raise HitNetError(
            f"decode takes one capsule of {config.capsule_dim} components for each of {len(classes)} classes; "
            f"got shape {tuple(capsules.shape)}."
        )
    device = next(network.parameters()).device
    if extra is None and config.extra_dim:
        extra = torch.zeros(len(classes), config.extra_dim)
    images = [torch.empty(0, *config.in_shape, device=device)]
    for start in range(0, len(classes), BATCH):
        part = slice(start, start + BATCH)
        extra_part = None if extra is None else extra[part].to(device, torch.float32)
        capsules_part = capsules[part].to(device, torch.float32)
        images.append(decode_batch(network, capsules_part, classes[part].to(device), extra_part))
    return torch.cat(images)


def to_pixels(images: Tensor) -> Tensor:
    """Convert images in [0, 1] to uint8 on the CPU."""
    return (images.clamp(0, 1) * 255).round().to("cpu", torch.uint8)


@dataclass(frozen=True)
class Traversal:
    """A sweep of each component of one capsule."""

    images: Tensor  # (n, S, C, H, W), floats in [0, 1]: one row per component, one column per value
    values: Tensor  # (S,), the values of the swept component
    start: Tensor  # (n,), the capsule: the central capsule, or that of an image
    class_name: str  # of the capsule
    original: Tensor | None = None  # (C, H, W), the image whose capsule was swept; None for the central capsule

    @property
    def change(self) -> np.ndarray:
        """How much each component changes the picture, (n,).

        The root mean square, over values and pixels, of the difference from the mean picture of the row.
        """
        rows = self.images.double()
        return (rows - rows.mean(dim=1, keepdim=True)).square().mean(dim=(1, 2, 3, 4)).sqrt().numpy()

    def summary(self) -> pd.DataFrame:
        """One row per component, largest change first: component, change, share."""
        change = self.change
        share = change / (float(change.sum()) or 1.0)
        table = pd.DataFrame({"component": np.arange(len(change)), "change": change, "share": share})
        return table.sort_values("change", ascending=False, kind="stable", ignore_index=True)


def sweep_values(network: Network, *, reach: float = 2.0, steps: int = 11) -> Tensor:
    """`steps` evenly spaced values from centre − reach·m/√n to centre + reach·m/√n (paper: reach 2)."""
    whole("A traversal", "steps", steps, 2)
    width = finite("A traversal", "reach", reach, above_0=True) * component_spread(network)
    centre = need_centre(network)
    return torch.linspace(centre - width, centre + width, steps, dtype=torch.float64)


def sweep(network: Network, capsule: Tensor, label: int, values: Tensor, extra: Tensor | None = None) -> Tensor:
    """Set each component of a capsule (n,) to each of the values (S,), and decode: images (n, S, C, H, W)."""
    n, steps = len(capsule), len(values)
    swept = capsule.cpu().double().repeat(n, steps, 1)
    swept[torch.arange(n), :, torch.arange(n)] = values
    repeated_extra = None if extra is None else extra.expand(n * steps, -1)
    images = decode(network, swept.view(n * steps, n), torch.full((n * steps,), label), repeated_extra)
    return images.view(n, steps, *images.shape[1:]).cpu()


@torch.no_grad()
def traverse(
    run: RunLike,
    class_name: str | None = None,
    *,
    image: Tensor | str | Path | None = None,
    reach: float = 2.0,
    steps: int = 11,
    device: Device = "auto",
) -> Traversal:
    """Sweep every component of a class's central capsule, or of an image's capsule.

    Args:
        run: A run, or its folder.
        class_name: The class. None is allowed with an image, and means the predicted class.
        image: uint8 (C, H, W), or an image file. None: sweep the central capsule.
        reach: How far to sweep to each side of the centre, in units of m/√n (paper: 2).
        steps: Values per component.
    """
    trained = open_decoder(run, device=device)
    values = sweep_values(trained.model, reach=reach, steps=steps)
    if class_name is None and image is None:
        raise HitNetError(f"Name a class to traverse (e.g. {', '.join(trained.class_names[:20])}) or give an image.")
    label = 0 if class_name is None else class_indices(trained.class_names, [class_name])[0]
    start, extra, original = torch.full((trained.config.model.capsule_dim,), need_centre(trained.model)), None, None
    if image is not None:
        pixels = _pixels(trained, image)
        original = pixels.float() / 255
        device = next(trained.model.parameters()).device
        output = trained.model(to_device(pixels[None], device), reconstruct=False)
        label = int(output.prediction[0]) if class_name is None else label
        start, extra = output.capsules[0, label].cpu(), output.extra
    images = sweep(trained.model, start, label, values, extra)
    return Traversal(images, values, start, trained.class_names[label], original)


def _pixels(run: Run, image: Tensor | str | Path) -> Tensor:
    shape = run.config.model.in_shape
    if not isinstance(image, Tensor):
        return read_image(image, shape)
    if image.dtype != torch.uint8 or tuple(image.shape) != shape:
        raise HitNetError(f"This network takes uint8 images of shape {shape}; got {image.dtype} {tuple(image.shape)}.")
    return image
