"""`hitnet extract`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hitnet.cli.options import DATA, AuditSplit, Backbone, Data, Device, Values, takes
from hitnet.cli.terminal import console, print_written
from hitnet.data import open_data
from hitnet.features.of_data import extract_features
from hitnet.models.backbones import DEFAULT
from hitnet.runtime import ranks

app = typer.Typer()


@app.command("extract")
@takes(data_options=DATA)
def extract_command(
    data: Data,
    data_options: Values,
    out: Annotated[Path, typer.Option(help="The .npy file to write, one row per image")],
    backbone: Backbone = None,
    weights: Annotated[Path | None, typer.Option(help="The backbone's weights, a .safetensors file")] = None,
    split: AuditSplit = None,
    device: Device = "auto",
) -> None:
    """Compute the features of all images by a pretrained backbone, and keep them for audits.

    For several processes or GPUs: torchrun --nproc-per-node N -m hitnet extract DATA --out FILE.npy
    """
    features = extract_features(
        open_data(data, **data_options),
        out=out,
        backbone=backbone or DEFAULT,
        weights=weights,
        split=None if split is None else str(split),
        device=device,
    )
    if ranks.rank() == 0:
        console.print(f"{features.shape[0]:,} images, {features.shape[1]:,} features each")
        print_written([out])
