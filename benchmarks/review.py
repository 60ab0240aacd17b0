"""How fast the review page is with more than a million rows.

    python benchmarks/review.py [--images 1280000] [--classes 1000] [--folder FOLDER]

An audit folder of made-up rows is reviewed in Chromium: seconds to the first rows, of filters, and of a decision. How
many wrong labels a reviewer finds after a share of the images is measured by benchmarks/audits.py.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from parts.many_rows import measure
from parts.record import replace_rows

RECORD = Path(__file__).with_name("records") / "review.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1_280_000)
    parser.add_argument("--classes", type=int, default=1_000)
    parser.add_argument("--folder", type=Path, help="keep the made-up audit here, and read it from here")
    args = parser.parse_args()
    replace_rows(RECORD, measure(args.images, args.classes, args.folder), "case", "way", "seed")


if __name__ == "__main__":
    main()
