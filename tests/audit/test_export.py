import json
import xml.etree.ElementTree as ElementTree
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest
from audit_samples import make_audit

from hitnet.audit.export import label_studio, local_files, write_pred_probs
from hitnet.errors import HitNetError
from hitnet.probabilities import class_probabilities


def test_written_probabilities_go_by_id_with_their_labels_beside_them(tmp_path):
    table, distances, _, names = make_audit(200, 5, suspects=20)
    written = write_pred_probs(table, class_probabilities(distances).__getitem__, names, tmp_path / "probs.npy")
    assert written == [tmp_path / "probs.npy", tmp_path / "probs.rows.csv"]
    probabilities, rows = np.load(written[0], allow_pickle=False), pd.read_csv(written[1])
    assert rows["row"].tolist() == list(range(200))
    assert rows["id"].tolist() == sorted(table["id"])
    by_id = table.set_index("id").loc[rows["id"]]
    assert rows["given"].tolist() == [names[k] for k in rows["label"]] == by_id["given"].tolist()
    assert rows["path"].tolist() == by_id["path"].tolist()
    place = rows.index[rows["id"] == table["id"][11]][0]
    assert (probabilities[place] == class_probabilities(distances)[11]).all()
    cleanlab = pytest.importorskip("cleanlab.filter", reason="cleanlab is missing: pip install cleanlab")
    issues = np.flatnonzero(cleanlab.find_label_issues(rows["label"], probabilities, n_jobs=1))
    assert len(issues) > 5
    assert set(rows["id"][issues]) <= set(range(20))


def test_rows_hold_no_formulas(tmp_path):
    names = ["=1+1", "+cmd", "plain"]
    paths = [f"{name}/{i}.png" for i, name in enumerate(names)]
    table, distances, _, _ = make_audit(3, 3, suspects=0, names=names, paths=paths)
    _, written = write_pred_probs(table, class_probabilities(distances).__getitem__, names, tmp_path / "probs.npy")
    rows = pd.read_csv(written)
    assert rows["given"].tolist() == ["'=1+1", "'+cmd", "plain"]
    assert rows["path"].tolist() == ["'=1+1/0.png", "'+cmd/1.png", "plain/2.png"]
    assert rows["label"].tolist() == [0, 1, 2]


def test_a_file_of_rows_that_is_something_else_is_kept(tmp_path):
    table, distances, _, names = make_audit(6, 2, suspects=2)
    for _ in range(2):  # the same export again is no mistake
        write_pred_probs(table, class_probabilities(distances).__getitem__, names, tmp_path / "probs.npy")
    (tmp_path / "probs.rows.csv").write_text("mine")
    with pytest.raises(HitNetError, match=r"probs\.rows\.csv exists and is not of this audit"):
        write_pred_probs(table, class_probabilities(distances).__getitem__, names, tmp_path / "probs.npy")
    assert (tmp_path / "probs.rows.csv").read_text() == "mine"


def test_probabilities_go_into_a_file_of_arrays_alone(tmp_path):
    table, distances, _, names = make_audit(6, 2, suspects=2)
    with pytest.raises(HitNetError, match=r"probs\.csv: .* ends in \.npy"):
        write_pred_probs(table, class_probabilities(distances).__getitem__, names, tmp_path / "probs.csv")
    assert not list(tmp_path.iterdir())


def test_label_studio_tasks_predict_the_suggestion(tmp_path):
    names = ["cat & dog", 'a "b"', "<c>"]
    table, distances, _, names = make_audit(12, 3, suspects=5, names=names)
    table.loc[0, "path"] = "cat & dog/ä #1?.png"
    label_studio(table, class_probabilities(distances).__getitem__, names, tmp_path / "tasks.json")
    tasks = json.loads((tmp_path / "tasks.json").read_text(encoding="utf-8"))
    assert [task["data"]["image_id"] for task in tasks] == table["id"].tolist()
    address = tasks[0]["data"]["image"]
    assert address.startswith("/data/local-files/?d=")
    assert not set("&#? ") & set(address.removeprefix("/data/local-files/?d="))
    assert unquote(address.removeprefix("/data/local-files/?d=")) == "cat & dog/ä #1?.png"
    prediction = tasks[0]["predictions"][0]
    result = prediction["result"][0]
    assert result["type"] == "choices"
    assert result["value"] == {"choices": [table["suggested"][0]]}
    assert prediction["score"] == pytest.approx(class_probabilities(distances)[0].max())
    assert len({task["predictions"][0]["result"][0]["id"] for task in tasks}) == 12


def test_label_studio_set_up_fits_the_tasks(tmp_path):
    names = ["cat & dog", 'a "b"', "<c>"]
    table, distances, _, _ = make_audit(12, 3, suspects=5, names=names)
    label_studio(table, class_probabilities(distances).__getitem__, names, tmp_path / "tasks.json")
    view = ElementTree.parse(tmp_path / "tasks.xml").getroot()
    choices = view.find("Choices")
    assert [choice.get("value") for choice in choices] == names
    result = json.loads((tmp_path / "tasks.json").read_text())[0]["predictions"][0]["result"][0]
    assert (result["from_name"], result["to_name"]) == (choices.get("name"), choices.get("toName"))
    assert view.find("Image").get("name") == result["to_name"]


def test_label_studio_root_of_ones_own(tmp_path):
    table, distances, _, names = make_audit(6, 2, suspects=2)
    label_studio(
        table,
        class_probabilities(distances).__getitem__,
        names,
        tmp_path / "t.json",
        image_root="https://images.example/set",
    )
    first = json.loads((tmp_path / "t.json").read_text())[0]["data"]["image"]
    assert first.startswith("https://images.example/set/class%20")


def test_label_studio_mistakes(tmp_path):
    table, distances, _, names = make_audit(6, 2, suspects=2)
    with pytest.raises(HitNetError, match="image file"):
        label_studio(table.assign(path=""), distances, names, tmp_path / "t.json")
    with pytest.raises(HitNetError, match=r"\.json"):
        label_studio(table, class_probabilities(distances).__getitem__, names, tmp_path / "t.xml")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("source", "expected"),
    [("/data/my photos", "?d=my%20photos/"), ("/data/set/labels.csv", "?d=set/"), ("/data/v1.2", "?d=v1.2/")],
)
def test_label_studio_is_told_the_folder_of_the_set(source, expected):
    """It serves only folders below its document root."""
    assert local_files(source) == f"/data/local-files/{expected}"


def test_an_absolute_path_needs_no_folder(tmp_path):
    table, distances, _, names = make_audit(6, 2, suspects=2)
    table.loc[0, "path"] = "/elsewhere/a b.png"
    label_studio(
        table,
        class_probabilities(distances).__getitem__,
        names,
        tmp_path / "t.json",
        image_root=local_files("/data/photos"),
    )
    addresses = [task["data"]["image"] for task in json.loads((tmp_path / "t.json").read_text())]
    assert addresses[0] == "/data/local-files/?d=elsewhere/a%20b.png"
    assert all(address.startswith("/data/local-files/?d=photos/class") for address in addresses[1:])
