"""Features that a user has: three kinds of files in any order of rows, and a sentence for everything that is wrong."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from hitnet.data import Images
from hitnet.data.reading import array_files
from hitnet.errors import HitNetError
from hitnet.features import dataset_features
from hitnet.features.dataset_features import read_features

ROWS = np.arange(20, dtype=np.float32).reshape(5, 4)
PATHS = ["a/0.png", "a/1.png", "b/0.png", "b/1.png", "b/2.png"]


def make_images(ids=(0, 1, 2, 3, 4), paths=None):
    count = len(ids)
    images = Images.from_arrays(np.zeros((count, 1, 2, 2), np.uint8), np.arange(count) % 2, name="photos", paths=paths)
    return Images(images.pixels, images.labels, images.class_names, "photos", torch.tensor(ids), images.paths)


@pytest.fixture
def images():
    return make_images(paths=PATHS)


def write(target, **content):
    """Arrays as a file of the kind that its suffix says."""
    if target.suffix == ".npy":
        np.save(target, content["features"])
    elif target.suffix == ".npz":
        np.savez(target, **content)
    else:
        keys = {name: values for name, values in content.items() if name != "features"}
        columns = {f"f{i}": column for i, column in enumerate(np.asarray(content["features"]).T)}
        pd.DataFrame({**keys, **columns}).to_parquet(target)
    return target


def test_rows_of_an_npy_are_in_the_order_of_ids(tmp_path):
    file = write(tmp_path / "f.npy", features=ROWS.astype(np.float64))
    found = read_features(file, make_images())
    assert found.dtype == torch.float32
    assert np.array_equal(found.numpy(), ROWS)
    assert np.array_equal(read_features(file, make_images((7, 3, 5, 1, 9))).numpy(), ROWS[[3, 1, 2, 0, 4]])
    # A file of the whole set, and images of a part of it.
    assert np.array_equal(read_features(str(file), make_images((4, 1))).numpy(), ROWS[[4, 1]])


def test_rows_of_an_npy_of_files_are_found_by_the_names_beside_it(tmp_path, images):
    """In the order of ids, every row after a file that has come or gone would be that of another file."""
    file = write(tmp_path / "f.npy", features=ROWS)
    with pytest.raises(HitNetError, match=r"f.paths.json is not beside it. Give an .npz"):
        read_features(file, images)
    order = [3, 0, 4, 1, 2]
    (tmp_path / "f.paths.json").write_text(json.dumps([PATHS[i] for i in order]))
    assert np.array_equal(read_features(file, images).numpy()[order], ROWS)
    (tmp_path / "f.paths.json").write_text(json.dumps(["moved/0.png", *PATHS[1:]]))
    with pytest.raises(HitNetError, match=r"a/0\.png"):
        read_features(file, images)
    (tmp_path / "f.paths.json").write_text("[1]")
    with pytest.raises(HitNetError, match="must be str"):
        read_features(file, images)


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
@pytest.mark.parametrize("key", ["id", "path"])
def test_rows_are_found_by_id_and_by_path(tmp_path, images, suffix, key, monkeypatch):
    monkeypatch.setattr(dataset_features, "COLUMNS", 3)
    order = [3, 0, 4, 1, 2]
    keys = {"id": np.array(order), "path": np.array(PATHS)[order]}
    file = write(tmp_path / f"f{suffix}", features=ROWS[order], **{key: keys[key]})
    assert np.array_equal(read_features(file, images).numpy(), ROWS)
    for some in ([2], [2, 4], [4, 0, 2]):
        few = make_images(some, paths=[PATHS[i] for i in some])
        assert np.array_equal(read_features(file, few).numpy(), ROWS[some])


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet"])
def test_half_precision_stays(tmp_path, suffix):
    file = write(tmp_path / f"f{suffix}", features=ROWS.astype(np.float16), id=np.arange(5))
    found = read_features(file, make_images())
    assert found.dtype == torch.float16
    assert np.array_equal(found.numpy(), ROWS)


def write_parts(folder, *parts, **options):
    """Parquet files of rows of ROWS, in the order of their names."""
    folder.mkdir()
    for number, rows in enumerate(parts):
        frame = pd.DataFrame(ROWS[rows], columns=list("abcd")).assign(path=[PATHS[i] for i in rows])
        frame.to_parquet(folder / f"part-{number}.parquet", index=False, **options)
    return folder


def test_a_folder_of_parts(tmp_path, images, monkeypatch):
    """As Ray Data and Spark write them, with other files beside them and parts without rows."""
    folder = write_parts(tmp_path / "parts", [3, 0], [], [4, 1, 2], row_group_size=2)
    for name in ("_SUCCESS", ".part-0.parquet.crc", "_metadata.parquet", "notes.txt"):
        (folder / name).write_text("no table")
    assert np.array_equal(read_features(folder, images).numpy(), ROWS)
    monkeypatch.setattr(array_files, "ROWS", 1)
    monkeypatch.setattr(array_files, "CELLS", 6)  # three columns of two rows
    assert np.array_equal(read_features(str(folder), images).numpy(), ROWS)


def test_parts_that_do_not_fit_or_are_damaged(tmp_path, images):
    folder = write_parts(tmp_path / "parts", [3, 0], [4, 1])
    assert said(folder, images) == f"{folder} has no features of 1 of 5 images; the first is 'b/0.png'."
    frame = pd.DataFrame(ROWS[2:3], columns=list("abce")).assign(path=["b/0.png"])
    odd = folder / "part-2.parquet"
    frame.to_parquet(odd)
    assert said(folder, images) == f"{odd} must have the same columns as part-0.parquet: only one of them has d."
    frame[["b", "a", "path"]].assign(d=ROWS[2, 3], c=ROWS[2, 2]).to_parquet(odd)
    assert np.array_equal(read_features(folder, images).numpy(), ROWS)  # the columns of a part in another order
    odd.write_bytes((folder / "part-0.parquet").read_bytes()[:-9])
    assert said(folder, images).startswith(f"{odd} is not a readable .parquet file (")
    odd.write_bytes((folder / "part-0.parquet").read_bytes())
    assert said(folder, images) == f"{folder} has two rows for the path 'b/1.png'."


def test_memory_that_there_is_not(tmp_path, images, monkeypatch):
    file = write(tmp_path / "f.parquet", features=ROWS, path=PATHS)
    needed = 5 * (4 * 4 + array_files.PER_CELL)
    monkeypatch.setattr(array_files.psutil, "virtual_memory", lambda: SimpleNamespace(available=needed))
    assert len(read_features(file, images)) == 5
    monkeypatch.setattr(array_files.psutil, "virtual_memory", lambda: SimpleNamespace(available=needed - 1))
    monkeypatch.setattr(array_files.np, "empty", lambda *_: pytest.fail("memory was taken"))
    expected = (
        f"{file}: 5 rows of 4 numbers take 0.0 GB of memory, but only 0.0 GB are free. It is too large, or damaged."
    )
    assert said(file, images) == expected


def test_whole_numbers_are_features_and_text_columns_are_not(tmp_path, images):
    frame = pd.DataFrame({"path": PATHS, "camera": list("xyzxy"), "f0": np.arange(5), "f1": np.arange(5) / 2})
    frame.to_parquet(tmp_path / "f.parquet")
    assert read_features(tmp_path / "f.parquet", images).tolist() == [[i, i / 2] for i in range(5)]


def said(path, images):
    with pytest.raises(HitNetError) as error:
        read_features(path, images)
    return str(error.value)


def test_files_that_are_not_there_or_of_another_type(tmp_path, images):
    assert said(tmp_path / "f.npy", images) == f"`features`: there is no file {tmp_path / 'f.npy'}."
    assert (
        said(tmp_path / "f.csv", images) == f"{tmp_path / 'f.csv'}: `features` must be a file of type "
        ".npy, .npz, .parquet."
    )
    (tmp_path / "parts").mkdir()
    assert said(tmp_path / "parts", images).startswith(f"{tmp_path / 'parts'} holds no .parquet files. Give")


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet"])
@pytest.mark.parametrize("content", [b"", b"PK no archive", b"\x93NUMPY\x01\x00v\x00{'descr'"])
def test_damaged_files(tmp_path, images, suffix, content):
    file = tmp_path / f"f{suffix}"
    file.write_bytes(content)
    assert said(file, images).startswith(f"{file} is not a readable {suffix} file (")


def test_an_array_under_the_name_of_an_archive(tmp_path, images):
    np.save(tmp_path / "f.npy", ROWS)
    file = (tmp_path / "f.npy").rename(tmp_path / "f.npz")
    assert said(file, images).startswith(f"{file} is not a readable .npz file (")


class Trap:
    """What runs a command when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("a pickle was loaded",)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_no_pickle_is_loaded(tmp_path, images, suffix):
    objects = np.array([[Trap()] for _ in range(5)], dtype=object)
    file = tmp_path / f"f{suffix}"
    if suffix == ".npy":
        np.save(file, objects, allow_pickle=True)
    else:
        np.savez(file, features=objects, id=np.arange(5))
    assert "holds Python objects, which are not loaded" in said(file, images)


@pytest.mark.parametrize(
    ("features", "got"),
    [
        (ROWS[:, 0], "got float32 (5,)"),
        (ROWS[:, :, None], "got float32 (5, 4, 1)"),
        (ROWS.astype(str), "got <U32 (5, 4)"),
        (ROWS > 3, "got bool (5, 4)"),
        (np.where(ROWS == 7, np.nan, ROWS), "got float32 (5, 4)"),
        (np.where(ROWS == 7, np.inf, ROWS), "got float32 (5, 4)"),
        (np.where(ROWS == 7, 1e300, ROWS.astype(np.float64)), "got float64 (5, 4)"),
        (ROWS[:, :0], "got float32 (5, 0)"),
    ],
)
def test_values_that_are_no_finite_numbers(tmp_path, images, features, got):
    file = write(tmp_path / "f.npy", features=features)
    assert said(file, images) == f"{file}: features must be finite numbers (N, D); {got}."


def test_a_parquet_without_numbers(tmp_path, images):
    file = tmp_path / "f.parquet"
    pd.DataFrame({"path": PATHS, "camera": list("xyzxy")}).to_parquet(file)
    assert "features must be finite numbers (N, D)" in said(file, images)


def test_keys_are_wanted(tmp_path, images):
    file = write(tmp_path / "f.npz", features=ROWS)
    assert said(file, images) == f"{file} must hold `features` and `id` or `path`; it holds features."
    file = write(tmp_path / "g.npz", id=np.arange(5), rows=ROWS)
    assert said(file, images) == f"{file} must hold `features` and `id` or `path`; it holds id."
    file = write(tmp_path / "f.parquet", features=ROWS, name=PATHS)
    assert said(file, images) == f"{file} must have a column `id` or `path`; it has name, f0, f1, f2, f3."


def test_missing_rows(tmp_path, images):
    file = write(tmp_path / "f.npy", features=ROWS[:4])
    assert said(file, make_images()) == f"{file} has 4 rows, but there are 5 images."
    file = write(tmp_path / "f.npz", features=ROWS[:3], id=np.array([0, 3, 4]))
    assert said(file, images) == f"{file} has no features of 2 of 5 images; the first is 1."
    file = write(tmp_path / "f.parquet", features=ROWS[:4], path=PATHS[:4])
    assert said(file, images) == f"{file} has no features of 1 of 5 images; the first is 'b/2.png'."


def test_paths_for_images_that_have_none(tmp_path):
    file = write(tmp_path / "f.npz", features=ROWS, path=np.array(PATHS))
    assert said(file, make_images()) == f"{file} names its rows by path, but photos has no paths. Use `id`."


@pytest.mark.parametrize("keys", [np.arange(4), np.arange(6), np.arange(10).reshape(5, 2)])
def test_keys_that_do_not_fit_the_rows(tmp_path, images, keys):
    file = write(tmp_path / "f.npz", features=ROWS, id=keys)
    assert said(file, images) == f"{file}: `id` must have one entry per row of features, (5,); got {keys.shape}."


def test_keys_that_come_twice(tmp_path, images):
    file = write(tmp_path / "f.npz", features=ROWS, id=np.array([0, 1, 2, 3, 3]))
    assert said(file, images) == f"{file} has two rows for the id 3."
    file = write(tmp_path / "f.parquet", features=ROWS, path=[*PATHS[:4], PATHS[0]])
    assert said(file, images) == f"{file} has two rows for the path 'a/0.png'."


def test_columns_of_pandas_own_types(images, tmp_path):
    """As Ray Data writes them."""
    frame = pd.DataFrame({"id": range(5), "a": [1.5, 2.5, 3.5, 4.5, 5.5]}).convert_dtypes()
    frame.to_parquet(tmp_path / "f.parquet")
    assert pd.read_parquet(tmp_path / "f.parquet")["a"].dtype == "Float64"
    assert read_features(tmp_path / "f.parquet", images).tolist() == [[1.5], [2.5], [3.5], [4.5], [5.5]]
    frame.loc[2, "a"] = pd.NA
    frame.to_parquet(tmp_path / "f.parquet")
    with pytest.raises(HitNetError, match="finite numbers"):
        read_features(tmp_path / "f.parquet", images)


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("kind", ["lists", "fixed", "tensors", "halves"])
def test_columns_of_lists(images, tmp_path, monkeypatch, kind, few):
    """Each is so many columns of numbers, beside plain ones, in several parts, of which one is empty."""
    if few:
        monkeypatch.setattr(array_files, "CELLS", 5)
    number = pa.float16() if kind == "halves" else pa.float32()
    flat = pa.array(ROWS[:, 1:].ravel().astype(number.to_pandas_dtype()), number)
    fixed = pa.FixedSizeListArray.from_arrays(flat, 3)
    lists = pa.ListArray.from_arrays(range(0, 16, 3), flat)
    tensors = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(number, [3]), fixed)
    column = {"lists": lists, "fixed": fixed, "tensors": tensors, "halves": lists}[kind]
    first = pa.array(ROWS[:, 0].astype(number.to_pandas_dtype()), number)
    table = pa.table({"first": first, "path": PATHS, "rest": column})
    (folder := tmp_path / "parts").mkdir()
    for name, rows in (("a", table[:0]), ("b", table[2:]), ("c", table[:2])):
        pq.write_table(rows, folder / f"{name}.parquet", row_group_size=2)
    found = read_features(folder, images)
    assert found.dtype == (torch.float16 if kind == "halves" else torch.float32)
    assert np.array_equal(found.float().numpy(), ROWS)


@pytest.mark.parametrize("rows", [[[1, 2], [3, 4], [5], [6, 7], [8, 9]], [[1, 2], [3, 4], None, [6, 7], [8, 9]]])
def test_lists_of_several_lengths(images, tmp_path, rows):
    file = tmp_path / "f.parquet"
    pq.write_table(pa.table({"path": PATHS, "f": pa.array(rows, pa.list_(pa.float32()))}), file)
    uneven = "each row of `f` must have as many numbers as the first row of all, 2."
    assert said(file, images) == f"{file}: {uneven}"
    (folder := tmp_path / "parts").mkdir()
    for name, width in (("a", 2), ("b", 3)):
        pq.write_table(pa.table({"path": PATHS, "f": [[1.0] * width] * 5}), folder / f"{name}.parquet")
    assert said(folder, images) == f"{folder / 'b.parquet'}: {uneven}"


def test_numbers_that_are_missing_in_lists(images, tmp_path):
    pq.write_table(pa.table({"path": PATHS, "f": [[1.0, None]] * 5}), tmp_path / "f.parquet")
    assert "finite numbers" in said(tmp_path / "f.parquet", images)
