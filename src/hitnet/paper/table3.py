"""Table 3: training on images that a trained network modifies (hybrid data augmentation)."""

from __future__ import annotations

from hitnet.paper.book import TEACHER_SEED, Page, Result
from hitnet.paper.markdown import error_table

ROWS = (
    ("MNIST", "mnist-hitnet-constant"),
    ("MNIST, all images modified", "mnist-hybrid"),
    ("MNIST, a quarter modified", "mnist-hybrid-quarter"),
    ("MNIST, a quarter modified, decreasing rate", "mnist-hybrid-decay"),
    ("MNIST, a quarter modified, ours", "mnist-ours"),
    ("Fashion-MNIST", "fashion-hitnet"),
    ("Fashion-MNIST, all images modified", "fashion-hybrid"),
    ("Fashion-MNIST, a quarter modified", "fashion-hybrid-quarter"),
    ("CIFAR-10", "cifar10-hitnet"),
    ("CIFAR-10, a quarter modified", "cifar10-hybrid-quarter"),
    ("SVHN", "svhn-hitnet"),
    ("SVHN, a quarter modified", "svhn-hybrid-quarter"),
)


def render(page: Page) -> str:
    said = (
        f"Images are modified by the run with seed {TEACHER_SEED} of the same network without augmentation; its own "
        "training, where it has to be made first, is not in the cost. Which part of the images the authors modified, "
        "they do not say. Ours are modified by a network with a better decoder, mnist-ours-teacher.\n\n"
    )
    return said + error_table(page, ROWS)


RESULT = Result(
    "table3",
    "Hybrid data augmentation",
    "table 3",
    tuple(name for _, name in ROWS if "hybrid" in name),
    render,
)
