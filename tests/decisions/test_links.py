"""Links in a set that is corrected: nothing from outside the set comes in, and links inside it stay links."""

import os

import pytest
from audit_samples import audit_of, make_folder, write_csv

from hitnet.data import open_data
from hitnet.data.reading import copying
from hitnet.decisions.corrections import correct
from hitnet.errors import HitNetError

FILES = [f"{name}/{i}.png" for name in ("cat", "dog") for i in range(3)]


@pytest.fixture
def photos(tmp_path):
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("secret")
    return make_folder(tmp_path / "photos", FILES)


def corrected(source, tmp_path, decisions):
    """The corrected copy of what `decisions` ({path: (decision, label)}) says."""
    data = open_data(source)
    images = data.images_to_correct("all")
    table = audit_of(data.load("all"))
    ids = dict(zip(images.paths, images.ids.tolist(), strict=True))
    csv = write_csv(tmp_path / "c.csv", table, {ids[path]: decision for path, decision in decisions.items()})
    return correct(data, table, csv, tmp_path / "out")


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_links_lead_to_outside_the_set_is_left_out_and_named(photos, tmp_path):
    key = tmp_path / "private" / "key"
    (photos / "cat" / "notes.txt").symlink_to(key)
    (photos / "dog" / "relative.txt").symlink_to("../../private/key")
    (photos / "all").symlink_to(tmp_path / "private")
    make_folder(tmp_path / "private", ["9.png"])
    (photos / "dog" / "9.png").symlink_to(tmp_path / "private" / "9.png")
    done = corrected(photos, tmp_path, {"cat/0.png": ("relabel", "dog")})
    out = tmp_path / "out"
    assert b"secret" not in contents(out).values()
    assert {str(path.relative_to(out)) for path in contents(out)} == {*FILES, "dog/0-2.png"} - {"cat/0.png"}
    assert not any(path.is_symlink() for path in out.rglob("*"))
    assert "4 links lead out of the set or to nothing and are left out" in done.note
    for name in ("all", "cat/notes.txt", "dog/9.png", "dog/relative.txt"):
        assert name in done.note


def test_a_relabelled_link_out_of_the_set_is_not_counted_as_relabelled(photos, tmp_path):
    make_folder(tmp_path / "private", ["9.png", "8.png"])
    for name in ("8", "9"):
        (photos / "dog" / f"{name}.png").symlink_to(tmp_path / "private" / f"{name}.png")
    relabelled = {"dog/9.png": ("relabel", "cat"), "cat/0.png": ("relabel", "dog"), "dog/8.png": ("keep", "")}
    done = corrected(photos, tmp_path, relabelled)
    assert (done.relabelled, done.kept, done.left_out, done.untouched) == (1, 0, 2, 5)
    assert "dog/9.png" in done.note


def test_links_inside_the_set_stay_links_to_where_their_files_are_now(photos, tmp_path):
    (photos / "cat" / "first.txt").symlink_to("0.txt")
    (photos / "cat" / "0.txt").write_text("a caption")
    (photos / "dog" / "same.png").symlink_to(photos / "cat" / "0.png")  # absolute
    (photos / "dog" / "dropped.png").symlink_to("1.png")
    (photos / "pets").symlink_to("cat")
    done = corrected(photos, tmp_path, {"cat/0.png": ("relabel", "dog"), "dog/1.png": ("drop", "")})
    out = tmp_path / "out"
    assert os.readlink(out / "cat" / "first.txt") == "0.txt"
    assert os.readlink(out / "dog" / "same.png") == "0-2.png"
    assert (out / "dog" / "same.png").read_bytes() == (photos / "cat" / "0.png").read_bytes()
    assert not (out / "dog" / "dropped.png").is_symlink()  # its file has no copy to link to
    assert (out / "dog" / "dropped.png").read_bytes() == (photos / "dog" / "1.png").read_bytes()
    assert "left out" not in done.note


def test_links_to_folders(photos, tmp_path):
    (photos / "cat" / "more").mkdir()
    (photos / "cat" / "more" / "a.txt").write_text("a caption")
    (photos / "dog" / "notes").symlink_to("../cat/more")
    corrected(photos, tmp_path, {})
    assert os.readlink(tmp_path / "out" / "dog" / "notes") == "../cat/more"


def test_a_set_of_links_out_of_it_leaves_nothing_to_copy(photos, tmp_path):
    links = tmp_path / "links"
    for file in FILES:
        (links / file).parent.mkdir(parents=True, exist_ok=True)
        (links / file).symlink_to(photos / file)
    with pytest.raises(HitNetError, match="6 links lead out"):
        corrected(links, tmp_path, {})
    assert not (tmp_path / "out").exists()


def test_a_table_names_what_its_links_lead_to_outside(photos, tmp_path):
    (photos / "dog" / "9.png").symlink_to(tmp_path / "private" / "9.png")
    make_folder(tmp_path / "private", ["9.png"])
    rows = "".join(f"{file},{file[:3]}\n" for file in [*FILES, "dog/9.png"])
    (photos / "table.csv").write_text("path,label\n" + rows)
    corrected(photos / "table.csv", tmp_path, {"dog/9.png": ("relabel", "cat")})
    assert not (tmp_path / "out" / "dog" / "9.png").exists()
    assert f"{photos}/dog/9.png,cat" in (tmp_path / "out" / "table.csv").read_text()
    assert len(open_data(tmp_path / "out" / "table.csv").load("all")) == 7


@pytest.mark.parametrize("name", ["CON", "aux.txt", "a:b", "what?", "dot.", "Lpt1"])
def test_names_that_windows_has_no_files_of(photos, tmp_path, monkeypatch, name):
    (photos / "cat").rename(photos / name)
    monkeypatch.setattr(copying, "WINDOWS", True)
    with pytest.raises(HitNetError, match="Windows has no files"):
        corrected(photos, tmp_path, {})
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(copying, "WINDOWS", False)
    corrected(photos, tmp_path, {})
    assert (tmp_path / "out" / name).is_dir()
