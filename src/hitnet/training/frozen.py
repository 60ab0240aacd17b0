"""A network on a frozen backbone: a Hit-or-Miss head fitted on features, which are computed once and kept.

Audits compute the same features, so that a network for audited photographs takes seconds.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hitnet.data import Data, Images, ImageSet
from hitnet.features.dataset_features import features_of
from hitnet.features.extraction import extract
from hitnet.features.heads import CLEAN_DROPOUT, FittedHeads, HeadOptions, fit_heads
from hitnet.models.backbones import open_backbone
from hitnet.models.network import ModelConfig, Network
from hitnet.probabilities import FEWEST_HELD_OUT
from hitnet.runtime.progress import Progress
from hitnet.training.engine import count_outcomes, shares
from hitnet.training.jobs import Job, begun
from hitnet.training.run_config import RunConfig
from hitnet.training.run_folder import Calibration
from hitnet.training.runs import Run, open_run


@dataclass
class FrozenTraining:
    """Heads on the features of one set of images, each fitted once."""

    data: Data  # where the images come from
    images: ImageSet  # to train on; only their labels are used if they are files
    test: ImageSet | None  # to test on
    device: torch.device
    progress: Progress
    rows: dict[int, Tensor] = field(default_factory=dict)  # features (N, D) by the identity of the images
    fits: dict[int, FittedHeads] = field(default_factory=dict)  # by their seed
    since: float = field(default_factory=time.perf_counter)  # the start, or the end of the run before

    def train(self, jobs: Sequence[Job], *, resume: bool) -> list[Run]:
        """The run of each job; those that are finished are opened."""
        with begun(jobs, resume=resume, device=self.device):
            return [open_run(job.path) if job.finished else self.run(job) for job in jobs]

    def run(self, job: Job) -> Run:
        """Fit a head and put it into a network."""
        config = job.config
        fit = self.fit(config)
        with torch.random.fork_rng(devices=[]):  # first weights, which are replaced
            network = Network(config.model)
        network.load_pretrained()
        network.head.load_state_dict(fit.layer.float().state_dict())
        labels, features = self.images.labels, self.features(config.model, self.images)
        sums = class_sums(features, labels, config.model.num_classes)
        network.typical.copy_(F.normalize(sums, dim=1))
        calibration = None
        if len(labels) >= FEWEST_HELD_OUT:
            unlike = unseen_misfits(features, labels, sums).double().numpy()
            calibration = Calibration.of(fit.distances.double().numpy(), unlike, labels)
        row = self.row(config, network.eval(), fit)
        began, self.since = self.since, time.perf_counter()
        history = [row | {"seconds": self.since - began}]
        if job.folder is not None:
            job.folder.finish(network, history, calibration)
        return Run(network, config, history, None if job.folder is None else job.folder.path, calibration)

    def fit(self, config: RunConfig) -> FittedHeads:
        """The heads of a configuration, on all images and on all but a fold of them."""
        if config.seed not in self.fits:
            features, recipe = self.features(config.model, self.images), config.recipe
            options = HeadOptions(
                steps=recipe.epochs * recipe.steps_per_epoch(len(features)),
                batch=recipe.batch_size,
                learning_rate=recipe.learning_rate,
                dropout=CLEAN_DROPOUT,
                capsule_dim=config.model.capsule_dim,
                ghosts=recipe.ghosts,
            )
            self.progress.part("fitting heads", options.steps)
            how: Any = {"options": options, "seed": config.seed, "device": self.device, "progress": self.progress}
            self.fits[config.seed] = fit_heads(features, self.images.labels, config.model.num_classes, **how)
        return self.fits[config.seed]

    def features(self, model: ModelConfig, images: ImageSet) -> Tensor:
        """Features (N, D) of images: those of their files, unless the network takes the images as they are."""
        if id(images) not in self.rows:
            backbone = open_backbone(model.features, model.weights)
            hooks: dict[str, Any] = {"device": self.device, "progress": self.progress}
            if model.in_shape == images.shape and isinstance(images, Images):
                self.progress.part("features", len(images), "images")
                rows = extract(images.pixels, backbone, **hooks)
            else:
                rows = features_of(self.data, images, backbone, **hooks)
            self.rows[id(images)] = rows.float()
        return self.rows[id(images)]

    def row(self, config: RunConfig, network: Network, fit: FittedHeads) -> dict[str, Any]:
        """The only row of the history; `held_out_error` is that of heads on images that they have not seen."""
        row: dict[str, Any] = {
            "epoch": config.recipe.epochs,
            "learning_rate": config.recipe.learning_rate,
            "held_out_error": float((fit.distances.argmin(dim=1) != self.images.labels).double().mean()),
        }
        for name, images in (("train", self.images), ("test", self.test)):
            if images is not None:
                with torch.inference_mode():
                    distances = network.head.distances(network.head(self.features(config.model, images)))
                counts = count_outcomes(network, distances, images.labels)
                row |= shares(name, counts.tolist(), len(images), network)
        return row


def class_sums(features: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """The sum of the directions of each class's features: (N, D) → (K, D)."""
    directions = F.normalize(features, dim=1)
    return torch.zeros(num_classes, features.shape[1]).index_add_(0, labels, directions)


def unseen_misfits(features: Tensor, labels: Tensor, sums: Tensor) -> Tensor:
    """Misfits (N,) as of new images: each image is left out of the sum of its own class."""
    directions = F.normalize(features, dim=1)
    cosines = directions @ F.normalize(sums, dim=1).T
    own = F.normalize(sums[labels] - directions, dim=1)
    cosines[torch.arange(len(labels)), labels] = (own * directions).sum(dim=1)
    return 1 - cosines.amax(dim=1)
