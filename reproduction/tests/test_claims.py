"""The paper's own numbers."""

from reproduction.claims import MNIST_GHOSTS


def test_table_4_adds_up():
    assert sum(MNIST_GHOSTS.doubtful_pairs.values()) == MNIST_GHOSTS.doubtful == 71
