"""How well "none of these" tells foreign images from images of known classes, beside softmax on the same network.

    python benchmarks/none_of_these.py heads --photos CLOTHING --data-dir DATA --cache FOLDER
    python benchmarks/none_of_these.py trained --data-dir DATA
    python benchmarks/none_of_these.py trained --data-dir DATA --limit 300 --epochs 1 --seeds 0 --record /tmp/try.json
    python benchmarks/none_of_these.py classifier --data-dir DATA
    python benchmarks/none_of_these.py table

Scores: the misfit (the centripetal loss of the winning class), which `hitnet predict --keep` compares with a limit; the
distance of the nearest capsule; the largest probability and the energy, for capsules as for softmax (their logits are
−distance / 0.1, as in `hitnet.probabilities`). Figures: AUROC; FPR95, the share of foreign images that pass where 95 %
of the known ones do; and the share of images that are answered "none" where all capsules miss, and beyond a limit that
half of the held-out images set (see parts/foreign.py). Rows go to benchmarks/records/none_of_these.json.

heads     Heads on features of the frozen EfficientNet-Lite0. Known and foreign: MNIST and Fashion-MNIST, CIFAR-10 and
          SVHN, photographs of clothes (CLOTHING, as for photographs.py) and MNIST. 4,500 known images (of clothes, all
          3,781) are dealt anew for each seed: two thirds to train on, one third held out; the 1,500 foreign ones stay
          the same. Both kinds of heads get the same batches, steps and dropout, and the learning rate that the audit's
          own heads of that kind have. The features are standardised one by one, as the audit does, or all divided by
          one number: features that hardly vary among the known images become huge on foreign ones in the first case
          only. FOLDER keeps the features.
trained   `hitnet-resnet9` from scratch by the recipe `fast`, with 10 epochs: with capsules (no decoder), with softmax
          after a batch-norm, as in reproduction/results.md, and with plain softmax. MNIST and Fashion-MNIST, CIFAR-10
          and SVHN; up to 10,000 test images each. For a GPU. Needs both splits of MNIST and CIFAR-10, and the test
          split of the others.
classifier
          `HitNetClassifier(keep=0.95)` on the first 5,000 training images of MNIST and of Fashion-MNIST, each foreign
          to the other, on a CPU. It holds out 500 of them, which set the limit. Counted: the 10,000 test images of
          both, and 10,000 images of noise, with pixels drawn evenly from 0..255.
table     Prints the record's means and standard deviations.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import hitnet
from hitnet.features.extraction import extract
from hitnet.features.least_squares import standardisation
from hitnet.features.one_pass import cached_features
from hitnet.models import open_backbone
from hitnet.models.network import Network, evaluating, to_device
from hitnet.models.registry import Head, HitOrMissHead
from hitnet.runtime import files
from hitnet.runtime.device import evaluation_batch, pick_device
from hitnet.sklearn import HitNetClassifier
from parts.comparison import PlainSoftmaxHead
from parts.foreign import KEEP, detection, score_rows, show
from parts.noisy_labels import clothing_files
from parts.record import Row, about, replace_rows
from parts.tables import table

RECORD = Path(__file__).with_name("records") / "none_of_these.json"
GREY = ("mnist", "fashion-mnist")
PAIRS = {"mnist": "fashion-mnist", "cifar10": "svhn"}
KNOWN, FOREIGN, TESTED = 4_500, 1_500, 10_000  # images
FITTED = 5_000  # images that the classifier of scikit-learn gets
STEPS, BATCH, DROPOUT = 100, 256, 0.5
RATES = {"hit-or-miss": 1e-2, "plain-softmax": 3e-3}
NETWORKS = ("hit-or-miss", "softmax", "plain-softmax")  # heads of trained networks
COLUMNS = {
    "error_percent": "error %",
    "auroc": "AUROC",
    "fpr95": "FPR95",
    "known_none_if_all_miss": "known answered none, all miss",
    "foreign_none_if_all_miss": "foreign",
    "largest_misfit": "misfit of 95 %",
    "known_none_by_misfit": "known answered none beyond it",
    "foreign_none_by_misfit": "foreign",
    "noise_none_by_misfit": "noise",
}


def kept_features(name: str, split: str, count: int, args: argparse.Namespace) -> tuple[Tensor, Tensor]:
    """Features and labels of the first images of a split; the features are kept in a file."""
    images = hitnet.open_data(name, data_dir=args.data_dir).load(split).first(count)
    path = args.cache / f"{name}-{split}-{count}.npy"
    if not path.is_file():
        features = extract(images.pixels, open_backbone("efficientnet-lite0"))
        with files.replacing(path) as temporary, temporary.open("wb") as file:
            np.save(file, features.numpy(), allow_pickle=False)
    return torch.from_numpy(np.load(path, allow_pickle=False)).float(), images.labels


def feature_pairs(args: argparse.Namespace) -> Iterator[tuple[str, tuple[Tensor, Tensor], Tensor]]:
    """Name of each pair, features and labels of the known images, features of the foreign ones."""
    for known, foreign in PAIRS.items():
        yield (
            f"{known} / {foreign}",
            kept_features(known, "train", KNOWN, args),
            kept_features(foreign, "test", FOREIGN, args)[0],
        )
    if args.photos is not None:
        photographs, labels = clothing_files(args.photos)
        features = cached_features(photographs, open_backbone("efficientnet-lite0"), folder=args.cache).float()
        yield "clothing / mnist", (features, torch.from_numpy(labels)), kept_features("mnist", "test", FOREIGN, args)[0]


def fit_head(name: str, features: Tensor, labels: Tensor, seed: int) -> Head:
    """A head on features (N, D), by Adam and a one-cycle schedule."""
    torch.manual_seed(seed)
    head: Head = PlainSoftmaxHead(features.shape[1], 10)
    if name == "hit-or-miss":
        torch.manual_seed(seed)
        # In a short training, the statistics must follow the weights quickly.
        head = HitOrMissHead(features.shape[1], 10, norm="each", momentum=0.1)
    optimizer = torch.optim.Adam(head.parameters(), RATES[name])
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATES[name], total_steps=STEPS, pct_start=0.3)
    centripetal, draw = hitnet.CentripetalLoss(), torch.Generator().manual_seed(seed)
    passes = [torch.randperm(len(features), generator=draw) for _ in range(-(-STEPS * BATCH // len(features)))]
    for rows in torch.cat(passes)[: STEPS * BATCH].split(BATCH):
        numbers = torch.empty(len(rows) * features.shape[1] // 8, dtype=torch.int64)
        bytes_drawn = numbers.random_(-(2**63), None, generator=draw).view(torch.uint8)  # eight per number: quicker
        kept = bytes_drawn.view(len(rows), -1) >= round(256 * DROPOUT)
        capsules = head(features[rows] * kept / (1 - DROPOUT))
        if head.loss == "centripetal":
            loss = centripetal(head.distances(capsules), labels[rows])
        else:
            loss = torch.nn.functional.cross_entropy(capsules.squeeze(-1), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return head.eval()


def scaled(features: Tensor, learned: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    """Mean, and factor of each feature: its own, or one for all."""
    mean, factor = standardisation(features[learned])
    spread = (features[learned] - mean).square().mean().sqrt()
    return {"standardised": (mean, factor), "one scale": (mean, 1 / spread)}


def said(head: Head, capsules: Tensor) -> Tensor:
    """Distances (B, K) of capsules, or logits (B, K)."""
    return head.distances(capsules) if head.loss == "centripetal" else capsules.squeeze(-1)


def measure_heads(args: argparse.Namespace) -> None:
    args.cache.mkdir(parents=True, exist_ok=True)
    for pair, (features, labels), foreign in feature_pairs(args):
        for seed in args.seeds or range(5):
            order = torch.randperm(len(features), generator=torch.Generator().manual_seed(seed))
            learned, held_out = order.split([2 * len(order) // 3, len(order) - 2 * len(order) // 3])
            for (scaling, (mean, factor)), name in product(scaled(features, learned).items(), RATES):
                started = time.perf_counter()
                inputs, strange = (features - mean) * factor, (foreign - mean) * factor
                head = fit_head(name, inputs[learned], labels[learned], seed)
                with torch.inference_mode():
                    known, other = (said(head, head(each)) for each in (inputs[held_out], strange))
                rows = score_rows(name, known, other, labels[held_out])
                rows = [row | {"arm": f"{row['arm']}, {scaling}"} for row in rows]
                keep("heads", pair, seed, rows, time.perf_counter() - started, args)


@torch.inference_mode()
def network_says(model: Network, pixels: Tensor) -> Tensor:
    """Distances or logits (N, K) of uint8 images, on the CPU."""
    with evaluating(model) as device:
        batches = pixels.split(evaluation_batch(pixels.shape[1:]))
        capsules = [model(to_device(batch, device), reconstruct=False).capsules.float().cpu() for batch in batches]
    return said(model.head, torch.cat(capsules))


def measure_trained(args: argparse.Namespace) -> None:
    seeds = args.seeds or [0, 1, 2]
    for known, foreign in PAIRS.items():
        learned = hitnet.open_data(known, data_dir=args.data_dir).load("train").first(args.limit)
        tested, strange = (
            hitnet.open_data(name, data_dir=args.data_dir).load("test").first(args.limit or TESTED)
            for name in (known, foreign)
        )
        for head in NETWORKS:
            started = time.perf_counter()
            choice = hitnet.choose_model("hitnet-resnet9", head=head, decoder="none")
            recipe = hitnet.choose_recipe("fast", epochs=args.epochs)
            runs = hitnet.train_many(learned, seeds=seeds, model=choice, recipe=recipe)
            seconds = (time.perf_counter() - started) / len(runs)
            for run in runs:
                of_known, of_foreign = (network_says(run.model, images.pixels) for images in (tested, strange))
                rows = score_rows(head, of_known, of_foreign, tested.labels)
                rows = [row | {"images": len(learned), "epochs": args.epochs} for row in rows]
                keep("trained", f"{known} / {foreign}", run.config.seed, rows, seconds, args)


def measure_classifier(args: argparse.Namespace) -> None:
    for seed, (known, foreign) in product(args.seeds or [0, 1, 2], (GREY, GREY[::-1])):
        learned = hitnet.open_data(known, data_dir=args.data_dir).load("train").first(args.limit or FITTED)
        tested, strange = (hitnet.open_data(name, data_dir=args.data_dir).load("test") for name in (known, foreign))
        noise = np.random.default_rng(seed).integers(0, 256, (TESTED, *learned.shape), dtype=np.uint8)
        started = time.perf_counter()
        classifier = HitNetClassifier(keep=KEEP, random_state=seed, device="cpu")
        classifier.fit(learned.pixels.numpy(), learned.labels.numpy())
        seconds = time.perf_counter() - started
        misfits = [torch.from_numpy(classifier.misfits(images.pixels.numpy())) for images in (tested, strange)]
        row = {
            "arm": "HitNetClassifier",
            "images": len(learned),
            "error_percent": 100 * (1 - classifier.score(tested.pixels.numpy(), tested.labels.numpy())),
            **detection(-misfits[0], -misfits[1]),
            "largest_misfit": classifier.largest_misfit_,
        }
        for kind, pixels in (("known", tested.pixels.numpy()), ("foreign", strange.pixels.numpy()), ("noise", noise)):
            row[f"{kind}_none_by_misfit"] = float(classifier.none_of_these(pixels).mean())
        keep("classifier", f"{known} / {foreign}", seed, [row], seconds, args)


def keep(part: str, pair: str, seed: int, rows: list[Row], seconds: float, args: argparse.Namespace) -> None:
    """Put rows into the record as soon as they are measured; `seconds` is the time of their training."""
    device = pick_device("auto") if part == "trained" else torch.device("cpu")
    shared = {"part": part, "data": pair, "seed": seed, "seconds": seconds}
    complete = [shared | row | about(device) for row in rows]
    replace_rows(args.record, complete, "part", "data", "arm", "seed")
    print(show(complete), flush=True)


def print_table(args: argparse.Namespace) -> None:
    for part in ("heads", "trained", "classifier"):
        rows = [row for row in files.read_json(args.record) if row["part"] == part]
        print(f"\n{part}\n\n{table(rows, COLUMNS)}")


PARTS = {"heads": measure_heads, "trained": measure_trained, "classifier": measure_classifier, "table": print_table}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("runs/features"))
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--epochs", type=int, default=10, help="of trained networks")
    parser.add_argument("--limit", type=int, help="train and test trained networks on fewer images, for a trial")
    parser.add_argument("--record", type=Path, default=RECORD)
    args = parser.parse_args()
    PARTS[args.part](args)


if __name__ == "__main__":
    main()
