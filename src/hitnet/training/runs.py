"""A trained network with its configuration and history, in memory or opened from a run folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from hitnet.data import Images, Source, open_data
from hitnet.data.known.catalogue import recorded_folder
from hitnet.data.opened import match_classes
from hitnet.data.reading.stored import is_remote
from hitnet.data.split import check_split
from hitnet.errors import HitNetError, log
from hitnet.inference.evaluation import Evaluation, check_fit, measure
from hitnet.inference.onnx_export import export_network
from hitnet.inference.onnx_file import is_onnx, open_onnx
from hitnet.inference.pictures import Pictures, batches_of
from hitnet.inference.prediction import DecisionRule, Predictions, check_share
from hitnet.models.network import Network, distances_and_misfits, for_inference
from hitnet.runtime.device import Device, pick_device
from hitnet.training.hub import OnHub, find_pretrained
from hitnet.training.run_config import RunConfig
from hitnet.training.run_folder import Calibration, History, RunFolder

KEEP = 0.99  # share of known images that keep their class where a network can tell foreign ones


@dataclass(frozen=True, repr=False)
class Run(OnHub):
    """A trained network.

    Attributes:
        model: The network.
        config: How it was trained.
        history: One row per epoch.
        folder: Its run folder; None if it was never written to disk.
        calibration: The temperature of its probabilities and the misfits of known images, measured on images that it
            was not trained on; None if there were too few.
    """

    model: Network
    config: RunConfig
    history: History
    folder: Path | None = None
    calibration: Calibration | None = None

    def __repr__(self) -> str:
        error = self.history[-1].get("test_error") if self.history else None
        tested = "" if error is None else f", test error {100 * error:.2f} %"
        epochs = self.history[-1]["epoch"] if self.history else 0
        return f"<Run: {self.config.model_name} on {self.config.data['name']}, {epochs} epochs{tested}>"

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(self.config.data["class_names"])

    @property
    def name(self) -> str:
        """The run folder, or the seed."""
        return str(self.folder or f"the run with seed {self.config.seed}")

    def load(self, data: Source | None = None, split: str | None = None, *, limit: int | None = None) -> Images:
        """Images for this run, labelled in its own order of classes, at the size that its network takes.

        Args:
            data: Opened data, or what `open_data` takes. None: the data that the run was trained on.
            split: train, test or all. None: the test images.
            limit: At most N images.
        """
        if split is not None:
            check_split(split)
        about = self.config.data
        try:
            if data is not None:
                opened = open_data(data)
            elif about["in_memory"]:
                raise HitNetError(f"{about['source']!r} was in memory, not in files.")
            elif is_remote(about["source"]):
                raise HitNetError(f"{about['source']} is on another machine, which only you can ask for it.")
            else:
                folder = recorded_folder(about["data_dir"])
                opened = open_data(about["source"], flip=about["flip"], data_dir=folder)
            opened = opened.at_size(self.config.model.in_shape[1:], crop=self.config.model.pretrained)
            if limit is not None:
                opened = opened.reopen(limit=limit)
            images = opened.load(split or opened.test_split)
        except HitNetError as error:
            if data is not None:
                raise
            raise HitNetError(f"The data the run was trained on cannot be read: {error} Name other data.") from error
        return match_classes(images, self.class_names)

    def evaluate(self, data: Source | None = None, *, split: str | None = None, device: Device = "auto") -> Evaluation:
        """Error rate, confusion, hits and misses on a dataset; see `hitnet.evaluate`."""
        return measure(self.model.to(pick_device(device, mps=True)), self.load(data, split))

    def predict(
        self, images: Pictures, *, keep: float | None = None, known: Source | None = None, device: Device = "auto"
    ) -> Predictions:
        """Classify images; see `hitnet.predict`."""
        rule = self.rule(keep=keep, known=known, device=device)
        network = self.model.to(pick_device(device, mps=True))
        predictions = Predictions()
        batches = batches_of(images, self.config.model.in_shape, crop=self.config.model.pretrained)
        for i, (names, pixels) in enumerate(batches):
            network = for_inference(network) if i == 1 else network  # not for a few images
            distances, misfits = distances_and_misfits(network, pixels)
            unlike = [None] * len(names) if misfits is None else misfits.tolist()
            predictions += map(rule.predict, names, distances.cpu().numpy(), unlike)
        return predictions

    def export(self, out: str | Path, *, keep: float | None = None, known: Source | None = None) -> Path:
        """Export the network to an ONNX file, which needs neither PyTorch nor the run folder.

        It maps `images`, uint8 (B, C, H, W), to `distances` (B, K), `capsules` (B, K, n) and, where the network has
        extra components, `extra` (B, e), without its decoder. Batches may have any size. Image size, class names and
        radii are in the metadata. Before the file is written, ONNX Runtime and PyTorch are compared.

        Args:
            out: A file whose name ends in .onnx; an existing one is replaced.
            keep: The share of images of known classes that are to keep their class; see `hitnet.predict`. The file then
                holds the largest misfit that this gives.
            known: Data whose test images `keep` is measured on. None: what the run has measured itself.

        Raises:
            HitNetError: The network cannot be exported, or ONNX Runtime gives other values than PyTorch.
        """
        rule, data = partial(self.rule, keep=keep, known=known), str(self.config.data["name"])
        return export_network(self.model, out, rule=rule, model_name=self.config.model_name, data=data)

    def rule(self, *, keep: float | None = None, known: Source | None = None, device: Device = "auto") -> DecisionRule:
        """How the distances of the network become a class; see `hitnet.predict` for the arguments."""
        temperature = None if self.calibration is None else self.calibration.temperature
        rule = DecisionRule.of(self.model, self.class_names, temperature)
        if keep is None and known is not None:
            raise HitNetError("`known` is the data that `keep` is measured on. Give `keep` too, e.g. 0.95.")
        if keep is None and not (self.model.config.typical and self.calibration):
            return rule
        keep = KEEP if keep is None else keep
        check_share(keep)
        if known is not None:
            images = self.load(known)
            check_fit(self.model, images)
            unlike = distances_and_misfits(self.model.to(pick_device(device, mps=True)), images.pixels)[1]
            misfits = np.empty(0) if unlike is None else unlike.cpu().numpy()
        elif self.calibration is not None:
            misfits = np.array(self.calibration.misfits)
        else:
            raise HitNetError(
                "`keep` needs images that the network was not trained on, but this run had no or too few of them. Name "
                "data with the same classes as `known`."
            )
        rule = rule.keeping(keep, misfits)
        log.info(
            '"none" beyond a misfit of %.3f: %g %% of known images have at most that.', rule.largest_misfit, 100 * keep
        )
        return rule

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        *,
        revision: str | None = None,
        cache_dir: str | Path | None = None,
        token: str | None = None,
        local_files_only: bool = False,
    ) -> Run:
        """Open a run from the Hugging Face Hub, or from a folder.

        Args:
            source: "user/name" of a repository, or a run folder.
            revision: Branch, tag or commit of the repository.
            cache_dir: Where downloads are kept. None: the Hub's own cache.
            token: None: that of `hf auth login`.
            local_files_only: Take only what was downloaded before.
        """
        options = {"cache_dir": cache_dir, "token": token, "local_files_only": local_files_only}
        return open_run(find_pretrained(source, revision=revision, **options))


RunLike = Run | str | Path  # a run, or its folder


def open_run(run: RunLike) -> Run:
    """Open a finished run: its network in evaluation mode on the CPU, its configuration and history."""
    if isinstance(run, Run):
        return run
    folder = RunFolder(run)
    return Run(folder.model(), folder.config(), folder.history(), folder.path, folder.calibration())


def predict(
    run: RunLike, images: Pictures, *, keep: float | None = None, known: Source | None = None, device: Device = "auto"
) -> Predictions:
    """Classify images, each brought to the size that the network was trained on.

    Args:
        run: A run, its folder, or an .onnx file that `Run.export` wrote.
        images: Image files or a folder of them, pictures of Pillow, arrays, tensors, `Images`, or opened data.
        keep: The share of images of known classes that are to keep their class, e.g. 0.95. An image with a
            larger misfit than theirs is none of the classes. None: 0.99 for a head on kept features; for other
            networks, an image is none of the classes if every capsule misses.
        known: Data whose test images `keep` is measured on. None: what the run has measured itself.
        device: auto, cpu, cuda, cuda:1, mps, or a torch.device. ONNX files run on the CPU.
    """
    if isinstance(run, Run) or not is_onnx(run):
        return open_run(run).predict(images, keep=keep, known=known, device=device)
    if str(device) not in ("auto", "cpu"):
        raise HitNetError("ONNX files run on the CPU. Leave out `device`, or give the run folder.")
    if keep is not None or known is not None:
        raise HitNetError("An ONNX file holds its own limit. Give `keep` and `known` when you export the run.")
    return open_onnx(run).predict(images)
