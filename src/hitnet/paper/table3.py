"""Table 3: training on images that a trained network modifies (hybrid data augmentation)."""

from __future__ import annotations

from hitnet.paper.book import TEACHER_SEED, Page, Result
from hitnet.paper.markdown import error_table

ROWS = (
    ("MNIST", "mnist-hitnet-constant"),
    ("MNIST, augmented", "mnist-hybrid"),
    ("MNIST, augmented, decreasing rate", "mnist-hybrid-decay"),
    ("MNIST, augmented, ours", "mnist-ours"),
    ("Fashion-MNIST", "fashion-hitnet"),
    ("Fashion-MNIST, augmented", "fashion-hybrid"),
    ("CIFAR-10", "cifar10-hitnet"),
    ("CIFAR-10, augmented", "cifar10-hybrid"),
    ("SVHN", "svhn-hitnet"),
    ("SVHN, augmented", "svhn-hybrid"),
)


def render(page: Page) -> str:
    said = (
        f"Images are modified by the run with seed {TEACHER_SEED} of the same network without augmentation; its own "
        "training, where it has to be made first, is not in the cost. Ours are modified by a network with a better "
        "decoder, mnist-ours-teacher.\n\n"
    )
    return said + error_table(page, ROWS)


RESULT = Result(
    "table3",
    "Hybrid data augmentation",
    "table 3",
    tuple(name for _, name in ROWS if "hybrid" in name),
    render,
)
