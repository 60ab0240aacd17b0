"""Curves of training: what is drawn for which run, on which scale."""

import pytest
from matplotlib.colors import to_hex
from PIL import Image

from hitnet import HitNetError, plots


def history(errors, test=True):
    """Epochs with these test errors in per cent, and training errors that are twice as high."""
    return [
        {"epoch": i, "loss": error / 50, "train_error": error / 50} | ({"test_error": error / 100} if test else {})
        for i, error in enumerate(errors, 1)
    ]


def lines(axes):
    return [(line.get_label(), line.get_linestyle(), list(line.get_ydata())) for line in axes.lines]


def test_errors_and_losses_of_each_run():
    figure = plots.history_figure({"one": history([5.0, 4.0, 3.0]), "two_$": history([4.0, 2.0])})
    error, loss = figure.axes
    drawn = lines(error)
    assert [(label, values) for label, style, values in drawn if style == "-"] == [
        ("one", pytest.approx([5.0, 4.0, 3.0])),
        ("two_$", pytest.approx([4.0, 2.0])),
    ]
    doubled = [values for _, style, values in drawn if style != "-"]
    assert doubled == [pytest.approx([10.0, 8.0, 6.0]), pytest.approx([8.0, 4.0])]
    assert [values for *_, values in lines(loss)] == [pytest.approx([0.1, 0.08, 0.06]), pytest.approx([0.08, 0.04])]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", "two_$"]
    colours = [line.get_color() for line in error.lines]
    assert colours[:2] == colours[2:]
    assert colours[0] != colours[1]


def test_far_apart_values_take_a_logarithmic_scale():
    near, far, zero = (plots.history_figure({"a": history(e)}).axes[0] for e in ([9.0, 4.0], [90.0, 0.4], [0.0, 0.0]))
    assert (near.get_yscale(), far.get_yscale(), zero.get_yscale()) == ("linear", "log", "linear")
    assert near.get_ylim()[0] == 0


def test_without_test_images():
    error, _ = plots.history_figure({"a": history([9.0, 4.0], test=False)}).axes
    assert len(error.lines) == 1
    assert error.get_title(loc="left") == "error in training, %"


def test_a_single_epoch_is_seen_as_a_point():
    error, loss = plots.history_figure({"a": history([9.0])}).axes
    assert {line.get_marker() for line in (*error.lines, *loss.lines)} == {"."}


def test_more_runs_than_colours(tmp_path):
    figure = plots.history_figure({f"run {i}": history([9.0 + i, 0.0]) for i in range(12)})
    assert len({to_hex(line.get_color()) for line in figure.axes[1].lines}) == 12
    (path,) = plots.save([figure], tmp_path / "a.png")
    with Image.open(path) as picture:
        assert picture.size == pytest.approx(tuple(figure.get_size_inches() * 200), abs=1)


def test_nothing_to_draw():
    with pytest.raises(HitNetError, match="no epochs to draw of b, c"):
        plots.history_figure({"a": history([1.0]), "b": [], "c": []})
    with pytest.raises(HitNetError, match="at least one run; got none"):
        plots.history_figure({})


def test_every_run_is_named_below_whatever_its_name(tmp_path):
    rows = [{"epoch": epoch, "loss": 1 / epoch, "train_error": 1.0} for epoch in (1, 2)]
    figure = plots.history_figure({"_a": rows, "x" * 300: rows, "$b": rows})
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert (names[0], names[2]) == ("_a", "$b")
    plots.save([figure], tmp_path / "a.png")
    assert figure.legends[0].get_window_extent().width <= figure.bbox.width
