"""Columns instead of objects: what goes in comes out, and it takes a few dozen bytes a file."""

from pathlib import Path

import numpy as np

from hitnet.data.reading.entries import SPLITS, Entries, Entry, PackedStrings

NAMES = ["a/1.png", "é/2.png", "", "ü" * 300, "lone \udc80", "a/1.png"]


def make_entries():
    splits = ["train", "test", "validation", "train", "train", "test"]
    return Entries.of(Path("root"), NAMES, ["b", "a", "b", "c", "a", "b"], splits, ids=[5, 3, 8, 1, 0, 2])


def test_strings_come_back():
    strings = PackedStrings.of(iter(NAMES))
    assert (len(strings), list(strings), strings[3]) == (6, NAMES, NAMES[3])
    assert list(strings.take(np.array([4, 0, 0]))) == [NAMES[4], NAMES[0], NAMES[0]]
    assert list(PackedStrings.of([])) == []


def test_entries_come_back():
    entries = make_entries()
    assert len(entries) == len(list(entries)) == 6
    assert entries[1] == Entry("é/2.png", Path("root/é/2.png"))
    assert (entries.ids[1], entries.classes[entries.labels[1]], SPLITS[entries.splits[1]]) == (3, "a", "test")
    assert Entries.of(Path(), ["x", "y"], ["a", "a"], ["test", "test"]).ids.tolist() == [0, 1]


def test_parts():
    entries = make_entries()
    whole = list(entries)
    assert list(entries.take(np.array([2, 0]))) == [whole[2], whole[0]]
    assert list(entries.take(entries.in_split("test"))) == [whole[1], whole[5]]
    assert list(entries.take(entries.in_split("all"))) == whole
    assert (entries.label_names(), entries.label_names(entries.in_split("test"))) == ({"a", "b", "c"}, {"a", "b"})


def test_a_file_takes_few_bytes():
    names = (f"class-{i % 10}/{i:06}.jpg" for i in range(10_000))
    entries = Entries.of(Path("root"), names, ["a", "b"] * 5000, ["train"] * 9_999 + ["test"])
    paths = entries.paths
    columns = (entries.ids, entries.labels, entries.splits, paths.starts, paths.lengths)
    assert len(paths.block) + sum(column.nbytes for column in columns) <= 10_000 * (18 + 25)
    assert entries.take(entries.in_split("train")).paths.block is paths.block
