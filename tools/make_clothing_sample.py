"""Make the clothing sample of the package from a clone of github.com/alexeygrigorev/clothing-dataset-small.

    python tools/make_clothing_sample.py CLONE

1,200 of its 3,781 photographs (CC0), drawn evenly per class by the checksum of their paths, scaled to 160 pixels and
written as JPEG into one uncompressed zip with a fixed date, so that the same clone always gives the same file.
"""

from __future__ import annotations

import hashlib
import io
import sys
import zipfile
from collections import defaultdict
from pathlib import Path

from PIL import Image, ImageOps

COUNT, SIDE, QUALITY = 1200, 160, 78
TARGET = Path(__file__).parents[1] / "src" / "hitnet" / "data" / "known" / "sample" / "clothing" / "photos.zip"


def chosen(root: Path) -> list[Path]:
    """The same share of every class and split, in the order of their paths."""
    groups: dict[tuple[str, ...], list[Path]] = defaultdict(list)
    files = [
        path.relative_to(root) for split in ("train", "validation", "test") for path in (root / split).rglob("*.jpg")
    ]
    for path in files:
        groups[path.parts[:2]].append(path)
    share = COUNT / len(files)
    ranked = {
        key: sorted(paths, key=lambda p: hashlib.sha256(p.as_posix().encode()).digest())
        for key, paths in groups.items()
    }
    return sorted(path for paths in ranked.values() for path in paths[: round(share * len(paths))])


def photograph(path: Path) -> bytes:
    with Image.open(path) as image:
        upright = ImageOps.exif_transpose(image).convert("RGB")
        upright.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
        out = io.BytesIO()
        upright.save(out, "JPEG", quality=QUALITY, optimize=True)
        return out.getvalue()


def main() -> None:
    root = Path(sys.argv[1])
    paths = chosen(root)
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(TARGET, "w", zipfile.ZIP_STORED) as archive:
        for path in paths:
            split, label, name = path.parts
            split = "test" if split in ("test", "validation") else "train"
            entry = zipfile.ZipInfo(f"{split}/{label}/{name}", (2026, 1, 1, 0, 0, 0))
            archive.writestr(entry, photograph(root / path))
    print(f"{len(paths)} photographs, {TARGET.stat().st_size / 1e6:.1f} MB: {TARGET}")
    print(f"sha256 {hashlib.sha256(TARGET.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()
