"""Options of commands. Those of data, recipes and networks are read from the definitions that Python uses too."""

import inspect
import os
import re
import typing
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from hitnet.data import DataOptions
from hitnet.models import ModelConfig
from hitnet.training import Recipe

Split = Literal["train", "test", "all"]
RecipeName = Literal["fast", "paper", "paper-decay"]
Values = dict[str, Any]
Data = Annotated[
    str,
    typer.Argument(metavar="DATA", help="A dataset's name (see `hitnet data list`), or a folder, .npz, CSV, Parquet"),
]
OtherData = Annotated[str | None, typer.Option("--data", help="Another dataset than the run's own")]
RunPaths = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders")]
RunPath = Annotated[Path, typer.Argument(help="A run folder, as `hitnet train` writes it")]
Device = Annotated[
    str, typer.Option(help="auto, cpu, cuda, cuda:N or mps", autocompletion=lambda: ["auto", "cpu", "cuda", "mps"])
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON")]
Picture = Annotated[Path, typer.Option(help="Picture to write: .png, .svg, .pdf")]
Classes = Annotated[list[str] | None, typer.Option("--class", help="Only this class; may be given several times")]
AuditSplit = Annotated[
    Split | None, typer.Option(help="Which images (default: train for a known set, all for samples and your own data)")
]


def _use_data_dir(folder: Path | None) -> Path | None:
    if folder is not None:
        os.environ["HITNET_DATA"] = str(folder)
    return folder


DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder of the known sets (default: $HITNET_DATA, else the cache)", callback=_use_data_dir),
]


@dataclass(frozen=True)
class OptionGroup:
    """Entries of a dataclass that a command takes as options; their help is the docstring's first sentence."""

    definition: type
    names: tuple[str, ...]

    def parameters(self) -> list[inspect.Parameter]:
        types, helps = typing.get_type_hints(self.definition), attribute_help(self.definition)
        defaults = {entry.name: entry.default for entry in fields(self.definition)}
        return [self._parameter(name, types[name], helps[name], defaults[name]) for name in self.names]

    def _parameter(self, name: str, hint: Any, text: str, default: Any) -> inspect.Parameter:
        # A named network has values of its own, so that a user must be able to say "no" to them.
        only_yes = hint is bool and default is False and self.definition is not ModelConfig
        option = typer.Option(f"--{name.replace('_', '-')}", help=text) if only_yes else typer.Option(help=text)
        annotation: Any = Annotated[_plain_type(hint) | None, option]
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


DATA = OptionGroup(DataOptions, ("image_size", "flip", "limit", "strict", "data_dir"))
TRAINING_DATA = OptionGroup(DataOptions, (*DATA.names, "stream"))
MODEL = OptionGroup(ModelConfig, ("decoder", "capsule_dim", "extra_dim", "reconstruction_weight", "norm", "weights"))
RECIPE = OptionGroup(
    Recipe,
    (
        *("epochs", "learning_rate", "batch_size", "backbone_rate"),
        *("augment", "augment_strength", "augment_share", "augment_noise"),
        *("ghosts", "ghost_rule", "ghost_probability", "ghosts_from_epoch"),
    ),
)
Backbone = Annotated[str | None, typer.Option(help="Pretrained backbone: efficientnet-lite0 or timm:NAME")]


def takes(**groups: OptionGroup) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of each group; the command receives those that the user gave as one dict per group."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [
            parameter
            for parameter in inspect.signature(command, eval_str=True).parameters.values()
            if parameter.name not in groups
        ]
        added = {name: group.parameters() for name, group in groups.items()}

        def call(**given: Any) -> None:
            values = {
                name: {p.name: value for p in parameters if (value := given.pop(p.name)) is not None}
                for name, parameters in added.items()
            }
            command(**given, **values)

        everything = [*own, *(parameter for parameters in added.values() for parameter in parameters)]
        everything = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in everything]
        call.__name__, call.__doc__, call.__module__ = command.__name__, command.__doc__, command.__module__
        call.__signature__ = inspect.Signature(everything)  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: p.annotation for p in everything}
        return call

    return decorate


def attribute_help(definition: type) -> dict[str, str]:
    """The first sentence on each attribute, from the section `Attributes:` of a Google docstring."""
    text = inspect.getdoc(definition) or ""
    section = text.partition("Attributes:\n")[2]
    entries = re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", section, re.MULTILINE)
    helps = {name: re.sub(r"\s+", " ", words).strip() for name, words in entries}
    return {name: re.split(r"(?<=[^.])\. (?=[A-Z])", words)[0].rstrip(".") for name, words in helps.items()}


def _plain_type(hint: Any) -> Any:
    """The type that the command line reads: of several, the first, but for a pair of sizes one number, and a path."""
    if get_origin(hint) is Literal:
        return hint
    options = [option for option in get_args(hint) if option is not NoneType] or [hint]
    if any(get_origin(option) is tuple for option in options):
        return int
    return Path if Path in options else options[0]
