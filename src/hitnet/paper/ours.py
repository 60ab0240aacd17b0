"""Beyond the paper: the errors that its ideas reach today, meant for at most 30 seconds a model."""

from __future__ import annotations

from hitnet.paper.book import Page, Result
from hitnet.paper.markdown import error_table, recipe_words, tested_on
from hitnet.paper.our_experiments import TEACHER

# Title, experiment, and the experiment of the paper whose error stands beside it.
ROWS = (
    ("MNIST, the paper's network", "mnist-ours", "mnist-hitnet-decay"),
    ("MNIST, ResNet-9", "mnist-resnet9", "mnist-hitnet-decay"),
    ("Fashion-MNIST, ResNet-9", "fashion-resnet9", "fashion-hitnet"),
    ("CIFAR-10, ResNet-9", "cifar10-resnet9", "cifar10-hitnet"),
    ("SVHN, ResNet-9", "svhn-resnet9", "svhn-hitnet"),
    ("affNIST, ResNet-9, images shifted in training", "affnist-ours", "affnist-hitnet-shifts"),
)


def render(page: Page) -> str:
    said = (
        "All networks classify by Hit-or-Miss capsules under the centripetal loss; each figure is of single networks, "
        "each test image seen once. The paper's errors are those of its own network. The images of mnist-ours are "
        "modified by one run of mnist-ours-teacher (`hitnet-conv`), whose own training is not in the time.\n\n"
    )
    names = [name for _, name, _ in ROWS]
    recipes = [f"- {name}: {', '.join(recipe_words(page.experiment(name)))}" for name in [*names, TEACHER.name]]
    return said + error_table(page, ROWS) + tested_on(page, "affnist-ours") + "\n" + "\n".join(recipes) + "\n"


RESULT = Result(
    "ours",
    "Hit-or-Miss beyond the paper's recipe and network",
    "beyond the paper",
    (TEACHER.name, *(name for _, name, _ in ROWS)),
    render,
)
