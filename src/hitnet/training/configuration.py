"""From what was asked for to the configuration of a run: data, network and recipe, checked against each other."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from hitnet import models
from hitnet.data import Data, ImageSet
from hitnet.data.opened import Room, match_classes
from hitnet.errors import HitNetError, log
from hitnet.models import ModelChoice, backbones
from hitnet.models.hybrid import need_decoder
from hitnet.models.network import ModelConfig, Network, weights_fingerprint
from hitnet.runtime.files import expand
from hitnet.training.batches import HybridAugmentation, Prepare
from hitnet.training.recipes import Recipe, RecipeChoice, complete_recipe
from hitnet.training.run_config import RunConfig
from hitnet.training.runs import Run, RunLike, open_run
from hitnet.training.step import Objective

BACKBONE_SIDE = 224  # pixels
CLASSES_SHOWN = 5
MOST_PARAMETERS = 2_000_000_000  # training takes 32 GB for these


def training_sets(data: Data, room: Room) -> tuple[ImageSet, ImageSet | None]:
    """The images to train on and to test on, of one shape, labelled in one order of classes."""
    images, test = data.training_sets(room)
    for each in (images, test):
        if each is not None and not len(each):
            raise HitNetError(f"{each.name} holds no images.")
    if test is None:
        return images, None
    if test.shape != images.shape:
        raise HitNetError(
            f"{test.name}, to test on, has images of shape {test.shape}, but those of {images.name} are "
            f"{images.shape} (channels, height, width). Give images of one shape."
        )
    matched = match_classes(test, images.class_names)
    _warn_of_empty_classes(images, matched)
    return images, matched


def _warn_of_empty_classes(images: ImageSet, test: ImageSet) -> None:
    trained, tested = (set(each.labels.unique().tolist()) for each in (images, test))
    unknown = [images.class_names[k] for k in sorted(tested - trained)]
    if unknown:
        rest = [f"{len(unknown) - CLASSES_SHOWN} more"] if len(unknown) > CLASSES_SHOWN else []
        shown = " or ".join(unknown[:CLASSES_SHOWN] + rest)
        log.warning("No image to train on has the class %s: the network cannot learn it.", shown)


def at_backbone_size(data: Data, model: str | ModelChoice | None) -> Data:
    """The data as a pretrained backbone sees it, if the network has one: the square middle of each image file."""
    if not models.find_choice(model).pretrained or not data.by_path:
        return data
    return data.at_size(data.options.image_size or (BACKBONE_SIDE, BACKBONE_SIDE), crop=True)


def is_frozen(model: str | ModelChoice | None, recipe: str | Recipe | RecipeChoice, device: torch.device) -> bool:
    """Whether a training fits a head on the features of a frozen backbone (see `frozen`)."""
    if not models.find_choice(model).pretrained:
        return False
    return not complete_recipe(recipe, features=backbones.DEFAULT, device=device.type).backbone_rate


def frozen_network(model: ModelConfig, *, own_size: bool) -> ModelConfig:
    """The network of a head on a frozen backbone: at its images' own size, or at that of the features that are kept."""
    if (model.head, model.decoder, model.norm) != ("hit-or-miss", "none", "each"):
        raise HitNetError(
            "A frozen backbone takes a Hit-or-Miss head with batch-norm of each value, and no decoder. Leave out "
            "`head`, `decoder` and `norm`, or give a `backbone_rate` above 0, e.g. 0.3."
        )
    with torch.device("meta"):
        side = backbones.architecture(model.features)[1].input_size
    return replace(model, in_shape=model.in_shape if own_size else (model.in_shape[0], side, side), typical=True)


def configure(
    data: Data,
    images: ImageSet,
    test: ImageSet | None,
    *,
    device: torch.device,
    model: str | ModelChoice | None = None,
    recipe: str | Recipe | RecipeChoice = "fast",
    augment_from: RunLike | None = None,
) -> tuple[RunConfig, Prepare | None]:
    """The configuration of a run, with seed 0, and what prepares the modification of its images, if there is any."""
    choice = models.find_choice(model).named(images.shape, device.type)
    built = choice.config(images.shape, images.num_classes)
    if is_frozen(choice, recipe, device):
        built = frozen_network(built, own_size=data.options.image_size is not None or not data.by_path)
    shape = built.in_shape
    facts = {"images": len(images), "side": max(shape[1:]), "device": device.type}
    completed = complete_recipe(recipe, features=built.features, **facts)
    with torch.device("meta"):  # finds options that do not fit before any folder is made; this takes no memory
        network = Network(built)
        Objective(network, completed, epoch=1)
    parameters = network.count_parameters()
    if parameters > MOST_PARAMETERS:
        raise HitNetError(
            f"This network would have {parameters:,} parameters, more than {MOST_PARAMETERS:,}. Choose a smaller "
            "`capsule_dim` or `extra_dim`, or another network."
        )
    network.features.check_pretrained(built.weights)
    _warn_of_ghosts(completed.ghosts, images.num_classes)
    modify, origin = hybrid_augmentation(completed, augment_from, images, device)
    return RunConfig(str(choice.name), built, completed, 0, describe(data, images, test), augment_from=origin), modify


def describe(data: Data, images: ImageSet, test: ImageSet | None) -> dict[str, Any]:
    """What a run's configuration keeps of its data."""
    return {
        "source": data.address,
        "in_memory": data.in_memory,
        "name": images.name,
        "images": len(images),
        "test_images": None if test is None else len(test),
        "class_names": list(images.class_names),
        "flip": images.flip,
        "fingerprint": images.fingerprint,
        "limit": data.options.limit,
        "data_dir": None if data.options.data_dir is None else str(expand(data.options.data_dir).absolute()),
    }


def _warn_of_ghosts(ghosts: int, classes: int) -> None:
    if ghosts and ghosts >= classes - 1:
        log.warning(
            "With %d classes and %d ghosts, no capsule has to miss: an image may hit every class unpunished, and "
            "nothing keeps the classes apart. Start ghosts later (`ghosts_from_epoch`), use them at times "
            "(`ghost_probability`) or only where they are nearer than the true class (`ghost_rule` nearer).",
            classes,
            ghosts,
        )


def hybrid_augmentation(
    recipe: Recipe, run: RunLike | None, images: ImageSet, device: torch.device
) -> tuple[Prepare | None, dict[str, Any] | None]:
    """What prepares the modification of images by this recipe, if it has any, and what a run's configuration keeps."""
    if recipe.augment == "none":
        if run is not None:
            raise HitNetError("`augment_from` names a run, but the recipe has no augmentation: set `augment` = hybrid.")
        return None, None
    if run is None:
        raise HitNetError(
            "Hybrid augmentation modifies images with a trained network: set `augment_from` to a run that was trained "
            "on the same classes."
        )
    trained = open_run(run)
    network = modifying_network(trained, class_names=images.class_names, in_shape=images.shape, device=device)
    how = {name: getattr(recipe, f"augment_{name}") for name in ("strength", "share", "noise")}
    prepare = partial(HybridAugmentation, network, **how)
    folder = None if trained.folder is None else str(expand(trained.folder).absolute())
    return prepare, {"run": folder, "weights": weights_fingerprint(network)}


def modifying_network(
    trained: Run, *, class_names: Sequence[str], in_shape: tuple[int, int, int], device: torch.device
) -> Network:
    """A copy of a run's network that modifies images of these classes and this shape; raises HitNetError if it cannot.

    It is in evaluation mode, on the device, in the memory order that is fastest for convolutions.
    """
    need_decoder(trained.model)
    if trained.class_names != tuple(class_names) or trained.config.model.in_shape != tuple(in_shape):
        raise HitNetError(
            f"The run to augment from was trained on images of {trained.config.model.in_shape} in "
            f"{len(trained.class_names)} classes ({', '.join(trained.class_names[:10])}); these are images of "
            f"{tuple(in_shape)} in {len(class_names)} classes ({', '.join(class_names[:10])}). "
            "Give a run on the same data."
        )
    network = copy.deepcopy(trained.model).to(device).eval().requires_grad_(False)
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
