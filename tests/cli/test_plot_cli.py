"""`hitnet plot`, from the command line."""

import shutil

import pytest
from PIL import Image
from typer.testing import CliRunner

import hitnet
from hitnet.cli import app
from hitnet.errors import HitNetError
from hitnet.plots import history
from toy import toy_images

SMALL = {"model": "hitnet-small", "recipe": hitnet.choose_recipe("fast", epochs=2), "device": "cpu"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plot")
    for name in ("a/run", "b/run", "b/other"):
        hitnet.train(toy_images(12), out=folder / name, **SMALL)
    return folder


def call(*arguments):
    result = CliRunner().invoke(app, ["plot", *map(str, arguments)])
    if isinstance(result.exception, HitNetError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def names(monkeypatch):
    """The names under which runs are drawn."""
    drawn = []
    draw = history.history_figure
    monkeypatch.setattr(history, "history_figure", lambda histories: drawn.extend(histories) or draw(histories))
    return drawn


@pytest.mark.parametrize("chosen", [["a/run"], ["a/run", "b/other"]])
def test_runs_are_drawn_under_their_folders_names(runs, tmp_path, names, chosen):
    assert "written" in call(*(runs / name for name in chosen), "--out", tmp_path / "curves.png")
    with Image.open(tmp_path / "curves.png") as picture:
        assert picture.width > 1000
    assert names == [name.split("/")[1] for name in chosen]


def test_runs_of_the_same_name_are_told_apart(runs, tmp_path, names):
    call(runs / "a/run", runs / "b/run", "--out", tmp_path / "curves.pdf")
    assert names == ["a/run", "b/run"]


def test_a_run_given_twice_is_drawn_once(runs, tmp_path, names):
    call(runs / "a/run", runs / "b" / ".." / "a/run", "--out", tmp_path / "curves.png")
    assert names == ["run"]


def test_mistakes(runs, tmp_path):
    with pytest.raises(HitNetError, match="not a run folder"):
        call(runs, "--out", tmp_path / "a.png")
    with pytest.raises(HitNetError, match=r"not written as \.xyz"):
        call(runs / "a/run", "--out", tmp_path / "a.xyz")
    shutil.copytree(runs / "a/run", tmp_path / "begun")
    (tmp_path / "begun/history.json").unlink()
    with pytest.raises(HitNetError, match="no epochs to draw of begun"):
        call(tmp_path / "begun", "--out", tmp_path / "a.png")
    assert [path.name for path in tmp_path.iterdir()] == ["begun"]
