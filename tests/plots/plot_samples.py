"""Sample data for figures, and helpers that look at a written picture."""

import numpy as np
import torch
from PIL import Image

from hitnet.synthesis import CapsuleDistributions, HybridExamples, Prototypes, Traversal


def prototypes(count=4, shape=(1, 8, 8), names=None):
    torch.manual_seed(0)
    return Prototypes(torch.rand(count, *shape), names or tuple(f"class {k}" for k in range(count)))


def traversal(components=3, steps=5, shape=(1, 8, 8), original=None):
    torch.manual_seed(0)
    values = torch.linspace(0.4, 0.6, steps)
    return Traversal(torch.rand(components, steps, *shape), values, torch.zeros(components), "seven", original)


def distributions(classes=3, images=60):
    torch.manual_seed(0)
    names = tuple(f"class {k}" for k in range(classes))
    capsules = 0.5 + 0.05 * torch.randn(images, 6)
    return CapsuleDistributions(capsules, torch.arange(images) % classes, names, "toy", 0.5, 0.04)


def examples(count, shape=(1, 8, 8)):
    torch.manual_seed(0)
    image, modified = torch.rand(shape), torch.rand(7, *shape)
    return [HybridExamples(image, image, modified, modified, f"class {k}") for k in range(count)]


def opened(paths):
    """The only picture that was written, as RGB."""
    (path,) = paths
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB")), picture.size


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]
