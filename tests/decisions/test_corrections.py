"""Corrections files: their form, mistakes in them, and whether they fit the data of the audit."""

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from audit_samples import HEADER, audit_of, make_folder, make_images, tree, write_csv

from hitnet.audit.audit_table import add_checksums
from hitnet.data import open_data
from hitnet.decisions.correction_files import read_corrections
from hitnet.decisions.corrections import correct
from hitnet.decisions.steps import Change, Step
from hitnet.errors import HitNetError


def test_images_beyond_the_audit_stay_as_they_are(tmp_path):
    images = make_images()
    table = audit_of(images.select(range(10)))
    csv = write_csv(tmp_path / "c.csv", table, {0: ("drop", "")})
    done = correct(open_data(images), table, csv, tmp_path / "out")
    assert (done.untouched, done.not_audited, done.gone) == (59, 50, 0)
    assert len(open_data(done.data).load("all")) == 59


def test_classes_that_lose_their_last_image_are_named(tmp_path):
    images = make_images(6, 3)
    images = type(images)(**{**vars(images), "class_names": (*images.class_names, "class 3")})  # it never had any
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {2: ("drop", ""), 5: ("relabel", "class 0")})
    done = correct(open_data(images), table, csv, tmp_path / "out")
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
        ("4,,class 4,relabel,class 4", "use keep"),
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
        correct(open_data(images), audit_of(images), csv, tmp_path / "out")
    assert problem in str(caught.value)
    assert list(tmp_path.iterdir()) == [csv]


def test_all_mistakes_are_listed_up_to_twenty(tmp_path):
    images = make_images()
    csv = tmp_path / "c.csv"
    csv.write_text(HEADER + "".join(f"{900 + i},,class 0,keep,\n" for i in range(25)))
    with pytest.raises(HitNetError, match="25 mistakes") as caught:
        correct(open_data(images), audit_of(images), csv, tmp_path / "out")
    message = str(caught.value)
    assert "line 2: " in message
    assert "line 21: " in message
    assert "line 22: " not in message
    assert "and 5 more" in message


def test_lines_are_counted_through_quoted_line_ends(tmp_path):
    csv = tmp_path / "c.csv"
    csv.write_bytes(b"\xef\xbb\xbf" + (HEADER + '1,"a\nb\r\nc",x,keep,\r\n\r\n2,"=1+1, ""q""",x,drop,""\n').encode())
    (first, one), (second, other) = read_corrections(csv).corrections
    assert (first, one.path) == ("line 2", "a\nb\r\nc")
    assert (second, other.path, other.label) == ("line 6", '=1+1, "q"', "")


def test_names_whose_line_ends_a_browser_changed_are_known_again(tmp_path):
    images = make_images(4, 2)
    images = type(images)(**{**vars(images), "class_names": ("a\r\nb", "c\rd")})
    (tmp_path / "c.csv").write_text(HEADER + '0,,"a\nb",relabel,"c\nd"\n', newline="")
    correct(open_data(images), audit_of(images), tmp_path / "c.csv", tmp_path / "out")
    assert open_data(tmp_path / "out" / "images.npz").load("all").labels.tolist() == [1, 1, 0, 1]


def test_labels_that_pandas_wrote_with_a_decimal_point_are_known_again(tmp_path):
    images = replace(make_images(6, 3), class_names=("0", "1", "2"))
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {1: ("relabel", "2.0"), 2: ("keep", "2.0")})
    done = correct(open_data(images), table, csv, tmp_path / "out")
    assert (done.relabelled, done.kept) == (1, 1)
    assert open_data(done.data).load("all").labels.tolist() == [0, 2, 2, 0, 1, 2]


def test_the_same_decision_twice_is_no_conflict(tmp_path):
    images = make_images()
    csv = tmp_path / "c.csv"
    csv.write_text(HEADER + "1,,class 1,drop,\n1,,class 1,drop,class 1\n")
    assert correct(open_data(images), audit_of(images), csv, tmp_path / "out").dropped == 1


def test_two_new_labels_for_an_image_are_a_conflict(tmp_path):
    images = make_images()
    csv = tmp_path / "c.csv"
    csv.write_text(HEADER + "1,,class 1,relabel,class 2\n1,,class 1,relabel,class 3\n")
    with pytest.raises(HitNetError, match=r"line 3: .*on line 2"):
        correct(open_data(images), audit_of(images), csv, tmp_path / "out")


def test_columns_are_found_by_their_names(tmp_path):
    csv = tmp_path / "c.csv"
    csv.write_text("note,label,decision,given,path,id\nwhy,dog,relabel,cat,a.png,7\n")
    ((_, change),) = read_corrections(csv).corrections
    assert change == (7, "a.png", "cat", "relabel", "dog")
    csv.write_text("note,label,decision,given,path,id\nwhy,dog\n")
    with pytest.raises(HitNetError, match=r"line 2: 2 fields .* 6"):
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
    with pytest.raises(HitNetError, match=r"image 59, .* 'class 0'"):
        correct(open_data(changed), table, csv, tmp_path / "out")
    with pytest.raises(HitNetError, match=r"image 59, .* not there"):
        correct(open_data(images.select(range(30))), table, csv, tmp_path / "out")
    twice = type(images)(**{**vars(images), "ids": images.ids.clamp_min(1)})
    with pytest.raises(HitNetError, match="two images have the same id"):
        correct(open_data(twice), table, csv, tmp_path / "out")
    assert list(tmp_path.iterdir()) == [csv]


def test_files_that_have_come_or_gone_since_the_audit(folder, tmp_path):
    images = open_data(folder).load("all")
    table = audit_of(images)
    ids = {path: int(i) for path, i in zip(images.paths, images.ids, strict=True)}
    csv = write_csv(tmp_path / "c.csv", table, {ids["cat/1.png"]: ("relabel", "dog"), ids["dog/3.png"]: ("drop", "")})
    make_folder(folder, ["ant/a.png", "cat/00.png"])
    os.remove(folder / "cat" / "0.png")
    now = open_data(folder).load("all")
    assert now.ids[now.paths.index("dog/3.png")] != ids["dog/3.png"]
    done = correct(open_data(folder), table, csv, tmp_path / "out")
    assert (done.relabelled, done.dropped, done.untouched, done.not_audited, done.gone) == (1, 1, 10, 2, 1)
    expected = set(now.paths) - {"cat/1.png", "dog/3.png"} | {"dog/1-2.png"}
    assert set(tree(tmp_path / "out")) == expected


def test_corrections_of_files_that_are_gone_are_named(folder, tmp_path):
    images = open_data(folder).load("all")
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {0: ("drop", ""), 1: ("keep", ""), 9: ("relabel", "cat")})
    gone = [path for i, path in zip(images.ids.tolist(), images.paths, strict=True) if i in (0, 9)]
    for path in gone:
        os.remove(folder / path)
    with pytest.raises(HitNetError, match="2 images that photos") as caught:
        correct(open_data(folder), table, csv, tmp_path / "out")
    assert f"\n  line 2: {gone[0]}\n  line 4: {gone[1]}\n" in str(caught.value)
    shutil.rmtree(folder / "cat")
    make_folder(folder, ["ant/a.png"])
    write_csv(csv, table, {i: ("keep", "") for i, path in enumerate(images.paths) if path.startswith("cat/")})
    with pytest.raises(HitNetError, match="decides on 6 images"):
        correct(open_data(folder), table, csv, tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.csv", "photos"]


def test_files_that_have_changed_since_the_audit_stay_as_they_are(folder, tmp_path):
    opened = open_data(folder)
    images = opened.load("all")
    ids = {path: int(i) for path, i in zip(images.paths, images.ids, strict=True)}
    table = audit_of(images)
    places = np.array([images.ids.tolist().index(number) for number in table["id"]])
    table = add_checksums(table, opened, images, places)
    decided = {"cat/0.png": "dog", "cat/1.png": "dog", "cat/2.png": "dog", "dog/0.png": "cat"}
    csv = write_csv(tmp_path / "c.csv", table, {ids[path]: ("relabel", label) for path, label in decided.items()})
    (folder / "cat" / "1.png").write_bytes((folder / "dog" / "4.png").read_bytes())  # overwritten
    first, second = folder / "cat" / "2.png", folder / "dog" / "0.png"  # swapped
    first.rename(folder / "held.png")
    second.rename(first)
    (folder / "held.png").rename(second)
    done = correct(open_data(folder), table, csv, tmp_path / "out")
    assert done.changed == ("cat/1.png", "cat/2.png", "dog/0.png")
    assert (done.relabelled, done.untouched) == (1, 10)
    assert {"cat/1.png", "cat/2.png", "dog/0.png"} <= set(tree(tmp_path / "out"))
    assert "cat/0.png" not in tree(tmp_path / "out")


def test_many_files_that_are_gone_are_counted(tmp_path):
    root = make_folder(tmp_path / "set", [f"{name}/{i}.png" for name in "ab" for i in range(14)])
    images = open_data(root).load("all")
    table = audit_of(images)
    gone = [i for i in range(28) if i not in (0, 26, 27)]
    csv = write_csv(tmp_path / "c.csv", table, {i: ("keep", "") for i in gone})
    for i in gone:
        os.remove(root / images.paths[i])
    with pytest.raises(HitNetError, match=r"decides on 25 images[^$]*\n  line 21: b/6\.png\n  and 5 more\n"):
        correct(open_data(root), table, csv, tmp_path / "out")


def test_a_table_whose_labels_have_changed_is_refused(folder, tmp_path):
    source = folder / "list.csv"
    source.write_text("path,label\ncat/0.png,x\ncat/1.png,x\ndog/0.png,y\n")
    table = audit_of(open_data(source).load("all"))
    csv = write_csv(tmp_path / "c.csv", table, {0: ("drop", "")})
    source.write_text("path,label\ndog/4.png,x\ncat/0.png,x\ncat/1.png,y\ndog/0.png,y\n")
    with pytest.raises(HitNetError, match=r"'x', is now .* 'y'"):
        correct(open_data(source), table, csv, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_dropping_everything_is_refused(tmp_path):
    images = make_images(4, 2)
    table = audit_of(images)
    csv = write_csv(tmp_path / "c.csv", table, {i: ("drop", "") for i in range(4)})
    with pytest.raises(HitNetError, match="every image"):
        correct(open_data(images), table, csv, tmp_path / "out")


def steps_file(path, *steps):
    path.write_text("".join(step.to_line() for step in steps))
    return path


def test_a_file_of_steps_is_applied_by_the_rules_of_the_log(tmp_path):
    images = make_images()
    first = Step("report.html", (Change(1, "", "class 1", "drop"), Change(2, "", "class 2", "relabel", "class 0")))
    second = Step("report.html", (Change(1, "", "class 1", "keep"), Change(3, "", "class 3", "drop")))
    third = Step("report.html", (Change(4, "", "class 4", "drop"),))
    steps = (first, second, third, Step("report.html", undoes=third.name))
    done = correct(open_data(images), audit_of(images), steps_file(tmp_path / "d.jsonl", *steps), tmp_path / "out")
    assert (done.kept, done.relabelled, done.dropped, done.untouched) == (1, 1, 1, 57)


def test_reviewers_who_disagree_in_a_file_of_steps_change_nothing(tmp_path):
    images = make_images()
    steps = [Step(who, (Change(1, "", "class 1", what),)) for who, what in (("anna", "drop"), ("ben", "keep"))]
    done = correct(open_data(images), audit_of(images), steps_file(tmp_path / "d.jsonl", *steps), tmp_path / "out")
    assert (done.dropped, done.kept, done.disputed) == (0, 0, 1)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{}", "line 2: it is no step"),
        ("{", "line 2: it is no step"),
        (Step("r", (Change(999, "", "class 4", "keep"),)).to_line(), "line 2: the audit has no image 999"),
        (Step("r", (Change(4, "", "class 3", "keep"),)).to_line(), "labelled 'class 4' in the audit, not 'class 3'"),
        (Step("r", (Change(4, "", "class 4", "burn"),)).to_line(), "unknown decision 'burn'"),
        (Step("r", (Change(4, "", "class 4", "relabel", "class 9"),)).to_line(), "'class 9' is not a class"),
    ],
)
def test_mistakes_in_a_file_of_steps_are_named(tmp_path, line, problem):
    images = make_images()
    file = tmp_path / "d.jsonl"
    file.write_text(Step("r", (Change(1, "", "class 1", "keep"),)).to_line() + line + "\n")
    with pytest.raises(HitNetError) as caught:
        correct(open_data(images), audit_of(images), file, tmp_path / "out")
    assert problem in str(caught.value)
    assert not (tmp_path / "out").exists()
