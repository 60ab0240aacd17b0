"""Draw docs/images/capsules.png: the capsules of test images of digits.

    python tools/draw_capsules.py

It trains the README's network on `mnist-sample` and draws the capsules of the 2,000 test images.
"""

from __future__ import annotations

from pathlib import Path

import torch

import hitnet
from hitnet.plots import capsule_figure, save

TARGET = Path(__file__).parents[1] / "docs" / "images" / "capsules.png"


def main() -> None:
    data = hitnet.open_data("mnist-sample")
    run, test = hitnet.train(data, device="cpu"), data.load("test")
    with torch.inference_mode():
        capsules = run.model(test.pixels / 255, reconstruct=False).capsules
    save([capsule_figure(capsules, test.labels)], TARGET)


if __name__ == "__main__":
    main()
