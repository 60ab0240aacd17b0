import io
import os
import tarfile
import urllib.error
import urllib.request

import pytest

from hitnet.data.known.catalogue import extract, fetch_file
from hitnet.errors import HitNetError


@pytest.fixture
def served(tmp_path):
    (tmp_path / "served").write_bytes(b"the file")
    return (tmp_path / "served").as_uri()


def test_the_first_mirror_that_works_serves(tmp_path, served):
    target = tmp_path / "new" / "folder" / "file"
    (tmp_path / "wrong").write_bytes(b"another file")
    urls = [(tmp_path / "none").as_uri(), (tmp_path / "wrong").as_uri(), served]
    fetch_file(urls, target, is_sound=lambda path: path.read_bytes() == b"the file")
    assert target.read_bytes() == b"the file"
    assert [path.name for path in target.parent.iterdir()] == ["file"]


def test_a_wrong_checksum_leaves_nothing(tmp_path, served):
    target = tmp_path / "new" / "file"
    with pytest.raises(HitNetError, match="checksum is not the known one") as caught:
        fetch_file([served], target, is_sound=lambda path: False)
    assert list(target.parent.iterdir()) == []
    assert served in str(caught.value)
    assert f"put it at {target}" in str(caught.value)


def test_without_a_network_the_error_says_what_to_do(tmp_path, monkeypatch):
    def unreachable(*args, **kwargs):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    with pytest.raises(HitNetError, match=r"https://a\.example/x: no route to host"):
        fetch_file(["https://a.example/x"], tmp_path / "x")


def test_a_broken_connection_leaves_the_old_file(tmp_path, monkeypatch):
    class Broken(io.BytesIO):
        headers: dict[str, str] = {}  # noqa: RUF012

        def read(self, size=-1):
            if self.tell():
                raise ConnectionResetError("reset")
            return super().read(3)

    monkeypatch.setattr(urllib.request, "urlopen", lambda *args, **kwargs: Broken(b"abcdef"))
    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises(HitNetError, match="reset"):
        fetch_file(["https://a.example/x"], tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == b"old"


def test_too_much_is_cut_off(tmp_path, served, monkeypatch):
    monkeypatch.setattr("hitnet.data.known.catalogue.LARGEST", 4)
    with pytest.raises(HitNetError, match="more than 4 bytes"):
        fetch_file([served], tmp_path / "x", is_sound=lambda path: path.read_bytes() == b"the file")


def archive(path, members):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return path


def test_only_named_files_are_unpacked(tmp_path):
    path = archive(tmp_path / "x.tar.gz", {"d/a.bin": b"A", "../../b.bin": b"B", "../evil": b"E", "d/c.txt": b"C"})
    extract(path, ["a.bin", "b.bin"], tmp_path / "out" / "deep")
    assert sorted(file.name for file in tmp_path.rglob("*") if file.is_file()) == ["a.bin", "b.bin", "x.tar.gz"]
    assert (tmp_path / "out" / "deep" / "b.bin").read_bytes() == b"B"


def test_archives_that_lack_a_file(tmp_path):
    with pytest.raises(HitNetError, match=r"lacks a\.bin"):
        extract(archive(tmp_path / "x.tar.gz", {"a.bin": None}), ["a.bin"], tmp_path / "out")
    for content in (b"", b"no archive", (tmp_path / "x.tar.gz").read_bytes()[:30]):
        (tmp_path / "y.tar.gz").write_bytes(content)
        with pytest.raises(HitNetError, match="cannot be unpacked"):
            extract(tmp_path / "y.tar.gz", ["a.bin"], tmp_path / "out")


def test_nothing_is_unpacked_from_a_damaged_archive(tmp_path):
    content = {name: os.urandom(3000) for name in ("a.bin", "b.bin")}  # packed as it is: damage shows at the end alone
    path = archive(tmp_path / "x.tar.gz", content)
    sound = path.read_bytes()
    for place in (60, len(sound) // 2, len(sound) - 6):
        damaged = bytearray(sound)
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        with pytest.raises(HitNetError, match=r"x\.tar\.gz (cannot be unpacked|lacks)"):
            extract(path, list(content), tmp_path / "out")
        assert not list((tmp_path / "out").glob("*"))
    path.write_bytes(sound)
    extract(path, list(content), tmp_path / "out")
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == content
