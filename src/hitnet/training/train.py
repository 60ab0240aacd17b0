"""Train: the function behind `hitnet train`, and what it makes of its options."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

import torch

from hitnet import models
from hitnet.data.images import Images
from hitnet.data.load import Source
from hitnet.data.sources import is_known
from hitnet.data.stream import ImageSet, Streamed, open_images
from hitnet.errors import HitNetError, whole
from hitnet.files import expand
from hitnet.models.network import Network
from hitnet.training import distributed
from hitnet.training.device import pick_device, room_for_images
from hitnet.training.evaluation import match_classes
from hitnet.training.hybrid import HybridAugmentation, frozen_network
from hitnet.training.modification import Prepare
from hitnet.training.networks import Task, release, train_networks
from hitnet.training.objective import Objective
from hitnet.training.progress import Progress
from hitnet.training.recipe import Recipe
from hitnet.training.recipe import recipe as find_recipe
from hitnet.training.run import Run, RunConfig, RunFolder, load, prepare

log = logging.getLogger("hitnet")


def fingerprint(images: ImageSet) -> str:
    """A short hash of pixels, labels and masks: the same images under the same labels, whatever they are called."""
    if isinstance(images, Streamed):
        return images.fingerprint
    digest = hashlib.blake2b(digest_size=8)
    for tensor in (images.pixels, images.labels, images.masks):
        if tensor is not None:
            digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()


def weights_fingerprint(network: Network) -> str:
    """A short hash of a network's weights, the same on every device and in every memory order."""
    digest = hashlib.blake2b(digest_size=8)
    for name, value in network.state_dict().items():
        digest.update(name.encode())
        digest.update(value.cpu().contiguous().numpy().data)
    return digest.hexdigest()


def source_name(source: Source) -> str:
    """How a run or an audit names its data, so that it is found again from any folder: paths are made absolute."""
    if isinstance(source, Images):
        return source.name
    return str(source) if is_known(source) else str(expand(source).absolute())


def describe(source: Source, images: ImageSet, test: ImageSet | None) -> dict[str, Any]:
    """What a run's configuration keeps of its data."""
    return {
        "source": source_name(source),
        "name": images.name,
        "images": len(images),
        "test_images": None if test is None else len(test),
        "class_names": list(images.class_names),
        "mirror": images.flip,
        "fingerprint": fingerprint(images),
    }


class Options(TypedDict, total=False):
    """What `train` takes beside the data and the seeds."""

    model: str | None
    recipe: str | Recipe
    epochs: int | None
    augment: str | None
    augment_from: Run | str | Path | None
    seed: int
    out: str | Path | None
    device: str
    limit: int | None
    resume: bool
    test: Images | None
    data_dir: str | Path | None
    image_size: int | tuple[int, int] | None
    strict: bool
    stream: bool | None
    mirror: bool | None
    model_options: dict[str, Any] | None
    recipe_options: dict[str, Any] | None
    progress: Progress | None
    profile: bool


@overload
def train(data: Source, *, seeds: None = None, **options: Unpack[Options]) -> Run: ...


@overload
def train(data: Source, *, seeds: int | Sequence[int], **options: Unpack[Options]) -> list[Run]: ...


@overload
def train(data: Source, *, seeds: int | Sequence[int] | None, **options: Unpack[Options]) -> Run | list[Run]: ...


def train(
    data: Source,
    *,
    model: str | None = None,
    recipe: str | Recipe = "fast",
    epochs: int | None = None,
    augment: str | None = None,
    augment_from: Run | str | Path | None = None,
    seed: int = 0,
    seeds: int | Sequence[int] | None = None,
    out: str | Path | None = None,
    device: str = "auto",
    limit: int | None = None,
    resume: bool = False,
    test: Images | None = None,
    data_dir: str | Path | None = None,
    image_size: int | tuple[int, int] | None = None,
    strict: bool = False,
    stream: bool | None = None,
    mirror: bool | None = None,
    model_options: dict[str, Any] | None = None,
    recipe_options: dict[str, Any] | None = None,
    progress: Progress | None = None,
    profile: bool = False,
) -> Run | list[Run]:
    """Train a network and, with `out`, keep it in a run folder.

    data      a name of the catalogue, a path, or `Images` (then `test` may give the images to test on)
    model     a name of `hitnet.models.MODELS`; by default one that suits the images and the device
    augment   "hybrid": train on images that the network of the run `augment_from` modifies as training goes, before
              they are shifted; the recipe's augment_strength and augment_share say how much
    seeds     train one network a seed, on one copy of the images, and give a list of runs: so many, counted on from
              `seed`, or the seeds themselves; each is kept in out/seed-S and is what it would be if trained alone
    limit     use at most so many training images: the first of `Images` or of a known set; of a folder, a table or a
              .npz an even draw, by a fixed rule
    resume    go on with the run in `out`; a finished run is returned as it is
    stream    read a folder's or table's images from disk as training goes (True), keep them in memory (False), or read
              them from disk if they would take more than half of the free memory (None)
    mirror    whether an image may be mirrored in training, by recipes that do so; None: what is known of the set, which
              of your own files is no
    progress  told of every step and epoch
    profile   write where a step's time goes into the run folder (profile.json, profile.txt)
    """
    where = pick_device(device)
    if profile and out is None:
        raise HitNetError("A profile is written into the run folder. Say where that is to be (out).")
    ranks = distributed.connect(where)
    with distributed.watched(ranks):
        images, tested = read(
            data,
            test,
            device=where,
            limit=limit,
            stream=stream,
            data_dir=data_dir,
            image_size=image_size,
            strict=strict,
        )
        images = images if mirror is None else replace(images, flip=mirror)
        config, modify = configure(
            data,
            images,
            tested,
            device=where,
            model=model,
            model_options=model_options,
            recipe=recipe,
            recipe_options={"epochs": epochs, "augment": augment, **(recipe_options or {})},
            augment_from=augment_from,
        )
        config = replace(config, data=config.data | {"limit": limit})
        tasks = ranks.from_first(lambda: several_tasks(config, seed, seeds, out, resume=resume, device=where))
        try:
            if tasks[0].config.data != config.data:
                raise HitNetError(f"Process {ranks.rank} sees other images than process 0. Give all the same data.")
            runs = train_networks(
                tasks, images, tested, device=where, modify=modify, progress=progress, ranks=ranks, profile=profile
            )
        finally:
            release(tasks)
    return runs[0] if seeds is None else runs


def configure(
    data: Source,
    images: ImageSet,
    test: ImageSet | None,
    *,
    device: torch.device,
    model: str | None = None,
    model_options: dict[str, Any] | None = None,
    recipe: str | Recipe = "fast",
    recipe_options: dict[str, Any] | None = None,
    augment_from: Run | str | Path | None = None,
) -> tuple[RunConfig, Prepare | None]:
    """The configuration of a run, with seed 0, and what makes ready to modify its images, if anything is to."""
    name = model or models.default_name(images.shape, device.type)
    built = models.config(name, images.shape, images.num_classes, **(model_options or {}))
    chosen = find_recipe(recipe, features=built.features, images=len(images), **(recipe_options or {}))
    with torch.device("meta"):  # options that do not fit are said before any folder is made; this takes no memory
        Objective(Network(built), chosen, epoch=1)
    warn_of_ghosts(chosen.ghosts, images.num_classes)
    modify, origin = hybrid_augmentation(chosen, augment_from, images, device)
    described = describe(data, images, test)
    return RunConfig(name, built, chosen, seed=0, data=described, augment_from=origin), modify


def task(config: RunConfig, out: str | Path | None, *, resume: bool, device: torch.device) -> Task:
    return Task(config, None if out is None else prepare(RunFolder(out), config, resume=resume, device=device))


def several_tasks(
    config: RunConfig,
    seed: int,
    seeds: int | Sequence[int] | None,
    out: str | Path | None,
    *,
    resume: bool,
    device: torch.device,
) -> list[Task]:
    """One task in `out`, or one a seed in out/seed-S: so many seeds from `seed` on, or those that are given."""
    if seeds is None:
        return [task(replace(config, seed=seed), out, resume=resume, device=device)]
    if not isinstance(seeds, Iterable):
        seeds = range(seed, seed + whole("train", "seeds", seeds, 1))
    chosen = list(seeds)
    if not chosen or len(set(chosen)) < len(chosen):
        raise HitNetError(f"seeds must be a whole number from 1 on, or seeds that all differ; got {seeds!r}.")
    folders = [None if out is None else Path(out) / f"seed-{one}" for one in chosen]
    configs = [replace(config, seed=one) for one in chosen]  # checks all seeds before the first folder is made
    found: list[Task] = []
    try:
        for one, folder in zip(configs, folders, strict=True):
            found.append(task(one, folder, resume=resume, device=device))
    except HitNetError:
        release(found)
        raise
    return found


def read(
    data: Source, test: Images | None, *, device: torch.device, limit: int | None, stream: bool | None, **options: Any
) -> tuple[ImageSet, ImageSet | None]:
    """The images to train on, and those to test on where there are any."""
    images: ImageSet
    read_too: list[ImageSet] = []
    if isinstance(data, Images):
        images = data.first(limit)
    else:
        splits = ["train", "test"] if test is None else ["train"]
        images, *read_too = open_images(
            data, splits, limit=limit, stream=stream, room=partial(room_for_images, device), **options
        )
    tested = read_too if test is None else [to_test_on(test, images)]
    for one in (images, *tested):
        if not len(one):
            raise HitNetError(f"{one.name} holds no images.")
    return images, tested[0] if tested else None


def to_test_on(test: Images, images: ImageSet) -> Images:
    """Test images that were given, labelled in the order of classes of the images to train on."""
    if test.shape != images.shape:
        raise HitNetError(
            f"{test.name}, to test on, has images of shape {test.shape}, but those of {images.name} are "
            f"{images.shape} (channels, height, width). Give images of one shape."
        )
    return match_classes(test, images.class_names)


def hybrid_augmentation(
    recipe: Recipe, run: Run | str | Path | None, images: ImageSet, device: torch.device
) -> tuple[Prepare | None, dict[str, Any] | None]:
    """What makes ready to modify images by this recipe, if it does, and what the run's configuration keeps of it."""
    if recipe.augment == "none":
        if run is not None:
            raise HitNetError("There is a run to augment from, but no augmentation. Ask for it (--augment hybrid).")
        return None, None
    if run is None:
        raise HitNetError(
            "Hybrid augmentation modifies images with a trained network. Name the run of one that was trained on the "
            "same classes (--augment-from RUN)."
        )
    trained = run if isinstance(run, Run) else load(run)
    network = frozen_network(trained, class_names=images.class_names, in_shape=images.shape, device=device)
    modify = partial(HybridAugmentation, network, strength=recipe.augment_strength, share=recipe.augment_share)
    kept = None if trained.folder is None else str(expand(trained.folder).absolute())
    return modify, {"run": kept, "weights": weights_fingerprint(network)}


def warn_of_ghosts(ghosts: int, classes: int) -> None:
    if ghosts and ghosts >= classes - 1:
        log.warning(
            "With %d classes and %d ghosts, no capsule has to miss: an image may hit every class unpunished, and "
            "nothing keeps the classes apart. Let ghosts begin later (--ghosts-from-epoch), act at times "
            "(--ghost-probability) or only where they are nearer than the true class (--ghost-rule nearer).",
            classes,
            ghosts,
        )
