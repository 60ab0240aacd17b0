"""Features of a frozen backbone: who judges small grey images, and how fast and in how much memory it is done.

    python benchmarks/photographs.py grey --data-dir DATA
    python benchmarks/photographs.py features --photos CLOTHING
    python benchmarks/photographs.py gpu --photos FOLDER
    python benchmarks/photographs.py heads
    python benchmarks/photographs.py memory

CLOTHING is a copy of github.com/alexeygrigorev/clothing-dataset-small (CC0): 3,781 photographs of ten classes, its
three splits taken together. Each step puts its rows into benchmarks/records/photographs.json.

`grey`: average precision of ranking labels that were made wrong, for 500 to 4,000 images of MNIST and Fashion-MNIST
with 5 % random labels, by heads on features, by networks from scratch, and by both, one draw each.
`features`: images per second from JPEG files to features, against a DataLoader and an eager float32 network.
`gpu`: images per second on a GPU: its JPEG decoder alone, from files to pixels, the network alone, and from files to
kept features. The JPEG files of a folder are copied, each copy with a comment of its own, until there are 25,200. Three
runs, after one that does not count.
`heads`: seconds of all heads for 10,000 images and ten classes.
`memory`: the peak memory of `extract_features` for 10,000 and 200,000 files, each in its own process. The files are
JPEGs of 32 x 32 and the backbone is small, so that the pass takes minutes; the features are as wide as the real ones.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from sklearn.metrics import average_precision_score

import hitnet
from hitnet.audit.feature_judges import judge_features
from hitnet.features.extraction import Extractor
from hitnet.features.heads import fit_heads
from hitnet.features.one_pass import cached_features
from hitnet.features.photographs import plain_jpeg
from hitnet.models.backbones import Backbone, open_backbone
from hitnet.models.efficientnet_lite import MEAN, STD, EfficientNetLite0, shipped_weights
from parts.noisy_labels import clothing_files, with_noise
from parts.record import Row, about, replace_rows

RECORD = Path(__file__).with_name("records") / "photographs.json"


def keep(rows: list[Row]) -> None:
    """Put rows into the record as soon as they are measured."""
    replace_rows(RECORD, rows, "case", "method", "seed")


def measure_grey(args: argparse.Namespace) -> None:
    """Who judges small grey images better: heads on features, or networks from scratch? One draw each."""
    for name in ("mnist", "fashion-mnist"):
        everything = hitnet.open_data(name, data_dir=args.data_dir).load("train")
        for count in (500, 1000, 2000, 4000):
            images = everything.first(count)
            truth = images.labels.numpy()
            given = with_noise(truth, "uniform", 0)
            noisy = replace(images, labels=torch.from_numpy(given))
            for method, judges in (
                ("features", hitnet.Judges("features")),
                ("scratch", hitnet.Judges("scratch", neighbours=True)),
                ("mixed", hitnet.Judges("mixed")),
            ):
                started = time.perf_counter()
                audit = hitnet.audit_labels(noisy, judges=judges, device="cpu")
                seconds = time.perf_counter() - started
                doubt = 1 - audit.table.sort_values("id")["score"].to_numpy()
                precision = float(average_precision_score(given != truth, doubt))
                print(f"{name}, {count:,} images: {method} {precision:.4f} ({seconds:.1f} s)", flush=True)
                row = {"case": f"{name}, {count:,} images", "method": method, "seed": 0, "images": count}
                row |= {"errors": int((given != truth).sum()), "ap": precision, "seconds": seconds}
                keep([row | about(torch.device("cpu"))])


class Plain(torch.utils.data.Dataset[torch.Tensor]):
    """What one would write without this package: the same middle of each photograph, decoded whole."""

    def __init__(self, files: Sequence[Path], size: int) -> None:
        self.files, self.size = files, size

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> torch.Tensor:
        image = ImageOps.exif_transpose(Image.open(self.files[i])).convert("RGB")
        image = ImageOps.fit(image, (self.size, self.size), Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255
        return (pixels - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


def plain(files: Sequence[Path], size: int) -> torch.Tensor:
    network = EfficientNetLite0()
    network.load_state_dict(shipped_weights())
    network.eval()
    loader = torch.utils.data.DataLoader(Plain(files, size), batch_size=32, num_workers=torch.get_num_threads())
    with torch.inference_mode():
        return torch.cat([network.forward_features(batch) for batch in loader])


def measure_features(args: argparse.Namespace) -> None:
    """Both ways in turn, three times: the machine may be busy with other things."""
    backbone: Backbone = open_backbone("efficientnet-lite0")
    files = clothing_files(args.photos)[0][:: 3781 // args.images][: args.images]
    speeds: dict[str, list[float]] = {"DataLoader, eager float32": [], "hitnet": []}

    def ours() -> None:
        with tempfile.TemporaryDirectory() as folder:
            cached_features(files, backbone, folder=folder)

    for _ in range(3):
        for name, work in zip(speeds, (lambda: plain(files, 224), ours), strict=True):
            started = time.perf_counter()
            work()
            speeds[name].append(len(files) / (time.perf_counter() - started))
    for name, values in speeds.items():
        row = {"case": "features", "method": name, "seed": None, "images": len(files), "images_per_second": values}
        print(row)
        keep([row | about(torch.device("cpu"))])


def copies(photos: Path, folder: Path, count: int) -> list[Path]:
    """Files of different content that show the photographs of a folder."""
    sources = [path.read_bytes() for path in sorted(photos.rglob("*.jpg"))]
    files = [folder / f"{i:06d}.jpg" for i in range(count)]
    for i, file in enumerate(files):
        content, comment = sources[i % len(sources)], f"{i:012d}".encode()
        head = b"\xff\xfe" + (len(comment) + 2).to_bytes(2) + comment
        file.write_bytes(content[:2] + head + content[2:])
    return files


def measure_gpu(args: argparse.Namespace) -> None:
    device, backbone = torch.device("cuda"), open_backbone("efficientnet-lite0")
    extractor = Extractor(backbone, device=device)
    reader = extractor.gpu_decoder
    if reader is None:
        raise SystemExit("torchvision cannot decode JPEG files on this GPU.")
    with tempfile.TemporaryDirectory() as photos:
        files = copies(args.photos, Path(photos), 25_200)
        jpegs = [each for each in map(plain_jpeg, files[:4096]) if each]
        batches = [jpegs[i : i + 256] for i in range(0, len(jpegs), 256)]
        contents = [
            [torch.frombuffer(bytearray(each.file.read_bytes()), dtype=torch.uint8) for each in b] for b in batches
        ]
        pixels = reader(batches[0])

        def all_of(files: Sequence[Path]) -> int:
            with tempfile.TemporaryDirectory() as cache:
                return len(cached_features(files, backbone, device=device, folder=cache))

        parts: dict[str, Callable[[], int]] = {
            "decoder": lambda: sum(len(reader.decoded(batch)) for batch in contents),
            "files to pixels": lambda: sum(len(reader(batch)) for batch in batches),
            "network": lambda: sum(len(extractor.features(pixels)) for _ in batches),
            "files to features": lambda: all_of(files),
        }
        all_of(files[:2000])
        speeds: dict[str, list[float]] = {name: [] for name in parts}
        for _ in range(4):
            for name, work in parts.items():
                torch.cuda.synchronize()
                started = time.perf_counter()
                count = work()
                torch.cuda.synchronize()
                speeds[name].append(count / (time.perf_counter() - started))
                print(name, round(speeds[name][-1]), flush=True)
    for name, values in speeds.items():
        row: Row = {"case": "features on a GPU", "method": name, "seed": None, "images": len(files)}
        keep([row | {"images_per_second": values[1:]} | about(device)])


def measure_heads(args: argparse.Namespace) -> None:
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(10, (10_000,), generator=draw)
    features = torch.randn(10, 3568, generator=draw)[labels] + 3 * torch.randn(10_000, 3568, generator=draw)
    for name, work in (
        ("heads, 5 folds and one of all", lambda: fit_heads(features, labels, 10)),
        ("all judges", lambda: judge_features(features, labels, 10)),
    ):
        started = time.perf_counter()
        work()
        seconds = time.perf_counter() - started
        row = {"case": "heads", "method": name, "seed": None, "images": 10_000, "features": 3568, "seconds": seconds}
        print(row)
        keep([row | about(torch.device("cpu"))])


def write_files(folder: Path, count: int) -> None:
    """JPEGs in two classes, no two of the same content."""
    for i in range(count):
        place = folder / "ab"[i % 2] / f"{i // 1000:03d}"
        if i % 1000 < 2:
            place.mkdir(parents=True)
        colours = np.array([[[i % 256, i // 256 % 256, i // 65_536]]], np.uint8).repeat(32, 0).repeat(32, 1)
        # JPEG may round neighbouring colours to the same: the comment makes every file differ.
        Image.fromarray(colours).save(place / f"{i:06d}.jpg", comment=str(i))


class Wide(torch.nn.Module):
    """A backbone of 3,568 features that costs next to nothing."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean(dim=(2, 3)).repeat(1, 1190)[:, :3568]


def peak_memory(folder: Path) -> int:
    """Bytes that a process takes at most while it computes the features of a folder."""
    backbone = open_backbone(Wide(), input_size=32)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["HITNET_CACHE"] = cache
        hitnet.extract_features(folder, out=Path(cache) / "features.npy", backbone=backbone, device="cpu")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure_memory(args: argparse.Namespace) -> None:
    for count in (10_000, 200_000):
        with tempfile.TemporaryDirectory() as folder:
            write_files(Path(folder), count)
            started = time.perf_counter()
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
                peak = pool.submit(peak_memory, Path(folder)).result()
            row = {"case": "memory", "method": f"{count:,} files", "seed": None, "images": count, "peak_bytes": peak}
            row |= {"seconds": time.perf_counter() - started}
            print(row, flush=True)
            keep([row | about(torch.device("cpu"))])


STEPS = {
    "grey": measure_grey,
    "features": measure_features,
    "gpu": measure_gpu,
    "heads": measure_heads,
    "memory": measure_memory,
}


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--images", type=int, default=400)
    args = parser.parse_args(given)
    STEPS[args.step](args)


if __name__ == "__main__":
    main()
