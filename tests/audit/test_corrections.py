import os
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from audit_samples import make_images, make_table
from PIL import Image

from hitnet.audit.corrections import apply_corrections, read_corrections
from hitnet.data import load, save_npz
from hitnet.errors import HitNetError

HEADER = "id,path,given,decision,label\r\n"


def audit_of(images):
    labels = images.labels.numpy()
    distances = np.full((len(images), images.num_classes), 1.0, np.float32)
    table = make_table(labels, distances, list(images.class_names), list(images.paths or [""] * len(images)))
    return table.assign(id=images.ids.numpy()).iloc[::-1].reset_index(drop=True)


def write_csv(path, table, decisions):
    """A corrections file of {id: (decision, label)}, with the path and the given label that the audit has."""
    known = table.set_index("id")
    lines = []
    for number, (decision, label) in decisions.items():
        fields = known["path"][number], known["given"][number], decision, label
        lines.append(",".join([str(number), *('"' + f.replace('"', '""') + '"' for f in fields)]))
    path.write_bytes((HEADER + "".join(line + "\r\n" for line in lines)).encode())
    return path


def make_folder(root, files):
    for i, file in enumerate(files):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), 9 * i, np.uint8)).save(root / file)
    return root


def tree(root):
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


@pytest.fixture
def folder(tmp_path):
    files = [f"{name}/{i}.png" for name in ("cat", "dog") for i in range(5)] + ["cat/deep/0.png"]
    return make_folder(tmp_path / "photos", files)


def test_folder_is_copied_under_the_new_labels(folder, tmp_path):
    images = load(folder, "all")
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
    done = apply_corrections(table, csv, images, tmp_path / "out", source=folder)
    assert (done.kept, done.relabelled, done.dropped, done.unsure, done.untouched) == (1, 2, 1, 1, 6)
    assert tree(folder) == before
    after = tree(tmp_path / "out")
    # dog/0.png was there before: the newcomer takes a number.
    expected = {f"cat/{i}.png" for i in range(1, 5)} | {f"dog/{i}.png" for i in (0, 2, 3, 4)}
    assert set(after) == expected | {"dog/0-2.png", "dog/deep/0.png"}
    assert after["dog/0-2.png"] == before["cat/0.png"]
    assert after["dog/0.png"] == before["dog/0.png"]
    assert len(load(done.data, "all")) == 10


def test_splits_of_a_folder_are_kept(tmp_path):
    files = [f"{split}/{name}/{i}.png" for split in ("train", "test") for name in ("a", "b") for i in range(3)]
    root = make_folder(tmp_path / "set", files)
    images = load(root, "all")
    table = audit_of(images)
    number = int(images.ids[images.paths.index("test/a/1.png")])
    csv = write_csv(tmp_path / "c.csv", table, {number: ("relabel", "b")})
    apply_corrections(table, csv, images, tmp_path / "out", source=root)
    assert set(tree(tmp_path / "out")) == set(files) - {"test/a/1.png"} | {"test/b/1-2.png"}


def test_a_table_is_copied_with_its_splits(folder, tmp_path):
    paths = ["cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png"]
    rows = {"file": paths, "label": ["x", "x", "y", "y"], "split": ["train", "test", "train", "test"]}
    pd.DataFrame(rows).to_csv(folder / "list.csv", index=False)
    images = load(folder / "list.csv", "all")
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {1: ("relabel", "y"), 2: ("drop", "")})
    done = apply_corrections(table, csv, images, tmp_path / "out", source=folder / "list.csv")
    again = load(done.data, "all")
    assert again.paths == ("cat/0.png", "cat/1.png", "dog/1.png")
    assert [again.class_names[k] for k in again.labels] == ["x", "y", "y"]
    assert load(done.data, "test").paths == ("cat/1.png", "dog/1.png")


def test_files_outside_a_tables_folder_are_named_not_copied(folder, tmp_path):
    (tmp_path / "lists").mkdir()
    shutil.copy(folder / "cat" / "1.png", tmp_path / "lists" / "own.png")
    source = tmp_path / "lists" / "labels.csv"
    rows = [f"{folder / 'cat' / '0.png'},cat", "../photos/dog/4.png,dog", "own.png,cat"]
    source.write_text("\n".join(["path,label", *rows]))
    images = load(source, "all")
    table = audit_of(images)
    before = tree(tmp_path)
    csv = write_csv(tmp_path / "c.csv", table, {0: ("relabel", "dog")})
    done = apply_corrections(table, csv, images, tmp_path / "out", source=source)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["labels.csv", "own.png"]
    found = load(done.data, "all")
    assert [found.class_names[k] for k in found.labels] == ["dog", "dog", "cat"]
    assert torch.equal(found.pixels, images.pixels)
    assert found.paths[:2] == (str(folder / "cat" / "0.png"), str(folder / "dog" / "4.png"))
    assert {name: content for name, content in tree(tmp_path).items() if name in before} == before
    (folder / "dog" / "4.png").unlink()
    with pytest.raises(HitNetError, match="is not there any more"):
        apply_corrections(table, csv, images, tmp_path / "again", source=source)


def test_other_sets_become_an_npz(tmp_path):
    images = make_images()
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {3: ("relabel", "class 0"), 4: ("drop", ""), 5: ("keep", "")})
    done = apply_corrections(table, csv, images, tmp_path / "out")
    again = load(done.data, "all")
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
    done = apply_corrections(table, csv, images, tmp_path / "out", source=tmp_path / "set.npz")
    assert load(done.data, "test").ids.tolist() == [0, 5, 10, 15]


def test_images_beyond_the_audit_stay_as_they_are(tmp_path):
    images = make_images()
    table = audit_of(images.select(range(10)))
    csv = write_csv(tmp_path / "c.csv", table, {0: ("drop", "")})
    done = apply_corrections(table, csv, images, tmp_path / "out")
    assert done.untouched == 59
    assert len(load(done.data, "all")) == 59


def test_classes_that_lose_their_last_image_are_named(tmp_path):
    images = make_images(6, 3)
    images = type(images)(**{**vars(images), "class_names": (*images.class_names, "class 3")})  # it never had any
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {2: ("drop", ""), 5: ("relabel", "class 0")})
    done = apply_corrections(table, csv, images, tmp_path / "out")
    assert done.emptied == ("class 2",)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("999,,class 4,keep,", "no image 999"),
        ("4,,class 3,keep,", "labelled 'class 4' in the audit, not 'class 3'"),
        ("4,x.png,class 4,keep,", "is '' in the audit, not 'x.png'"),
        ("4,,class 4,Keep,", "unknown decision 'Keep'"),
        ("4,,class 4,relabel,", "without a label"),
        ("4,,class 4,relabel,class 9", "'class 9' is not a class"),
        ("4,,class 4,relabel,class 4", "write keep"),
        ("4,,class 4,drop,class 1", "drop takes no label"),
        ("4,,class 4,keep", "4 fields"),
        ("-4,,class 4,keep,", "'-4' is not a whole number"),
        ("4.0,,class 4,keep,", "'4.0' is not a whole number"),
        ("1,,class 1,drop,", "decided otherwise on line 2"),
        ('4,"x,class 4,keep,', "not CSV"),
    ],
)
def test_mistakes_are_refused_with_their_line(tmp_path, line, problem):
    images = make_images()
    csv = tmp_path / "c.csv"
    csv.write_text(HEADER + "1,,class 1,keep,\r\n" + line + "\r\n", newline="")
    with pytest.raises(HitNetError, match="line 3") as caught:
        apply_corrections(audit_of(images), csv, images, tmp_path / "out")
    assert problem in str(caught.value)
    assert list(tmp_path.iterdir()) == [csv]


def test_all_mistakes_are_listed_up_to_twenty(tmp_path):
    images = make_images()
    csv = tmp_path / "c.csv"
    csv.write_text(HEADER + "".join(f"{900 + i},,class 0,keep,\n" for i in range(25)))
    with pytest.raises(HitNetError, match="25 mistakes") as caught:
        apply_corrections(audit_of(images), csv, images, tmp_path / "out")
    message = str(caught.value)
    assert "line 2: " in message
    assert "line 21: " in message
    assert "line 22: " not in message
    assert "and 5 more" in message


def test_lines_are_counted_through_quoted_line_ends(tmp_path):
    csv = tmp_path / "c.csv"
    csv.write_bytes(b"\xef\xbb\xbf" + (HEADER + '1,"a\nb\r\nc",x,keep,\r\n\r\n2,"=1+1, ""q""",x,drop,""\n').encode())
    first, second = read_corrections(csv)
    assert (first.line, first.path) == (2, "a\nb\r\nc")
    assert (second.line, second.path, second.label) == (6, '=1+1, "q"', "")


def test_names_whose_line_ends_a_browser_changed_are_known_again(tmp_path):
    images = make_images(4, 2)
    images = type(images)(**{**vars(images), "class_names": ("a\r\nb", "c\rd")})
    (tmp_path / "c.csv").write_text(HEADER + '0,,"a\nb",relabel,"c\nd"\n', newline="")
    apply_corrections(audit_of(images), tmp_path / "c.csv", images, tmp_path / "out")
    assert load(tmp_path / "out" / "images.npz", "all").labels.tolist() == [1, 1, 0, 1]


def test_the_same_decision_twice_is_no_conflict(tmp_path):
    images = make_images()
    csv = tmp_path / "c.csv"
    csv.write_text(HEADER + "1,,class 1,drop,\n1,,class 1,drop,class 1\n")
    assert apply_corrections(audit_of(images), csv, images, tmp_path / "out").dropped == 1


def test_two_new_labels_for_an_image_are_a_conflict(tmp_path):
    images = make_images()
    csv = tmp_path / "c.csv"
    csv.write_text(HEADER + "1,,class 1,relabel,class 2\n1,,class 1,relabel,class 3\n")
    with pytest.raises(HitNetError, match=r"has a mistake; nothing was written\.\n  line 3: .*otherwise on line 2"):
        apply_corrections(audit_of(images), csv, images, tmp_path / "out")


def test_columns_are_found_by_their_names(tmp_path):
    csv = tmp_path / "c.csv"
    csv.write_text("note,label,decision,given,path,id\nwhy,dog,relabel,cat,a.png,7\n")
    (found,) = read_corrections(csv)
    assert (found.id, found.path, found.given, found.decision, found.label) == (7, "a.png", "cat", "relabel", "dog")
    csv.write_text("note,label,decision,given,path,id\nwhy,dog\n")
    with pytest.raises(HitNetError, match="line 2: 2 fields where the first line names 6"):
        read_corrections(csv)


@pytest.mark.parametrize("content", [b"", b"id;path;given\n", b"\xff\xfe\x00", b'id,path,given,decision,label\n"'])
def test_files_that_are_no_corrections(tmp_path, content):
    (tmp_path / "c.csv").write_bytes(content)
    with pytest.raises(HitNetError, match=r"c\.csv"):
        read_corrections(tmp_path / "c.csv")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(HitNetError, match=r"gone\.csv"):
        read_corrections(tmp_path / "gone.csv")


def test_a_set_that_has_changed_is_refused(tmp_path):
    images = make_images()
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {1: ("drop", "")})
    changed = images.with_labels((images.labels + 1) % 5)
    with pytest.raises(HitNetError, match=r"not the set that was audited: image 59, .* is now '' labelled 'class 0'"):
        apply_corrections(table, csv, changed, tmp_path / "out")
    with pytest.raises(HitNetError, match=r"not the set that was audited: image 59, .* is not there"):
        apply_corrections(table, csv, images.select(range(30)), tmp_path / "out")
    twice = type(images)(**{**vars(images), "ids": images.ids.clamp_min(1)})
    with pytest.raises(HitNetError, match="two images have the same id"):
        apply_corrections(table, csv, twice, tmp_path / "out")
    assert list(tmp_path.iterdir()) == [csv]


def test_a_set_whose_files_have_moved_is_refused(folder, tmp_path):
    images = load(folder, "all")
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {1: ("drop", "")})
    moved = type(images)(**{**vars(images), "paths": (*images.paths[:-1], "dog/9.png")})
    with pytest.raises(HitNetError, match=r"'dog/4\.png' labelled 'dog', is now 'dog/9\.png' labelled 'dog'"):
        apply_corrections(table, csv, moved, tmp_path / "out", source=folder)


def test_dropping_everything_is_refused(tmp_path):
    images = make_images(4, 2)
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {i: ("drop", "") for i in range(4)})
    with pytest.raises(HitNetError, match="every image"):
        apply_corrections(table, csv, images, tmp_path / "out")


def test_out_must_be_new_or_empty_and_outside_the_original(folder, tmp_path):
    images = load(folder, "all")
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {0: ("drop", "")})
    full = make_folder(tmp_path / "full", ["x.png"])
    before = tree(tmp_path)
    for out in (full, csv, folder, folder / "cat", folder / "new"):
        with pytest.raises(HitNetError):
            apply_corrections(table, csv, images, out, source=folder)
    assert tree(tmp_path) == before
    (tmp_path / "empty").mkdir()
    done = apply_corrections(table, csv, images, tmp_path / "empty", source=folder)
    assert len(load(done.data, "all")) == 10


@pytest.mark.parametrize("hostile", ["../cat/x.png", "/etc/passwd", "cat/../../x.png", "", "cat/\0.png"])
def test_paths_that_lead_out_are_refused(folder, tmp_path, hostile):
    images = make_images(4, 2, paths=True)
    images = type(images)(**{**vars(images), "paths": (hostile, *images.paths[1:])})
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {1: ("drop", "")})
    with pytest.raises(HitNetError, match="leads out"):
        apply_corrections(table, csv, images, tmp_path / "out", source=folder)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.csv", "photos"]


@pytest.mark.parametrize("name", ["../up", "a/b", ".."])
def test_class_names_that_lead_out_are_refused(folder, tmp_path, name):
    images = load(folder, "all")
    images = type(images)(**{**vars(images), "class_names": ("cat", "dog", name)})
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {0: ("relabel", name)})
    with pytest.raises(HitNetError, match="cannot be the name of a folder"):
        apply_corrections(table, csv, images, tmp_path / "out", source=folder)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.csv", "photos"]


def test_a_file_that_is_gone_leaves_nothing_half_done(folder, tmp_path):
    images = load(folder, "all")
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {0: ("drop", "")})
    os.remove(folder / "dog" / "4.png")
    with pytest.raises(HitNetError, match=r"4\.png"):
        apply_corrections(table, csv, images, tmp_path / "out", source=folder)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.csv", "photos"]
