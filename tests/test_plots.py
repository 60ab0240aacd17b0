"""Pictures: their sizes, their pages, that they show what they should, and that nothing global is touched."""

import logging
import sys

import matplotlib as mpl
import numpy as np
import pytest
import torch
from PIL import Image

from hitnet import HitNetError, plots
from hitnet.synthesis import FeatureDistributions, HybridExamples, Prototypes, Traversal


def prototypes(count=4, shape=(1, 8, 8), names=None):
    torch.manual_seed(0)
    return Prototypes(torch.rand(count, *shape), names or tuple(f"class {k}" for k in range(count)))


def traversal(components=3, steps=5, shape=(1, 8, 8), original=None):
    torch.manual_seed(0)
    values = torch.linspace(0.4, 0.6, steps)
    return Traversal(torch.rand(components, steps, *shape), values, torch.zeros(components), "seven", original)


def distributions(classes=3, images=60):
    torch.manual_seed(0)
    names = tuple(f"class {k}" for k in range(classes))
    capsules = 0.5 + 0.05 * torch.randn(images, 6)
    return FeatureDistributions(capsules, torch.arange(images) % classes, names, "toy", 0.5, 0.04)


def examples(count, shape=(1, 8, 8)):
    torch.manual_seed(0)
    one, many = torch.rand(shape), torch.rand(7, *shape)
    return [HybridExamples(one, one, many, many, f"class {k}") for k in range(count)]


def opened(paths):
    """The one picture written, as RGB."""
    (path,) = paths
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB")), picture.size


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


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


def test_images_are_where_they_should_be(tmp_path):
    images = torch.zeros(4, 3, 8, 8)
    for k, colour in enumerate([(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0)]):
        images[k] = torch.tensor(colour, dtype=torch.float32)[:, None, None]
    pixels, _ = opened(plots.save(plots.tile_figures(images, 2), tmp_path / "a.png"))
    height, width = pixels.shape[:2]
    centres = [pixels[height * y // 4, width * x // 4].tolist() for y in (1, 3) for x in (1, 3)]
    assert centres == [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 0]]
    assert pixels[2, 2].tolist() == [255, 255, 255]


def test_grey_runs_from_black_to_white_even_if_the_image_does_not(tmp_path):
    grey = plots.tile_figures(torch.full((1, 1, 8, 8), 0.5), 1)
    pixels, (width, height) = opened(plots.save(grey, tmp_path / "a.png"))
    assert pixels[height // 2, width // 2].tolist() == pytest.approx([127] * 3, abs=1)


def test_uint8_images(tmp_path):
    images = torch.full((1, 1, 8, 8), 51, dtype=torch.uint8)
    pixels, (width, height) = opened(plots.save(plots.tile_figures(images, 1), tmp_path / "a.png"))
    assert pixels[height // 2, width // 2].tolist() == pytest.approx([51] * 3, abs=1)


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


def test_many_classes_take_several_pages(tmp_path):
    figures = plots.prototype_figures(prototypes(count=300))
    assert len(figures) > 1
    assert sum(len(texts(figure)) for figure in figures) == 300
    assert all(figure.get_size_inches()[1] <= 9.7 for figure in figures)
    paths = plots.save(figures, tmp_path / "a.png")
    assert [path.name for path in paths] == [f"a-{i}.png" for i in range(1, len(figures) + 1)]
    (document,) = plots.save(figures, tmp_path / "a.pdf")
    assert document.read_bytes().count(b"/Type /Page\n") + document.read_bytes().count(b"/Type /Page ") == len(figures)


def test_pages_hold_every_row_once():
    for rows in (1, 7, 40, 999):
        found = plots.pages(rows, 1.3)
        assert [row for page in found for row in page] == list(range(rows))


def test_long_capsules_take_several_pages():
    figures = plots.traversal_figures(traversal(components=64, steps=3))
    assert len(figures) > 1
    assert all(figure.get_size_inches()[1] <= 9.7 for figure in figures)


STARTS = [("svg", b"<?xml"), ("pdf", b"%PDF"), ("PNG", b"\x89PNG"), ("jpg", b"\xff\xd8")]


@pytest.mark.parametrize(("kind", "start"), STARTS)
def test_kinds_of_files(tmp_path, kind, start):
    (path,) = plots.save(plots.prototype_figures(prototypes()), tmp_path / f"a.{kind}")
    assert path.read_bytes().startswith(start)


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_same_figure_gives_the_same_file(tmp_path, kind):
    for name in ("a", "b"):
        plots.save(plots.prototype_figures(prototypes()), tmp_path / f"{name}.{kind}")
    assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


@pytest.mark.parametrize("name", ["a.xyz", "a"])
def test_kinds_that_cannot_be_written(tmp_path, name):
    with pytest.raises(HitNetError, match=r"Use \.png, \.svg or \.pdf"):
        plots.save(plots.prototype_figures(prototypes()), tmp_path / name)


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
