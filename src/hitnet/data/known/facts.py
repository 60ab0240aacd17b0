"""Facts about the known sets, from sets.toml: origin, licence, files and checksums."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hitnet.errors import unknown_name


@dataclass(frozen=True)
class KnownSet:
    """A set that is known by name.

    Attributes:
        name: The name to open it by.
        title: What to call it in tables.
        about: One line for the list of datasets.
        flip: Whether a mirrored image still belongs to its class.
        mirrors: The addresses that its files lie below; the first that works is used.
        files: The checksum of each file, by its name.
        archive: Name and checksum of the archive that the files come in, if they do.
        also: Other folders where its files may lie.
        package: The folder of the files that ship with hitnet, beside sets.toml.
    """

    name: str
    title: str
    about: str
    page: str
    licence: str
    classes: Sequence[str]
    flip: bool = False
    mirrors: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    archive: Mapping[str, str] = field(default_factory=dict)
    also: Sequence[str] = ()
    package: str = ""


FACTS = Path(__file__).with_name("sets.toml")
KNOWN_SETS = {name: KnownSet(name, **facts) for name, facts in tomllib.loads(FACTS.read_text(encoding="utf-8")).items()}


def known_set(name: str) -> KnownSet:
    """The known set of this name; raises HitNetError for an unknown name."""
    if name not in KNOWN_SETS:
        raise unknown_name("dataset", name, KNOWN_SETS)
    return KNOWN_SETS[name]
