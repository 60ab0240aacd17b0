import os
import shutil

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
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


def test_what_else_lies_in_a_folder_is_taken_over(folder, tmp_path):
    (folder / "notes.txt").write_text("of the whole set")
    (folder / "cat" / "0.txt").write_text("a caption")
    (folder / "dog" / "0.png").write_bytes(b"no picture")
    (folder / "dog" / "nowhere.txt").symlink_to(tmp_path / "gone")
    os.mkfifo(folder / "dog" / "pipe")
    images = load(folder, "all")
    table = audit_of(images)
    ids = {path: int(i) for path, i in zip(images.paths, images.ids, strict=True)}
    csv = write_csv(tmp_path / "c.csv", table, {ids["cat/0.png"]: ("relabel", "dog"), ids["cat/1.png"]: ("drop", "")})
    done = apply_corrections(table, csv, images, tmp_path / "out", source=folder)
    assert done.note == "other files, copied as they are: 3"
    before, after = tree(folder), tree(tmp_path / "out")
    # The one that moves in beside a file that cannot be read takes a number.
    assert after.pop("dog/0-2.png") == before["cat/0.png"]
    assert after == {name: content for name, content in before.items() if name not in ("cat/0.png", "cat/1.png")}


def test_classes_that_only_the_audit_knows_can_be_given(folder, tmp_path):
    images = load(folder, "all")
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {0: ("relabel", "emu")})
    with pytest.raises(HitNetError, match="'emu' is not a class of the set or of the audit"):
        apply_corrections(table, csv, images, tmp_path / "out", source=folder)
    done = apply_corrections(table, csv, images, tmp_path / "out", source=folder, class_names=["cat", "emu", "dog"])
    assert (done.relabelled, done.emptied) == (1, ())
    assert load(done.data, "all").class_names == ("cat", "dog", "emu")


def test_a_corrected_table_may_lie_beside_its_original(folder, tmp_path):
    source = tmp_path / "labels.csv"
    shutil.copy(folder / "cat" / "1.png", tmp_path / "own.png")
    paths = ["photos/cat/0.png", "photos/dog/0.png", "photos/../own.png"]
    pd.DataFrame({"path": paths, "label": ["a", "b", "a"]}).to_csv(source, index=False)
    images = load(source, "all")
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {0: ("relabel", "b")})
    done = apply_corrections(table, csv, images, tmp_path / "labels-corrected", source=source)
    assert pd.read_csv(done.data)["label"].tolist() == ["b", "b", "a"]
    for out in (tmp_path, folder / "cat", folder / "cat" / "new"):
        with pytest.raises(HitNetError, match=r"not an empty folder|lies inside the original data"):
            apply_corrections(table, csv, images, out, source=source)


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
    assert list(pd.read_csv(done.data)) == ["file", "label", "split"]


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
    assert (done.untouched, done.not_audited, done.gone) == (59, 50, 0)
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


def test_files_that_have_come_or_gone_since_the_audit(folder, tmp_path):
    images = load(folder, "all")
    table = audit_of(images)
    ids = {path: int(i) for path, i in zip(images.paths, images.ids, strict=True)}
    csv = write_csv(tmp_path / "c.csv", table, {ids["cat/1.png"]: ("relabel", "dog"), ids["dog/3.png"]: ("drop", "")})
    make_folder(folder, ["ant/a.png", "cat/00.png"])
    os.remove(folder / "cat" / "0.png")
    now = load(folder, "all")
    assert now.ids[now.paths.index("dog/3.png")] != ids["dog/3.png"]
    done = apply_corrections(table, csv, now, tmp_path / "out", source=folder)
    assert (done.relabelled, done.dropped, done.untouched, done.not_audited, done.gone) == (1, 1, 10, 2, 1)
    expected = set(now.paths) - {"cat/1.png", "dog/3.png"} | {"dog/1-2.png"}
    assert set(tree(tmp_path / "out")) == expected


def test_corrections_of_files_that_are_gone_are_named(folder, tmp_path):
    images = load(folder, "all")
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {0: ("drop", ""), 1: ("keep", ""), 9: ("relabel", "cat")})
    gone = [path for i, path in zip(images.ids.tolist(), images.paths, strict=True) if i in (0, 9)]
    for path in gone:
        os.remove(folder / path)
    with pytest.raises(HitNetError, match="decides on 2 images that photos no longer has") as caught:
        apply_corrections(table, csv, load(folder, "all"), tmp_path / "out", source=folder)
    assert f"\n  line 2: {gone[0]}\n  line 4: {gone[1]}\n" in str(caught.value)
    shutil.rmtree(folder / "cat")
    make_folder(folder, ["ant/a.png"])
    write_csv(csv, table, {i: ("keep", "") for i, path in enumerate(images.paths) if path.startswith("cat/")})
    with pytest.raises(HitNetError, match="decides on 6 images"):
        apply_corrections(table, csv, load(folder, "all"), tmp_path / "out", source=folder)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.csv", "photos"]


def test_many_files_that_are_gone_are_counted(tmp_path):
    root = make_folder(tmp_path / "set", [f"{name}/{i}.png" for name in "ab" for i in range(14)])
    images = load(root, "all")
    table = audit_of(images)
    gone = [i for i in range(28) if i not in (0, 26, 27)]
    csv = write_csv(tmp_path / "c.csv", table, {i: ("keep", "") for i in gone})
    for i in gone:
        os.remove(root / images.paths[i])
    with pytest.raises(HitNetError, match=r"decides on 25 images[^$]*\n  line 21: b/6\.png\n  and 5 more\n"):
        apply_corrections(table, csv, load(root, "all"), tmp_path / "out", source=root)


def test_a_table_whose_labels_have_changed_is_refused(folder, tmp_path):
    source = folder / "list.csv"
    source.write_text("path,label\ncat/0.png,x\ncat/1.png,x\ndog/0.png,y\n")
    table = audit_of(load(source, "all"))
    csv = write_csv(tmp_path / "c.csv", table, {0: ("drop", "")})
    source.write_text("path,label\ndog/4.png,x\ncat/0.png,x\ncat/1.png,y\ndog/0.png,y\n")
    with pytest.raises(HitNetError, match=r"image 1, 'cat/1\.png' labelled 'x', is now 'cat/1\.png' labelled 'y'"):
        apply_corrections(table, csv, load(source, "all"), tmp_path / "out", source=source)
    assert not (tmp_path / "out").exists()


def apply_to_table(source, out, decisions):
    images = load(source, "all")
    table = audit_of(images)
    csv = write_csv(source.parent.parent / "c.csv", table, decisions)
    return apply_corrections(table, csv, images, out, source=source)


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


@pytest.mark.parametrize("labels", [[1, 1, 2, 2], pd.Categorical(["a", "a", "b", "b"]), ["a", "a", "b", "b"]])
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
    found = pd.read_csv(done.data, keep_default_na=False) if kind == "csv" else pd.read_parquet(done.data)
    expected = votes.assign(label=["y", "x", "y", "y"]).drop(index=2).reset_index(drop=True)
    pd.testing.assert_frame_equal(found, expected)
    again = load(done.data, "all")
    assert [again.class_names[k] for k in again.labels] == ["y", "x", "y"]
    assert done.note == "votes are kept as they are; the new column label says what counts"


def test_a_label_beside_votes_is_the_one_that_changes(folder, tmp_path):
    rows = {"path": ["cat/0.png", "dog/0.png", "dog/1.png"], "label_1": [1, 2, 3], "label": [1, 2, None]}
    pd.DataFrame(rows).to_parquet(folder / "list.parquet")
    done = apply_to_table(folder / "list.parquet", tmp_path / "out", {0: ("relabel", "3")})
    assert (done.note, pd.read_parquet(done.data)["label_1"].tolist()) == ("", [1, 2, 3])
    again = load(done.data, "all")
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
