"""Figures of what was learned: their sizes, their contents, and that no global state changes."""

import logging
import sys
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
import torch
from plot_samples import distributions, examples, opened, prototypes, texts, traversal

from hitnet import plots
from hitnet.errors import HitNetError
from hitnet.synthesis import HybridExamples

FIGURES = {
    "prototypes": lambda: plots.prototype_figures(prototypes()),
    "colour": lambda: plots.prototype_figures(prototypes(shape=(3, 8, 12))),
    "traversal": lambda: plots.traversal_figures(traversal()),
    "traversal of an image": lambda: plots.traversal_figures(traversal(original=torch.rand(1, 8, 8))),
    "classes": lambda: plots.class_figures(torch.rand(7, 1, 8, 8), ["a"] * 4 + ["b"] * 3),
    "hybrid": lambda: plots.hybrid_figures(examples(2)),
    "hybrid, colour": lambda: plots.hybrid_figures(examples(1, (3, 8, 6))),
    "features": lambda: plots.distribution_figures(distributions()),
    "features of one class": lambda: plots.distribution_figures(distributions(classes=1)),
}


@pytest.mark.parametrize("kind", FIGURES)
def test_every_picture_is_written_at_its_size(tmp_path, kind):
    (figure,) = FIGURES[kind]()
    pixels, size = opened(plots.save([figure], tmp_path / "a.png"))
    width, height = figure.get_size_inches()
    assert size == pytest.approx((width * 200, height * 200), abs=1)
    assert width <= 6.8 + 1e-6
    assert len(np.unique(pixels)) > 20  # neither empty nor flat


def test_names_are_shown_as_they_are(tmp_path):
    names = ("$x_", "a_b^c", "a very long name that does not fit above its image", "ok")
    (figure,) = plots.prototype_figures(prototypes(names=names))
    labels = texts(figure)
    assert labels[:2] == list(names[:2])
    assert labels[2].startswith("a very long")
    assert labels[2].endswith("…")
    plots.save([figure], tmp_path / "a.svg")
    plots.save(
        plots.hybrid_figures([HybridExamples(*[torch.rand(1, 4, 4)] * 2, *[torch.rand(2, 1, 4, 4)] * 2, "$")]),
        tmp_path / "b.png",
    )


def test_long_capsules_take_several_pages():
    figures = plots.traversal_figures(traversal(components=64, steps=3))
    assert len(figures) > 1
    assert all(figure.get_size_inches()[1] <= 9.7 for figure in figures)


def test_nothing_global_is_touched(tmp_path, caplog):
    before = dict(mpl.rcParams)
    had_pyplot = "matplotlib.pyplot" in sys.modules
    with caplog.at_level(logging.INFO):
        drawn = [figure for kind in FIGURES.values() for figure in kind()]
        plots.save(drawn[:2], tmp_path / "a.pdf")
    assert dict(mpl.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == had_pyplot
    assert not [record for record in caplog.records if record.name.startswith("fontTools")]


def test_draw_on_given_axes():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert plots.draw_image(axes, torch.rand(3, 4, 4)) is axes
    features = distributions()
    assert plots.draw_distribution(axes, features.capsules, features, reach=0.2, title="all") is axes


def test_the_share_is_written_beside_the_distribution():
    features = distributions(classes=2)
    (figure,) = plots.distribution_figures(features)
    capsules = features.capsules[features.labels == 0].double()
    share = float(((capsules - 0.5).abs() <= 0.08).double().mean())
    assert f"{100 * share:.0f} % within 2σ" in texts(figure)[0]


@pytest.mark.parametrize("wider", [1, 1.6, 6])
@pytest.mark.parametrize("classes", [1, 6])
def test_ticks_of_distributions_do_not_meet(classes, wider):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    features = distributions(classes=classes)
    (figure,) = plots.distribution_figures(replace(features, spread=features.spread / wider))
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    boxes = [
        label.get_window_extent(renderer)
        for axes in figure.axes
        for label in axes.get_xticklabels()
        if label.get_text() and label.get_visible() and axes.axison and axes.xaxis.get_tick_params()["labelbottom"]
    ]
    assert len(boxes) >= 3 * min(4, classes)
    assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)


def test_distributions_count_what_lies_beyond_the_edges(recwarn):
    from matplotlib.figure import Figure

    features = distributions(classes=1)
    axes = Figure().subplots()
    capsules = torch.cat([torch.full((30, 2), 0.5), torch.full((10, 2), 9.0)])
    capsules[:, 1] = 9.0
    plots.draw_distribution(axes, capsules, features, reach=0.1)
    height, edges, _ = axes.patches[0].get_data()
    assert float((height * np.diff(edges)).sum()) == pytest.approx(30 / 80)
    assert axes.lines[1].get_ydata().max() == 0  # all values of this component lie beyond the edges
    assert not recwarn.list


def test_captions_of_hybrid_images_fit_their_panels():
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    image, modified = torch.rand(1, 4, 4), torch.rand(2, 1, 4, 4)
    (figure,) = plots.hybrid_figures(
        [HybridExamples(image, image, modified, modified, name) for name in ("W" * 40, "$a\\$")]
    )
    renderer = FigureCanvasAgg(figure).get_renderer()
    captions = [text for text in figure.axes[0].texts if text.get_fontsize() == 8]
    boxes = [text.get_window_extent(renderer) for text in captions]
    assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)
    assert [text.get_text() for text in captions][4] == "(c) $a\\$:"


def test_rows_of_a_traversal_do_not_meet():
    (figure,) = plots.traversal_figures(traversal(components=4, steps=40))
    heights = [text.get_position()[1] for text in figure.axes[0].texts if text.get_text() in ("0", "1", "2", "3")]
    assert min(np.diff(heights)) >= 8 / 72


def test_a_traversal_has_room_for_its_columns():
    with pytest.raises(HitNetError, match="room for 40 steps; got 41"):
        plots.traversal_figures(traversal(steps=41))


def test_small_changes_are_no_zeros():
    original = traversal(components=3)
    (figure,) = plots.traversal_figures(replace(original, images=0.5 + original.images / 1000))
    assert not {"0.000", "0e+00"} & set(texts(figure))
    assert len([text for text in texts(figure) if text.endswith("e-04")]) == 3


@pytest.mark.slow
def test_long_names_of_many_classes_get_wider_images():
    names = tuple(f"a species that is rare, no. {k}" for k in range(60))
    wide = plots.prototype_figures(prototypes(60, names=names))
    assert len(wide) > len(plots.prototype_figures(prototypes(60)))
    short = plots.prototype_figures(prototypes(60, names=tuple(f"rare no. {k}" for k in range(60))))
    assert not [text for figure in short for text in texts(figure) if text.endswith("…")]
