import numpy as np
import pytest
from scipy.io import savemat

from hitnet.data.known.matlab_sets import read_affnist, read_svhn
from hitnet.errors import HitNetError


def test_svhn_zero_is_stored_as_ten(tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 4), dtype=np.uint8)
    savemat(tmp_path / "t.mat", {"X": x, "y": np.array([[10], [1], [9], [10]], np.uint8)}, do_compression=True)
    images, digits = read_svhn(tmp_path / "t.mat")
    assert digits.tolist() == [0, 1, 9, 0]
    assert images.shape == (4, 3, 32, 32)
    assert images[2, 1, 5, 7] == x[5, 7, 1, 2]


def test_affnist_columns_are_images_row_after_row(tmp_path):
    image = np.zeros((1600, 2), np.uint8)
    image[3 * 40 + 8, 1] = 200
    savemat(tmp_path / "t.mat", {"affNISTdata": {"image": image, "label_int": np.array([[7, 4]], np.uint8)}})
    images, digits = read_affnist(tmp_path / "t.mat")
    assert images.shape == (2, 40, 40)
    assert images[1, 3, 8] == 200
    assert digits.tolist() == [7, 4]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"X": np.zeros((32, 32, 3, 2), np.uint8)}, "no variable 'y'"),
        ({"X": np.zeros((32, 32, 2), np.uint8), "y": np.ones((2, 1))}, "X must be uint8"),
        ({"X": np.zeros((32, 32, 3, 2)), "y": np.ones((2, 1))}, "X must be uint8"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.ones((3, 1))}, "X must be uint8"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[0], [11]])}, "from 1 to 10"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1.0], [2.5]])}, "from 1 to 10"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1.0], [np.nan]])}, "from 1 to 10"),
        ({"X": np.zeros((32, 32, 3, 1), np.uint8), "y": np.array(["a"])}, "no variable 'y'"),
    ],
)
def test_wrong_contents(tmp_path, content, says):
    savemat(tmp_path / "t.mat", content)
    with pytest.raises(HitNetError, match=says):
        read_svhn(tmp_path / "t.mat")


def test_not_a_matlab_file(tmp_path):
    whole = tmp_path / "whole.mat"
    savemat(whole, {"X": np.zeros((32, 32, 3, 9), np.uint8), "y": np.ones((9, 1))}, do_compression=True)
    for content in (b"", b"nothing of the kind" * 50, whole.read_bytes()[:200], whole.read_bytes()[:-40]):
        (tmp_path / "t.mat").write_bytes(content)
        with pytest.raises(HitNetError, match=r"t\.mat"):
            read_svhn(tmp_path / "t.mat")
    with pytest.raises(HitNetError, match="does not exist"):
        read_svhn(tmp_path / "none.mat")


def test_affnist_wrong_contents(tmp_path):
    savemat(tmp_path / "a.mat", {"affNISTdata": {"picture": np.zeros((1600, 1), np.uint8)}})
    with pytest.raises(HitNetError, match="it holds picture"):
        read_affnist(tmp_path / "a.mat")
    savemat(tmp_path / "b.mat", {"affNISTdata": {"image": np.zeros((1599, 1), np.uint8), "label_int": [[1]]}})
    with pytest.raises(HitNetError, match="image must be uint8"):
        read_affnist(tmp_path / "b.mat")
    savemat(tmp_path / "c.mat", {"affNISTdata": np.zeros(3)})
    with pytest.raises(HitNetError, match="it holds none"):
        read_affnist(tmp_path / "c.mat")
