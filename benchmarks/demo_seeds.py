"""How steady the demo's audit of the digits is: the errors that it finds, over seeds.

python benchmarks/demo_seeds.py [--seeds 0 1 2 3 4] [--out benchmarks/records/demo_seeds.json]

Audits `mnist-sample` as `hitnet audit mnist-sample` does on a CPU, once per seed, and counts how many of the 15 labels
that people found wrong are among the 100 and the 200 most doubtful. Rows are added to the record.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

import hitnet
from parts.record import about, replace_rows

RECORD = Path(__file__).with_name("records") / "demo_seeds.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--out", type=Path, default=RECORD)
    args = parser.parse_args()
    for seed in args.seeds:
        began = time.perf_counter()
        audit = hitnet.audit_labels("mnist-sample", judges=hitnet.Judges(seed=seed), device="cpu")
        row = {"seed": seed, **(audit.summary.verified_errors or {}), "seconds": round(time.perf_counter() - began, 1)}
        print(row, flush=True)
        replace_rows(args.out, [row | about(torch.device("cpu"))], "seed")


if __name__ == "__main__":
    main()
