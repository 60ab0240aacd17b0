import math

import numpy as np
import pytest
import torch
from scipy.io import savemat

from hitnet import HitNetError
from hitnet.data import open_data
from reproduction import affnist
from reproduction.affnist import read_affnist
from toy import write_mnist

IDENTITY = [0.5, 0.5, 0.5, 0.5]


def digits(count):
    return open_data("mnist-sample", limit=count).load("all").pixels


def test_placed_images_are_whole_and_spread():
    images = digits(500)
    placed = affnist.place(images)
    assert placed.shape == (500, 1, 40, 40)
    corners = set()
    for image, canvas in zip(images[:50, 0], placed[:50, 0], strict=True):
        places = [(y, x) for y in range(13) for x in range(13) if torch.equal(canvas[y : y + 28, x : x + 28], image)]
        assert len(places) == 1
        corners.add(places[0])
        assert int(canvas.sum()) == int(image.sum())
    assert len(corners) > 30


def test_identity_keeps_the_pixels():
    # A digit at the canvas's centre, shifted by half a pixel twice, so that pixels fall on pixels.
    image = torch.zeros(1, 1, 28, 28, dtype=torch.uint8)
    image[0, 0, 4:24, 6:22] = torch.randint(1, 256, (20, 16), dtype=torch.uint8)
    out = affnist.transform(image, torch.tensor([[*IDENTITY, 0.5, 0.5]], dtype=torch.float64))
    assert torch.equal(out[0, 0, 10:30, 12:28], image[0, 0, 4:24, 6:22])
    assert int(out.sum()) == int(image.sum())


def test_translation_reaches_every_edge_and_not_beyond():
    image = torch.zeros(1, 1, 28, 28, dtype=torch.uint8)
    image[0, 0, 4:24, 6:22] = 255
    for place, rows, columns in (([0.0, 0.0], (0, 20), (0, 16)), ([1.0, 1.0], (20, 40), (24, 40))):
        out = affnist.transform(image, torch.tensor([[*IDENTITY, *place]], dtype=torch.float64))[0, 0]
        assert int(out[slice(*rows), slice(*columns)].min()) == 255
        assert int(out.sum()) == int(image.sum())


def test_transformation_follows_the_stated_maps():
    draws = torch.rand(8, 6, dtype=torch.float64)
    for draw, linear in zip(draws.tolist(), affnist._linear(draws), strict=True):
        angle, shear = math.radians(40 * draw[0] - 20), 0.4 * draw[1] - 0.2
        turn = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]).double()
        slant = torch.tensor([[1.0, 0.0], [shear, 1.0]]).double()
        stretch = torch.diag(torch.tensor([0.8 + 0.4 * draw[2], 0.8 + 0.4 * draw[3]]).double())
        torch.testing.assert_close(linear, stretch @ slant @ turn, atol=1e-6, rtol=0)


def test_ink_stays_on_the_canvas():
    images = digits(200)
    out = affnist.rebuild(images, limit=200).double().sum((1, 2, 3))
    draws = torch.from_numpy(affnist._uniform(1, 200, 6))
    expected = images.double().sum((1, 2, 3)) * torch.linalg.det(affnist._linear(draws)).abs()
    assert ((out / expected - 1).abs() < 0.06).all()


def test_a_limit_changes_only_the_number():
    images = digits(30)
    whole = affnist.rebuild(images)
    assert whole.shape == (32 * 30, 1, 40, 40)
    assert torch.equal(affnist.rebuild(images, limit=45), whole[:45])
    assert not torch.equal(whole[:30], whole[30:60])


def test_an_empty_image_stays_empty():
    out = affnist.transform(torch.zeros(2, 1, 28, 28, dtype=torch.uint8), torch.rand(2, 6, dtype=torch.float64))
    assert int(out.sum()) == 0


def test_it_is_made_of_mnist(tmp_path):
    digits = open_data("mnist-sample", limit=30).load("all")
    write_mnist(tmp_path / "mnist", digits)
    train = open_data("affnist", data_dir=tmp_path).load()
    assert (train.name, train.shape) == ("affNIST train (MNIST on 40x40)", (1, 40, 40))
    source = open_data("mnist", data_dir=tmp_path)
    assert train.labels.tolist() == source.load("train").labels.tolist()
    test = open_data("affnist", data_dir=tmp_path).load("test")
    assert test.name == "affNIST (rebuilt)"
    assert test.labels.tolist() == source.load("test").labels.tolist() * 32
    few = open_data("affnist", data_dir=tmp_path, limit=12).load("test")
    assert torch.equal(few.pixels, test.pixels[:12])
    assert train.class_names == test.class_names == tuple("0123456789")
    opened = open_data("affnist")
    assert (opened.name, opened.address, opened.in_memory) == ("affnist", "affnist", False)


def test_another_split_is_refused():
    with pytest.raises(HitNetError, match="train and test; got all"):
        open_data("affnist").report("all")


@pytest.mark.usefixtures("matlab_here")
def test_the_original_counts_where_present(tmp_path):
    folder = tmp_path / "affnist" / "test_batches"
    folder.mkdir(parents=True)
    for k in (1, 2, 10):
        content = {"image": np.full((1600, 2), k, np.uint8), "label_int": np.array([[k % 10, 3]], np.uint8)}
        savemat(folder / f"{k}.mat", {"affNISTdata": content})
    test = open_data("affnist", data_dir=tmp_path).load("test")
    assert (test.name, test.num_classes) == ("affNIST", 10)
    assert test.pixels[:, 0, 0, 0].tolist() == [1, 1, 2, 2, 10, 10]
    (folder / "2.mat").write_bytes(b"no")
    with pytest.raises(HitNetError, match=r"2\.mat is not a readable Matlab file"):
        open_data("affnist", data_dir=tmp_path).load("test")
    content = {"image": np.zeros((1600, 5), np.uint8), "label_int": np.array([[1, 2, 3, 4, 5]], np.uint8)}
    savemat(tmp_path / "affnist" / "test.mat", {"affNISTdata": content})
    assert len(open_data("affnist", data_dir=tmp_path).load("test")) == 5


def test_columns_are_images_row_after_row(tmp_path):
    image = np.zeros((1600, 2), np.uint8)
    image[3 * 40 + 8, 1] = 200
    savemat(tmp_path / "t.mat", {"affNISTdata": {"image": image, "label_int": np.array([[7, 4]], np.uint8)}})
    images, digits = read_affnist(tmp_path / "t.mat")
    assert images.shape == (2, 40, 40)
    assert images[1, 3, 8] == 200
    assert digits.tolist() == [7, 4]


@pytest.mark.usefixtures("matlab_here")
def test_wrong_contents(tmp_path):
    savemat(tmp_path / "a.mat", {"affNISTdata": {"picture": np.zeros((1600, 1), np.uint8)}})
    with pytest.raises(HitNetError, match="it holds picture"):
        read_affnist(tmp_path / "a.mat")
    savemat(tmp_path / "b.mat", {"affNISTdata": {"image": np.zeros((1599, 1), np.uint8), "label_int": [[1]]}})
    with pytest.raises(HitNetError, match="image must be uint8"):
        read_affnist(tmp_path / "b.mat")
    savemat(tmp_path / "c.mat", {"affNISTdata": np.zeros(3)})
    with pytest.raises(HitNetError, match="it holds none"):
        read_affnist(tmp_path / "c.mat")
    savemat(tmp_path / "d.mat", {"affNISTdata": {"image": np.zeros((1600, 1), np.uint8), "label_int": [[10]]}})
    with pytest.raises(HitNetError, match="from 0 to 9"):
        read_affnist(tmp_path / "d.mat")
