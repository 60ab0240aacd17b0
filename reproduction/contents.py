"""The list of all results in their order on the page."""

from __future__ import annotations

from reproduction import figures, ghost_sections, readings, sections
from reproduction.beyond import DROPCONNECT, GHOST_TIMES, OUR_TEACHER, TOP_K
from reproduction.book import Book, Result
from reproduction.claims import CLAIMS, MNIST_GHOSTS
from reproduction.findings import findings
from reproduction.plan import ARMS, EXPERIMENTS, TABLE2, TABLE3

MNIST_TITLE = "Four networks on MNIST"
TABLE1 = {rate: tuple(name for _, name in rows) for rate, rows in sections.TABLE1.items()}
RESULTS = (
    Result("network", "The network", "figure 1", (), figures.network_section, paper_runs=""),
    Result("loss", "The centripetal loss", "the figure of the loss", (), figures.loss_section, paper_runs=""),
    Result(
        "table1-constant",
        f"{MNIST_TITLE}, constant learning rate",
        "table 1, left",
        TABLE1["constant"],
        sections.table1_constant,
        paper_runs="80",
    ),
    Result(
        "table1-decay",
        f"{MNIST_TITLE}, decreasing learning rate",
        "table 1, right",
        TABLE1["decay"],
        sections.table1_decay,
        paper_runs="80",
    ),
    Result(
        "curves",
        "Error over the epochs",
        "the figure beside table 1",
        TABLE1["constant"],
        figures.curves_section,
        paper_runs="80",
    ),
    Result("squash", "HitNet with squash on MNIST", "section 3.1", ("mnist-squash-shared",), sections.squash),
    Result(
        "speed",
        "Speed against CapsNet, and CapsNet's errors",
        "section 3.1",
        ("mnist-hitnet-each-50", "mnist-capsnet", "fashion-capsnet", "cifar10-capsnet"),
        sections.speed,
    ),
    Result(
        "table2",
        "HitNet on further data sets",
        "table 2",
        tuple(name for _, name in sections.TABLE2_ROWS),
        sections.table2,
        paper_runs="80",
    ),
    Result("affnist-shifts", "affNIST with shifts", "comments on table 2", (TABLE2[-1].name,), sections.affnist_shifts),
    Result(
        "prototypes",
        "Prototypes of the digits",
        "the figure of prototypes, section 3.2",
        ("mnist-hitnet-shared",),
        figures.picture_section,
        figures.draw_prototypes,
        paper_runs="1",
    ),
    Result(
        "traversal",
        "What the components of a capsule draw",
        "section 3.2",
        ("mnist-hitnet-shared",),
        figures.picture_section,
        figures.draw_traversal,
    ),
    Result(
        "components",
        "Distribution of the components of capsules",
        "section 3.2",
        ("mnist-hitnet-shared",),
        figures.components_section,
        figures.draw_components,
        measure=figures.measure_components,
    ),
    Result(
        "augmentation",
        "Examples of hybrid augmentation",
        "the figure of hybrid augmentation, section 3.2",
        ("fashion-shared",),
        figures.picture_section,
        figures.draw_augmentation,
    ),
    *(
        Result(
            f"reconstructions-{name.removesuffix('-shared')}",
            f"Test images of {EXPERIMENTS[name].title.split(' on ')[-1]}, and what the decoder makes of their capsules",
            "beyond the paper's figures",
            (name,),
            figures.picture_section,
            figures.draw_reconstructions,
            paper_runs="",
            seed=seed,
        )
        for name, seed in (("fashion-shared", 0), ("cifar10-shared", 0), ("svhn-shared", 3))
    ),
    Result(
        "table3",
        "Hybrid data augmentation",
        "table 3",
        tuple(experiment.name for experiment in TABLE3),
        sections.table3,
        paper_runs="20 per row on MNIST, else not given",
    ),
    Result(
        "ghosts-mnist",
        "Ghosts of MNIST: agreement, pairs, doubtful images",
        "section 3.3, table 4, last figure (a)",
        (*(f"mnist-ghosts-shared{end}" for end in ("", "-second", "-third", "-250")),),
        ghost_sections.mnist_ghosts_section,
        paper_runs=str(MNIST_GHOSTS.models),
    ),
    Result(
        "ghosts-svhn",
        "Ghosts of SVHN: agreement, pairs, doubtful images",
        "section 3.3, last figure (b)",
        ("svhn-ghosts-shared", "svhn-ghosts-shared-250"),
        ghost_sections.ghosts_section,
    ),
    Result(
        "top-k",
        "Top-k by ghosts",
        "conclusion",
        tuple(experiment.name for experiment in TOP_K),
        ghost_sections.top_k_section,
        paper_runs="",
    ),
    Result(
        "ghost-times",
        "Ghosts that begin later, or are allowed only sometimes",
        "conclusion",
        tuple(experiment.name for experiment in GHOST_TIMES),
        ghost_sections.ghost_times_section,
        paper_runs="",
    ),
    Result(
        "readings",
        "Other readings of the paper",
        "beside tables 1 to 4",
        tuple(arm.name for arm in ARMS),
        readings.readings,
        paper_runs="",
    ),
    Result(
        "committees",
        "DropConnect, and committees of five networks on MNIST",
        "section 3.1",
        (*(experiment.name for experiment in DROPCONNECT), "mnist-hitnet-each", "mnist-resnet9"),
        sections.committees,
    ),
    Result(
        "ours",
        "Hit-or-Miss beyond the paper's recipe and network",
        "beyond the paper",
        (OUR_TEACHER.name, *(name for _, name, _ in sections.OURS_ROWS)),
        sections.ours,
        paper_runs="",
    ),
    Result(
        "softmax",
        "Hit-or-Miss against softmax",
        "beyond the paper",
        tuple(name for _, *names in sections.SOFTMAX_PAIRS for name in names),
        sections.softmax,
        paper_runs="",
    ),
)
PAPER = Book(EXPERIMENTS, {result.name: result for result in RESULTS}, CLAIMS, findings)
