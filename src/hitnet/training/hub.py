"""Runs on the Hugging Face Hub: a folder with weights, configuration, history and a model card.

The folder is a run folder, so everything after training takes it. It names no place of this machine: what the
configuration says of paths is left out.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hitnet.data import list_data
from hitnet.data.known.catalogue import KNOWN_SETS
from hitnet.errors import HitNetError, need
from hitnet.models.network import Network
from hitnet.runtime import files
from hitnet.training.run_config import RunConfig
from hitnet.training.run_folder import Calibration, History, RunFolder

CARD = "README.md"
PUBLISHED = ("config.json", "history.json", "calibration.json", "weights.safetensors")
ABOUT = """
# {title}

An image classifier of hitnet ([paper](https://arxiv.org/abs/1806.06519)): each class has a capsule, which hits the
centre or misses it. If every capsule misses, the answer is "none".

- **Data:** {data}
- **Error:** {error}
- **Runs:** {runs}
- **Licence:** {licence}
- **Classes:** {classes}
- **Images:** {shape}; others are {scaled}.

```python
import hitnet

run = hitnet.Run.from_pretrained("{repository}")
print(run.predict(["image.png"]))
```
"""


class OnHub:
    """What a run can do on the Hugging Face Hub."""

    model: Network
    config: RunConfig
    history: History
    calibration: Calibration | None

    def save_pretrained(self, folder: str | Path, *, license: str | None = None, repository: str | None = None) -> Path:
        """Write the run into a new folder, as it would be on the Hugging Face Hub.

        Args:
            folder: A run folder with a model card (README.md), which states data, error, runs and licence.
            license: The licence of the weights, e.g. "mit".
            repository: What the model card calls the repository. None: the folder's name.
        """
        target = files.expand(folder)
        files.check_vacant(target)
        card = model_card(self.config, self.history, license=license, repository=repository or target.name)
        with files.new_folder(target) as temporary:
            (temporary / CARD).write_text(str(card), encoding="utf-8")
            published = RunFolder(temporary)
            files.write_json(published.config_file, without_places(self.config).to_dict())
            published.finish(self.model, self.history, self.calibration)
        return target

    def push_to_hub(
        self, repository: str, *, license: str | None = None, private: bool | None = None, token: str | None = None
    ) -> str:
        """Upload the run to the Hugging Face Hub, with a model card.

        Args:
            repository: "user/name"; it is made where it does not exist.
            license: The licence of the weights, e.g. "mit".
            private: Whether a new repository is private. None: the account's default.
            token: None: that of `hf auth login`.

        Returns:
            The address of the repository.
        """
        api = hub_package().HfApi(token=token)
        with tempfile.TemporaryDirectory() as parent:
            folder = self.save_pretrained(Path(parent) / "run", license=license, repository=repository)
            address = api.create_repo(repo_id=repository, private=private, exist_ok=True)
            message = f"Upload {self.config.model_name} of hitnet"
            api.upload_folder(repo_id=address.repo_id, folder_path=folder, commit_message=message)
        return str(address)


def find_pretrained(source: str | Path, **options: Any) -> Path:
    """The run folder of a run on the Hub, downloaded if need be, or a local one; see `Run.from_pretrained`."""
    folder = files.expand(source)
    if folder.exists():
        return folder
    hub = hub_package()
    try:
        return Path(hub.snapshot_download(str(source), allow_patterns=list(PUBLISHED), **options))
    except Exception as error:  # no network, no such repository, no name of one
        raise HitNetError(f"{source} is not a local folder and cannot be downloaded from the Hub: {error}") from error


def without_places(config: RunConfig) -> RunConfig:
    """The configuration without paths of this machine."""
    origin, source = config.augment_from, config.data["source"]
    if source not in KNOWN_SETS:  # names of known sets are the same on all machines
        source = config.data["name"]
    return replace(
        config,
        data={**config.data, "source": source, "data_dir": None},
        model=replace(config.model, weights=None),
        augment_from=None if origin is None else {**origin, "run": None},
    )


def model_card(config: RunConfig, history: History, *, license: str | None, repository: str) -> Any:
    """What people should know of the network, in words and in the Hub's own terms."""
    hub, about, name = hub_package(), config.data, str(config.data["name"])
    error = history[-1].get("test_error") if history else None
    title, known = f"{config.model_name} on {name}", {str(row["name"]): str(row["licence"]) for row in list_data()}
    results = []
    if error is not None:
        accuracy = {"metric_type": "accuracy", "metric_value": round(1 - error, 8)}
        places = {"dataset_type": name, "dataset_name": name, "dataset_split": "test"}
        results.append(hub.EvalResult(task_type="image-classification", **places, **accuracy))
    kind = {"library_name": "hitnet", "pipeline_tag": "image-classification", "tags": ["hitnet", "capsule-network"]}
    data = hub.ModelCardData(**kind, license=license, model_name=title, eval_results=results or None)
    measured = f"{100 * (error or 0):.2f} % on {about['test_images'] or 'the'} test images, after the last epoch"
    words = ABOUT.format(
        title=title,
        data=f"{name}, {about['images']:,} images to train on"
        + (f" (licence: {known[name]})" if name in known else ""),
        error="not measured: there were no test images" if error is None else measured,
        runs=f"this is one run (seed {config.seed}, {len(history)} epochs); others differ by chance",
        licence=license or "not stated; ask the author",
        classes=", ".join(config.data["class_names"]),
        shape=" x ".join(map(str, config.model.in_shape)) + " (channels, height, width)",
        scaled="scaled and cropped to the middle" if config.model.pretrained else "scaled to fit and centred on black",
        repository=repository,
    )
    return hub.ModelCard(f"---\n{data.to_yaml()}\n---\n{words}")


def hub_package() -> Any:
    return need("The Hugging Face Hub", "huggingface_hub")
