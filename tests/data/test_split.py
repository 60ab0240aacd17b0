import pytest

from hitnet.data.split import assign, check_split, even_draw, fifth, natural, natural_path, split_name
from hitnet.errors import HitNetError


def test_natural_order():
    names = ["10", "2", "a10", "a9", "B", "01", "1", "x" + "9" * 5000]
    assert sorted(names, key=natural)[:4] == ["01", "1", "2", "10"]
    assert sorted(["a10", "a9"], key=natural) == ["a9", "a10"]


def test_a_fifth_of_each_class_tests():
    labels = ["a"] * 50 + ["b"] * 7 + ["c"] * 2 + ["d"]
    keys = [f"{label}/{i}.png" for i, label in enumerate(labels)]
    test = fifth(keys, labels)
    count = {label: sum(t for t, other in zip(test, labels, strict=True) if other == label) for label in "abcd"}
    assert count == {"a": 10, "b": 1, "c": 1, "d": 0}


def test_the_split_does_not_depend_on_the_order():
    keys = [f"{i}.png" for i in range(40)]
    there = dict(zip(keys, fifth(keys, [0] * 40), strict=True))
    back = dict(zip(keys[::-1], fifth(keys[::-1], [0] * 40), strict=True))
    assert there == back


def test_the_split_is_fixed_for_good():
    assert [i for i, test in enumerate(fifth([str(i) for i in range(20)], [0] * 20)) if test] == [8, 9, 13, 17]


def test_given_splits_are_kept():
    keys = ["1", "2", "3"]
    assert assign(["test", "train", "validation"], keys, keys) == ["test", "train", "validation"]
    assert assign(["validation", "train", "train"], keys, keys) == ["test", "train", "train"]
    assert sorted(assign(["train"] * 3, keys, [0, 0, 0])) == ["test", "train", "train"]


def test_split_names():
    assert [split_name(s, where="t") for s in ("Train", " val", "TESTING")] == ["train", "validation", "test"]
    with pytest.raises(HitNetError, match="t: unknown split 'holdout'"):
        split_name("holdout", where="t")
    with pytest.raises(HitNetError, match="got 'val'"):
        check_split("val")


def test_even_draw_spreads_and_keeps_order():
    keys = [str(i) for i in range(1000)]
    drawn = even_draw(keys, 100)
    assert drawn == sorted(drawn)
    assert len(drawn) == 100
    assert 30 < sum(i < 500 for i in drawn) < 70
    assert even_draw(keys, None) == even_draw(keys, 5000) == list(range(1000))


def test_natural_order_of_paths_goes_folder_by_folder():
    ordered = ["2/b", "2/b1", "2/bb", "10/a", "a/1", "a/z/0", "a-/1", "a1/0"]
    assert sorted(ordered[::-1], key=natural_path) == sorted(
        ordered, key=lambda path: [natural(p) for p in path.split("/")]
    )
    assert sorted(ordered[::-1], key=natural_path) == ["2/b", "2/b1", "2/bb", "10/a", "a/1", "a/z/0", "a1/0", "a-/1"]
