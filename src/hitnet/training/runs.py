"""A trained network with its configuration and history, in memory or opened from a run folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hitnet.models.network import Network
from hitnet.training import hub
from hitnet.training.run_config import RunConfig
from hitnet.training.run_folder import History, RunFolder


@dataclass(frozen=True)
class Run:
    """A trained network.

    Attributes:
        model: The network.
        config: How it was trained.
        history: One row per epoch.
        folder: Its run folder; None if it was never written to disk.
    """

    model: Network
    config: RunConfig
    history: History
    folder: Path | None = None

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(self.config.data["class_names"])

    def save_pretrained(self, folder: str | Path, *, license: str | None = None) -> Path:
        """Write the run into a new folder, as it would be on the Hugging Face Hub.

        Args:
            folder: A run folder with a model card (README.md), which states data, error, runs and licence.
            license: The licence of the weights, e.g. "mit".
        """
        return hub.save_pretrained(folder, self.model, self.config, self.history, license=license)

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
        return hub.push_to_hub(
            repository, self.model, self.config, self.history, license=license, private=private, token=token
        )

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
        return open_run(
            hub.find_pretrained(
                source, revision=revision, cache_dir=cache_dir, token=token, local_files_only=local_files_only
            )
        )


def open_run(run: str | Path) -> Run:
    """Open a finished run: its network in evaluation mode on the CPU, its configuration and history."""
    folder = RunFolder(run)
    return Run(folder.model(), folder.config(), folder.history(), folder.path)
