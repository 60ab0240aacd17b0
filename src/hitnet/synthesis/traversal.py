"""Traversal: sweep one component of a capsule, keep the others fixed, and see what the component draws.

The paper sweeps [0.5 − 2m/√n, 0.5 + 2m/√n]: two expected standard deviations to each side.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hitnet.data import read_image
from hitnet.errors import HitNetError, finite, whole
from hitnet.models.hybrid import component_spread
from hitnet.models.network import Network, to_device
from hitnet.synthesis.decoding import RunLike, class_indices, decode, need_centre, open_decoder
from hitnet.training.runs import Run


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
        change: np.ndarray = (rows - rows.mean(dim=1, keepdim=True)).square().mean(dim=(1, 2, 3, 4)).sqrt().numpy()
        return change

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
    device: str | torch.device = "auto",
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
