"""Runs on the Hugging Face Hub: a folder with weights, configuration, history and a model card.

The folder is a run folder, so everything after training takes it. It names no place of this machine: what the
configuration says of paths is left out.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hitnet.data import list_data
from hitnet.data.known.facts import KNOWN_SETS
from hitnet.errors import HitNetError
from hitnet.models.network import Network
from hitnet.runtime import files
from hitnet.training.run_config import RunConfig
from hitnet.training.run_folder import History, RunFolder

CARD = "README.md"
PUBLISHED = ("config.json", "history.json", "weights.safetensors")
ABOUT = """
# {title}

An image classifier of hitnet ([paper](https://arxiv.org/abs/1806.06519)): each class has a capsule, which hits the
centre or misses it. If every capsule misses, the answer is "none".

- **Data:** {data}
- **Error:** {error}
- **Runs:** {runs}
- **Licence:** {licence}
- **Classes:** {classes}
- **Images:** {shape}; others are scaled to fit and centred on black.

```python
import hitnet

run = hitnet.Run.from_pretrained("{repository}")
print(hitnet.predict(run, ["image.png"]))
```
"""


def save_pretrained(
    folder: str | Path,
    model: Network,
    config: RunConfig,
    history: History,
    *,
    license: str | None = None,
    repository: str | None = None,
) -> Path:
    """Write a run with its model card into a new folder; see `Run.save_pretrained`."""
    hub = hub_package()
    target = files.expand(folder)
    files.check_vacant(target)
    with files.new_folder(target) as temporary:
        card = model_card(config, history, hub, license=license, repository=repository or target.name)
        (temporary / CARD).write_text(str(card), encoding="utf-8")
        published = RunFolder(temporary)
        files.write_json(published.config_file, without_places(config).to_dict())
        published.finish(model, history)
    return target


def push_to_hub(
    repository: str,
    model: Network,
    config: RunConfig,
    history: History,
    *,
    license: str | None = None,
    private: bool | None = None,
    token: str | None = None,
) -> str:
    """Upload a run with its model card; see `Run.push_to_hub`."""
    api = hub_package().HfApi(token=token)
    with tempfile.TemporaryDirectory() as parent:
        folder = save_pretrained(Path(parent) / "run", model, config, history, license=license, repository=repository)
        address = api.create_repo(repo_id=repository, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=address.repo_id, folder_path=folder, commit_message=f"Upload {config.model_name} of hitnet"
        )
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
        raise HitNetError(f"{source} is neither a folder nor can it be had from the Hub: {error}") from error


def without_places(config: RunConfig) -> RunConfig:
    """The configuration without paths of this machine."""
    origin, source = config.augment_from, config.data["source"]
    if source not in KNOWN_SETS:  # names of known sets are the same on all machines
        source = config.data.get("name") or "data"
    return replace(
        config,
        data={**config.data, "source": source, "data_dir": None},
        model=replace(config.model, weights=None),
        augment_from=None if origin is None else {**origin, "run": None},
    )


def model_card(config: RunConfig, history: History, hub: Any, *, license: str | None, repository: str) -> Any:
    """What people should know of the network, in words and in the Hub's own terms."""
    about, name = config.data, str(config.data.get("name", "data"))
    last = history[-1] if history else {}
    error, known = last.get("test_error"), {str(row["name"]): str(row["licence"]) for row in list_data()}
    title = f"{config.model_name} on {name}"
    results = []
    if error is not None:
        results.append(
            hub.EvalResult(
                task_type="image-classification",
                dataset_type=name,
                dataset_name=name,
                dataset_split="test",
                metric_type="accuracy",
                metric_value=round(1 - error / 100, 6),
            )
        )
    data = hub.ModelCardData(
        library_name="hitnet",
        pipeline_tag="image-classification",
        tags=["hitnet", "capsule-network"],
        license=license,
        model_name=title,
        eval_results=results or None,
    )
    words = ABOUT.format(
        title=title,
        data=data_in_words(name, about, known.get(name)),
        error="not measured: there were no test images"
        if error is None
        else f"{error:.2f} % on {about.get('test_images') or 'the'} test images, after the last epoch",
        runs=f"this is one run (seed {config.seed}, {len(history)} epochs); others differ by chance",
        licence=license or "not stated; ask the author",
        classes=", ".join(config.data["class_names"]),
        shape=" x ".join(map(str, config.model.in_shape)) + " (channels, height, width)",
        repository=repository,
    )
    return hub.ModelCard(f"---\n{data.to_yaml()}\n---\n{words}")


def data_in_words(name: str, about: dict[str, Any], licence: str | None) -> str:
    return f"{name}, {about['images']:,} images to train on" + (f" (licence: {licence})" if licence else "")


def hub_package() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise HitNetError(f"The Hugging Face Hub needs the package {error.name}: pip install 'hitnet[hf]'.") from error
    return huggingface_hub
