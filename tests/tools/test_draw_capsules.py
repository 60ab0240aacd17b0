"""The figure of the capsules shows every capsule at its distance."""

import numpy as np
import pytest
import torch

from tools.draw_capsules import MOST_DOTS, capsule_figure, draw_capsule_distances, draw_capsules, split_capsules


@pytest.fixture
def capsules():
    """Two images, three classes, four components: distances 0.08 and 0.04 of the true classes, 1.0 of the others."""
    values = torch.ones(2, 3, 4)
    values[0, 1] = torch.tensor([0.54, 0.46, 0.54, 0.46])
    values[1, 2] = torch.tensor([0.52, 0.48, 0.48, 0.52])
    return values


def test_capsules_of_the_true_classes_are_told_from_the_others(capsules):
    true, others = split_capsules(capsules, torch.tensor([1, 2]))
    assert torch.equal(true, torch.stack([capsules[0, 1], capsules[1, 2]]))
    assert torch.equal(others, torch.ones(4, 4))


def test_dots_lie_at_the_distance_of_their_capsule_and_in_its_direction(capsules):
    from matplotlib.figure import Figure

    axes = draw_capsules(Figure().subplots(), capsules, torch.tensor([1, 2]))
    others, true = (dots.get_offsets() for dots in axes.collections)
    half = np.sqrt(0.5)
    assert np.asarray(true) == pytest.approx(np.array([[0.08, -0.08], [0.04, -0.04]]) * half, abs=1e-6)
    assert np.asarray(others) == pytest.approx(np.full((4, 2), half), abs=1e-6)
    assert [circle.radius for circle in axes.patches] == [0.1, 0.9]
    assert axes.get_xlim() == pytest.approx((-1.05, 1.05))


def test_few_of_many_capsules_are_drawn():
    from matplotlib.figure import Figure

    labels = torch.zeros(3 * MOST_DOTS, dtype=torch.long)
    axes = draw_capsules(Figure().subplots(), torch.rand(len(labels), 2, 4), labels)
    assert all(MOST_DOTS / 2 < len(dots.get_offsets()) <= MOST_DOTS for dots in axes.collections)


def test_bars_are_percent_of_each_kind(capsules):
    from matplotlib.figure import Figure

    axes = draw_capsule_distances(Figure().subplots(), capsules, torch.tensor([1, 2]))
    true, others = axes.containers
    assert [sum(bar.get_height() for bar in bars) for bars in (true, others)] == pytest.approx([100, 100])
    assert max(bar.get_x() for bar in true if bar.get_height()) < 0.1
    assert min(bar.get_x() for bar in others if bar.get_height()) > 0.9
    assert [line.get_xdata()[0] for line in axes.lines] == [0.1, 0.9]


def test_the_figure_has_both_panels(capsules):
    figure = capsule_figure(capsules, torch.tensor([1, 2]))
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "capsules around the centre",
        "their distances; red: m and m'",
    ]
