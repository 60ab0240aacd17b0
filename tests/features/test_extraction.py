"""Features of files and arrays: the same as the plain way, whatever the batch, with EXIF rotation and odd files."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from hitnet.data.reading.decode import Header, header
from hitnet.errors import HitNetError
from hitnet.features import extraction, photographs
from hitnet.features.extraction import Extractor, extract
from hitnet.features.one_pass import cached_features
from hitnet.features.photographs import GpuReader, Jpeg, cropped, gpu_jpeg, groups, plain_jpeg, read, shape_at, turned
from hitnet.models.backbones import open_backbone
from toy import Counted

ORIENTATION = 0x0112


class Small(nn.Module):
    """Convolution, batch normalisation and the mean of each map."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.BatchNorm2d(6)
        nn.init.uniform_(self.bn.running_mean, -1, 1)
        nn.init.uniform_(self.bn.running_var, 0.5, 2)

    def forward(self, images):
        return torch.relu(self.bn(self.conv(images))).mean(dim=(2, 3))


@pytest.fixture(autouse=True)
def none_refused(monkeypatch):
    monkeypatch.setattr(GpuReader, "refused", 0)


@pytest.fixture
def backbone():
    torch.manual_seed(0)
    return open_backbone(Small(), input_size=32, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))


@pytest.fixture
def photos(tmp_path):
    """Files of several kinds, sizes and shapes."""
    random = np.random.default_rng(0)
    paths = []
    for i in range(21):
        size = (40 + 3 * i, 70 - i)
        noise = Image.fromarray(random.integers(0, 256, (6, 6, 3), np.uint8)).resize(size, Image.Resampling.BICUBIC)
        path = tmp_path / f"{i:02}.{('jpg', 'png', 'webp')[i % 3]}"
        (noise.convert("L") if i % 5 == 4 else noise).save(path)
        paths.append(path)
    return paths


def plain(paths, backbone):
    """One image at a time, nothing folded."""
    rows = []
    with torch.inference_mode():
        for path in paths:
            rows.append(backbone.module(backbone.normalise(read(path, 32)[None]))[0])
    return torch.stack(rows)


@pytest.mark.parametrize(("threads", "half", "tolerance"), [(1, False, 1e-3), (3, False, 1e-3), (3, True, 2e-2)])
def test_files_give_the_features_of_the_plain_way_in_their_order(
    photos, backbone, threads, half, tolerance, monkeypatch, tmp_path
):
    monkeypatch.setattr(extraction.torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(extraction, "bfloat16_in_cpu", lambda: half)
    seen = Counted()
    found = cached_features(photos, backbone, folder=tmp_path, progress=seen)
    assert found.dtype == torch.float16
    torch.testing.assert_close(found.float(), plain(photos, backbone), rtol=tolerance, atol=tolerance)
    assert sum(seen.steps) == 21


def test_features_do_not_depend_on_the_batch(photos, backbone, tmp_path):
    forward = cached_features(photos, backbone, folder=tmp_path / "forward")
    backward = cached_features(photos[::-1], backbone, folder=tmp_path / "backward")
    torch.testing.assert_close(forward, backward.flip(0), rtol=1e-3, atol=1e-3)


def test_arrays_are_brought_to_size_and_grey_ones_to_three_channels(backbone):
    pixels = torch.randint(0, 256, (9, 1, 16, 16), dtype=torch.uint8)
    found = extract(pixels, backbone)
    assert found.shape == (9, 6)
    torch.testing.assert_close(found, extract(pixels.expand(-1, 3, -1, -1), backbone))
    large = torch.nn.functional.interpolate(pixels.float(), (32, 32), mode="bilinear", antialias=True)
    with torch.inference_mode():
        expected = backbone.module(backbone.normalise(large))
    torch.testing.assert_close(found.float(), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.gpu
def test_a_gpu_gets_batches_of_one_size(backbone):
    extractor = Extractor(backbone, device="cuda")
    sizes, network = [], extractor.module
    extractor.module = lambda images: (sizes.append(len(images)), network(images))[1]
    pixels = torch.randint(0, 256, (261, 3, 32, 32), dtype=torch.uint8)
    torch.testing.assert_close(
        extractor.features(pixels).cpu(), extract(pixels, backbone).float(), rtol=0.05, atol=0.05
    )
    assert sizes == [256, 256]


def test_the_middle_is_kept_and_exif_is_honoured(tmp_path):
    array = np.zeros((40, 80, 3), np.uint8)
    array[:, 20:60] = 255  # the square middle is white
    array[:10, 30:50] = (255, 0, 0)  # and red at its top
    Image.fromarray(array).save(tmp_path / "plain.png")
    upright = read(tmp_path / "plain.png", 20)
    assert upright.shape == (3, 20, 20)
    assert upright[2].float().mean() > 200
    assert upright[1, :4, 6:14].max() < 30
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        path = tmp_path / f"{orientation}.jpg"
        Image.fromarray(array).save(path, exif=exif, quality=95)
        assert plain_jpeg(path) == Jpeg(path, orientation, header(path))
        stored = torch.from_numpy(np.array(Image.open(path))).permute(2, 0, 1)
        on_gpu = cropped(turned(stored, orientation)[None], 20)[0].int()
        by_pillow = read(path, 20).int()
        assert (on_gpu - by_pillow).abs().float().mean() < 1.5, orientation


def test_shapes_keep_the_aspect():
    assert shape_at(533, 400, 224) == (298, 224)
    assert shape_at(300, 400, 224) == (224, 299)
    assert shape_at(1, 16, 32) == (32, 512)


def test_a_thin_picture_takes_little_memory(tmp_path):
    """By its shorter side, a line of 3,000 pixels would become 224 x 672,000: only its middle is scaled."""
    Image.new("RGB", (3000, 1), "red").save(tmp_path / "line.png")
    picture = read(tmp_path / "line.png", 224)
    assert picture.shape == (3, 224, 224)
    assert picture[0].min() > 200
    Image.new("RGB", (340, 20)).save(tmp_path / "thin.jpg")
    assert plain_jpeg(tmp_path / "thin.jpg") is None


def test_a_gpu_decodes_no_more_than_it_has_room_for(monkeypatch):
    monkeypatch.setattr(photographs, "TOGETHER", 100)
    pixels = {0: 60, 2: 40, 3: 1, 5: 500, 6: 50, 7: 50}
    jpegs = {i: Jpeg(Path(), 1, Header(1, width, False)) for i, width in pixels.items()}
    assert list(groups(jpegs)) == [[0, 2], [3], [5], [6, 7]]
    assert list(groups({})) == []


def test_what_is_not_plain_jpeg_is_left_to_pillow(photos, tmp_path):
    kinds = [bool(plain_jpeg(path)) for path in photos]
    assert kinds == [path.suffix == ".jpg" for path in photos]
    Image.new("CMYK", (20, 20)).save(tmp_path / "cmyk.jpg")
    (tmp_path / "half.jpg").write_bytes(photos[0].read_bytes()[:-40])  # a GPU might take it for a picture
    (tmp_path / "low.jpg").write_bytes(b"\xff\xd8\xff\xdb\x00\x02" * 3 + b"\xff\xd9")
    assert (
        plain_jpeg(tmp_path / "cmyk.jpg")
        is plain_jpeg(tmp_path / "half.jpg")
        is plain_jpeg(tmp_path / "low.jpg")
        is None
    )


def test_common_jpeg_files_need_no_pillow(tmp_path, monkeypatch):
    ways = [{}, {"progressive": True}, {"optimize": True}, {"comment": b"x" * 60_000}, {"icc_profile": b"x" * 99}]
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    files = {}
    for mode, (number, way) in itertools.product(("RGB", "L"), enumerate([*ways, {"exif": exif}])):
        path = tmp_path / f"{mode}{number}.jpg"
        Image.new(mode, (31, 17)).save(path, **way)
        files[path] = header(path)
    assert [plain_jpeg(path).header for path in files] == [*files.values()]
    monkeypatch.setattr(photographs.Image, "open", None)
    assert [plain_jpeg(path) is None for path in files] == 2 * ([False] * len(ways) + [True])


@pytest.mark.parametrize("together", [1, 1 << 26])
def test_a_reader_for_gpus_falls_back_file_by_file(photos, monkeypatch, together):
    """With a decoder on the CPU in the GPU's place, which refuses one file and whole batches that hold it."""
    monkeypatch.setattr(photographs, "TOGETHER", together)
    refused = photos[3].read_bytes()

    def decode_jpeg(contents, device):
        if any(bytes(content.tolist()) == refused for content in contents):
            raise RuntimeError("nvJPEG does not support this")
        arrays = [Image.open(photos[0]) if content is None else content for content in contents]
        by_bytes = {path.read_bytes(): path for path in photos}
        return [
            torch.from_numpy(np.array(Image.open(by_bytes[bytes(array.tolist())]).convert("RGB"))).permute(2, 0, 1)
            for array in arrays
        ]

    batch = [plain_jpeg(path) or read(path, 32) for path in photos]
    found = GpuReader(decode_jpeg, 32, torch.device("cpu"))(batch)
    expected = torch.stack([read(path, 32) for path in photos])
    assert found.shape == (21, 3, 32, 32)
    assert (found.int() - expected.int()).abs().float().mean() < 1
    assert torch.equal(found[3], expected[3])
    assert not any(each.odd for each in batch if isinstance(each, Jpeg))


@pytest.mark.gpu
def test_decoding_beside_the_network_changes_no_features(photos):
    """The GPU's decoder writes without waiting for kernels: a slow network still reads while it writes."""
    slow = nn.Sequential(nn.Conv2d(3, 256, 9, padding=4), nn.Conv2d(256, 256, 9), nn.Flatten(2), nn.AvgPool1d(8, 8))
    backbone = open_backbone(nn.Sequential(slow, nn.Flatten()), input_size=32, mean=(0.5,) * 3, std=(0.2,) * 3)
    jpegs = [jpeg for path in photos if (jpeg := plain_jpeg(path))]
    images = [jpegs[i % len(jpegs)] for i in range(20 * extraction.AT_ONCE["cuda"])]
    extractor = Extractor(backbone, device="cuda")
    (expected,) = extractor.run(images[: extraction.AT_ONCE["cuda"]])
    for start, found in enumerate(extractor.run(images)):
        places = (torch.arange(len(found)) + start * len(found)) % len(jpegs)
        assert torch.equal(found, expected[places])


def test_a_refused_file_is_found_in_halves():
    """One refused file of 64 costs two calls for each halving, not one for each file."""
    asked = []

    def decode_jpeg(contents, device):
        asked.append(len(contents))
        if any(int(content) == 37 for content in contents):
            raise RuntimeError("nvJPEG does not support this")
        return [content[None] for content in contents]

    found = GpuReader(decode_jpeg, 32, torch.device("cpu")).decoded([torch.tensor(i) for i in range(64)])
    assert [None if each is None else int(each) for each in found] == [*range(37), None, *range(38, 64)]
    assert len(asked) == 1 + 2 * 6


def test_a_decoder_that_refuses_all_files_is_asked_no_more(photos, monkeypatch, caplog):
    monkeypatch.setattr(photographs, "ENOUGH", 3)
    monkeypatch.setattr(photographs, "gpu_reader", lambda: GpuReader)
    asked, gpu = [], torch.device("cuda")

    def decode_jpeg(contents, device):
        asked.append(len(contents))
        raise RuntimeError("nvjpegDecodeBatched failed: 5\nat line 7")

    batch = [gpu_jpeg(path, gpu) for path in photos if path.suffix == ".jpg"]
    found = GpuReader(decode_jpeg, 32, torch.device("cpu"))(batch)
    assert torch.equal(found, torch.stack([read(jpeg.file, 32) for jpeg in batch]))
    assert asked == [7, 3, 1, 2, 1, 1]
    assert gpu_jpeg(photos[0], gpu) is None
    why = "refuses one file after the other (nvjpegDecodeBatched failed: 5)"
    assert caplog.messages == [f"The GPU's JPEG decoder {why}. From here on, the CPU decodes."]


def test_what_neither_the_gpu_nor_pillow_decodes_is_said(photos, tmp_path):
    def refuse(contents, device):
        raise RuntimeError("nvJPEG does not support this")

    (tmp_path / "half.jpg").write_bytes(photos[0].read_bytes()[:-40])
    batch = [Jpeg(tmp_path / "half.jpg", 1, Header(10, 10, False)), read(photos[1], 32)]
    found = GpuReader(refuse, 32, torch.device("cpu"))(batch)
    assert torch.equal(found[1], batch[1])
    assert "truncated" in batch[0].odd


def test_odd_files_and_odd_arrays_are_named(tmp_path, photos, backbone):
    odd = tmp_path / "odd.jpg"
    odd.write_bytes(b"no picture")
    with pytest.raises(HitNetError, match=r"odd.jpg: "):
        cached_features([*photos, odd], backbone, folder=tmp_path / "cache")
    with pytest.raises(HitNetError, match=r"must be uint8 \(N, C, H, W\)"):
        extract(torch.zeros(2, 3, 8, 8), backbone)


def test_little_is_under_way_at_a_time(backbone):
    """Images are asked for as features are taken, not all at once: memory does not grow with their number."""
    asked = []
    images = (asked.append(i) or torch.zeros(3, 32, 32, dtype=torch.uint8) for i in range(10_000))
    run = Extractor(backbone).run(images)
    next(run)
    assert len(asked) <= (2 * torch.get_num_threads() + 1) * extraction.AT_ONCE["cpu"]
    run.close()
