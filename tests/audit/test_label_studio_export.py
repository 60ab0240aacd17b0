"""What people did in Label Studio comes back: its JSON export as corrections."""

import json

import pytest
from audit_samples import make_audit, make_images

from hitnet.audit.export import label_studio
from hitnet.data import open_data
from hitnet.decisions.correction_files import read_corrections
from hitnet.decisions.corrections import audited_images, check_corrections, correct
from hitnet.errors import HitNetError
from hitnet.probabilities import class_probabilities


@pytest.fixture
def tasks(tmp_path):
    """The tasks of an audit as `hitnet export-audit` writes them."""
    table, distances, _, names = make_audit()
    label_studio(table, class_probabilities(distances).__getitem__, names, tmp_path / "tasks.json")
    return table, json.loads((tmp_path / "tasks.json").read_text()), names


def annotation(label, **more):
    """An annotation as Label Studio 1.23 exports it."""
    result = [] if label is None else [choice(label)]
    return {"id": 7, "completed_by": 1, "result": result, "was_cancelled": False, "ground_truth": False, **more}


def choice(label):
    return {"id": "x", "type": "choices", "from_name": "label", "to_name": "image", "value": {"choices": [label]}}


def exported(tmp_path, tasks):
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tasks))
    return path


def checked(table, path, names):
    """{id: (decision, label)} of a file."""
    corrections = read_corrections(path).corrections
    decided = check_corrections(audited_images(table), corrections, names, name="export")
    return {number: (change.decision, change.label) for number, (_, change) in decided.items()}


def test_answers_become_corrections(tasks, tmp_path):
    table, written, names = tasks
    given = table["given"].tolist()
    other = next(name for name in names if name != given[1])
    answers = [
        [annotation(given[0])],
        [annotation(other)],
        [annotation(None, was_cancelled=True)],
        [],
        [annotation(given[4]), annotation(given[4])],
    ]
    export = [
        {"id": 90 + i, "annotations": answers[i] if i < len(answers) else [], **task} for i, task in enumerate(written)
    ]
    path = exported(tmp_path, export)
    decided = checked(table, path, names)
    ids = table["id"].tolist()
    assert decided == {
        ids[0]: ("keep", ""),
        ids[1]: ("relabel", other),
        ids[2]: ("unsure", ""),
        ids[4]: ("keep", ""),
    }
    applied = correct(
        open_data(make_images()), table.assign(path=""), _without_paths(tmp_path, export), tmp_path / "new"
    )
    assert (applied.kept, applied.relabelled, applied.unsure) == (2, 1, 1)


def _without_paths(tmp_path, export):
    return exported(tmp_path, [{**task, "data": {**task["data"], "path": ""}} for task in export])


def test_the_short_format(tasks, tmp_path):
    table, written, names = tasks
    other = next(name for name in names if name != table["given"][0])
    short = [
        {**task["data"], "id": i, "annotator": 1} | ({"label": other} if i == 0 else {})
        for i, task in enumerate(written)
    ]
    decided = checked(table, exported(tmp_path, short), names)
    assert decided == {table["id"][0]: ("relabel", other)}


def test_annotators_who_disagree_are_named(tasks, tmp_path):
    table, written, names = tasks
    task = {**written[3], "annotations": [annotation(names[0]), annotation(names[1])]}
    with pytest.raises(HitNetError, match=r"task 1: image .* was decided otherwise on task 1"):
        checked(table, exported(tmp_path, [task]), names)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("{}", "is no export of Label Studio"),
        ('[{"data": {"image": "x"}, "annotations": []}]', "task 1: it is no task that `hitnet export-audit` wrote"),
        ("[3]", "task 1: it is no task"),
    ],
)
def test_what_is_no_export_is_refused(tmp_path, content, said):
    path = tmp_path / "export.json"
    path.write_text(content)
    with pytest.raises(HitNetError, match=said):
        read_corrections(path)
