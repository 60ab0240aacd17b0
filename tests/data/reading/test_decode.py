import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from hitnet.data import open_data, read_image
from hitnet.data.reading import decode
from hitnet.data.reading.stored import UnreadableImageError
from hitnet.errors import HitNetError

RNG = np.random.default_rng(0)


def noise(*shape):
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def test_exact_size_is_exact(tmp_path):
    grey, colour = noise(9, 7), noise(9, 7, 3)
    Image.fromarray(grey).save(tmp_path / "g.png")
    Image.fromarray(colour).save(tmp_path / "c.bmp")
    assert torch.equal(read_image(tmp_path / "g.png", (1, 9, 7))[0], torch.from_numpy(grey))
    assert torch.equal(read_image(tmp_path / "g.png", (3, 9, 7))[2], torch.from_numpy(grey))
    assert torch.equal(read_image(tmp_path / "c.bmp", (3, 9, 7)), torch.from_numpy(colour.transpose(2, 0, 1)))


@pytest.mark.parametrize("kind", ["png", "jpg", "webp", "bmp", "gif", "tif", "ppm"])
def test_kinds(tmp_path, kind):
    Image.new("RGB", (16, 16), (200, 40, 90)).save(tmp_path / f"x.{kind}")
    image = read_image(tmp_path / f"x.{kind}", (3, 8, 8)).float()
    assert (image - torch.tensor([200.0, 40.0, 90.0])[:, None, None]).abs().max() < 12


@pytest.mark.skipif("AVIF" not in decode.FORMATS, reason="needs a Pillow that reads AVIF: pip install 'pillow>=11.3'")
def test_avif(tmp_path):
    picture = Image.new("RGB", (20, 10))
    picture.paste((255, 0, 0), (0, 0, 20, 3))
    exif = Image.Exif()
    exif[decode.ORIENTATION] = 6
    picture.save(tmp_path / "x.avif", exif=exif, quality=95)
    assert decode.header(tmp_path / "x.avif") == decode.Header(20, 10, False)
    image = read_image(tmp_path / "x.avif", (3, 20, 10))[0].float()
    assert image[:, 8:].mean() > 200
    assert image[:, :5].mean() < 30


def test_heic(tmp_path):
    pytest.importorskip("pillow_heif", reason="needs the package pillow-heif: pip install pillow-heif")
    Image.new("RGB", (32, 16), (200, 40, 90)).save(tmp_path / "x.heic", quality=95)
    assert decode.header(tmp_path / "x.heic") == decode.Header(16, 32, False)
    image = read_image(tmp_path / "x.heic", (3, 16, 32)).float()
    assert (image - torch.tensor([200.0, 40.0, 90.0])[:, None, None]).abs().max() < 12
    assert ".heic" in decode.SUFFIXES
    exif = Image.Exif()
    exif[decode.ORIENTATION] = 6
    Image.new("RGB", (32, 16)).save(tmp_path / "turned.heic", exif=exif.tobytes())  # is turned once, not twice
    assert decode.header(tmp_path / "turned.heic") == decode.Header(32, 16, False)
    (tmp_path / "cut.heic").write_bytes((tmp_path / "x.heic").read_bytes()[:-200])
    with pytest.raises(HitNetError, match=r"cut\.heic: it is"):
        read_image(tmp_path / "cut.heic", (3, 16, 32))


def test_heic_files_of_a_folder_are_read_or_reported(tmp_path):
    for label, colour in (("a", (200, 40, 90)), ("b", (40, 90, 200))):
        (tmp_path / label).mkdir()
        Image.new("RGB", (32, 16), colour).save(tmp_path / label / "x.png")
        (tmp_path / label / "y.HEIC").write_bytes(b"not read")
        if ".heic" in decode.SUFFIXES:
            Image.new("RGB", (32, 16), colour).save(tmp_path / label / "y.HEIC", "HEIF", quality=95)
    report = open_data(tmp_path).report("all")
    if ".heic" in decode.SUFFIXES:
        assert (report.images.paths, report.skipped) == (("a/x.png", "a/y.HEIC", "b/x.png", "b/y.HEIC"), ())
        assert (report.images.pixels[0::2].float() - report.images.pixels[1::2].float()).abs().max() < 12
    else:
        assert report.images.paths == ("a/x.png", "b/x.png")
        assert [item.path for item in report.skipped] == ["a/y.HEIC", "b/y.HEIC"]
        assert all("pip install pillow-heif" in item.reason for item in report.skipped)


def test_a_missing_package_is_named():
    assert "pip install pillow-heif" in decode.unread_reason(".heic")
    assert "pillow" in decode.unread_reason(".avif")
    assert decode.unread_reason(".jxl") == "images of type .jxl are not read; convert it to PNG or JPEG"


@pytest.mark.parametrize(
    ("array", "pixels"),
    [
        (np.array([0, 255], np.uint8), [0, 255]),
        (np.array([False, True]), [0, 255]),
        (np.array([0, 0.5, 1]), [0, 128, 255]),
        (np.array([0, 0.5, 1], np.float16), [0, 128, 255]),
        (np.array([0, 257, 65_535], np.uint16), [0, 1, 255]),
        (np.array([0, 200, 255], np.int64), [0, 200, 255]),
    ],
)
def test_one_rule_for_8_bits(array, pixels):
    assert decode.eight_bits(array).tolist() == pixels


@pytest.mark.parametrize(
    "array", [np.array([-1]), np.array([256]), np.array([1.1]), np.array([np.nan]), np.array(["x"])]
)
def test_other_numbers_have_no_8_bits(array):
    with pytest.raises(UnreadableImageError, match=r"its .*pixels"):
        decode.eight_bits(array)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    with (tmp_path / "x.png").open("wb") as file:
        file.truncate(1 << 40)  # takes no room on the disk
    with pytest.raises(HitNetError, match="it has 1,099,511,627,776 bytes, more than"):
        read_image(tmp_path / "x.png", (1, 8, 8))


def test_other_aspect_is_centred_on_black(tmp_path):
    Image.new("L", (20, 10), 255).save(tmp_path / "wide.png")
    image = read_image(tmp_path / "wide.png", (1, 8, 8))[0]
    assert (image[2:6] == 255).all()
    assert (image[:2] == 0).all()
    assert (image[6:] == 0).all()


def test_orientation_is_honoured(tmp_path):
    picture = Image.new("L", (20, 10), 0)
    picture.paste(255, (0, 0, 20, 3))  # a bright band on top, on the right once turned
    exif = Image.Exif()
    exif[decode.ORIENTATION] = 6
    for name in ("x.jpg", "x.png", "x.webp", "x.tif"):
        picture.save(tmp_path / name, exif=exif)
        if name != "x.png":  # whose EXIF lies behind the pixels
            assert decode.header(tmp_path / name) == decode.Header(20, 10, name != "x.webp")
        image = read_image(tmp_path / name, (1, 20, 10))[0].float()
        assert image[:, 8:].mean() > 200
        assert image[:, :5].mean() < 30


def test_sixteen_bits_keep_their_range(tmp_path):
    values = np.array([[0, 257, 32896, 65535]], np.uint16)
    for name in ("x.png", "x.tif", "x.pgm"):
        Image.fromarray(values).save(tmp_path / name)
        assert read_image(tmp_path / name, (1, 1, 4)).flatten().tolist() == [0, 1, 128, 255]
        assert decode.header(tmp_path / name).grey


@pytest.mark.parametrize("value", [1, 200, 300, 5000])
def test_a_dark_picture_of_many_bits_is_dark(tmp_path, value):
    for name, kind in (("x.png", np.uint16), ("x.pgm", np.uint16), ("x.tif", np.uint16), ("y.tif", np.int32)):
        Image.fromarray(np.full((1, 2), value, kind)).save(tmp_path / name)
        assert read_image(tmp_path / name, (1, 1, 2)).flatten().tolist() == [round(value / 257)] * 2


def test_another_white_of_a_pgm(tmp_path):
    (tmp_path / "plain.pgm").write_bytes(b"P2 3 1 1000\n0 200 1000\n")
    (tmp_path / "raw.pgm").write_bytes(b"P5 3 1 1000\n" + np.array([0, 200, 1000], ">u2").tobytes())
    for name in ("plain.pgm", "raw.pgm"):
        assert read_image(tmp_path / name, (1, 1, 3)).flatten().tolist() == [0, 51, 255]


def test_whole_numbers_beyond_sixteen_bits(tmp_path):
    Image.fromarray(np.array([[0, 65536]], np.int32)).save(tmp_path / "x.tif")
    with pytest.raises(HitNetError, match="its int32 pixels run from 0 to 65536, outside 0 to 65,535"):
        read_image(tmp_path / "x.tif", (1, 1, 2))


def test_fractions(tmp_path):
    Image.fromarray(np.array([[0.0, 0.5, 1.0]], np.float32)).save(tmp_path / "x.tif")
    assert read_image(tmp_path / "x.tif", (1, 1, 3)).flatten().tolist() == [0, 128, 255]
    for odd, says in ((np.nan, "nan to nan"), (np.inf, "0 to inf"), (-0.5, "-0.5 to 1"), (1.5, "0 to 1.5")):
        Image.fromarray(np.array([[0.0, odd, 1.0]], np.float32)).save(tmp_path / "odd.tif")
        with pytest.raises(HitNetError, match=f"its float32 pixels run from {says}, outside 0 to 1"):
            read_image(tmp_path / "odd.tif", (1, 1, 3))


def test_transparent_parts_lie_on_white(tmp_path):
    Image.fromarray(np.array([[[9, 9, 9, 0], [0, 0, 0, 255], [0, 0, 0, 128]]], np.uint8)).save(tmp_path / "x.png")
    assert read_image(tmp_path / "x.png", (1, 1, 3)).flatten().tolist() == [255, 0, 127]


def test_palettes(tmp_path):
    for name, colours, grey in (("g.png", [0, 0, 0, 99, 99, 99], True), ("c.png", [0, 0, 0, 255, 0, 0], False)):
        picture = Image.fromarray(np.array([[0, 1]], np.uint8), "L").convert("P")
        picture.putpalette(colours)
        picture.save(tmp_path / name)
        assert decode.header(tmp_path / name).grey is grey
    assert read_image(tmp_path / "g.png", (1, 1, 2)).flatten().tolist() == [0, 99]
    assert read_image(tmp_path / "c.png", (3, 1, 2))[:, 0, 1].tolist() == [255, 0, 0]


def test_large_jpegs_are_read_small_and_right(tmp_path):
    ramp = np.tile(np.linspace(0, 255, 1600).astype(np.uint8), (1200, 1))
    Image.fromarray(ramp).save(tmp_path / "x.jpg", quality=95)
    image = read_image(tmp_path / "x.jpg", (1, 24, 32))[0].float()
    assert (image.mean(0) - torch.linspace(4, 251, 32)).abs().max() < 4


def png_header(width, height):
    ihdr = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunk = b"IHDR" + ihdr
    start = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return start + struct.pack(">I", 9) + b"IDAT" + b"x" * 9


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "it is empty"),
        (b"this is text", "not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image"),
        (png_header(60000, 60000), "more than 100,000,000 pixels"),
        (png_header(10001, 10000), "10001 x 10000 pixels"),
    ],
    ids=["empty", "text", "eps", "huge", "large"],
)
def test_odd_files(tmp_path, content, says):
    (tmp_path / "odd.png").write_bytes(content)
    with pytest.raises(HitNetError, match=says) as caught:
        read_image(tmp_path / "odd.png", (1, 8, 8))
    assert "odd.png" in str(caught.value)


@pytest.mark.parametrize("kind", ["png", "jpg", "webp", "gif", "tif"])
def test_truncated_files(tmp_path, kind):
    path = tmp_path / f"x.{kind}"
    Image.fromarray(noise(64, 64, 3)).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(HitNetError, match=r"damaged|not an image"):
        read_image(path, (3, 64, 64))


def test_no_file(tmp_path):
    with pytest.raises(HitNetError, match="no such file"):
        read_image(tmp_path / "none.png", (1, 8, 8))
    with pytest.raises(HitNetError, match="not a regular file"):
        read_image(tmp_path, (1, 8, 8))
    with pytest.raises(HitNetError, match="shape"):
        read_image(tmp_path, (2, 8, 8))
