"""Pictures of the ghost analysis where class names are long or odd, and where no networks agree."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from plot_samples import texts

from hitnet import Images, plots
from hitnet.inference import find_ghosts
from hitnet.plots import ghosts as ghost_plots
from toy import toy_images


def case(names, *, doubtful=20):
    """Toy images under these class names, and their ghosts in three networks; the first few are doubtful."""
    images = toy_images(60)
    images = Images(images.pixels, images.labels, names, "toy", images.ids)
    random = np.random.default_rng(0)
    distances = random.uniform(0.2, 1.4, (3, 60, 3))
    rows = np.arange(doubtful)
    distances[:, rows, (images.labels.numpy()[rows] + 1) % 3] = random.uniform(0, 0.12, (3, doubtful))
    return find_ghosts(distances, images.labels.numpy(), names), images


def is_picture(path):
    with Image.open(path) as picture:
        return picture.format == "PNG" and min(picture.size) > 60 and len(picture.getcolors(1 << 24)) > 20


@pytest.mark.parametrize("names", [("aeroplane", "bee", "caterpillar"), ("Mushroom", "Mammoth", "WWWWWWWWWWW")])
@pytest.mark.parametrize("most", [200, 7])
def test_long_names_leave_the_hits_in_sight(tmp_path, most, names):
    ghosts, images = case(names)
    figures = plots.doubtful_figures(ghosts.doubtful(), images, most=most)
    rows = ghosts.doubtful().tail(most)
    labels = [text for figure in figures for text in texts(figure)]
    for text, row in zip(labels, rows.itertuples(), strict=True):
        label, ghost, hits = text[1:-1].split(", ")
        assert row.label.startswith(label.rstrip("…"))
        assert len(label) > 2
        assert row.ghost.startswith(ghost.rstrip("…"))
        assert len(ghost) > 2
        assert hits == str(row.hits)
    assert all(is_picture(path) for path in plots.save(figures, tmp_path / "a.png"))


def test_no_doubtful_image_gives_no_page():
    apart = find_ghosts(np.full((2, 60, 3), 1.0), toy_images(60).labels.numpy(), ("a", "b", "c"))
    assert plots.doubtful_figures(apart.doubtful(), toy_images(60)) == []


def test_bars_cells_and_points_are_those_of_the_tables():
    ghosts, _ = case(("a", "b", "c"))
    left, middle, right = Figure().subplots(1, 3)
    heights = [bar.get_height() for bar in ghost_plots.draw_agreement(left, ghosts).patches]
    assert heights == pytest.approx((100 * ghosts.agreement()["share"]).tolist())
    cells = ghost_plots.draw_pairs(middle, ghosts).images[0].get_array()
    assert np.array_equal(cells, ghosts.pairs(ghosts.agreed()).to_numpy()[:-1, :-1])
    points = ghost_plots.draw_distances(right, ghosts).collections[0].get_offsets()
    assert np.allclose(points, ghosts.agreed()[["mean_distance", "std_distance"]])


def test_names_are_no_formulas(tmp_path):
    ghosts, images = case(("$\\frac{$", "a_{$b$}", "<i>"), doubtful=4)
    figures = [plots.analysis_figure(ghosts), *plots.doubtful_figures(ghosts.doubtful(), images)]
    assert all(is_picture(path) for path in plots.save(figures, tmp_path / "a.png"))


def test_no_agreement_at_all(tmp_path):
    apart = find_ghosts(np.array([[[0.0, 0.2, 0.3]], [[0.0, 0.3, 0.2]]]), np.array([0]), ("a", "b", "c"))
    assert len(apart.agreed()) == 0
    assert all(is_picture(path) for path in plots.save([plots.analysis_figure(apart)], tmp_path / "a.png"))
