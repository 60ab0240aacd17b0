"""Who judges the labels: one table from what is asked for, the images and the device to networks, heads, neighbours.

docs/audit-evidence.md has the measurements behind the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from hitnet.audit.audit_folder import tell_room_of_audit
from hitnet.audit.feature_judges import judge_features, steps_of_heads
from hitnet.audit.judgement import Case, Judgement, cross_fitted
from hitnet.audit.networks import Model, Planned, judge_by_networks, judge_by_runs, likely, passes, plan
from hitnet.data import Data, ImageSet
from hitnet.data.formats.image_files import any_colour
from hitnet.data.opened import match_classes
from hitnet.errors import HitNetError, check_choice, log, whole
from hitnet.features.dataset_features import features_of, read_features
from hitnet.features.heads import deal
from hitnet.features.neighbours import Neighbours, most_typical, nearest
from hitnet.features.opinions import NEIGHBOURS, Ints, Opinion, all_distances, judge_similar_images, kept_classes
from hitnet.models import PRETRAINED, choose_model
from hitnet.models.backbones import DEFAULT, Backbone, open_backbone
from hitnet.training import Recipe, RecipeChoice, Run, choose_recipe, open_run

FEW = 5_000  # grey images; fewer teach a network from scratch too little to be the only judges

# Parts of the work, and how long each takes, in passes of all images through the backbone (see also `passes`).
HEADS, RESULTS = {"features": 1.0, "finding neighbours": 0.1, "fitting heads": 0.7}, {"results": 0.2}

# The options that each kind of judges takes, beside the seed.
FROZEN, TRAINED = ("backbone", "weights", "features", "repeats"), ("model", "networks", "recipe", "epochs")
TAKES = {
    "features": FROZEN,
    "fine-tuned": ("backbone", "weights", "repeats", "networks", "recipe", "epochs"),
    "scratch": (*TRAINED, "neighbours"),
    "mixed": (*FROZEN, *TRAINED),
    "runs": ("runs",),
}
Kind = Literal["auto", "features", "fine-tuned", "scratch", "mixed"]
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True)
class Judges:
    """Which models judge the labels. To judge in a way of your own, derive a class and override `judge`.

    Attributes:
        kind: auto (what suits images and device), features (heads on a frozen backbone), fine-tuned (a backbone,
            and heads on it, frozen), scratch (new networks) or mixed (features and scratch).
        backbone: Pretrained backbone: efficientnet-lite0 (in the package) or timm:NAME. In Python, also a
            `Backbone` from `open_backbone`, for heads.
        weights: The backbone's weights, a .safetensors file. None: its published weights.
        features: Features that you have, instead of a backbone's: .npy, .npz, .parquet or a folder of .parquet parts,
            one row per image.
        repeats: Heads that judge an image, none of which has seen its label.
        model: Kind of network (see `hitnet models`), or several, which take turns. None: what suits the images.
        networks: Number of networks to train. None: 4, or 2 per kind.
        recipe: How networks are trained: fast, paper or paper-decay. `fast` uses the audit's own number of epochs.
        epochs: Number of epochs of each network.
        neighbours: Look at grey images in shifted views too, and ask the most similar images, where these know the
            labels. The result then depends less on seeds and on the machine.
        runs: Judge by finished runs, or their folders, instead of all this.
        seed: Seed of the heads and of the first network; the other networks count on from it.
    """

    kind: str = "auto"
    backbone: str | Backbone | None = None
    weights: str | Path | None = None
    features: str | Path | None = None
    repeats: int = 1
    model: Model | Sequence[Model] | None = None
    networks: int | None = None
    recipe: str | Recipe | RecipeChoice = "fast"
    epochs: int | None = None
    neighbours: bool = False
    runs: Sequence[str | Path | Run] | None = None
    seed: int = 0

    def wanted(self, device: torch.device) -> str:
        """The kind that the options ask for; "auto" if they leave it open. Raises if they do not go together."""
        check_choice("audit", "`judges`", self.kind, KINDS)
        whole("audit", "`repeats`", self.repeats, 1)
        defaults = {each.name: each.default for each in fields(self) if each.default is not MISSING}
        given = {name for name, value in defaults.items() if getattr(self, name) != value} - {"kind", "seed"}
        kind, because = self.kind, f"`judges` = {self.kind}"
        if "runs" in given:
            kind, because = "runs", "`runs`"
        elif kind == "auto" and given.intersection(FROZEN):
            gpu = device.type == "cuda" and "features" not in given and not isinstance(self.backbone, Backbone)
            kind = "fine-tuned" if gpu else "features"
            because = ", ".join(f"`{name}`" for name in FROZEN if name in given)
        elif kind == "auto" and given:
            kind = "scratch"
        odd = [f"`{each.name}`" for each in fields(self) if kind != "auto" and each.name in given - {*TAKES[kind]}]
        if odd:
            raise HitNetError(f"{because} and {', '.join(odd)} do not go together. Leave out {', '.join(odd)}.")
        if "features" in given and given & {"backbone", "weights"}:
            raise HitNetError("`features` take the place of a backbone. Leave out `backbone` and `weights`.")
        if kind == "fine-tuned" and isinstance(self.backbone, Backbone):
            raise HitNetError("Only a named `backbone` can be fine-tuned. Use `judges` = features.")
        if kind == "runs" and not self.runs:
            raise HitNetError("`runs`: give at least one run.")
        return kind

    def choose(self, images: ImageSet, device: torch.device) -> tuple[Judges, str]:
        """The same with a kind other than auto, and who judges and why; empty if the options say it."""
        kind = self.wanted(device)
        if kind != "auto":
            return replace(self, kind="auto" if kind == "runs" else kind), ""
        grey, gpu, count = images.shape[0] == 1, device.type == "cuda", len(images)
        backbone, networks = "a pretrained backbone, fine-tuned", "networks trained from scratch"
        both = "networks from scratch and heads on a frozen backbone"
        table = (
            (not grey and gpu, "fine-tuned", f"{backbone} and frozen (colour images, a GPU)"),
            (not grey, "features", "heads on a frozen, pretrained backbone (colour images, no GPU)"),
            (count < FEW, "mixed", f"{both} (fewer than {FEW:,} grey images)"),
            (gpu, "scratch", f"{networks} (many grey images)"),
            (True, "scratch", f"{networks} and the most similar images (many grey images, no GPU)"),
        )
        kind, who = next((kind, who) for holds, kind, who in table if holds)
        return replace(self, kind=kind, neighbours=kind == "scratch" and not gpu), who

    def needs_pixels(self, data: Data, device: torch.device) -> bool:
        """Whether all images have to be in memory; heads on a backbone need only their files."""
        kind = self.wanted(device)
        if type(self).judge is not Judges.judge or kind in ("scratch", "runs") or (entries := data.entries) is None:
            return True
        return kind == "auto" and len(entries) >= FEW and not any_colour(entries)  # few are judged by heads in any case

    def likely_parts(self, device: torch.device) -> dict[str, float]:
        """The parts of the work (see `Progress.plan`) before images are looked at, features first."""
        kind = self.wanted(device)
        tuned = kind == "fine-tuned" or (kind == "auto" and device.type == "cuda")
        return {"features": 1.0} | (passes(likely(self.networks), self._recipe()) if tuned else {}) | HEADS | RESULTS

    def frozen_backbone(self) -> Backbone | None:
        """The backbone that heads stand on; None for features of the user's own."""
        return None if self.features is not None else open_backbone(self.backbone or DEFAULT, self.weights)

    def judge(self, case: Case) -> Judgement:
        """Judge the labels of a case; what is expensive is kept below its folder, and resumed from there."""
        chosen, who = self.choose(case.images, case.device)
        if who:
            log.info("Labels are judged by %s. Set `judges` to choose otherwise.", who)
        if chosen.runs:
            runs = [run if isinstance(run, Run) else open_run(run) for run in chosen.runs]
            return judge_by_runs(runs, match_classes(case.images.in_memory(), runs[0].class_names), case.device)
        if chosen.kind == "features":
            case.progress.plan(HEADS | RESULTS)
            return chosen._judge_by_heads(case)
        model = chosen.model
        if chosen.kind == "fine-tuned":  # a backbone reads the files at its own size
            weights = None if self.weights is None else str(self.weights)
            model = choose_model(PRETRAINED, features=str(self.backbone or DEFAULT), weights=weights)
        else:
            case.data.log_size()
        planned = plan(case.images, model=model, count=self.networks, device=case.device)
        judge = chosen._judge_by_networks if chosen.kind == "scratch" else chosen._judge_by_both
        return judge(case, planned)

    def _judge_by_both(self, case: Case, planned: list[Planned]) -> Judgement:
        """Networks, each of which leaves out some of the images, and heads."""
        images = case.images
        if len(planned) < 2:
            raise HitNetError("`networks` must be at least 2: each judges images that only the others were trained on.")
        case.progress.plan(passes(planned, self._recipe(), max(images.shape)) | HEADS | RESULTS)
        left_out = deal(images.labels, len(planned), torch.Generator().manual_seed(self.seed))
        networks = judge_by_networks(planned, self._recipe(), self.seed, case, left_out=left_out)
        classes = networks.opinions[0].classes
        opinions = cross_fitted(all_distances(networks.opinions), left_out, images.labels, classes)
        heads = self._judge_by_heads(case, classes)
        pictured = heads if networks.prototypes is None else networks
        return replace(
            heads,
            opinions=(*opinions, *heads.opinions),
            model=f"{networks.model}, {heads.model}",
            networks=(*networks.networks, *heads.networks),
            prototypes=pictured.prototypes,
            typical=pictured.typical,
        )

    def _judge_by_networks(self, case: Case, planned: list[Planned]) -> Judgement:
        case.progress.plan(passes(planned, self._recipe(), max(case.images.shape)) | RESULTS)
        judged = judge_by_networks(planned, self._recipe(), self.seed, case, shifted=self.neighbours)
        if not self.neighbours:
            return judged
        similar = judge_similar_images(case.images.in_memory(), case.device, judged.opinions[0].classes)
        if not similar:
            return judged
        return replace(judged, opinions=(*judged.opinions, *similar), model=f"{judged.model} and neighbours")

    def _recipe(self) -> Recipe | RecipeChoice:
        recipe = choose_recipe(self.recipe) if isinstance(self.recipe, str) else self.recipe
        if self.epochs is None:
            return recipe
        if isinstance(recipe, Recipe):
            return replace(recipe, epochs=self.epochs)
        return choose_recipe(recipe.name, **{**recipe.changes, "epochs": self.epochs})

    def _judge_by_heads(self, case: Case, classes: Ints | None = None) -> Judgement:
        images, labels, device = case.images, case.images.labels, case.device
        backbone = case.backbone or self.frozen_backbone()
        if backbone is None:
            assert self.features is not None  # else there is a backbone
            features, name = read_features(self.features, images), Path(self.features).name
        else:
            hooks: dict[str, Any] = {"progress": case.progress, "ranks": case.ranks}
            features, name = features_of(case.data, images, backbone, device=device, **hooks), backbone.name
        if case.folder is not None and case.ranks.first:
            columns, judges = kept_classes(len(images), images.num_classes) + 1, 2 * self.repeats + 2
            tell_room_of_audit(case.folder, len(images), columns, judges, features.shape[1])
        options: dict[str, Any] = {"repeats": self.repeats, "seed": self.seed, "classes": classes}
        options |= {"device": device, "progress": case.progress}

        def judge() -> tuple[tuple[Opinion, ...], Neighbours]:
            case.progress.part("finding neighbours", len(images), "images")
            near = nearest(rows := features.to(device), NEIGHBOURS, labels, case.progress)
            case.progress.part("fitting heads", steps_of_heads(len(images), self.repeats))
            opinions = judge_features(rows, labels, images.num_classes, neighbours=near, **options)
            return opinions, (near[0].cpu(), near[1].cpu())

        opinions, neighbours = case.ranks.from_first(judge)
        model, shown = f"heads and neighbours on {name}", typical_images(features, images)
        return Judgement(opinions, images, model, ({"features": name},), shown, True, features, neighbours)


def typical_images(features: Tensor, images: ImageSet) -> Tensor:
    """The most typical image of each class, uint8 (K, C, H, W); black for a class without images."""
    typical = torch.zeros(images.num_classes, *images.shape, dtype=torch.uint8)
    members = most_typical(features, images.labels, images.num_classes, 1)
    first = {k: int(own[0]) for k, own in enumerate(members) if len(own)}
    with suppress(HitNetError):  # a file is gone; the page shows the others
        typical[list(first)] = images.select(list(first.values())).in_memory().pixels
    return typical
