import math

import torch

from hitnet.data import open_data
from hitnet.data.known import affnist

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
