"""Pages and files: where images are drawn, how pages are cut, and what kinds of files are written."""

import base64
import io
import re
import warnings

import pytest
import torch
from PIL import Image
from plot_samples import opened, prototypes, texts

from hitnet import HitNetError, plots
from hitnet.plots import sheet


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


@pytest.mark.slow
def test_many_classes_take_several_pages(tmp_path):
    names = tuple(f"a class with a long name, no. {k}" for k in range(35))
    figures = plots.prototype_figures(prototypes(count=35, names=names))
    assert len(figures) > 1
    assert sum(len(texts(figure)) for figure in figures) == 35
    assert all(figure.get_size_inches()[1] <= 9.7 for figure in figures)
    paths = plots.save(figures, tmp_path / "a.png")
    assert [path.name for path in paths] == [f"a-{i}.png" for i in range(1, len(figures) + 1)]
    (document,) = plots.save(figures, tmp_path / "a.pdf")
    assert document.read_bytes().count(b"/Type /Page\n") + document.read_bytes().count(b"/Type /Page ") == len(figures)


def test_pages_hold_every_row_once():
    for rows in (0, 1, 7, 40, 999):
        cut = sheet.pages(rows, 1.3)
        assert [row for page in cut for row in page] == list(range(rows))


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


@pytest.mark.parametrize("name", ["a.xyz", "a", "a.pgf"])
def test_kinds_that_cannot_be_written(tmp_path, name):
    with pytest.raises(HitNetError, match=r"Use \.png, \.svg or \.pdf"):
        plots.save(plots.prototype_figures(prototypes()), tmp_path / name)


def test_names_are_cut_to_their_room():
    assert sheet.fitting("short", 1.0, size=8) == "short"
    for name in ("iiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiii", "WWWWWWWWWWWW"):
        cut = sheet.fitting(name, 0.62, size=8)
        assert cut[:-1] == name[: len(cut) - 1]
        assert cut.endswith("…")
        assert sheet.text_width(cut, 8) <= 0.62 < sheet.text_width(name[: len(cut)] + "…", 8)
    assert sheet.fitting("WWWW", 0.0, size=8) == "W…"


def test_missing_characters_are_said_in_one_sentence(tmp_path, caplog, recwarn):
    names = [f"{chr(0x20000 + k)} {k}" for k in range(4)]
    plots.save(plots.tile_figures(torch.rand(4, 1, 8, 8), 2, labels=names), tmp_path / "a.png")
    assert [record.message for record in caplog.records if "font lacks" in record.message] == [caplog.messages[-1]]
    assert not [warning for warning in recwarn if "Glyph" in str(warning.message)]


def test_other_warnings_pass(tmp_path):
    (figure,) = plots.tile_figures(torch.rand(1, 1, 8, 8), 1)
    draw = figure.draw
    figure.draw = lambda renderer: (warnings.warn("mine", stacklevel=1), draw(renderer))
    with pytest.warns(UserWarning, match="mine"):
        plots.save([figure], tmp_path / "a.png")


def test_images_stay_apart_and_sharp_in_pictures_made_of_lines(tmp_path):
    images = torch.rand(6, 1, 8, 8)
    plots.save(plots.tile_figures(images, 3), tmp_path / "a.svg")
    encoded = re.findall(r'base64,\s*([^"]+)"', (tmp_path / "a.svg").read_text())
    assert len(encoded) == 6
    for data in encoded:
        with Image.open(io.BytesIO(base64.b64decode(data))) as picture:
            assert picture.width == pytest.approx(1.25 * 600, abs=2)


def test_an_image_on_axes_of_ones_own_has_square_pixels():
    from matplotlib.figure import Figure

    axes = Figure(figsize=(4, 4)).subplots()
    plots.draw_image(axes, torch.rand(3, 4, 8))
    assert axes.get_aspect() == 1
    assert (axes.get_xlim(), axes.get_ylim()) == ((-0.5, 7.5), (3.5, -0.5))


def test_a_folder_of_the_files_name(tmp_path):
    (tmp_path / "a.png").mkdir()
    with pytest.raises(HitNetError, match="Is a directory"):
        plots.save(plots.tile_figures(torch.rand(1, 1, 8, 8), 1), tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == [tmp_path / "a.png"]
