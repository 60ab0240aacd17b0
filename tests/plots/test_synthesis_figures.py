"""Pictures of what was learned: their sizes, that they show what they should, and that nothing global is touched."""

import logging
import sys

import matplotlib as mpl
import numpy as np
import pytest
import torch
from plot_samples import distributions, examples, opened, prototypes, texts, traversal

from hitnet import plots
from hitnet.synthesis import HybridExamples

FIGURES = {
    "prototypes": lambda: plots.prototype_figures(prototypes()),
    "colour": lambda: plots.prototype_figures(prototypes(shape=(3, 8, 12))),
    "traversal": lambda: plots.traversal_figures(traversal()),
    "traversal of an image": lambda: plots.traversal_figures(traversal(original=torch.rand(1, 8, 8))),
    "classes": lambda: plots.class_figures(torch.rand(7, 1, 8, 8), ["a"] * 4 + ["b"] * 3),
    "hybrid": lambda: plots.hybrid_figures(examples(2)),
    "hybrid, colour": lambda: plots.hybrid_figures(examples(1, (3, 8, 6))),
    "features": lambda: plots.feature_figures(distributions()),
    "features of one class": lambda: plots.feature_figures(distributions(classes=1)),
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
    shown = texts(figure)
    assert shown[:2] == list(names[:2])
    assert shown[2].startswith("a very long")
    assert shown[2].endswith("…")
    plots.save([figure], tmp_path / "a.svg")
    plots.save(plots.hybrid_figures([HybridExamples(*[torch.rand(1, 4, 4)] * 2, *[torch.rand(2, 1, 4, 4)] * 2, "$")]),
               tmp_path / "b.png")  # fmt: skip


def test_long_capsules_take_several_pages():
    figures = plots.traversal_figures(traversal(components=64, steps=3))
    assert len(figures) > 1
    assert all(figure.get_size_inches()[1] <= 9.7 for figure in figures)


def test_nothing_global_is_touched(tmp_path, caplog):
    before = dict(mpl.rcParams)
    had_pyplot = "matplotlib.pyplot" in sys.modules
    with caplog.at_level(logging.INFO):
        for kind in FIGURES.values():
            plots.save(kind(), tmp_path / "a.pdf")
    assert dict(mpl.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == had_pyplot
    assert not [record for record in caplog.records if record.name.startswith("fontTools")]


def test_draw_on_given_axes():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert plots.draw_image(axes, torch.rand(3, 4, 4)) is axes
    found = distributions()
    assert plots.draw_features(axes, found.capsules, found, reach=0.2, title="all") is axes


def test_the_share_is_written_beside_the_distribution():
    found = distributions(classes=2)
    (figure,) = plots.feature_figures(found)
    own = found.capsules[found.labels == 0].double()
    share = float(((own - 0.5).abs() <= 0.08).double().mean())
    assert f"{100 * share:.0f} % within 2σ" in texts(figure)[0]
