"""HitNet as a classifier of scikit-learn."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_random_state, column_or_1d, validate_data
from torch import Tensor

from hitnet.capsules import HIT_RADIUS, HitOrMiss, distances
from hitnet.data import Images
from hitnet.errors import HitNetError, share, whole
from hitnet.features.heads import CLEAN_DROPOUT, HeadOptions, fit_heads
from hitnet.features.one_pass import cached_features
from hitnet.inference import check_share, misfit_limit, misfits
from hitnet.inference.pictures import batches_of
from hitnet.models import ModelChoice, Network, choose_model, unit_images
from hitnet.models.backbones import DEFAULT, open_backbone
from hitnet.models.registry import HEADS
from hitnet.probabilities import FEWEST_HELD_OUT, class_probabilities, fit_temperature
from hitnet.runtime.device import evaluation_batch, pick_device
from hitnet.training import choose_recipe, train

NAME = "HitNetClassifier"
LARGEST_SHARE = 0.5
SIDE = 64  # pixels of image files for a network
Kind = Literal["features", "images", "paths"]
IGNORED = {"features": ("model", "image_size", "device"), "images": ("image_size",), "paths": ()}


class HitNetClassifier(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ClassifierMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """A classifier whose capsules hit or miss, on features, images or image files.

    X is one of:

    - features (N, D): a Hit-or-Miss layer is fitted on them;
    - images (N, H, W), (N, H, W, C) or (N, C, H, W), uint8: a network is trained as `hitnet.train` does;
    - paths: N image files. A layer is fitted on their features by the backbone of the package, which are kept; with
      `model` or `image_size`, they are scaled to this size, then as for images.

    An option that this X would ignore is an error. Labels may be of any kind. The probability of a class is the softmax
    of −distance / temperature. The temperature is fitted on rows that training has not seen: for features, all rows,
    each by layers that were trained without it; for images, a part that is held out (`calibration`). With `keep`, the
    same rows say which are none of the classes (`none_of_these`); `predict` still gives each row a class.

    Args:
        model: For images, the name of a network or `hitnet.choose_model(...)`. None: what suits the images and the
            device.
        capsule_dim: Components per capsule, n (paper: 16).
        epochs: Passes over the data. None: the recipe's own for images; for features 300 steps, or three passes
            if that is more.
        ghosts: Wrong classes per row that go unpunished in training (paper: 1; 0 = off).
        calibration: For images, the share that is held out, to fit the temperature on; 0: no calibration. With fewer
            than 20 rows to calibrate on, or a class of a single row, the temperature is the hit radius, 0.1.
        keep: Share of rows of known classes that are to keep their class, e.g. 0.95. A row whose misfit is larger than
            that of this share of these rows is none of the classes. None: `none_of_these` cannot be asked.
        image_size: Height and width that image files are scaled to, for a network; one number is both. None: 64, if
            there is a `model`.
        device: For images and paths: auto, cpu, cuda, cuda:1, or a torch.device.
        random_state: Seed, generator or None.

    Attributes:
        classes_: The K classes, sorted.
        temperature_: Of the probabilities.
        largest_misfit_: A row with a larger misfit is none of the classes. None without `keep`.
        n_features_in_: D, for features.
    """

    def __init__(
        self,
        *,
        model: str | ModelChoice | None = None,
        capsule_dim: int = 16,
        epochs: int | None = None,
        ghosts: int = 0,
        calibration: float = 0.1,
        keep: float | None = None,
        image_size: int | tuple[int, int] | None = None,
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.capsule_dim = capsule_dim
        self.epochs = epochs
        self.ghosts = ghosts
        self.calibration = calibration
        self.keep = keep
        self.image_size = image_size
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> HitNetClassifier:
        """Learn from X (see the class) and labels (N,)."""
        calibration = share(NAME, "calibration", self.calibration, most=LARGEST_SHARE)
        if self.keep is not None:
            check_share(self.keep)
        if y is None:
            raise HitNetError(f"{NAME} requires y to be passed, but the target y is None.")
        self._kind = kind_of(X)
        odd = [name for name in IGNORED[self._kind] if getattr(self, name) not in (None, "auto")]
        if odd:
            raise HitNetError(f"{NAME}: X holds {self._kind}, which ignore {', '.join(odd)}. Leave this out.")
        if self._kind == "features":
            X, y = validate_data(self, X, y, dtype=np.float64)
        labels = self._encode(y)
        inputs = self._inputs(X)
        if len(labels) != len(inputs):
            raise HitNetError(f"{NAME}: X has {len(inputs)} rows, but y has {len(labels)} labels.")
        self._shape: Any = tuple(inputs.shape[1:])
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._learned, rows, distances = self._learn(inputs, labels, calibration, seed)
        self._n_features_out = len(self.classes_) * self.capsule_dim
        self.temperature_ = HIT_RADIUS
        self.largest_misfit_ = None
        if len(rows):
            self.temperature_ = fit_temperature(distances, labels[rows])
            if self.keep is not None:
                self.largest_misfit_ = misfit_limit(misfits(distances), self.keep)
        return self

    def _encode(self, y: Any) -> np.ndarray:
        """Class indices (N,) of the labels; sets `classes_`."""
        given = column_or_1d(y, warn=True)
        check_classification_targets(given)
        self.classes_, labels = np.unique(given, return_inverse=True)
        if len(self.classes_) < 2:
            raise HitNetError(f"{NAME} needs labels of at least two classes; y has only one class.")
        return np.asarray(labels, dtype=np.int64)

    def _calibrating(self, labels: np.ndarray, share: float) -> int:
        """How many rows calibrate, of a share of all; 0 if they are too few."""
        count = round(share * len(labels))
        least, smallest = max(FEWEST_HELD_OUT, len(self.classes_)), np.bincount(labels).min()
        if share and count >= least and smallest >= 2:
            return count
        if self.keep is not None:
            raise HitNetError(
                f"{NAME}: `keep` needs at least {least} rows to calibrate on, and 2 rows per class. There are {count} "
                f"of {len(labels)} rows, and the smallest class has {smallest}. Raise `calibration`, give more rows, "
                "or leave out `keep`."
            )
        return 0

    def _learn(
        self, inputs: Tensor, labels: np.ndarray, calibration: float, seed: int
    ) -> tuple[HitOrMiss | Network, np.ndarray, np.ndarray]:
        """What has learned, the rows to calibrate on, and their distances (R, K) by what has not seen them."""
        ghosts = whole(NAME, "ghosts", self.ghosts, 0)
        epochs = None if self.epochs is None else whole(NAME, "epochs", self.epochs, 1)
        capsule_dim = whole(NAME, "capsule_dim", self.capsule_dim, 1)
        classes, rows = len(self.classes_), np.arange(len(labels))
        if inputs.ndim == 2:
            used = self._calibrating(labels, float(calibration > 0))
            options = HeadOptions(dropout=CLEAN_DROPOUT, capsule_dim=capsule_dim, ghosts=ghosts)
            if epochs is not None:
                options = replace(options, steps=epochs * math.ceil(len(inputs) / options.batch))
            fitted = fit_heads(inputs, torch.from_numpy(labels), classes, options=options, seed=seed)
            return fitted.layer, rows[:used], fitted.distances[:used].double().numpy()
        used, learned, held_out = self._calibrating(labels, calibration), rows, rows[:0]
        if used:
            learned, held_out = next(StratifiedShuffleSplit(1, test_size=used, random_state=seed).split(rows, labels))
        names = [str(name) for name in self.classes_]
        images = Images.from_arrays(inputs[learned], labels[learned], class_names=names, name="X")
        choice, recipe = self._choice(images, capsule_dim), choose_recipe("fast", epochs=epochs, ghosts=ghosts)
        run = train(images, model=choice, recipe=recipe, seed=seed, device=self.device, progress=False)
        network = run.model.cpu().eval()
        distances = judge(network, inputs[held_out])[1] if used else torch.empty(0, classes)
        return network, held_out, distances.double().numpy()

    def _choice(self, images: Images, capsule_dim: int) -> ModelChoice:
        """The network to train: without a decoder, unless one is asked for."""
        choice = self.model if isinstance(self.model, ModelChoice) else choose_model(self.model)
        if choice.changes.get("capsule_dim", capsule_dim) != capsule_dim:
            raise HitNetError(
                f"{NAME}: `model` has capsules of {choice.changes['capsule_dim']} components, but `capsule_dim` is "
                f"{capsule_dim}. Set only `capsule_dim`."
            )
        choice = choose_model(choice.name, **{"decoder": "none", **choice.changes, "capsule_dim": capsule_dim})
        choice = choice.named(images.shape, pick_device(self.device).type)
        if HEADS[choice.config(images.shape, images.num_classes).head].loss != "centripetal":
            raise HitNetError(f"{NAME}: {choice.name} has no Hit-or-Miss layer. Set `model` to one named hitnet….")
        return choice

    def _inputs(self, X: Any) -> Tensor:
        """What the learner takes: features (N, D), or images uint8 (N, C, H, W)."""
        if self._kind == "features":
            return torch.from_numpy(np.array(X))  # a copy: torch refuses arrays that are read-only
        if self._kind == "images":
            return Images.from_arrays(X, np.zeros(len(X), np.int64), name="X").pixels
        if self.model is None and self.image_size is None:
            where = pick_device(self.device)
            return cached_features([Path(path) for path in X], open_backbone(DEFAULT), device=where).double()
        size = self.image_size or SIDE
        pixels = read_at(X, (3, *((size, size) if isinstance(size, int) else size)))
        grey = bool((pixels == pixels[:, :1]).all())
        return pixels[:, :1].contiguous() if grey else pixels

    def _judge(self, X: Any) -> tuple[Tensor, Tensor]:
        """Capsules (N, K, n) and distances (N, K)."""
        check_is_fitted(self)
        kind = kind_of(X)
        if kind != self._kind:
            raise HitNetError(f"{NAME} was fitted on {self._kind}, but X holds {kind}. Reshape X or fit anew.")
        if kind == "features":
            X = validate_data(self, X, reset=False, dtype=np.float64)
        inputs = read_at(X, self._shape) if kind == "paths" and len(self._shape) == 3 else self._inputs(X)
        if kind == "images" and tuple(inputs.shape[1:]) != self._shape:
            raise HitNetError(
                f"{NAME} was fitted on images of shape {self._shape} (channels, height, width), but X holds images of "
                f"shape {tuple(inputs.shape[1:])}."
            )
        return judge(self._learned, inputs)

    def distances(self, X: Any) -> np.ndarray:
        """Distance of each class's capsule from the centre (N, K): a hit is at most 0.1, a miss at least 0.9."""
        return self._judge(X)[1].double().numpy()

    def misfits(self, X: Any) -> np.ndarray:
        """How unlike the rows of any class each row is (N,): 0 if one capsule hits and all others miss."""
        return misfits(self.distances(X))

    def none_of_these(self, X: Any) -> np.ndarray:
        """Whether each row is none of the classes (N,), bool: its misfit is larger than `largest_misfit_`."""
        check_is_fitted(self)
        if self.largest_misfit_ is None:
            raise HitNetError(f"{NAME} was fitted without `keep`. Set it and fit anew, e.g. {NAME}(keep=0.95).")
        return np.asarray(self.misfits(X) > self.largest_misfit_)

    def predict(self, X: Any) -> np.ndarray:
        """The class of the nearest capsule (N,)."""
        nearest = self.distances(X).argmin(axis=1)  # first: it raises where nothing was fitted
        return np.asarray(self.classes_[nearest])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class (N, K): the softmax of −distance / `temperature_`."""
        return class_probabilities(self.distances(X), self.temperature_)

    def decision_function(self, X: Any) -> np.ndarray:
        """−distance (N, K); for two classes, by how much nearer the second class's capsule is (N,)."""
        distances = self.distances(X)
        return distances[:, 0] - distances[:, 1] if len(self.classes_) == 2 else -distances

    def transform(self, X: Any) -> np.ndarray:
        """All capsules (N, K n), one class after the other."""
        return self._judge(X)[0].flatten(1).numpy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def kind_of(X: Any) -> Kind:
    """What X holds. What is neither images nor paths should be features."""
    if isinstance(X, np.ndarray | Tensor) and X.ndim in (3, 4):
        return "images"
    if isinstance(X, list | tuple) or getattr(X, "ndim", None) == 1:
        first = next(iter(X), None)
        return "paths" if isinstance(first, str | Path) else "features"
    return "features"


def read_at(X: Any, shape: tuple[int, int, int]) -> Tensor:
    """Images of files at one shape (C, H, W): uint8 (N, C, H, W)."""
    return torch.cat([pixels for _, pixels in batches_of(list(X), shape)])


@torch.inference_mode()
def judge(learned: HitOrMiss | Network, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Capsules (N, K, n) of features (N, D) or uint8 images (N, C, H, W), and their distances from the centre (N, K).

    A layer on features computes in float64, so that the result of a row does not depend on the rows beside it.
    """
    if isinstance(learned, HitOrMiss):
        capsules = learned(inputs)
        return capsules, distances(capsules)
    batches = inputs.split(evaluation_batch(tuple(inputs.shape[1:])))
    outputs = [learned(unit_images(batch), reconstruct=False) for batch in batches]
    return torch.cat([output.capsules for output in outputs]), torch.cat([output.distances for output in outputs])
