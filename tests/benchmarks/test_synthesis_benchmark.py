"""The benchmark of synthesis, in its tiny form: every part, a record that grows, and a budget."""

import json
import math

import pytest
import torch

import hitnet
import synthesis
from hitnet.models.decoders import build_decoder
from hitnet.models.network import class_distances, to_device
from hitnet.synthesis.distributions import true_capsules
from parts import arms
from parts.decoder_phase import Phase, Sampler, naming, rebuilding, train_decoder
from parts.pictures import mean_pair_distance
from parts.record import Budget, Record
from parts.tables import table
from toy import toy_images

pytestmark = pytest.mark.slow(seconds=180)  # trains networks

ARMS = [
    "standardised, α = 1.5",
    "standardised, α from 0.392 to 3.92",
    "none",
    "strength 1, share 0.5",
    "broad conv, n = 64, extra 64, α = 39.2",
]
TINY = ["--tiny", "--data", "mnist", "cifar10", "--only", *ARMS]


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """A record of a few arms of every part."""
    path = tmp_path_factory.mktemp("records") / "synthesis.json"
    synthesis.main([*TINY, "--out", str(path)])
    return path


def read(path):
    return json.loads(path.read_text())


def no_training(*args, **options):
    raise RuntimeError("trained again")


def test_every_part_gives_rows(record):
    rows = read(record)
    assert {row["part"] for row in rows} == set(synthesis.PARTS)
    assert all(0 <= row["error_percent"] <= 100 for row in rows)
    names = {row["arm"] for row in rows if row["part"] == "decoders"}
    assert names == {*ARMS[:2], *(f"{ARMS[0]}, {phase.name}" for phase in (arms.FURTHER, arms.NAMED, arms.MORE))}
    row = next(row for row in rows if row["part"] == "paper-decoder")
    assert {"mse", "fitted_0.9_named_percent", "diagonal_distance_ratio", "judge_error_percent", "device"} <= set(row)
    assert all(math.isfinite(value) for row in rows for value in row.values() if isinstance(value, float))


def test_what_is_in_the_record_is_not_made_again(record, monkeypatch, capsys):
    before = record.read_text()
    monkeypatch.setattr(hitnet, "train_many", no_training)
    synthesis.main([*TINY, "--out", str(record)])
    assert record.read_text() == before
    said = capsys.readouterr().out
    assert f"| mnist | {ARMS[0]} | 1 |" in said


def test_only_what_is_missing_is_added(record, tmp_path):
    rows = read(record)
    lost = next(i for i, row in enumerate(rows) if row["arm"].endswith(arms.FURTHER.name))
    part = tmp_path / "part.json"
    part.write_text(json.dumps(rows[:lost] + rows[lost + 1 :]))
    synthesis.main([*TINY, "--parts", "decoders", "--out", str(part)])
    after = read(part)
    assert len(after) == len(rows)
    assert Record.key(after[-1]) == Record.key(rows[lost])


def test_nothing_begins_once_the_budget_is_spent(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(hitnet, "train_many", no_training)
    synthesis.main([*TINY, "--budget", "0", "--out", str(tmp_path / "none.json")])
    assert not (tmp_path / "none.json").exists()
    assert "no time left for photographs, cifar10" in capsys.readouterr().out


def test_what_modifies_images_is_measured_once_for_all_arms(tmp_path, monkeypatch):
    measured, real = [], synthesis.measure

    def measure(network, images):
        measured.append(network)  # kept, so that no two have the same identity
        return real(network, images)

    monkeypatch.setattr(synthesis, "measure", measure)
    path = tmp_path / "hybrid.json"
    synthesis.main(["--tiny", "--parts", "hybrid", "--data", "mnist", "--only", *ARMS[2:4], "--out", str(path)])
    rows = read(path)
    assert [row["arm"] for row in rows] == ARMS[2:4]
    assert len(measured) == len({id(network) for network in measured}) == 3
    assert rows[0]["source_error_percent"] == rows[1]["source_error_percent"]


def test_arms_may_last_longer_and_are_then_named_so():
    asked = synthesis.parse(["--epochs", "80", "--only", "none"])
    (arm,) = asked.lasting(synthesis.HYBRIDS)
    assert (arm.name, arm.epochs, arm.length) == ("none, 80 epochs", 80, 80)
    (same,) = synthesis.parse(["--only", "none"]).lasting(synthesis.HYBRIDS)
    assert same == synthesis.NO_HYBRID


def test_a_training_that_would_end_too_late_is_not_begun():
    now = [0.0]
    budget = Budget(1, clock=lambda: now[0])
    assert budget.allows("one", 10**9)
    budget.took("one", 1000, 10.0)
    now[0] = 20.0
    assert budget.allows("one", 3900)
    assert not budget.allows("one", 4100)
    assert budget.allows("other", 4100)
    now[0] = 61.0
    assert not budget.allows("other", 1)


def test_a_diverged_network_has_a_row_and_is_not_tried_again(tmp_path, monkeypatch):
    path = tmp_path / "diverged.json"
    real = synthesis.Bench.train
    monkeypatch.setattr(synthesis.Bench, "train", lambda self, arm, *rest: [] if arm.phases else real(self, arm, *rest))
    call = ["--tiny", "--parts", "decoders", "--only", ARMS[0], "--out", str(path)]
    synthesis.main(call)
    rows = read(path)
    assert [row["diverged"] for row in rows] == [True] * 4  # itself and its three phases
    synthesis.main(call)
    assert read(path) == rows


def test_a_run_of_the_paper_that_is_there_already_is_measured(tmp_path, monkeypatch):
    images = hitnet.open_data("mnist-sample", limit=200).load("train")
    real = hitnet.choose_recipe
    monkeypatch.setattr(hitnet, "choose_recipe", lambda name, **options: real(name, **{**options, "epochs": 1}))
    options = {"model": hitnet.choose_model("hitnet-small", decoder="paper"), "device": "cpu"}
    older = hitnet.choose_recipe("paper", augment_share=0.5)  # an option that is off
    hitnet.train(images, recipe=older, seed=3, out=tmp_path / "paper", **options)
    hitnet.train(images, recipe=hitnet.choose_recipe("fast"), out=tmp_path / "fast", **options)
    call = ["--tiny", "--parts", "paper-decoder", "--out", str(tmp_path / "record.json"), "--paper-run"]
    with pytest.raises(SystemExit, match="fast is no run of"):
        synthesis.main([*call, str(tmp_path / "fast")])
    synthesis.main([*call, str(tmp_path / "paper")])
    (row,) = read(tmp_path / "record.json")
    assert (row["arm"], row["seed"], row["epochs"], row["train_images"]) == (arms.PAPER.name, 3, 1, 200)
    assert 0 <= row["fitted_named_percent"] <= 100
    with pytest.raises(SystemExit, match="has a run with seed 3 already"):
        synthesis.main([*call, str(tmp_path / "paper")])


def test_pair_distance_against_a_loop():
    torch.manual_seed(0)
    images, labels = torch.rand(9, 1, 3, 3), torch.tensor([0, 1, 0, 1, 1, 0, 2, 1, 0])
    means = []
    for k in (0, 1):
        own = [image.double() for image, label in zip(images, labels, strict=True) if label == k]
        pairs = [(a - b).square().sum().sqrt() for i, a in enumerate(own) for b in own[:i]]
        means.append(float(sum(pairs) / len(pairs)))
    assert mean_pair_distance(images, labels) == pytest.approx(sum(means) / 2, rel=1e-5)


def train_small(images, epochs):
    model = hitnet.choose_model("hitnet-small", capsule_dim=4)
    return hitnet.train(images, model=model, recipe=hitnet.choose_recipe("fast", epochs=epochs), device="cpu")


@torch.no_grad()
def rebuilt(run, images):
    """Mean squared error of what is decoded from the true classes' capsules."""
    return float(rebuilding(run.model.eval(), to_device(images.pixels, torch.device("cpu")), images.labels))


@pytest.mark.parametrize("options", [{}, {"width": 2}, {"named": 0.03}])
def test_a_decoder_trained_alone_rebuilds_better_and_leaves_the_classifier(options):
    images = toy_images()
    run = train_small(images, epochs=2)
    before = {name: value.clone() for name, value in run.model.state_dict().items()}
    further = train_decoder(run, images, Phase("further", epochs=8, batch_size=32, **options))
    assert rebuilt(further, images) < 0.8 * rebuilt(run, images)
    assert torch.equal(class_distances(further.model, images.pixels), class_distances(run.model, images.pixels))
    assert all(torch.equal(value, before[name]) for name, value in run.model.state_dict().items())


def test_capsules_are_drawn_from_both_laws():
    torch.manual_seed(0)
    images = toy_images()
    network = hitnet.models.build("hitnet-small", images.shape, 3, capsule_dim=4, extra_dim=2).eval()
    drawn = Sampler(network, images)(torch.ones(40_000, dtype=torch.long))
    own = true_capsules(network, images)[images.labels == 1]
    assert torch.allclose(drawn[::2].mean(dim=0), own.mean(dim=0), atol=0.05)
    assert torch.allclose(torch.cov(drawn[::2].T), torch.cov(own.T, correction=0), atol=0.05)
    assert torch.allclose(drawn[1::2].mean(dim=0), torch.tensor([0.5] * 4 + [0.0] * 2), atol=0.05)
    assert torch.allclose(drawn[1::2].std(dim=0), torch.tensor([0.05] * 4 + [1.0] * 2), rtol=0.05)


def test_naming_teaches_a_decoder_to_draw_what_its_classifier_knows():
    images = toy_images()
    run = train_small(images, epochs=8)
    labels, losses = torch.arange(300) % 3, []
    for weight in (0.0, 1.0):
        phase = Phase("further", epochs=8, batch_size=32, named=weight)
        network = train_decoder(run, images, phase).model
        torch.manual_seed(0)
        with torch.no_grad():
            losses.append(float(naming(network, Sampler(network, images)(labels), labels)))
    assert losses[1] < 0.9 * losses[0]


def test_a_rising_weight_grows_by_the_same_factor():
    network = hitnet.models.build("hitnet-small", (1, 12, 12), 3, reconstruction_weight=0.5)
    recipe = hitnet.choose_recipe("fast", epochs=3).complete()
    first = arms.RisingWeight(network, recipe, epoch=1, last=8.0)
    weights = [float(arms.RisingWeight(network, recipe, epoch=epoch, last=8.0).weight) for epoch in (1, 2, 3)]
    assert weights == pytest.approx([0.5, 2.0, 8.0])
    assert float(first.weight) == pytest.approx(8.0)  # what a captured step reads


@pytest.mark.parametrize("arm", arms.PHOTOGRAPHS, ids=lambda arm: arm.name)
def test_no_decoder_of_photographs_is_larger_than_the_dense_one(arm):
    width = 10 * arm.model_options["capsule_dim"] + arm.model_options["extra_dim"]
    with arm.patched():
        own = build_decoder(arm.model_options["decoder"], (3, 32, 32), width)
    dense = build_decoder("standardised", (3, 32, 32), width)
    assert sum(p.numel() for p in own.parameters()) <= sum(p.numel() for p in dense.parameters())


def test_table_gives_mean_and_deviation():
    rows = [{"data": "d", "arm": "a", "mse": value, "size": 7} for value in (0.1, 0.3)]
    last = table(rows, {"mse": "MSE", "size": "size", "other": "other"}).splitlines()[-1]
    assert last == "| d | a | 2 | 0.2000 ± 0.1414 | 7 |  |"
    rows += [{"data": "d", "arm": "a", "diverged": True}, {"data": "d", "arm": "b", "diverged": False, "mse": 1.0}]
    assert [line[:24] for line in table(rows, {"mse": "MSE"}).splitlines()[2:]] == [
        "| d | a | 2, 1 diverged ",
        "| d | b | 1 | 1.00 |",
    ]
