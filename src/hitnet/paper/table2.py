"""Table 2: HitNet on five data sets, beside what others report of CapsNet."""

from __future__ import annotations

from hitnet.paper.book import Page, Result
from hitnet.paper.claims import CAPSNET_ELSEWHERE
from hitnet.paper.markdown import error_table, number, table, tested_on

ROWS = (
    ("MNIST", "mnist-hitnet-constant"),
    ("MNIST, ours", "mnist-ours"),
    ("MNIST, ours, ResNet-9", "mnist-resnet9"),
    ("Fashion-MNIST", "fashion-hitnet"),
    ("Fashion-MNIST, ours, ResNet-9", "fashion-resnet9"),
    ("CIFAR-10", "cifar10-hitnet"),
    ("CIFAR-10, ours, ResNet-9", "cifar10-resnet9"),
    ("SVHN", "svhn-hitnet"),
    ("SVHN, ours, ResNet-9", "svhn-resnet9"),
    ("affNIST", "affnist-hitnet"),
)
PAPERS = tuple((title, name) for title, name in ROWS if "ours" not in title)


def render(page: Page) -> str:
    sets = {title: page.experiment(name).data for title, name in PAPERS}
    others = [
        [source, *(number(errors.get(data)) for data in sets.values())] for source, errors in CAPSNET_ELSEWHERE.items()
    ]
    return (
        error_table(page, ROWS)
        + tested_on(page, "affnist-hitnet")
        + "\nCapsNet, as the paper quotes others (error %):\n\n"
        + table(("CapsNet from", *sets), others)
    )


RESULT = Result("table2", "HitNet on five data sets", "table 2", tuple(name for _, name in PAPERS), render)
