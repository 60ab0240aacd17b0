"""Networks as judges: which are trained, for how long, and the distances by which they judge.

Networks of several kinds err on different images: together they judge better than as many of one kind.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from hitnet import models
from hitnet.audit.judgement import Case, Judgement
from hitnet.data import Images, ImageSet
from hitnet.data.images import Streamed
from hitnet.data.reading.pixel_store import decoded_once
from hitnet.errors import HitNetError, log
from hitnet.features.opinions import Ints, Opinion, keep_near
from hitnet.inference.evaluation import check_fit
from hitnet.models.network import PRETRAINED_BATCH, Network, class_distances
from hitnet.models.registry import HEADS
from hitnet.runtime.device import room_for_images
from hitnet.runtime.progress import Progress
from hitnet.synthesis.decoding import class_prototypes, to_pixels
from hitnet.training import Recipe, RecipeChoice, Run, RunFolder, choose_recipe
from hitnet.training.committees import check_committee
from hitnet.training.configuration import BACKBONE_SIDE, at_backbone_size, configure
from hitnet.training.jobs import Job, train_runs
from hitnet.training.recipes import FINE_TUNING, complete_recipe

Model = str | models.ModelChoice
BATCH, BATCH_BYTES = 10_000, 2**27  # images on the device at once, in all their views
VIEW_SHIFT, GREY_SHIFT = 2, 1  # pixels

# Epochs by kind of features; see docs/audit.md for what more or less of it gives.
EPOCHS = {"small": 8, "paper": 12, "resnet9": 40, "pretrained": 8}
MANY_IMAGES, FEWER_EPOCHS = 20_000, 4  # of a pretrained network: longer, it learns wrong labels by heart
GREY_EPOCHS = EPOCHS | {"resnet9": 12}  # digits and the like are learned sooner than photographs
SINGLE_KIND, OF_EACH = 4, 2  # networks of the only kind, and of each where there are several
# Small sets get more epochs, but not too many: a network that has hardly learned doubts every label, one that knows
# them all by heart none.
LEAST_STEPS = {"small": 100, "paper": 300, "resnet9": 300, "pretrained": 100}


@dataclass(frozen=True)
class Planned:
    """One network to train: its kind, and for how many epochs."""

    choice: models.ModelChoice
    epochs: int


def plan(
    images: ImageSet, *, model: Model | Sequence[Model] | None = None, count: int | None = None, device: torch.device
) -> list[Planned]:
    """The networks in the order of their seeds, kinds in turn; by default those that suit the images and the device."""
    given = [model] if isinstance(model, Model) else list(model or default_kinds(images, device))
    kinds = list(dict.fromkeys(planned(models.find_choice(each), images) for each in given))
    if count is None:
        count = SINGLE_KIND if len(kinds) == 1 else OF_EACH * len(kinds)
    if count < 1:
        raise HitNetError(f"`networks` must be at least 1; got {count}.")
    return list(islice(cycle(kinds), count))


def default_kinds(images: ImageSet, device: torch.device) -> list[Model]:
    """On a GPU, grey images are judged by the paper's network and a deep one, colour images only by the deep one."""
    if device.type == "cuda" and images.shape[0] == 1:  # with batch-norm of each class, as it was measured
        return [models.choose_model("hitnet", norm="each"), "hitnet-resnet9"]
    return [models.default_name(images.shape, device.type)]


def planned(choice: models.ModelChoice, images: ImageSet) -> Planned:
    built = choice.config(images.shape, images.num_classes)
    need_hit_or_miss(str(choice.name), HEADS[built.head].loss)
    epochs = GREY_EPOCHS if images.shape[0] == 1 else EPOCHS
    kind = "pretrained" if choice.pretrained else built.features
    kind = kind if kind in EPOCHS else "paper"
    most = FEWER_EPOCHS if choice.pretrained and len(images) >= MANY_IMAGES else epochs[kind]
    least = complete_recipe("fast", features=built.features).epochs_for(LEAST_STEPS[kind], len(images))
    return Planned(choice, max(most, least))


def need_hit_or_miss(model_name: str, loss: str) -> None:
    if loss != "centripetal":
        raise HitNetError(f"{model_name} has no Hit-or-Miss layer; audit with a network named hitnet….")


def judge_by_networks(
    networks: Sequence[Planned],
    recipe: Recipe | RecipeChoice,
    seed: int,
    case: Case,
    *,
    shifted: bool = False,
    left_out: Tensor | None = None,
) -> Judgement:
    """Train networks on the labels as given, or resume them, and let them judge all images.

    Networks are in the order of their seeds, of which `seed` is the first. If `shifted`, they see grey images in
    shifted views. `left_out` (N,) is the network that is trained without each image; None: each is trained on all.
    """
    judged: dict[int, tuple[Run, np.ndarray]] = {}
    classes: Ints | None = None
    for pretrained in (False, True):
        places = [i for i, network in enumerate(networks) if network.choice.pretrained is pretrained]
        if not places:
            continue
        images = _at_backbone_size(case, networks[places[0]].choice) if pretrained else case.images
        with _within_reach(images, case.device) as seen:
            trained = _train(networks, places, recipe, seed, images, seen, case, left_out)
            by = GREY_SHIFT if shifted else 0
            ask = partial(collect, trained, seen, case.device, grey_shift=by, classes=classes, progress=case.progress)
            distances, classes = case.ranks.from_first(ask)
        judged |= zip(places, zip(trained, distances, strict=True), strict=True)
    runs, all_distances = zip(*(judged[i] for i in sorted(judged)), strict=True)
    return _judgement(runs, all_distances, classes, case.images)


def likely(count: int | None) -> list[Planned]:
    """What is planned for photographs, before these are looked at."""
    return [Planned(models.choose_model(models.PRETRAINED), EPOCHS["pretrained"])] * (count or SINGLE_KIND)


def passes(networks: Sequence[Planned], recipe: Recipe | RecipeChoice, side: int = BACKBONE_SIDE) -> dict[str, float]:
    """How long networks take, in passes of all images through a pretrained backbone: training takes three per epoch.

    Networks from scratch, on images of a longest side in pixels, take less, by their pixels.
    """
    cost = {True: 1.0, False: (side / BACKBONE_SIDE) ** 2}
    times = [(cost[each.choice.pretrained], complete_recipe(_own_recipe(recipe, each)).epochs) for each in networks]
    return {"training": sum(3 * one * epochs for one, epochs in times), "judging": sum(one for one, _ in times)}


def judge_by_runs(runs: Sequence[Run], images: Images, device: torch.device) -> Judgement:
    """The judgement of trained networks, on images that are labelled in their order of classes."""
    check_committee(runs)
    for run in runs:
        need_hit_or_miss(run.config.model_name, run.model.head.loss)
        check_fit(run.model, images)
    return _judgement(runs, *collect(runs, images, device), images)


def _judgement(
    runs: Sequence[Run], distances: Sequence[np.ndarray] | np.ndarray, classes: Ints | None, images: ImageSet
) -> Judgement:
    configs = [run.config for run in runs]
    drawn = next((run.model for run in runs if run.model.decoder is not None), None)  # prototypes are this network's
    return Judgement(
        tuple(Opinion("networks", each, in_sample=True, capsules=True, classes=classes) for each in distances),
        images,
        ", ".join(dict.fromkeys(config.model_name for config in configs)),
        tuple({"model": c.model_name, "seed": c.seed, "recipe": c.recipe.to_dict()} for c in configs),
        None if drawn is None else to_pixels(class_prototypes(drawn, torch.arange(images.num_classes))),
    )


def _train(
    networks: Sequence[Planned],
    places: Sequence[int],
    recipe: Recipe | RecipeChoice,
    seed: int,
    images: ImageSet,
    seen: ImageSet,
    case: Case,
    left_out: Tensor | None,
) -> list[Run]:
    """Train, or resume, the networks at `places` on images within reach, `seen`."""

    def job(i: int) -> Job:
        mine = None if left_out is None else torch.nonzero(left_out != i)[:, 0]
        part = images if mine is None else images.select(mine)
        own = _own_recipe(recipe, networks[i])
        config, _ = configure(case.data, part, None, device=case.device, model=networks[i].choice, recipe=own)
        config = replace(config, seed=seed + i)
        if i:  # only the first has a decoder, for prototypes
            config = replace(config, model=replace(config.model, decoder="none", extra_dim=0))
        folder = None if case.folder is None else RunFolder(case.folder / "models" / f"seed-{config.seed}")
        return Job(config, seen, folder=folder, places=mine)

    jobs = [job(i) for i in places]
    return train_runs(jobs, ranks=case.ranks, resume=True, device=case.device, progress=case.progress)


def _own_recipe(recipe: Recipe | RecipeChoice, network: Planned) -> Recipe | RecipeChoice:
    """The recipe; `fast` with the audit's own number of epochs, unless it names one, and backbones that are tuned."""
    if not isinstance(recipe, RecipeChoice) or recipe.name != "fast":
        return recipe
    tuned = {"backbone_rate": FINE_TUNING} if network.choice.pretrained else {}
    return choose_recipe("fast", **{"epochs": network.epochs, **tuned, **recipe.changes})


@contextmanager
def _within_reach(images: ImageSet, device: torch.device) -> Iterator[ImageSet]:
    """Images that are read again and again: in memory or, where it is short, decoded in a file until the end."""
    size = len(images) * math.prod(images.shape)
    if not isinstance(images, Streamed) or size <= room_for_images(device):
        yield images.in_memory()
        return
    log.info("%s: decoded, its images take %.1f GB: they stay on disk.", images.name, size / 1e9)
    with decoded_once() as file:
        yield images if file is None else images.stored_in(file)


def _at_backbone_size(case: Case, choice: models.ModelChoice) -> ImageSet:
    data, images = at_backbone_size(case.data, choice), case.images
    if isinstance(images, Streamed) and data.options.image_size is not None:
        shape = (images.shape[0], *data.options.image_size)
        return replace(images, shape=shape, crop=data.options.crop)
    [others] = data.image_sets([case.split], partial(room_for_images, case.device))
    if not torch.equal(images.ids, others.ids):
        raise HitNetError(f"{images.name} has changed while it was audited. Audit it again.")
    return replace(others, labels=images.labels, class_names=images.class_names)


def collect(
    runs: Sequence[Run],
    images: ImageSet,
    device: torch.device,
    *,
    grey_shift: int = 0,
    classes: Ints | None = None,
    progress: Progress = Progress(),
) -> tuple[np.ndarray, Ints | None]:
    """Class distances (M, N, k) in float32, the mean over each image's views, and on which classes they are kept."""
    options: dict[str, Any] = {"device": device, "memory_format": torch.channels_last}
    networks = [run.model.to(**options) for run in runs]
    size = min(BATCH, max(1, BATCH_BYTES // math.prod(images.shape) // PRETRAINED_BATCH) * PRETRAINED_BATCH)
    order = torch.arange(len(images)).split(size)
    progress.part("judging", len(images), "images")

    def seen() -> Iterator[list[Tensor]]:
        for part in images.read(order) if isinstance(images, Streamed) else images.pixels.split(size):
            here = part.to(device)
            yield [mean_distances(each, here, flip=images.flip, grey_shift=grey_shift) for each in networks]
            progress.step(len(part))

    return keep_near(seen(), images.labels, classes)


def mean_distances(network: Network, pixels: Tensor, *, flip: bool, grey_shift: int = 0) -> Tensor:
    """Class distances (N, K) on the CPU: the mean over each image's views."""
    shift = VIEW_SHIFT if pixels.shape[1] > 1 else grey_shift
    if network.config.pretrained:  # it has seen shifts enough
        shift = 0
    seen = [class_distances(network, view) for view in views(pixels, flip=flip, shift=shift)]
    return torch.stack(seen).mean(dim=0).cpu()


def views(pixels: Tensor, *, flip: bool, shift: int) -> Iterator[Tensor]:
    """Images (N, C, H, W) as they are, and shifted four ways by `shift` pixels; each also mirrored if `flip`."""
    height, width = pixels.shape[2:]
    around = F.pad(pixels, [shift] * 4)
    for top, left in dict.fromkeys([(shift, shift), (0, shift), (2 * shift, shift), (shift, 0), (shift, 2 * shift)]):
        view = around[:, :, top : top + height, left : left + width]
        yield view
        if flip:
            yield view.flip(-1)
