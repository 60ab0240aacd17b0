"""The figure of the loss shows the loss."""

import numpy as np
import pytest

from reproduction.loss_figure import class_loss, draw_over_distance, loss_figure


def naive(distance, true):
    """Eqs. 2 and 3, one distance at a time: the slope rises by 0.2 every 0.1 outside the zone without loss."""
    excess = distance - 0.1 if true else 0.9 - distance
    total, slope = 0.0, 0.2
    while excess > 0:
        total += slope * min(excess, 0.1)
        excess, slope = excess - 0.1, slope + 0.2
    return total if true else 0.5 * total


@pytest.mark.parametrize("true", [True, False])
def test_the_drawn_line_is_the_loss(true):
    from matplotlib.figure import Figure

    axes = draw_over_distance(Figure().subplots(), true=true)
    x, y = axes.lines[0].get_data()
    assert (x[0], x[-1]) == (0, 2)
    assert y == pytest.approx([naive(d, true) for d in x], abs=1e-9)
    assert axes.lines[1].get_xdata()[0] == (0.1 if true else 0.9)


def test_any_shape():
    distances = np.array([[0.05, 0.35], [0.95, 1.4]])
    assert class_loss(distances, true=False).ravel() == pytest.approx([naive(d, False) for d in distances.ravel()])


def test_the_plane_has_its_loss_where_it_belongs():
    figure = loss_figure()
    assert len(figure.axes) == 4
    hit, miss = (figure.axes[i].images[0].get_array() for i in (1, 3))
    middle = len(hit) // 2
    assert hit[middle, middle] == hit.min() == 0
    assert miss[middle, middle] == miss.max() > 0
    assert miss[0, 0] == 0
