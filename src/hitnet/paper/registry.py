"""All results of the paper, in its order, and those beyond it."""

from __future__ import annotations

from hitnet.paper import (
    augmentation,
    curves,
    ghost_pages,
    ours,
    prototypes,
    shifts,
    softmax,
    speed,
    squash,
    table1,
    table2,
    table3,
    traversal,
)
from hitnet.paper.book import Book
from hitnet.paper.claims import CLAIMS
from hitnet.paper.experiments import EXPERIMENTS
from hitnet.paper.our_experiments import OURS

RESULTS = (
    table1.CONSTANT,
    table1.DECAY,
    curves.RESULT,
    squash.RESULT,
    speed.RESULT,
    table2.RESULT,
    shifts.RESULT,
    prototypes.RESULT,
    traversal.RESULT,
    augmentation.RESULT,
    table3.RESULT,
    ghost_pages.MNIST,
    ghost_pages.SVHN,
    ours.RESULT,
    softmax.RESULT,
)
PAPER = Book({one.name: one for one in (*EXPERIMENTS, *OURS)}, {one.name: one for one in RESULTS}, CLAIMS)
