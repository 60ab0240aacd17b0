"""`hitnet train`, `evaluate`, `predict` and `models`."""

import json
import logging
import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from cli_samples import write_folder
from PIL import Image

import hitnet
from hitnet.cli.runs import class_table
from hitnet.cli.terminal import console
from hitnet.data import save_npz
from hitnet.models import MODELS
from toy import toy_images

SMALL = ("--model", "hitnet-small", "--device", "cpu", "--epochs", 2)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder with a small data set in it."""
    monkeypatch.chdir(tmp_path)
    save_npz(toy_images(30), tmp_path / "bands.npz")
    return tmp_path


def test_train_writes_a_run_folder_and_says_how_it_went(command, here):
    ended = command("train", "bands.npz", "--out", "run", "--seed", 3, "--ghosts", 1, *SMALL)
    assert (ended.code, ended.err) == (0, "")
    first, second, third = ended.out.splitlines()
    assert first.startswith("hitnet-small on toy: 2 epochs of 24 images in ")
    assert second.startswith("test error ")
    assert second.endswith(" % hits")
    assert " on 6 images, " in second
    assert third == "run folder: run"
    run = hitnet.open_run("run")
    speed = 2 * 24 / sum(24 / row["images_per_second"] for row in run.history)
    assert first.endswith(f" s ({speed:,.0f} images/s)")
    assert (run.config.seed, run.config.recipe.epochs, run.config.recipe.ghosts) == (3, 2, 1)
    assert run.config.data["source"] == str(Path("bands.npz").absolute())


def test_several_seeds_end_with_mean_and_deviation(command, here):
    ended = command("train", "bands.npz", "--seeds", 2, "--seed", 3, "--out", "runs", *SMALL)
    assert (ended.code, ended.err) == (0, "")
    first, second, last = ended.out.splitlines()
    assert first.startswith("seed 3: test error ")
    assert first.endswith("run folder: runs/seed-3")
    assert second.startswith("seed 4: ")
    assert " ± " in last
    assert last.endswith("% (mean ± standard deviation of 2 runs)")
    assert command("train", "bands.npz", "--seeds", 0, *SMALL).code == 2


def test_the_default_folder_is_named_after_data_model_recipe_and_seed(command, here, monkeypatch):
    command("train", "bands.npz", *SMALL)
    assert hitnet.open_run("runs/bands-hitnet-small-fast-0").folder is not None
    write_folder(here / "photos", toy_images(30))
    (here / "work").mkdir()
    monkeypatch.chdir(here / "work")
    ended = command("train", "../photos/band 0/..", *SMALL)
    assert ended.code == 0
    assert hitnet.open_run("runs/photos-hitnet-small-fast-0").config.data["images"] == 24


def test_resume(command, here):
    arguments = ("train", "bands.npz", "--out", "run", *SMALL)
    assert command(*arguments).code == 0
    written = (here / "run" / "weights.safetensors").stat().st_mtime_ns
    again = command(*arguments)
    assert again.code == 1
    assert "run already holds a run. Use --resume to continue it, or choose another --out." in again.err
    resumed = command(*arguments, "--resume")
    assert resumed.code == 0
    assert "2 epochs of 24 images" in resumed.out
    assert (here / "run" / "weights.safetensors").stat().st_mtime_ns == written
    other = command(*arguments[:-1], 5, "--resume")
    assert other.code == 1
    assert "recipe.epochs was 2, now 5" in other.err


def test_evaluation_of_other_data_says_that_it_takes_the_test_images(command, toy_run):
    run, data = toy_run
    assert "--split all takes all" in command("evaluate", run, "--data", data, "--device", "cpu").out
    assert "--split all takes all" not in command("evaluate", run, "--data", data, "--split", "test").out


def test_evaluate(command, toy_run):
    run, _ = toy_run
    ended = command("evaluate", run, "--device", "cpu")
    figures = hitnet.evaluate(run, device="cpu")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == f"toy: error {100 * figures.error:.2f} % on 12 images"
    hits, misses = 100 * figures.hits, 100 * figures.misses
    assert lines[1] == f"{hits:.1f} % of the true capsules hit, {misses:.1f} % of the others miss"
    assert lines[2] == f"reconstruction: mean squared error {figures.mse:.4f}"
    assert "--split all" not in ended.out
    rows = [line for line in lines if line.startswith(" band ")]
    assert len(rows) == 3
    assert rows[1].split()[:3] == ["band", "1", "4"]


@pytest.mark.parametrize(("width", "confusion"), [(80, True), (50, False)])
def test_the_confusion_is_shown_where_there_is_room(command, toy_run, monkeypatch, width, confusion):
    monkeypatch.setattr(console, "width", width)
    ended = command("evaluate", toy_run[0], "--device", "cpu")
    assert ("→band 2" in ended.out) == confusion
    assert "precision %" in ended.out
    assert "…" not in ended.out


def test_long_classes_head_the_confusion_whole(toy_run, monkeypatch):
    monkeypatch.setattr(console, "width", 120)
    evaluation = replace(
        hitnet.evaluate(toy_run[0], device="cpu"), class_names=("triangulation", "triangular", "circle")
    )
    with console.capture() as shown:
        console.print(class_table(evaluation))
    heads = [line[1:].split() for line in shown.get().splitlines()[:2]]
    assert heads[0] == ["→triangu", "→triangu"]
    assert heads[1][-3:] == ["lation", "lar", "→circle"]


def test_a_committee(command, toy_run, tmp_path):
    first, data = toy_run
    second = tmp_path / "second"
    assert command("train", data, "--epochs", 1, "--seed", 5, "--out", second, "--device", "cpu").code == 0
    figures = hitnet.evaluate([first, second], device="cpu")
    ended = command("evaluate", first, second, "--device", "cpu")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[0] == f"toy: error {100 * figures.error:.2f} % on 12 images by 2 networks together"
    ended = command("evaluate", first, second, "--data", data, "--split", "all", "--device", "cpu", "--json")
    whole = json.loads(ended.out)
    assert (whole["images"], whole["networks"]) == (60, 2)
    twice = command("evaluate", first, first, "--device", "cpu")
    assert twice.code == 1
    assert "hold the same network. Give each network once." in " ".join(twice.err.split())


def test_evaluate_as_json(command, toy_run):
    run, data = toy_run
    ended = command("evaluate", run, "--data", data, "--split", "all", "--device", "cpu", "--json")
    assert (ended.code, ended.err) == (0, "")
    figures = json.loads(ended.out)
    assert figures == hitnet.evaluate(run, data, split="all", device="cpu").to_dict()
    assert figures["images"] == 60
    assert [sum(row) for row in figures["confusion"]] == [20, 20, 20]


def test_names_with_brackets_or_colons_are_printed_as_they_are(command, here):
    """Class names, files and folders are no markup for the terminal, and no emoji."""
    images = toy_images(30)
    named = hitnet.Images(images.pixels, images.labels, ("[bold]", "[/x]", ":dog:"), "[red]", images.ids)
    save_npz(named, "odd.npz")
    ended = command("train", "odd.npz", "--out", "[/run]", *SMALL)
    assert ended.code == 0
    assert "hitnet-small on [red]: " in ended.out
    assert "run folder: [/run]" in ended.out
    ended = command("evaluate", "[/run]", "--device", "cpu")
    assert ended.code == 0
    assert all(f" {name} " in ended.out for name in named.class_names)
    (here / "img[").mkdir()
    Image.new("L", (12, 12)).save("img[/b].png")
    ended = command("predict", "[/run]", "img[/b].png", "--device", "cpu")
    assert ended.code == 0
    assert " img[/b].png " in ended.out
    assert "[/x]" in command("data", "check", "odd.npz").out


def test_names_that_are_no_utf8(command, here):
    data, out = os.fsdecode(b"b\xe9nds.npz"), os.fsdecode(b"r\xe9n")
    (here / "bands.npz").rename(data)
    ended = command("train", data, "--out", out, *SMALL)
    assert (ended.code, ended.err) == (1, "Error: r\\udce9n: its name is not valid UTF-8; choose another --out.\n")
    assert command("train", data, "--out", "run", *SMALL).code == 0
    assert json.loads(command("evaluate", "run", "--device", "cpu", "--json").out)["images"] == 6


@pytest.fixture
def pictures(tmp_path):
    images = toy_images(6, seed=5)
    paths = [tmp_path / f"{i}.png" for i in range(6)]
    for path, pixels in zip(paths, images.pixels, strict=True):
        Image.fromarray(pixels[0].numpy()).save(path)
    return paths


def test_predict(command, toy_run, pictures):
    ended = command("predict", toy_run[0], *pictures, "--device", "cpu")
    assert (ended.code, ended.err) == (0, "")
    head, *rows = ended.out.splitlines()
    assert head.split() == ["image", "class", "distance", "capsule", "runner-up", "distance"]
    for i, row in enumerate(rows[: len(pictures)]):
        assert row.split()[:3] == [str(pictures[i]), "band", str(i % 3)]
    near = any(prediction.verdict == "near" for prediction in hitnet.predict(toy_run[0], pictures, device="cpu"))
    assert [line.startswith("near: neither a hit") for line in rows[len(pictures) :]] == [True] * near


def test_a_path_takes_one_line_of_a_narrow_terminal(command, toy_run, pictures, monkeypatch):
    monkeypatch.setattr(console, "width", 80)
    _, *rows = command("predict", toy_run[0], *pictures, "--device", "cpu").out.splitlines()
    for path, row in zip(pictures, rows, strict=False):
        assert row.split()[0].startswith("…")
        assert str(path).endswith(row.split()[0][1:])
        assert len(row) <= 80


def test_predict_by_a_network_without_distances(command, tmp_path, pictures):
    recipe = hitnet.choose_recipe(epochs=1)
    run = hitnet.train(toy_images(12, shape=(1, 28, 28)), model="n1", recipe=recipe, device="cpu", out=tmp_path / "n1")
    head, *_ = command("predict", run.folder, *pictures, "--device", "cpu").out.splitlines()
    assert head.split() == ["image", "class", "output", "runner-up", "output"]


def test_predict_writes_a_table_of_a_folder(command, toy_run, pictures):
    table = pictures[0].parent / "out" / "predictions.csv"
    ended = command("predict", toy_run[0], pictures[0].parent, "--out", table, "--device", "cpu")
    assert (ended.code, ended.out, ended.err) == (0, f"written: {table}\n", "")
    rows = pd.read_csv(table)
    assert rows["image"].tolist() == list(map(str, pictures))
    assert rows["label"].tolist() == [f"band {i % 3}" for i in range(6)]
    predictions = hitnet.predict(toy_run[0], pictures, device="cpu")
    assert rows["distance"].tolist() == pytest.approx([each.distance for each in predictions])
    assert "--out takes a .csv file" in command("predict", toy_run[0], pictures[0], "--out", "x.txt").err


def test_predict_prints_probabilities_where_they_are_known(command, tmp_path, pictures):
    data = hitnet.open_data(toy_images(40), test=toy_images(20, seed=2))
    recipe = hitnet.choose_recipe(epochs=1)
    run = hitnet.train(data, model="hitnet-small", recipe=recipe, device="cpu", out=tmp_path / "run")
    head, first, *_ = command("predict", run.folder, *pictures, "--device", "cpu").out.splitlines()
    assert head.split() == ["image", "class", "probability", "distance", "capsule", "runner-up", "distance"]
    probability = hitnet.predict(run, pictures, device="cpu")[0].probability
    assert f"{probability:.3f}" in first.split()


def test_predict_as_json(command, toy_run, pictures):
    predictions = json.loads(command("predict", toy_run[0], *pictures, "--json", "--device", "cpu").out)
    assert [row["image"] for row in predictions] == list(map(str, pictures))
    assert [row["label"] for row in predictions] == [f"band {i % 3}" for i in range(6)]
    assert all(0 <= row["distance"] < row["runner_up_distance"] for row in predictions)
    assert {row["verdict"] for row in predictions} <= {"hit", "near"}


def test_predict_says_none(command, toy_run, pictures, monkeypatch):
    said = torch.tensor([[1.2, 0.95, 1.9]]), torch.tensor([1.0])
    monkeypatch.setattr("hitnet.training.runs.distances_and_misfits", lambda *a: said)
    ended = command("predict", toy_run[0], pictures[0], "--device", "cpu")
    assert ended.out.splitlines()[1].split()[1:] == ["none", "0.950", "miss", "band", "0", "1.200"]
    (prediction,) = json.loads(command("predict", toy_run[0], pictures[0], "--device", "cpu", "--json").out)
    assert prediction["label"] is None
    assert prediction["verdict"] == "miss"


def test_predict_keeps_a_share_of_known_images(command, toy_run, pictures, tmp_path, caplog):
    save_npz(toy_images(100, seed=8), tmp_path / "known.npz")  # 20 or 21 of them are for testing
    options = ("--known", tmp_path / "known.npz", "--device", "cpu", "--json")
    before = json.loads(command("predict", toy_run[0], *pictures, "--device", "cpu", "--json").out)
    with caplog.at_level(logging.INFO, "hitnet"):
        ended = command("predict", toy_run[0], *pictures, "--keep", 0.05, *options)
    limit = float(caplog.text.split('"none" beyond a misfit of ')[1].split(":")[0])
    predicted = {row["image"]: row["label"] for row in json.loads(ended.out)}
    clear = [row for row in before if abs(row["misfit"] - limit) > 1e-3]  # the limit is printed with three digits
    assert any(row["misfit"] > limit for row in clear)
    for row in clear:
        assert predicted[row["image"]] == (None if row["misfit"] > limit else row["label"])


def test_predict_names_the_options_of_a_share(command, toy_run, pictures):
    for options, message in [
        (("--keep", "95"), "Error: --keep must be a share above 0 and at most 1, e.g. 0.95; got 95.0.\n"),
        (("--known", "x"), "Error: --known is the data that --keep is measured on. Give --keep too, e.g. 0.95.\n"),
    ]:
        ended = command("predict", toy_run[0], pictures[0], *options)
        assert (ended.code, ended.err) == (1, message)


def test_predict_names_a_file_that_is_no_image(command, toy_run, tmp_path):
    (tmp_path / "text.png").write_text("no image")
    for name in ("text.png", "missing.png"):
        ended = command("predict", toy_run[0], tmp_path / name, "--device", "cpu")
        assert ended.code == 1
        assert name in ended.err


def test_models(command):
    ended = command("models")
    assert ended.code == 0
    for name in MODELS:
        assert f" {name} " in ended.out
    rows = json.loads(command("models", "--shape", "3,32,32", "--classes", 4, "--json").out)
    assert [row["name"] for row in rows] == list(MODELS)
    counts = {row["name"]: row["parameters"] for row in rows}
    small = hitnet.models.build("hitnet-small", (3, 32, 32), 4)
    assert counts["hitnet-small"] == sum(p.numel() for p in small.parameters())


def test_a_folder_in_use_is_not_taken(command, here):
    (here / "full").mkdir()
    (here / "full" / "thesis.tex").write_text("x")
    ended = command("train", "bands.npz", "--out", "full", *SMALL)
    assert ended.code == 1
    assert "full holds no run, but other files (thesis.tex); choose another --out" in ended.err
    assert [path.name for path in (here / "full").iterdir()] == ["thesis.tex"]


def test_a_backbone_is_one(command, here):
    for name in ("paper", "nosuch"):
        ended = command("train", "bands.npz", "--backbone", name, "--out", "run", "--device", "cpu")
        assert ended.code == 1
        assert "Known: efficientnet-lite0, timm:NAME" in ended.err
    assert not (here / "run").exists()


def test_networks_that_no_machine_holds_are_refused(command, here):
    ended = command("train", "bands.npz", "--capsule-dim", 100_000_000, "--out", "run", *SMALL)
    assert ended.code == 1
    assert "This network would have" in ended.err
    assert "--capsule-dim" in ended.err
    assert not (here / "run").exists()


def test_strict_is_for_data_that_is_named(command, here):
    command("train", "bands.npz", "--out", "run", *SMALL)
    ended = command("evaluate", "run", "--strict", "--device", "cpu")
    assert ended.code == 1
    assert "--strict requires --data" in ended.err
    assert command("evaluate", "run", "--data", "bands.npz", "--strict", "--device", "cpu").code == 0


def test_a_class_that_cannot_be_learned_is_named(here, caplog):
    images = toy_images(30)
    known = images.labels < 2
    for split, kept in (("train", known), ("test", torch.ones(30, dtype=torch.bool))):
        part = hitnet.Images.from_arrays(images.pixels[kept], images.labels[kept], class_names=images.class_names)
        write_folder(here / "photos" / split, part)
    recipe = hitnet.choose_recipe(epochs=1)
    hitnet.train(here / "photos", model="hitnet-small", recipe=recipe, device="cpu")
    assert "No image to train on has the class band 2: the network cannot learn it." in caplog.text


def test_of_many_classes_that_cannot_be_learned_the_rest_are_counted(caplog):
    images = toy_images(48, classes=8, shape=(1, 16, 16))
    known = images.labels < 2
    part = hitnet.Images.from_arrays(images.pixels[known], images.labels[known], class_names=images.class_names)
    hitnet.train(hitnet.open_data(part, test=images), recipe=hitnet.choose_recipe(epochs=1), device="cpu")
    assert "has the class band 2 or band 3 or band 4 or band 5 or band 6 or 1 more: the" in caplog.text
