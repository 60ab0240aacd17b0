"""Facts about the known sets, from sets.toml: origin, licence, files and checksums."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hitnet.errors import unknown_name


@dataclass(frozen=True)
class KnownSet:
    """A set that is known by name."""

    name: str  # to open it by
    title: str  # what to call it in tables
    about: str  # one line for the list of datasets
    page: str
    licence: str
    classes: Sequence[str]
    flip: bool = False  # whether a mirrored image still belongs to its class
    mirrors: Sequence[str] = ()  # addresses that its files lie below; the first that works is used
    files: Mapping[str, str] = field(default_factory=dict)  # the checksum of each file, by its name
    archive: Mapping[str, str] = field(default_factory=dict)  # name and checksum of what the files come in, if they do
    also: Sequence[str] = ()  # other folders where its files may lie
    package: str = ""  # the folder of files that ship with hitnet, beside sets.toml


FACTS = Path(__file__).with_name("sets.toml")
KNOWN_SETS = {name: KnownSet(name, **facts) for name, facts in tomllib.loads(FACTS.read_text(encoding="utf-8")).items()}


def known_set(name: str) -> KnownSet:
    """The known set of this name; raises HitNetError for an unknown name."""
    if name not in KNOWN_SETS:
        raise unknown_name("dataset", name, KNOWN_SETS)
    return KNOWN_SETS[name]
