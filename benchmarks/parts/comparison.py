"""The networks of the comparison (in reproduction/), for benchmarks, which run from their own folder."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from reproduction.dropconnect import PlainSoftmaxHead as PlainSoftmaxHead
from reproduction.networks import MarginLoss as MarginLoss
