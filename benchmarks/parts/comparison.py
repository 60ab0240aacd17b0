"""The networks of the comparison (reproduction/networks.py), for benchmarks, which run from their own folder."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from reproduction.networks import MarginLoss as MarginLoss
from reproduction.networks import PlainSoftmaxHead as PlainSoftmaxHead
