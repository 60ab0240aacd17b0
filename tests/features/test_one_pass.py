"""Each image file is read once: for its checksum, its header and its features. What is left out is as from memory."""

import itertools
import logging
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import fsspec
import numpy as np
import pandas as pd
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem
from PIL import Image
from safetensors.torch import save_file

import hitnet
from hitnet import HitNetError, Judges, choose_recipe, open_data
from hitnet.audit import judges as judges_module
from hitnet.audit import networks as networks_module
from hitnet.audit.labels import images_to_audit
from hitnet.audit.report import LADDER, encode
from hitnet.data.images import Streamed
from hitnet.data.reading import decode, pixel_store
from hitnet.data.reading.entries import Entry, Skipped
from hitnet.data.reading.stored import file_key
from hitnet.features import one_pass, photographs
from hitnet.features.cache import FeatureCache
from hitnet.features.one_pass import OnePass, cached_features
from hitnet.models import backbones
from hitnet.models.backbones import open_backbone
from hitnet.runtime.progress import Progress
from hitnet.runtime.ranks import Ranks
from toy import Counted, TinyBackbone, colour_images, write_images

CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("own_cache", "quick_heads")


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HITNET_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def backbone():
    torch.manual_seed(0)
    return open_backbone(TinyBackbone(), input_size=16)


@pytest.fixture
def photos(tmp_path):
    return write_images(tmp_path / "photos", colour_images())


@pytest.fixture
def heads(backbone):
    return Judges("features", backbone)


class Watch:
    """How often each image is opened and decoded, and how many bytes are read of it."""

    def __init__(self, monkeypatch):
        self.opened, self.read, self.decodes = Counter(), Counter(), 0
        local, remote, decoded = Path.open, MemoryFileSystem._open, decode._decoded
        monkeypatch.setattr(Path, "open", lambda path, *mode, **how: self.watched(path, local(path, *mode, **how)))
        monkeypatch.setattr(
            MemoryFileSystem, "_open", lambda fs, path, *o, **k: self.watched(path, remote(fs, path, *o, **k))
        )
        monkeypatch.setattr(decode, "_decoded", lambda *a, **k: (self.count(), decoded(*a, **k))[1])

    def watched(self, path, file):
        name = Path(path).name
        if not name.endswith(".png"):
            return file
        self.opened[name] += 1
        watch = self

        class File:
            def read(self, *size):
                content = file.read(*size)
                watch.read[name] += len(content)
                return content

            def __getattr__(self, attribute):
                return getattr(file, attribute)

            def __enter__(self):
                return self

            def __exit__(self, *error):
                file.close()

        return File()

    def count(self):
        self.decodes += 1


@pytest.fixture(params=["local", "remote"])
def source(request, photos):
    """The same photographs here and on another machine, and the size of each file."""
    sizes = {path.name: path.stat().st_size for path in photos.rglob("*.png")}
    if request.param == "local":
        return photos, sizes
    system = fsspec.filesystem("memory")
    system.store.clear()
    for path in photos.rglob("*.png"):
        system.pipe(f"/photos/{path.relative_to(photos).as_posix()}", path.read_bytes())
    return "memory://photos", sizes


def test_files_are_opened_read_and_decoded_once(source, backbone, tmp_path, monkeypatch):
    address, sizes = source
    for decodes in (60, 0):
        with monkeypatch.context() as patch:
            watch = Watch(patch)
            hitnet.extract_features(address, out=tmp_path / "f.npy", backbone=backbone, device="cpu")
        assert watch.opened == dict.fromkeys(sizes, 1)
        assert watch.read == sizes
        assert watch.decodes == decodes


@pytest.mark.parametrize("rank", [0, 1])
def test_of_several_processes_each_tells_the_progress_of_all(photos, backbone, rank):
    class Alone(Ranks):
        """One of four processes; the others are not there."""

        def from_first(self, work):
            return work()

        def gather(self, mine):
            return mine

    (photos / "red" / "000.png").unlink()  # 59 files: 15 of the first process
    told = Counted()
    entries = open_data(photos).entries
    OnePass(backbone, progress=told, ranks=Alone(rank, 4))(entries, np.ones(len(entries), np.bool_))
    assert told.parts == [("features", 59, "images")]
    assert sum(told.steps) == 59
    assert len(told.steps) <= 15


def test_an_audit_opens_further_only_what_it_shows(source, heads, tmp_path, monkeypatch):
    """Each file once for the pass; one per class as a typical image; for the page, which shows all, each once more."""
    address, sizes = source
    for out, decodes, once in ((None, 60, 1), (tmp_path / "audit", 60, 2)):
        with monkeypatch.context() as patch:
            watch = Watch(patch)
            audit = hitnet.audit_labels(address, judges=heads, out=out, device="cpu")
        typical = [name for name, times in watch.opened.items() if times > once]
        assert len(typical) <= 3
        assert watch.opened == dict.fromkeys(sizes, once) | dict.fromkeys(typical, once + 1)
        assert watch.decodes == decodes + 3
    assert isinstance(audit.images, Streamed)
    assert audit.prototypes.shape == (3, 3, 16, 16)


@pytest.fixture
def tuned(tmp_path, monkeypatch):
    """Two fine-tuned networks and heads on a small backbone with weights of its own, as fits `open_small`."""
    settings = backbones.Settings(16, (0.5,) * 3, (0.5,) * 3)
    monkeypatch.setattr(backbones, "architecture", lambda _: (TinyBackbone(), settings))
    save_file(TinyBackbone().state_dict(), tmp_path / "w.safetensors")
    recipe = choose_recipe(epochs=2, batch_size=16)
    return Judges("fine-tuned", "timm:tiny", tmp_path / "w.safetensors", networks=2, recipe=recipe)


def open_small(address):
    return open_data(address, image_size=16, flip=True)


@pytest.mark.parametrize("source", ["local"], indirect=True)
def test_fine_tuning_opens_each_file_once_more(source, tuned, tmp_path, monkeypatch):
    """For all networks, their epochs and their judgement, mirrored too; in memory and in a file with the same table."""
    address, sizes = source
    tables, kept = [], []
    monkeypatch.setattr(pixel_store.PixelFile, "store", noting(pixel_store.PixelFile.store, kept))
    for room in (10**9, 0):
        monkeypatch.setenv("HITNET_CACHE", str(tmp_path / f"cache {room}"))
        monkeypatch.setattr(networks_module, "room_for_images", lambda device, room=room: room)
        with monkeypatch.context() as patch:
            watch = Watch(patch)
            tables.append(hitnet.audit_labels(open_small(address), judges=tuned, device="cpu").table)
        typical = [name for name, times in watch.opened.items() if times > 2]
        assert len(typical) <= 3  # one per class
        assert watch.opened == dict.fromkeys(sizes, 2) | dict.fromkeys(typical, 3)
        assert watch.decodes == 2 * 60 + 3
        assert len(kept) == (room == 0)  # one store, of all images
    pd.testing.assert_frame_equal(*tables)


def noting(work, calls):
    return lambda *given: (calls.append(given), work(*given))[1]


def test_a_file_that_changes_before_it_is_trained_on(photos, tuned, tmp_path, monkeypatch):
    changed, other = photos / "red" / "003.png", (photos / "red" / "000.png").read_bytes()
    before, out = changed.read_bytes(), tmp_path / "out"

    def change(device):
        changed.write_bytes(other)
        return 0

    monkeypatch.setattr(networks_module, "room_for_images", change)
    with pytest.raises(HitNetError, match=r"red/003\.png has changed since it was first read\. Put it back"):
        hitnet.audit_labels(open_small(photos), judges=tuned, device="cpu", out=out)
    changed.write_bytes(before)
    monkeypatch.setattr(networks_module, "room_for_images", lambda device: 0)
    audit = hitnet.audit_labels(open_small(photos), judges=tuned, device="cpu", out=out, resume=True)
    assert len(audit.table) == 60
    # What the networks were trained on is told by the files, wherever their pixels were: it is resumed from there, too.
    monkeypatch.setattr(networks_module, "room_for_images", lambda device: 10**9)
    monkeypatch.setattr(networks_module, "train_runs", only_finished(networks_module.train_runs))
    again = hitnet.audit_labels(open_small(photos), judges=tuned, device="cpu", out=out, resume=True)
    pd.testing.assert_frame_equal(again.table, audit.table)
    changed.write_bytes(other)
    with pytest.raises(HitNetError, match="cannot be resumed: its images or their labels have changed"):
        hitnet.audit_labels(open_small(photos), judges=tuned, device="cpu", out=out, resume=True)


def only_finished(train):
    def checked(jobs, **options):
        assert all(job.finished for job in jobs)
        return train(jobs, **options)

    return checked


def test_the_checksum_of_the_table_is_that_of_the_pass(photos, heads):
    audit = hitnet.audit_labels(photos, judges=heads, device="cpu")
    assert audit.table["checksum"].tolist() == [file_key(photos / path).hex() for path in audit.table["path"]]


@pytest.fixture
def odd(photos):
    """Files of every kind that is left out, among them two of the same damaged content and a class without images."""
    cut = (photos / "red" / "000.png").read_bytes()[:-60]
    for name in ("red/zz.png", "blue/cut.png", "none/a.png"):
        (photos / name).parent.mkdir(exist_ok=True)
        (photos / name).write_bytes(cut)
    (photos / "red" / "note.png").write_text("no picture")
    (photos / "blue" / "empty.png").touch()
    (photos / "green" / "x.jxl").write_text("of a kind that is not read")
    return photos


@pytest.mark.parametrize("split", ["all", "train", "test"])
@pytest.mark.parametrize("options", [{}, {"limit": 40}, {"image_size": 24, "flip": True}], ids=str)
def test_what_is_left_out_is_as_from_memory(odd, backbone, split, options, caplog):
    said, sets = [], []
    for look in (None, OnePass(backbone), OnePass(None)):
        caplog.clear()
        sets.append(images_to_audit(open_data(odd, **options), split, look))
        said.append(caplog.messages)
    images = sets[0]
    assert "left out" in said[0][0]
    for number, other in enumerate(sets[1:], start=1):
        assert said[number] == said[0]
        assert (other.class_names, other.name, other.shape) == (images.class_names, images.name, images.shape)
        assert other.flip == images.flip
        assert tuple(other.paths) == images.paths
        assert torch.equal(other.labels, images.labels)
        assert torch.equal(other.ids, images.ids)
        assert torch.equal(other.in_memory().pixels, images.pixels)


def test_strict_stops_with_the_same_words(odd, backbone):
    said = []
    for look in (None, OnePass(backbone)):
        with pytest.raises(HitNetError) as error:
            images_to_audit(open_data(odd, strict=True), "all", look)
        said.append(str(error.value))
    assert said[0] == said[1]
    assert "x.jxl" in said[0]


def test_nothing_that_can_be_read(tmp_path, backbone):
    for name in ("a/1.png", "b/2.png"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("no picture")
    with pytest.raises(HitNetError, match="holds no readable image"):
        images_to_audit(open_data(tmp_path), "all", OnePass(backbone))


def test_large_files_are_not_held_in_memory(photos, backbone, monkeypatch):
    paths = sorted(photos.rglob("*.png"))
    expected = cached_features(paths, backbone)
    monkeypatch.setattr(decode, "LARGEST_FETCHED", 100)
    assert decode.fetched(paths[0]) is paths[0]
    assert torch.equal(cached_features(paths, backbone, folder=photos.parent / "other"), expected)


def test_a_large_file_that_changes_while_it_is_read_is_left_out(photos, backbone, monkeypatch):
    """Its features are kept under neither checksum, and a GPU, which would read it later, does not get it."""
    monkeypatch.setattr(decode, "LARGEST_FETCHED", 100)
    *files, other = sorted(photos.rglob("*.png"))[:5]
    keys, usual = [file_key(file) for file in (*files, other)], one_pass.read

    def read(file, size):
        if file == files[1]:
            file.write_bytes(other.read_bytes())
        return usual(file, size)

    monkeypatch.setattr(one_pass, "read", read)
    monkeypatch.setattr(one_pass, "gpu_jpeg", lambda *_: pytest.fail("a GPU would read it later"))
    found = OnePass(backbone)([Entry(file.name, file) for file in files], np.ones(4, np.bool_))
    assert found.undecodable == {1: Skipped(files[1].name, "it changed while it was read")}
    cache = FeatureCache.of(backbone)
    assert [key in cache for key in keys] == [True, False, True, True, False]


@pytest.mark.parametrize("few", [10, 100])
def test_many_grey_images_are_read_into_memory_and_photographs_are_not(photos, tmp_path, monkeypatch, few):
    monkeypatch.setattr(judges_module, "FEW", few)
    for path in photos.rglob("*.png"):
        grey = tmp_path / "grey" / path.relative_to(photos)
        grey.parent.mkdir(parents=True, exist_ok=True)
        Image.open(path).convert("L").save(grey)
    assert not Judges().needs_pixels(open_data(photos), CPU)
    assert Judges().needs_pixels(open_data(tmp_path / "grey"), CPU) == (few == 10)
    assert Judges(networks=2).needs_pixels(open_data(photos), CPU)
    assert Judges("features").needs_pixels(open_data(colour_images()), CPU)

    class Own(Judges):
        def judge(self, case):
            raise NotImplementedError

    assert Own("features").needs_pixels(open_data(photos), CPU)


class AfterThePass(Progress):
    """Does something once all features are known."""

    def __init__(self, work):
        self.work = work

    def part(self, name, steps=None, unit="steps"):
        if name == "fitting heads":
            self.work()


def test_a_file_that_is_gone_before_the_page_is_written(photos, heads, tmp_path, caplog):
    gone = AfterThePass(lambda: [path.unlink() for path in (photos / "red").iterdir()])
    audit = hitnet.audit_labels(photos, judges=heads, out=tmp_path / "audit", device="cpu", progress=gone)
    assert len(audit.table) == 60
    assert (audit.prototypes == 0).all()
    [said] = [
        record.message for record in caplog.records if record.levelno == logging.WARNING and "page" in record.message
    ]
    assert said.endswith("cannot be shown: there is no such file. The page shows such images coarsely, or in black.")
    assert (tmp_path / "audit" / "report.html").exists()


def test_files_that_change_before_the_page_is_written(photos, heads, tmp_path, caplog):
    """The table has the checksum of what was judged; the page shows what is there, and one message says so."""
    names = ["red/000.png", "green/001.png"]
    before = [file_key(photos / name).hex() for name in names]

    def change():
        for name in names:
            Image.new("RGB", (16, 16), "white").save(photos / name)

    options = {"judges": heads, "out": tmp_path / "audit", "device": "cpu", "progress": AfterThePass(change)}
    table = hitnet.audit_labels(photos, **options).table.set_index("path")
    assert table["checksum"][names].tolist() == before
    assert before[0] != file_key(photos / names[0]).hex()
    [said] = [message for message in caplog.messages if "changed" in message]
    first = min(names, key=table.index.get_loc)
    assert f"changed since they were judged: 2, the first {first}." in said
    assert said.endswith("Audit again.")
    page = (tmp_path / "audit" / "report.html").read_text()
    white = encode(Image.new("RGB", (16, 16), "white"), *LADDER[2])
    assert all(f'"{table["id"][name]}":"{white}"' in page for name in names)


def test_two_passes_share_the_features(photos, backbone, monkeypatch, tmp_path):
    monkeypatch.setattr(one_pass, "PER_SHARD", 8)
    paths = sorted(photos.rglob("*.png"))
    expected = cached_features(paths, backbone, folder=tmp_path / "alone")
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(cached_features, order, backbone) for order in (paths, paths[::-1])]
    assert torch.equal(both[0].result(), expected)
    assert torch.equal(both[1].result(), expected.flip(0))


def test_files_that_come_while_others_are_read_are_known_by_their_content(photos, backbone):
    """Duplicates are computed once, wherever they lie."""
    copied = photos / "red" / "copy.png"
    copied.write_bytes((photos / "blue" / "002.png").read_bytes())
    data = open_data(photos)
    images = data.looked_at("all", OnePass(backbone))
    sums = images.entries.checksums.tolist()
    assert len(set(sums)) == 60
    assert np.array_equal(images.entries.take(np.array([3, 1])).checksums, images.entries.checksums[[3, 1]])


@pytest.mark.parametrize(("milliseconds", "threads"), [(0.1, 1), (1, 5), (1000, 16)])
def test_no_more_threads_look_for_a_gpu_than_it_needs(photos, monkeypatch, milliseconds, threads):
    """Timed anew after each stretch of files; all are seen, in their order."""
    clock, asked = itertools.count(step=milliseconds / 1000), []
    monkeypatch.setattr(one_pass, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr(one_pass, "thread_count", lambda: 16)
    monkeypatch.setattr(one_pass, "STRETCH", 25)
    usual = one_pass.in_threads
    monkeypatch.setattr(
        one_pass, "in_threads", lambda *work, threads, **how: asked.append(threads) or usual(*work, threads=2, **how)
    )
    monkeypatch.setattr(photographs, "gpu_reader", lambda: None)
    files = sorted(photos.rglob("*.png"))
    look = OnePass(None, device="cuda")
    found = look([Entry(path.name, path) for path in files], np.ones(len(files), np.bool_))
    assert asked == [threads] * 3
    assert [each.tobytes() for each in found.checksums] == [file_key(path) for path in files]
