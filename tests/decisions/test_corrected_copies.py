"""Corrected copies of folders, tables and arrays: what changes, what stays, and what is refused."""

import os
import shutil

import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from audit_samples import audit_of, make_folder, make_images, tree, write_csv

from hitnet.data import open_data, save_npz
from hitnet.decisions.corrections import correct
from hitnet.errors import HitNetError


def read_earlier(source, images):
    """Opened data whose images were read before its files changed."""
    data = open_data(source)
    data.images_to_correct = lambda split: images
    return data


def test_folder_is_copied_under_the_new_labels(folder, tmp_path):
    images = open_data(folder).load("all")
    table = audit_of(images)
    ids = {path: int(i) for path, i in zip(images.paths, images.ids, strict=True)}
    decisions = {
        ids["cat/0.png"]: ("relabel", "dog"),
        ids["cat/deep/0.png"]: ("relabel", "dog"),
        ids["dog/1.png"]: ("drop", ""),
        ids["dog/2.png"]: ("keep", ""),
        ids["dog/3.png"]: ("unsure", ""),
    }
    before = tree(folder)
    csv = write_csv(tmp_path / "c.csv", table, decisions)
    done = correct(open_data(folder), table, csv, tmp_path / "out")
    assert (done.kept, done.relabelled, done.dropped, done.unsure, done.untouched) == (1, 2, 1, 1, 6)
    assert tree(folder) == before
    after = tree(tmp_path / "out")
    # dog/0.png was there before: the newcomer takes a number.
    expected = {f"cat/{i}.png" for i in range(1, 5)} | {f"dog/{i}.png" for i in (0, 2, 3, 4)}
    assert set(after) == expected | {"dog/0-2.png", "dog/deep/0.png"}
    assert after["dog/0-2.png"] == before["cat/0.png"]
    assert after["dog/0.png"] == before["dog/0.png"]
    assert len(open_data(done.data).load("all")) == 10


def test_splits_of_a_folder_are_kept(tmp_path):
    files = [f"{split}/{name}/{i}.png" for split in ("train", "test") for name in ("a", "b") for i in range(3)]
    root = make_folder(tmp_path / "set", files)
    images = open_data(root).load("all")
    table = audit_of(images)
    number = int(images.ids[images.paths.index("test/a/1.png")])
    csv = write_csv(tmp_path / "c.csv", table, {number: ("relabel", "b")})
    correct(open_data(root), table, csv, tmp_path / "out")
    assert set(tree(tmp_path / "out")) == set(files) - {"test/a/1.png"} | {"test/b/1-2.png"}


def test_what_else_lies_in_a_folder_is_taken_over(folder, tmp_path):
    (folder / "notes.txt").write_text("of the whole set")
    (folder / "cat" / "0.txt").write_text("a caption")
    (folder / "dog" / "0.png").write_bytes(b"no picture")
    (folder / "dog" / "nowhere.txt").symlink_to(tmp_path / "gone")
    os.mkfifo(folder / "dog" / "pipe")
    images = open_data(folder).load("all")
    table = audit_of(images)
    ids = {path: int(i) for path, i in zip(images.paths, images.ids, strict=True)}
    csv = write_csv(tmp_path / "c.csv", table, {ids["cat/0.png"]: ("relabel", "dog"), ids["cat/1.png"]: ("drop", "")})
    done = correct(open_data(folder), table, csv, tmp_path / "out")
    assert done.note.startswith("other files, copied as they are: 3; 1 link leads out of the set or to nothing")
    assert "left out: dog/nowhere.txt." in done.note
    before, after = tree(folder), tree(tmp_path / "out")
    # The one that moves in beside a file that cannot be read takes a number.
    assert after.pop("dog/0-2.png") == before["cat/0.png"]
    assert after == {name: content for name, content in before.items() if name not in ("cat/0.png", "cat/1.png")}


def test_classes_that_only_the_audit_knows_can_be_given(folder, tmp_path):
    images = open_data(folder).load("all")
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {0: ("relabel", "emu")})
    with pytest.raises(HitNetError, match="'emu' is not a class"):
        correct(open_data(folder), table, csv, tmp_path / "out")
    done = correct(open_data(folder), table, csv, tmp_path / "out", class_names=["cat", "emu", "dog"])
    assert (done.relabelled, done.emptied) == (1, ())
    assert open_data(done.data).load("all").class_names == ("cat", "dog", "emu")


def test_a_corrected_table_may_lie_beside_its_original(folder, tmp_path):
    source = tmp_path / "labels.csv"
    shutil.copy(folder / "cat" / "1.png", tmp_path / "own.png")
    paths = ["photos/cat/0.png", "photos/dog/0.png", "photos/../own.png"]
    pd.DataFrame({"path": paths, "label": ["a", "b", "a"]}).to_csv(source, index=False)
    images = open_data(source).load("all")
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {0: ("relabel", "b")})
    done = correct(open_data(source), table, csv, tmp_path / "labels-corrected")
    assert pd.read_csv(done.data)["label"].tolist() == ["b", "b", "a"]
    for out in (tmp_path, folder / "cat", folder / "cat" / "new"):
        with pytest.raises(HitNetError, match=r"not an empty folder|lies inside the original data"):
            correct(open_data(source), table, csv, out)


def test_a_table_is_copied_with_its_splits(folder, tmp_path):
    paths = ["cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png"]
    rows = {"file": paths, "label": ["x", "x", "y", "y"], "split": ["train", "test", "train", "test"]}
    pd.DataFrame(rows).to_csv(folder / "list.csv", index=False)
    images = open_data(folder / "list.csv").load("all")
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {1: ("relabel", "y"), 2: ("drop", "")})
    done = correct(open_data(folder / "list.csv"), table, csv, tmp_path / "out")
    again = open_data(done.data).load("all")
    assert again.paths == ("cat/0.png", "cat/1.png", "dog/1.png")
    assert [again.class_names[k] for k in again.labels] == ["x", "y", "y"]
    assert open_data(done.data).load("test").paths == ("cat/1.png", "dog/1.png")
    assert list(pd.read_csv(done.data)) == ["file", "label", "split"]


def test_files_outside_a_tables_folder_are_named_not_copied(folder, tmp_path):
    (tmp_path / "lists").mkdir()
    shutil.copy(folder / "cat" / "1.png", tmp_path / "lists" / "own.png")
    source = tmp_path / "lists" / "labels.csv"
    rows = [f"{folder / 'cat' / '0.png'},cat", "../photos/dog/4.png,dog", "own.png,cat"]
    source.write_text("\n".join(["path,label", *rows]))
    images = open_data(source).load("all")
    table = audit_of(images)
    before = tree(tmp_path)
    csv = write_csv(tmp_path / "c.csv", table, {0: ("relabel", "dog")})
    done = correct(open_data(source), table, csv, tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["labels.csv", "own.png"]
    corrected = open_data(done.data).load("all")
    assert [corrected.class_names[k] for k in corrected.labels] == ["dog", "dog", "cat"]
    assert torch.equal(corrected.pixels, images.pixels)
    assert corrected.paths[:2] == (str(folder / "cat" / "0.png"), str(folder / "dog" / "4.png"))
    assert {name: content for name, content in tree(tmp_path).items() if name in before} == before
    (folder / "dog" / "4.png").unlink()
    with pytest.raises(HitNetError, match="is not there any more"):
        correct(read_earlier(source, images), table, csv, tmp_path / "again")


def test_other_sets_become_an_npz(tmp_path):
    images = make_images()
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {3: ("relabel", "class 0"), 4: ("drop", ""), 5: ("keep", "")})
    done = correct(open_data(images), table, csv, tmp_path / "out")
    again = open_data(done.data).load("all")
    assert again.class_names == images.class_names
    assert again.ids.tolist() == [i for i in range(60) if i != 4]
    assert again.labels.tolist() == [0 if i == 3 else i % 5 for i in range(60) if i != 4]
    assert torch.equal(again.pixels[3], images.pixels[3])
    assert images.labels[3] == 3


def test_an_npz_keeps_its_splits(tmp_path):
    images = make_images(20, 2)
    split = ["test" if i % 5 == 0 else "train" for i in range(20)]
    save_npz(images, tmp_path / "set.npz", split=split)
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {1: ("drop", "")})
    done = correct(open_data(tmp_path / "set.npz"), table, csv, tmp_path / "out")
    assert open_data(done.data).load("test").ids.tolist() == [0, 5, 10, 15]


def apply_to_table(source, out, decisions):
    images = open_data(source).load("all")
    table = audit_of(images)
    csv = write_csv(source.parent.parent / "c.csv", table, decisions)
    return correct(open_data(source), table, csv, out)


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize(("kind", "sign"), [("csv", ","), ("tsv", "\t")])
def test_a_table_keeps_all_but_its_corrected_labels(folder, tmp_path, kind, sign, mark, ends):
    rows = [
        ["", "file", "note", "note", "Class ", "score"],
        ["0", "cat/0.png", f'says{sign} "a"', " 1", "x", "007"],
        ["1", "gone.png", "", "NA", "x", "1.50"],
        ["2", "dog/0.png", "", "", "y", ""],
        ["3", "cat\\1.png", f"two{ends}lines", "", " x", "1e3"],
        ["4", "dog/1.png", "no label", "", "", ""],
        ["5", "", "no path", "", "x", ""],
        ["6", "dog/2.png", "", "", "y", ""],
    ]

    def text(rows):
        quoted = ['"' + c.replace('"', '""') + '"' if set(c) & set(f'{sign}"\n') else c for row in rows for c in row]
        lines = [sign.join(quoted[i : i + 6]) for i in range(0, len(quoted), 6)]
        return (mark + "".join(line + ends for line in lines)).encode()

    source = folder / f"list.{kind}"
    source.write_bytes(text(rows))
    done = apply_to_table(source, tmp_path / "out", {0: ("relabel", "y"), 2: ("drop", "")})
    assert (done.data, done.note) == (tmp_path / "out" / f"list.{kind}", "")
    rows[1][4] = "y"
    assert done.data.read_bytes() == text(rows[:3] + rows[4:])
    assert set(tree(tmp_path / "out")) == {"cat/0.png", "cat/1.png", "dog/1.png", "dog/2.png", f"list.{kind}"}


def test_a_carriage_return_in_a_cell_ends_no_row(folder, tmp_path):
    source = folder / "list.csv"
    source.write_bytes(b'path,label,note\ncat/0.png,x,"a\rb"\ndog/0.png,y,\ndog/1.png,y,\n')
    done = apply_to_table(source, tmp_path / "out", {2: ("relabel", "x")})
    assert pd.read_csv(done.data, keep_default_na=False).values.tolist() == [
        ["cat/0.png", "x", "a\rb"],
        ["dog/0.png", "y", ""],
        ["dog/1.png", "x", ""],
    ]


def test_corrected_numbers_are_written_as_the_table_writes_them(folder, tmp_path):
    source = folder / "list.csv"
    source.write_text("path,label\ncat/0.png,1.0\ncat/1.png,\ndog/0.png,2.0\n")
    done = apply_to_table(source, tmp_path / "out", {0: ("relabel", "2")})
    assert done.data.read_text() == "path,label\ncat/0.png,2.0\ncat/1.png,\ndog/0.png,2.0\n"


@pytest.mark.parametrize(
    "labels", [[1, 1, 2, 2], [1.0, None, 2.0, 2.0], pd.Categorical(["a", "a", "b", "b"]), ["a", "a", "b", "b"]]
)
def test_a_parquet_table_keeps_its_types(folder, tmp_path, labels):
    rows = {
        "label": labels,
        "size": pd.array([1, None, 3, 4], dtype="Int64"),
        "path": ["cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png"],
        "when": pd.to_datetime(["2020-01-01"] * 4),
        "boxes": [[1, 2], [], [3], [4]],
    }
    source = folder / "list.parquet"
    pd.DataFrame(rows).to_parquet(source)
    done = apply_to_table(source, tmp_path / "out", {0: ("relabel", str(labels[2])), 2: ("drop", "")})
    assert done.data == tmp_path / "out" / "list.parquet"
    before = pd.read_parquet(source)
    expected = before.assign(label=before["label"].take([2, 1, 2, 3]).array).drop(index=2).reset_index(drop=True)
    pd.testing.assert_frame_equal(pd.read_parquet(done.data), expected)
    assert pq.read_schema(done.data).equals(pq.read_schema(source))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_votes_are_kept_beside_the_outcome(folder, tmp_path, kind):
    votes = pd.DataFrame(
        {
            "label_1": ["x", "x", "y", "y"],
            "path": ["cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png"],
            "label_2": ["x", "y", "y", ""],
            "who": ["a", "b", "c", "d"],
        }
    )
    source = folder / f"list.{kind}"
    votes.to_csv(source, index=False) if kind == "csv" else votes.to_parquet(source)
    done = apply_to_table(source, tmp_path / "out", {0: ("relabel", "y"), 2: ("drop", "")})
    written = pd.read_csv(done.data, keep_default_na=False) if kind == "csv" else pd.read_parquet(done.data)
    expected = votes.assign(label=["y", "x", "y", "y"]).drop(index=2).reset_index(drop=True)
    pd.testing.assert_frame_equal(written, expected)
    again = open_data(done.data).load("all")
    assert [again.class_names[k] for k in again.labels] == ["y", "x", "y"]
    assert done.note == "votes are kept as they are; the new column label says what counts"


def test_a_label_beside_votes_is_the_one_that_changes(folder, tmp_path):
    rows = {"path": ["cat/0.png", "dog/0.png", "dog/1.png"], "label_1": [1, 2, 3], "label": [1, 2, None]}
    pd.DataFrame(rows).to_parquet(folder / "list.parquet")
    done = apply_to_table(folder / "list.parquet", tmp_path / "out", {0: ("relabel", "3")})
    assert (done.note, pd.read_parquet(done.data)["label_1"].tolist()) == ("", [1, 2, 3])
    again = open_data(done.data).load("all")
    assert [again.class_names[k] for k in again.labels] == ["3", "2", "3"]


def test_an_image_with_a_row_for_each_person_is_relabelled_in_all(folder, tmp_path):
    source = folder / "list.csv"
    text = "path,annotator,label\ncat/0.png,ann,x\ncat/0.png,bob,y\ndog/0.png,ann,y\ncat/0.png,cy,x\n"
    source.write_text(text)
    done = apply_to_table(source, tmp_path / "out", {0: ("relabel", "y")})
    assert done.data.read_text() == text.replace("x\n", "y\n")
    assert done.note == "an image that has several rows is relabelled in all of them"
    done = apply_to_table(source, tmp_path / "less", {0: ("drop", "")})
    assert done.data.read_text() == "path,annotator,label\ndog/0.png,ann,y\n"
    assert done.note == ""


def test_out_must_be_new_or_empty_and_outside_the_original(folder, tmp_path):
    images = open_data(folder).load("all")
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {0: ("drop", "")})
    full = make_folder(tmp_path / "full", ["x.png"])
    before = tree(tmp_path)
    for out in (full, csv, folder, folder / "cat", folder / "new"):
        data = open_data(folder)
        with pytest.raises(HitNetError):
            correct(data, table, csv, out)
        assert "listing" not in vars(data)  # it is said before any image is read
    assert tree(tmp_path) == before
    (tmp_path / "empty").mkdir()
    done = correct(open_data(folder), table, csv, tmp_path / "empty")
    assert len(open_data(done.data).load("all")) == 10


@pytest.mark.parametrize("hostile", ["../cat/x.png", "/etc/passwd", "cat/../../x.png", "", "cat/\0.png"])
def test_paths_that_lead_out_are_refused(folder, tmp_path, hostile):
    images = make_images(4, 2, paths=True)
    images = type(images)(**{**vars(images), "paths": (hostile, *images.paths[1:])})
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {1: ("drop", "")})
    with pytest.raises(HitNetError, match="leads out"):
        correct(read_earlier(folder, images), table, csv, tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.csv", "photos"]


@pytest.mark.parametrize("name", ["../up", "a/b", ".."])
def test_class_names_that_lead_out_are_refused(folder, tmp_path, name):
    table = audit_of(open_data(folder).load("all"))
    csv = write_csv(tmp_path / "c.csv", table, {0: ("relabel", name)})
    with pytest.raises(HitNetError, match="cannot be the name of a folder"):
        correct(open_data(folder), table, csv, tmp_path / "out", class_names=("cat", "dog", name))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.csv", "photos"]


def test_a_file_that_is_gone_leaves_nothing_half_done(folder, tmp_path):
    images = open_data(folder).load("all")
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {0: ("drop", "")})
    os.remove(folder / "dog" / "4.png")
    with pytest.raises(HitNetError, match=r"4\.png"):
        correct(read_earlier(folder, images), table, csv, tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.csv", "photos"]
