"""`hitnet audit` from the images to the corrected set, its exports, and `hitnet ghosts`."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from cli_samples import write_folder
from PIL import Image

import hitnet
from hitnet import Judges
from hitnet.cli import audit as module
from hitnet.data import open_data, save_npz
from hitnet.models.network import class_distances
from hitnet.runtime.files import checksum
from toy import toy_images

pytestmark = pytest.mark.usefixtures("quick_heads")

FLIPPED = [4, 17, 30]
QUICK = ("--networks", 1, "--model", "hitnet-small", "--epochs", 80, "--device", "cpu")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """PNG files in class folders, three of them in a wrong one."""
    images = toy_images(48)
    labels = images.labels.clone()
    labels[FLIPPED] = (labels[FLIPPED] + 1) % 3
    return write_folder(tmp_path_factory.mktemp("cli-audit") / "photos", images, labels=labels)


@pytest.fixture
def audited(command, photos, monkeypatch):
    """An audit of these files in the folder that is the default."""
    monkeypatch.chdir(photos.parent)
    folder = photos.parent / "audits" / "photos"
    if not folder.exists():
        assert command("audit", "photos", *QUICK).code == 0
    return folder


def small(epochs, **changes):
    """Options of a short training."""
    return {"model": "hitnet-small", "recipe": hitnet.choose_recipe("fast", epochs=epochs, **changes), "device": "cpu"}


def write_corrections(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "path", "given", "decision", "label"])
        writer.writerows(rows)
    return path


@pytest.mark.slow
def test_audit_prints_the_worst_and_where_the_page_is(command, photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = command("audit", photos, "--out", "out", *QUICK)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].startswith("photos: 48 labels judged by 1 network (hitnet-small) in ")
    assert lines[0].endswith("about 3 are wrong")
    assert lines[1] == "ok: 45, wrong: 3"
    assert lines[2].split() == ["id", "path", "given", "suggested", "score", "votes", "flag"]
    assert {line.split("/")[1].split(".")[0] for line in lines[3:6]} == {f"{i:03}" for i in FLIPPED}
    assert all(line.split()[-2:] == ["1/1", "wrong"] for line in lines[3:6])
    assert len(lines[3:-2]) == 10
    assert lines[-1] == "to review and save as you go: hitnet review out"
    assert lines[-2] == "review page: out/report.html"


@pytest.mark.slow
def test_that_no_label_stands_out_is_said_with_care(command, tmp_path, audited):
    clean = write_folder(tmp_path / "clean", toy_images(48))
    ended = command("audit", clean, "--out", tmp_path / "out", *QUICK)
    assert ended.out.splitlines()[1] == "ok: 48"
    assert ended.out.splitlines()[2].startswith(
        "No label stands out: all are right, or the networks have learned them by heart"
    )
    run = audited / "models" / "seed-0"
    judged = command("audit", "photos", "--out", tmp_path / "wrong", "--runs", run, "--device", "cpu")
    assert "wrong: 3" in judged.out
    assert "No label stands out" not in judged.out


def test_audit_by_two_kinds_of_networks(command, photos, tmp_path):
    kinds = ("--model", "hitnet-small", "--model", "hitnet", "--image-size", 17, "--networks", 2, "--epochs", 1)
    ended = command("audit", photos, "--out", tmp_path / "out", *kinds, "--device", "cpu")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("photos: 48 labels judged by 2 networks (hitnet-small, hitnet) in ")


def test_from_audit_to_corrected_set(command, photos, audited, tmp_path):
    table = pd.read_csv(audited / "audit.csv", keep_default_na=False)
    wrong = table[table["flag"] == "wrong"]
    assert sorted(wrong["path"].str[-7:-4].astype(int)) == FLIPPED
    relabelled, dropped = wrong.iloc[:2], wrong.iloc[2]
    rows = [(row.id, row.path, row.given, "relabel", row.suggested) for row in relabelled.itertuples()]
    rows.append((dropped["id"], dropped["path"], dropped["given"], "drop", ""))
    rows.append((table.iloc[-1]["id"], table.iloc[-1]["path"], table.iloc[-1]["given"], "keep", ""))
    corrections = write_corrections(tmp_path / "corrections.csv", rows)
    before = sorted(photos.rglob("*.png"))

    ended = command("apply", audited, corrections, "--out", tmp_path / "new")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        "2 relabelled, 1 dropped, 1 kept, 0 unsure, 44 not looked at",
        f"corrected dataset: {tmp_path / 'new'}",
    ]
    assert sorted(photos.rglob("*.png")) == before
    ended = command("data", "check", tmp_path / "new", "--json")
    assert ended.code == 0
    corrected, truth = open_data(tmp_path / "new").load("all"), toy_images(48).labels.tolist()
    gone = int(dropped["path"][-7:-4])
    labels = {int(p[-7:-4]): k for p, k in zip(corrected.paths, corrected.labels.tolist(), strict=True)}
    assert labels == {i: k for i, k in enumerate(truth) if i != gone}
    assert sum(json.loads(ended.out)["classes"].values()) == 47


def test_corrected_labels_without_a_copy(command, photos, audited, tmp_path):
    table = pd.read_csv(audited / "audit.csv", keep_default_na=False)
    relabelled, dropped = (row for _, row in table[table["flag"] == "wrong"].iloc[:2].iterrows())
    rows = [(relabelled["id"], relabelled["path"], relabelled["given"], "relabel", relabelled["suggested"])]
    rows.append((dropped["id"], dropped["path"], dropped["given"], "drop", ""))
    corrections, out = write_corrections(tmp_path / "corrections.csv", rows), tmp_path / "labels.csv"
    call = ("apply", audited, corrections, "--labels-only", out)
    ended = command(*call)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[0] == "47 labels, 1 changed"
    labels = pd.read_csv(out, keep_default_na=False)
    assert list(labels) == ["id", "path", "label", "given", "decision"]
    expected = table[table["id"] != dropped["id"]].sort_values("id")
    assert labels["path"].tolist() == expected["path"].tolist()
    assert labels["given"].tolist() == expected["given"].tolist()
    changed = labels[labels["label"] != labels["given"]]
    assert changed[["id", "label", "decision"]].values.tolist() == [
        [relabelled["id"], relabelled["suggested"], "relabel"]
    ]
    pd.testing.assert_frame_equal(hitnet.open_audit(audited).corrected_labels(corrections), labels)
    shutil.copytree(photos, tmp_path / "photos")  # beside the images, the table is a dataset of its own
    out.rename(tmp_path / "photos" / "labels.csv")
    assert len(open_data(tmp_path / "photos" / "labels.csv").load("all")) == 47
    out.write_text("mine")
    assert "--labels-only takes a new .csv file" in command(*call).err
    assert "give --out" in command("apply", audited, corrections).err
    assert "give --out" in command(*call, "--out", tmp_path / "new").err
    assert out.read_text() == "mine"


def test_apply_to_a_folder_that_has_moved_and_grown(command, photos, audited, tmp_path, monkeypatch):
    """The audit is as it was; its data lies elsewhere, with an image more."""
    monkeypatch.chdir(tmp_path)
    moved, summary = tmp_path / "mnist", json.loads((audited / "summary.json").read_text())
    shutil.copytree(photos, moved)
    folder = tmp_path / "audit"
    folder.mkdir()
    for name in ("audit.parquet", "distances.npy"):
        shutil.copy(audited / name, folder / name)
    (folder / "summary.json").write_text(json.dumps(summary | {"source": "/old/place"}))
    names = ("audit.parquet", "distances.npy", "summary.json")
    (folder / "checksums.json").write_text(json.dumps({name: checksum(folder / name) for name in names}))
    row = pd.read_parquet(folder / "audit.parquet").iloc[0]
    corrections = write_corrections(tmp_path / "c.csv", [(row["id"], row["path"], row["given"], "drop", "")])
    call = ("apply", folder, corrections, "--out", tmp_path / "new")
    ended = command(*call)
    assert ended.code == 1
    said = ended.err.replace("\n", " ")
    assert "/old/place was audited, but is not there any more. Set --data to where it is now." in said
    ended = command(*call, "--data", tmp_path / "nowhere")
    assert ended.code == 1
    assert "nowhere does not exist." in ended.err.replace("\n", " ")

    shutil.copy(moved / row["path"], moved / "band 0" / "0.png")
    ended = command(*call, "--data", "./mnist")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        "0 relabelled, 1 dropped, 0 kept, 0 unsure, 48 not looked at",
        "1 image was not there when the audit was made and is copied as it is",
        f"corrected dataset: {tmp_path / 'new'}",
    ]
    assert len(open_data(tmp_path / "new").load("all")) == 48

    (moved / row["path"]).unlink()
    ended = command(*call[:-1], tmp_path / "again", "--data", moved)
    assert ended.code == 1
    assert row["path"] in ended.err
    assert not (tmp_path / "again").exists()
    rows = pd.read_parquet(folder / "audit.parquet").iloc[1:2]
    write_corrections(corrections, [(r.id, r.path, r.given, "keep", "") for r in rows.itertuples()])
    ended = command(*call[:-1], tmp_path / "again", "--data", moved)
    assert "1 of the audited images is no longer there" in ended.out.splitlines()


def test_images_that_the_copy_leaves_out_are_not_counted_as_relabelled(command, photos, audited, tmp_path):
    """A file of the set has become a link out of it since."""
    moved, folder = shutil.copytree(photos, tmp_path / "photos"), tmp_path / "audit"
    shutil.copytree(audited, folder)
    row = pd.read_parquet(folder / "audit.parquet").iloc[0]
    shutil.move(moved / row["path"], tmp_path / "outside.png")
    (moved / row["path"]).symlink_to(tmp_path / "outside.png")
    rows = [(row["id"], row["path"], row["given"], "relabel", row["suggested"])]
    corrections = write_corrections(tmp_path / "c.csv", rows)
    ended = command("apply", folder, corrections, "--out", tmp_path / "new", "--data", moved)
    assert ended.out.startswith("0 relabelled, 0 dropped, 0 kept, 0 unsure, 1 decided but left out, 47 not looked at")
    assert "left out" in ended.out.splitlines()[1]


def test_wrong_corrections_change_nothing(command, audited, tmp_path):
    rows = [(999, "x.png", "band 0", "keep", ""), (0, "band 0/000.png", "band 0", "relabel", "band 9")]
    corrections = write_corrections(tmp_path / "corrections.csv", rows)
    ended = command("apply", audited, corrections, "--out", tmp_path / "new")
    assert ended.code == 1
    assert "line 2: the audit has no image 999" in ended.err
    assert "line 3: 'band 9' is not a class of the set" in ended.err
    assert not (tmp_path / "new").exists()


def test_resume_and_other_images(command, audited):
    again = command("audit", "photos", *QUICK)
    assert again.code == 1
    assert "is not empty. Use --resume to continue the audit there, or choose another --out." in again.err
    before = (audited / "audit.csv").read_bytes()
    assert command("audit", "photos", *QUICK, "--resume").code == 0
    assert (audited / "audit.csv").read_bytes() == before
    other = command("audit", "photos", *QUICK, "--resume", "--limit", 20)
    assert other.code == 1
    assert "holds the audit of other images" in other.err


def test_resume_after_the_images_have_changed(command, photos, tmp_path):
    shutil.copytree(photos, tmp_path / "photos")
    call = ("audit", tmp_path / "photos", "--out", tmp_path / "out", *QUICK[:-3], 1, *QUICK[-2:])
    assert command(*call).code == 0
    first, second = sorted((tmp_path / "photos" / "band 0").iterdir())[:2]
    shutil.copy(second, first)
    ended = command(*call, "--resume")
    assert ended.code == 1
    assert "images or their labels have changed since. Choose another --out" in ended.err


def test_options_before_the_data_and_finished_runs(command, audited, tmp_path):
    run = audited / "models" / "seed-0"
    ended = command("audit", "--out", tmp_path / "out", "--runs", run, "--device", "cpu", "photos")
    assert ended.code == 0
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "out" / "audit.parquet"), pd.read_parquet(audited / "audit.parquet")
    )


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--networks", 2), "--networks"),
        (("--model", "hitnet-small"), "--model"),
        (("--epochs", 3, "--recipe", "paper"), "--recipe, --epochs"),
    ],
)
def test_options_of_a_training_do_not_go_with_finished_runs(command, audited, tmp_path, options, named):
    run = audited / "models" / "seed-0"
    ended = command("audit", "photos", "--runs", run, "--device", "cpu", "--out", tmp_path / "out", *options)
    assert ended.code == 1
    assert f"--runs and {named} do not go together. Leave out {named}." in ended.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "judges"),
    [
        ((), Judges()),
        (("--seed", 5), Judges(seed=5)),
        (("--judges", "features", "--backbone", "timm:x"), Judges("features", backbone="timm:x")),
        (("--features", "f.npy"), Judges(features=Path("f.npy"))),
        (("--networks", 2, "--seed", 7), Judges(networks=2, seed=7)),
        (("--model", "hitnet", "--model", "hitnet-conv"), Judges(model=["hitnet", "hitnet-conv"])),
        (("--epochs", 3, "--recipe", "paper"), Judges(epochs=3, recipe="paper")),
        (("--judges", "fine-tuned", "--weights", "w.st"), Judges("fine-tuned", weights=Path("w.st"))),
        (("--runs", "a", "--runs", "b"), Judges(runs=[Path("a"), Path("b")])),
    ],
)
def test_which_judges_the_options_ask_for(command, photos, monkeypatch, options, judges):
    asked = []

    def audit_labels(data, *, judges, **_):
        asked.append(judges)
        raise hitnet.HitNetError("asked")

    monkeypatch.setattr(module, "audit_labels", audit_labels)
    assert "asked" in command("audit", photos, *options).err
    assert asked == [judges]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--judges", "features", "--epochs", 3, "--networks", 2),
            "--judges features and --networks, --epochs do not go together. Leave out --networks, --epochs.",
        ),
        (
            ("--features", "f.npy", "--model", "hitnet"),
            "--features and --model do not go together. Leave out --model.",
        ),
        (
            ("--features", "f.npy", "--weights", "w.safetensors"),
            "--features take the place of a backbone. Leave out --backbone and --weights.",
        ),
        (
            ("--judges", "fine-tuned", "--model", "hitnet"),
            "--judges fine-tuned and --model do not go together. Leave out --model.",
        ),
        (
            ("--judges", "fine-tuned", "--features", "f.npy"),
            "--judges fine-tuned and --features do not go together. Leave out --features.",
        ),
        (
            ("--judges", "scratch", "--backbone", "timm:x"),
            "--judges scratch and --backbone do not go together. Leave out --backbone.",
        ),
        (
            ("--runs", "run", "--backbone", "timm:x"),
            "--runs and --backbone do not go together. Leave out --backbone.",
        ),
        (("--features", "f.npy"), "--features: there is no file f.npy."),
        (("--backbone", "resnet"), "There is no backbone named 'resnet'."),
    ],
)
def test_judges_that_do_not_go_together(command, photos, tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    ended = command("audit", photos, "--device", "cpu", "--out", "out", *options)
    assert ended.code == 1
    assert said in ended.err
    assert not (tmp_path / "out" / "audit.csv").exists()


@pytest.mark.slow
def test_audit_by_own_features(command, photos, tmp_path):
    images = open_data(photos).load("all")
    means = images.pixels.float().view(48, 3, 4, 12).mean(dim=(2, 3)).numpy()
    np.savez(tmp_path / "mine.npz", features=means, path=np.array(images.paths))
    options = ("--features", tmp_path / "mine.npz", "--out", tmp_path / "out", "--device", "cpu")
    ended = command("audit", photos, *options)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].startswith("photos: 48 labels judged by 4 judges (heads and neighbours on mine.npz) in ")
    rows = [line for line in lines if ".png" in line][:3]
    assert {line.split("/")[1].split(".")[0] for line in rows} == {f"{i:03}" for i in FLIPPED}
    assert command("audit", photos, *options, "--resume").code == 0


def test_a_damaged_audit_is_named(command, audited, tmp_path):
    for name in ("summary.json", "audit.parquet", "distances.npy"):
        folder = tmp_path / name
        folder.mkdir()
        for other in ("summary.json", "audit.parquet", "distances.npy", "checksums.json"):
            (folder / other).write_bytes(b"" if other == name else (audited / other).read_bytes())
        ended = command("export-audit", folder, "--out", tmp_path / "out.json")
        assert ended.code == 1
        assert str(folder) in ended.err
    assert not (tmp_path / "out.json").exists()


def test_export_for_label_studio(command, audited, tmp_path):
    ended = command("export-audit", audited, "--out", tmp_path / "tasks.json", "--image-root", "http://host/")
    assert (ended.code, ended.out) == (0, f"written: {tmp_path / 'tasks.json'}\nwritten: {tmp_path / 'tasks.xml'}\n")
    assert command("export-audit", audited, "--out", tmp_path / "tasks.json").code == 0
    (tmp_path / "tasks.xml").write_text("mine")
    ended = command("export-audit", audited, "--out", tmp_path / "tasks.json")
    assert (ended.code, (tmp_path / "tasks.xml").read_text()) == (1, "mine")
    assert "tasks.xml exists" in ended.err
    (tmp_path / "tasks.xml").unlink()
    command("export-audit", audited, "--out", tmp_path / "tasks.json", "--image-root", "http://host/")
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    table = pd.read_parquet(audited / "audit.parquet")
    assert [task["data"]["image_id"] for task in tasks] == table["id"].tolist()
    assert tasks[0]["data"]["image"] == "http://host/" + table["path"][0].replace(" ", "%20")
    assert tasks[0]["predictions"][0]["result"][0]["value"] == {"choices": [table["suggested"][0]]}
    assert 'value="band 2"' in (tmp_path / "tasks.xml").read_text()


def test_export_of_probabilities(command, audited, tmp_path):
    ended = command("export-audit", audited, "--format", "pred-probs", "--out", tmp_path / "p.npy")
    assert (ended.code, ended.out) == (0, f"written: {tmp_path / 'p.npy'}\nwritten: {tmp_path / 'p.rows.csv'}\n")
    probabilities = np.load(tmp_path / "p.npy", allow_pickle=False)
    table = pd.read_parquet(audited / "audit.parquet").sort_values("id")
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(48))
    assert [f"band {k}" for k in probabilities.argmax(axis=1)] == table["suggested"].tolist()
    with pytest.raises(hitnet.HitNetError, match="format must be one of label-studio, pred-probs; got 'yolo'"):
        hitnet.open_audit(audited).export(tmp_path / "x", format="yolo")


def test_the_networks_know_the_data_from_any_folder(command, photos, audited, tmp_path, monkeypatch):
    assert hitnet.open_run(audited / "models/seed-0").config.data["source"] == str(photos)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    assert command("evaluate", audited / "models/seed-0", "--device", "cpu").code == 0


def test_the_sample_keeps_its_split(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    quick = ("--networks", 1, "--epochs", 1, "--limit", 60, "--device", "cpu")
    ended = command("audit", "mnist-sample", "--out", "out", *quick)
    assert "five people" not in ended.out  # none of these few was found wrong
    row = pd.read_parquet("out/audit.parquet").iloc[0]
    corrections = write_corrections(tmp_path / "c.csv", [(row["id"], "", row["given"], "drop", "")])
    assert command("apply", "out", corrections, "--out", "new").code == 0
    for split in ("train", "test"):
        kept = set(open_data("mnist-sample").load(split).ids.tolist()) - {int(row["id"])}
        assert len(open_data("new/images.npz").load(split)) == len(kept)


def test_audit_of_arrays_and_its_correction(command, tmp_path, monkeypatch):
    """Only the training images are judged; the corrected set has the others too."""
    monkeypatch.chdir(tmp_path)
    save_npz(toy_images(30), tmp_path / "bands.npz")
    assert command("audit", "bands.npz", "--split", "train", *QUICK[:-3], 1, *QUICK[-2:]).code == 0
    table = pd.read_parquet("audits/bands/audit.parquet")
    assert len(table) == 24
    chosen = int(table["id"][0])
    other = (chosen + 1) % 3
    rows = [(chosen, "", f"band {chosen % 3}", "relabel", f"band {other}")]
    corrections = write_corrections(tmp_path / "c.csv", rows)
    ended = command("apply", "audits/bands", corrections, "--out", "new")
    assert ended.code == 0
    assert "6 images were not part of the audit and are copied as they are" in ended.out
    corrected = open_data(tmp_path / "new" / "images.npz").load("all")
    assert corrected.labels.tolist() == [other if i == chosen else i % 3 for i in range(30)]
    ended = command("export-audit", "audits/bands", "--out", "tasks.json")
    assert ended.code == 1
    assert "needs an image file for each task" in ended.err


def test_ghosts_are_those_of_the_plain_images(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images = replace(toy_images(30, shape=(3, 12, 12)), flip=True)
    save_npz(images, tmp_path / "bands.npz")
    run = hitnet.train("bands.npz", out="run", **small(2))
    assert open_data("bands.npz").load("all").flip
    ended = command("ghosts", "run", "--data", "bands.npz", "--out", "ghosts", "--device", "cpu")
    assert ended.code == 0
    assert ended.out.startswith("toy: 30 of 30 images have one ghost class in the network; ")
    away = class_distances(run.model, images.pixels).clone()
    away[torch.arange(30), images.labels] = torch.inf
    ghosts = pd.read_csv("ghosts/ghosts.csv").sort_values("id")
    assert ghosts["mean_distance"].to_numpy() == pytest.approx(away.amin(dim=1).numpy(), rel=1e-5)


def test_ghosts(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_npz(toy_images(30), tmp_path / "bands.npz")
    for seed in (0, 1):
        hitnet.train("bands.npz", out=f"runs/{seed}", seed=seed, **small(3, ghosts=1))
    ended = command("ghosts", "runs/0", "runs/1", "--data", "bands.npz", "--out", "ghosts", "--device", "cpu")
    assert (ended.code, ended.err) == (0, "")
    ghosts = pd.read_csv("ghosts/ghosts.csv")
    assert sorted(ghosts["id"]) == list(range(30))
    agreed = ghosts[ghosts["classes"] == 1]
    doubtful = agreed[agreed["mean_distance"] < 0.1]
    assert ended.out.startswith(
        f"toy: {len(agreed)} of 30 images have one ghost class in all 2 networks; {len(doubtful)} of these are doubtful"
    )
    assert pd.read_csv("ghosts/agreement.csv")["images"].sum() == 30
    assert pd.read_csv("ghosts/pairs.csv").set_index("ghost class").loc["Total", "Total"] == len(agreed)
    assert pd.read_csv("ghosts/doubtful_pairs.csv").set_index("ghost class").loc["Total", "Total"] == len(doubtful)
    assert (
        pd.read_csv("ghosts/doubtful.csv")["id"].tolist()
        == doubtful.sort_values(["hits", "label", "ghost"], kind="stable")["id"].tolist()
    )
    assert ended.out.count("written: ") == len(list((tmp_path / "ghosts").iterdir()))
    before = {path.name: path.read_bytes() for path in (tmp_path / "ghosts").iterdir()}
    ended = command("ghosts", "runs/0", "--data", "bands.npz", "--out", "ghosts", "--device", "cpu")
    assert (ended.code, "ghosts exists and is not an empty folder" in ended.err) == (1, True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "ghosts").iterdir()} == before
    with Image.open("ghosts/analysis.png") as picture:
        assert picture.width > 500


def test_one_picture_under_two_labels_is_told(command, tmp_path):
    folder = write_folder(tmp_path / "pictures", toy_images(45))  # ids 0 to 14 are band 0, then band 1
    features = np.random.default_rng(0).normal(size=(45, 40)).astype(np.float32)
    features[20] = features[3]
    np.savez(tmp_path / "features.npz", features=features, id=np.arange(45))
    ended = command("audit", folder, "--features", tmp_path / "features.npz", "--out", tmp_path / "out")
    assert ended.code == 0, ended.err
    assert f"1 pair of near-duplicates has different labels: see {tmp_path / 'out' / 'duplicates.csv'}" in ended.out
    assert "No label stands out" not in ended.out
