"""Several people's labels beside the ghosts: columns checked by hand."""

import csv
import os

import pandas as pd
import pytest
from PIL import Image

import hitnet
from hitnet.audit.audit_table import add_annotators
from hitnet.data import open_data
from toy import toy_images

COLUMNS = ["agreement", "other_label", "ghost_is_other", "ghost_hits"]


def write_table(folder, votes):
    """PNG files of the toy set and a table of what three people said of each."""
    images = toy_images(len(votes))
    for i in range(len(votes)):
        Image.fromarray(images.pixels[i, 0].numpy()).save(folder / f"{i}.png")
    with (folder / "votes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", *(f"label_{n + 1}" for n in range(len(votes[0])))])
        writer.writerows([f"{i}.png", *said] for i, said in enumerate(votes))
    return folder / "votes.csv"


VOTES = [
    ["top", "top", "top"],
    ["mid", "mid", "low"],
    ["top", "low", "low"],
    ["top", "top", ""],
    ["mid", "", ""],
    ["low", "top", "mid"],
]


def audited_table(order, ghosts, distances):
    """What the audit says of the images in `order`: the ghost of each, and its distance."""
    return pd.DataFrame({"id": order, "ghost": ghosts, "ghost_distance": distances})


def test_columns_by_hand(tmp_path):
    table = write_table(tmp_path, VOTES)
    ghosts = ["mid", "top", "low", "low", "low", "top"]
    audited = audited_table([2, 5, 1, 0, 4, 3], ghosts, [0.5, 0.05, 0.1, 0.02, 0.3, 0.2])
    compared = add_annotators(audited, open_data(str(table)).annotations())
    assert compared["agreement"].tolist() == pytest.approx([2 / 3, 1 / 3, 2 / 3, 1, 1, 1])
    # Image 5 has three labels: the first counts, and of the others the first in the order of classes is named.
    assert compared["other_label"].tolist() == ["top", "mid", "low", "", "", ""]
    assert compared["ghost_is_other"].tolist() == [False, False, True, False, False, False]
    assert compared["ghost_hits"].tolist() == [False, True, True, True, False, False]
    assert list(audited.columns) == ["id", "ghost", "ghost_distance"]


def test_nothing_to_compare(tmp_path):
    table = write_table(tmp_path, [["top"], ["mid"], ["low"]])
    audited = audited_table([0, 1, 2], ["mid"] * 3, [0.5] * 3)
    assert add_annotators(audited, open_data(table).annotations()) is audited
    assert add_annotators(audited, open_data("mnist-sample").annotations()) is audited
    assert add_annotators(audited, open_data(tmp_path).annotations()) is audited
    assert add_annotators(audited, open_data(toy_images(3)).annotations()) is audited


def test_the_audit_of_such_a_table(tmp_path, monkeypatch):
    """Trained on the majority's labels; the columns are written, and ids are those of the table's rows."""
    names = ["top", "mid", "low"]
    votes = [[names[i % 3]] * 3 for i in range(60)]
    votes[7] = ["mid", "top", "mid"]
    votes[30] = ["mid", "mid", "top"]  # two of three see it wrongly
    table = write_table(tmp_path, votes)
    monkeypatch.setenv("HOME", str(tmp_path))
    recipe = hitnet.choose_recipe("fast", epochs=12, batch_size=16, learning_rate=5e-3)
    judges = hitnet.Judges("scratch", networks=1, recipe=recipe)
    result = hitnet.audit_labels(os.path.join("~", table.name), judges=judges, device="cpu", out=tmp_path / "out")
    assert list(result.table.columns[-5:]) == [*COLUMNS, "checksum"]
    worst = result.table.iloc[0]
    assert (worst["id"], worst["path"], worst["given"], worst["suggested"]) == (30, "30.png", "mid", "top")
    assert (worst["other_label"], worst["ghost_is_other"], worst["ghost_hits"]) == (
        "top",
        True,
        worst["ghost_distance"] <= 0.1,
    )
    rows = result.table.set_index("id")
    assert rows.loc[7, "agreement"] == pytest.approx(2 / 3)
    assert rows.loc[7, "other_label"] == "top"
    assert rows.loc[8, "agreement"] == 1
    assert rows.loc[8, "other_label"] == ""
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out" / "audit.parquet"), result.table)
