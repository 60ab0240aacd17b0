"""Pictures of the ghost analysis: the counts that they show, and that they are written."""

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from plot_samples import opened, texts

from hitnet import Images, plots
from hitnet.inference import find_ghosts
from hitnet.plots import ghosts as ghost_plots


@pytest.fixture
def ghosts():
    """Three networks, 40 images, four classes; for half of the images all three agree on a near ghost."""
    generator = np.random.default_rng(0)
    labels = np.arange(40) % 4
    distances = generator.uniform(0.5, 2.0, (3, 40, 4)).astype(np.float32)
    distances[:, np.arange(40), labels] = 0.01
    agreeing = np.arange(20)
    distances[:, agreeing, (labels[agreeing] + 1) % 4] = 0.05
    return find_ghosts(distances, labels, ("a", "b", "c", "d"))


def test_doubtful_images_stand_under_label_ghost_and_hits(ghosts, tmp_path):
    pixels = torch.randint(0, 256, (40, 1, 8, 8), dtype=torch.uint8)
    images = Images.from_arrays(pixels, torch.arange(40) % 4, class_names=["a", "b", "c", "d"])
    (figure,) = plots.doubtful_figures(ghosts.doubtful(), images)
    assert sorted(texts(figure)) == sorted(["(a, b, 3)", "(b, c, 3)", "(c, d, 3)", "(d, a, 3)"] * 5)
    assert len(texts(plots.doubtful_figures(ghosts.doubtful(), images, most=7)[0])) == 7
    drawn, _ = opened(plots.save([figure], tmp_path / "a.png"))
    assert len(np.unique(drawn)) > 100


def test_the_three_panels(ghosts, tmp_path):
    figure = plots.analysis_figure(ghosts)
    agreement, pairs, distances = figure.axes
    assert sum(bar.get_height() for bar in agreement.patches) == pytest.approx(100)
    assert sum(int(text.get_text()) for text in pairs.texts) == len(ghosts.agreed())
    assert len(distances.collections[0].get_offsets()) == len(ghosts.agreed())
    assert distances.lines[0].get_xdata()[0] == pytest.approx(0.1)
    drawn, _ = opened(plots.save([figure], tmp_path / "a.png"))
    assert len(np.unique(drawn)) > 20


def test_many_classes_leave_the_cells_without_numbers():
    labels = np.arange(60) % 30
    distances = np.ones((1, 60, 30), dtype=np.float32)
    distances[:, np.arange(60), (labels + 1) % 30] = 0.05
    axes = ghost_plots.draw_pairs(Figure().subplots(), find_ghosts(distances, labels, tuple(map(str, range(30)))))
    assert not axes.texts
