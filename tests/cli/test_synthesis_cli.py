"""`hitnet prototypes`, `traverse`, `features`, `generate` and `augment`, from the command line."""

import json

import pytest
from PIL import Image
from typer.testing import CliRunner

import hitnet
from hitnet.cli import app, pictures
from hitnet.data import open_data, save_npz
from hitnet.data.reading.pictures import as_picture
from hitnet.errors import HitNetError
from toy import toy_images


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    save_npz(toy_images(60), folder / "bands.npz")
    model, recipe = hitnet.choose_model("hitnet-small", capsule_dim=4), hitnet.choose_recipe("fast", epochs=2)
    hitnet.train(folder / "bands.npz", out=folder / "run", model=model, recipe=recipe, device="cpu")
    return folder / "run"


def call(*arguments):
    """Run a command; a user's mistake is raised as it is, for `main` to print."""
    result = CliRunner().invoke(app, [*map(str, arguments), "--device", "cpu"])
    if isinstance(result.exception, HitNetError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def is_picture(path):
    with Image.open(path) as picture:
        return picture.width > 100 and picture.height > 50


def test_prototypes(run, tmp_path):
    assert "written" in call("prototypes", run, "--out", tmp_path / "a.png", "--class", "band 1")
    assert is_picture(tmp_path / "a.png")


def test_traverse(run, tmp_path):
    twice = ("--class", "band 1", "--class", "band 1")  # is drawn once
    assert "band 1" in call("traverse", run, *twice, "--steps", 3, "--out", tmp_path / "a.png")
    assert is_picture(tmp_path / "a.png")
    traversals = json.loads(call("traverse", run, "--out", tmp_path / "all.png", "--json"))
    assert [row["class"] for row in traversals["classes"]] == ["band 0", "band 1", "band 2"]
    assert sorted(row["component"] for row in traversals["classes"][0]["components"]) == [0, 1, 2, 3]
    assert sorted(path.name for path in tmp_path.glob("all*")) == ["all-1.png", "all-2.png", "all-3.png"]


def test_traverse_an_image(run, tmp_path):
    as_picture(toy_images(3).pixels[1]).save(tmp_path / "image.png")
    out = call("traverse", run, "--image", tmp_path / "image.png", "--out", tmp_path / "a.png")
    assert out.count("band ") == 1
    assert is_picture(tmp_path / "a.png")


def test_capsules(run, tmp_path):
    assert "within 2σ" in call("capsules", run, "--out", tmp_path / "a.png")
    assert is_picture(tmp_path / "a.png")
    test = ("--data", run.parent / "bands.npz", "--split", "test")
    features = json.loads(call("capsules", run, *test, "--out", tmp_path / "a.png", "--json"))
    assert features["expected_spread"] == pytest.approx(0.05)
    assert len(features["components"]) == 3 * 4
    assert sum(row["images"] for row in features["components"]) == 4 * 12


def test_generate(run, tmp_path):
    call("generate", run, "--count", 2, "--law", "paper", "--out", tmp_path / "a.png")
    assert is_picture(tmp_path / "a.png")
    call("generate", run, "--count", 5, "--out", tmp_path / "a.npz")
    assert open_data(tmp_path / "a.npz").load("all").labels.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    call("generate", run, "--count", 3, "--class", "band 2", "--class", "band 0", "--out", tmp_path / "new")
    assert len(list((tmp_path / "new").rglob("*.png"))) == 6


def test_too_many_for_a_picture_is_said_before_capsules_are_fitted(run, tmp_path, monkeypatch):
    monkeypatch.setattr(
        hitnet.synthesis.distributions, "fitted_gaussians", lambda *args, **options: pytest.fail("fitted")
    )
    with pytest.raises(HitNetError, match="too many for a picture"):
        call("generate", run, "--out", tmp_path / "a.png", "--count", 1_000_000)


@pytest.mark.parametrize("command", ["generate", "augment"])
def test_data_that_are_there_are_refused_before_any_work(run, monkeypatch, command):
    data = run.parent / "bands.npz"
    before = data.read_bytes()
    monkeypatch.setattr(pictures, "open_decoder", lambda *args, **options: pytest.fail("opened"))
    with pytest.raises(HitNetError, match=r"bands\.npz exists already"):
        call(command, run, "--out", data)
    assert data.read_bytes() == before


def test_augment(run, tmp_path):
    call("augment", run, "--out", tmp_path / "a.npz", "--picture", tmp_path / "a.png", "--strength", 2)
    assert is_picture(tmp_path / "a.png")
    assert len(open_data(tmp_path / "a.npz").load()) == 2 * 48
    call("augment", run, "--data", run.parent / "bands.npz", "--out", tmp_path / "new", "--no-originals", "--copies", 3)
    assert len(open_data(tmp_path / "new").load()) == 3 * 48
    assert len(open_data(tmp_path / "new").load("test")) == 12


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("prototypes", "RUN", "--out", "a.xyz"), "not written as .xyz"),
        (("prototypes", "RUN", "--out", "a.png", "--class", "band"), "Did you mean 'band"),
        (("prototypes", "nowhere", "--out", "a.png"), "not a run folder"),
        (("traverse", "RUN", "--out", "a.png", "--reach", "0"), "reach must be finite and above 0"),
        (("traverse", "RUN", "--out", "a.png", "--steps", "100000"), "room for 40 steps; got 100,000"),
        (("traverse", "RUN", "--image", "none.png", "--out", "a.png"), "no such file"),
        (("capsules", "RUN", "--data", "no-such-set", "--out", "a.png"), "no dataset or folder"),
        (("capsules", "RUN", "--limit", "0", "--out", "a.png"), "^limit must be at least 1"),
        (("generate", "RUN", "--out", "a.gift"), "not written as .gift.*to a folder without a dot"),
        (("generate", "RUN", "--out", "a.pgf"), "not written as .pgf"),
        (("generate", "RUN", "--out", "a.png", "--law", "paper", "--data", "mnist-sample"), "Leave one out"),
        (("generate", "RUN", "--out", "a.png", "--spread", "inf"), "spread must be finite"),
        (("generate", "RUN", "--out", "full"), "is not an empty folder"),
        (("augment", "RUN", "--out", "full"), "is not an empty folder"),
        (("augment", "RUN", "--out", "a.png"), "Pictures of examples: --picture"),
        (("augment", "RUN", "--out", "a.JPEG"), "Pictures of examples: --picture"),
        (("augment", "RUN", "--out", "a.npy"), "a .npz or a folder without a dot"),
        (("augment", "RUN"), "--out for the augmented set"),
        (("augment", "RUN", "--picture", "a.png", "--copies", "5"), "--copies and --originals require --out"),
        (("augment", "RUN", "--picture", "a.png", "--no-originals"), "--copies and --originals require --out"),
        (("augment", "RUN", "--out", "a.npz", "--examples", "9"), "--examples requires --picture"),
        (("augment", "RUN", "--out", "a.npz", "--strength", "-1"), "strength must be finite and not negative"),
    ],
)
def test_mistakes(run, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("keep")
    with pytest.raises(HitNetError, match=says):
        call(*(run if argument == "RUN" else argument for argument in arguments))
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
