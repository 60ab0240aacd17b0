"""What one pass over many image files finds: their headers, checksums, and which of them cannot be used."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hitnet.data.reading.decode import Header
from hitnet.data.reading.entries import Checksums, Entries, Skipped


@dataclass
class Findings:
    """What a pass over N files found.

    Attributes:
        decoded: (N,), the files of which it is known whether they can be decoded; of the others, only the header is.
        checksums: Of the decoded files; zeros for others. None: not computed.
        headers: How many files have each header.
        unreadable: The files without a sound header, by place, in order.
        undecodable: The decoded files with a sound header but no pixels, by place, in order.
    """

    decoded: npt.NDArray[np.bool_]
    checksums: Checksums | None = None
    headers: Counter[Header] = field(default_factory=Counter)
    unreadable: dict[int, Skipped] = field(default_factory=dict)
    undecodable: dict[int, Skipped] = field(default_factory=dict)

    def note(self, place: int, header: Header | Skipped, checksum: bytes = b"") -> None:
        if isinstance(header, Skipped):
            self.unreadable[place] = header
        else:
            self.headers[header] += 1
        if self.checksums is not None and checksum:
            self.checksums[place] = np.void(checksum)

    def key(self, place: int) -> bytes:
        """The checksum of a file; empty where none is known."""
        return b"" if self.checksums is None else self.checksums[place].tobytes()

    def all_odd(self) -> Iterator[Skipped]:
        yield from self.unreadable.values()
        yield from self.undecodable.values()


# Looks at files, and decodes those where the mask (N,) is true.
Look = Callable[[Entries, npt.NDArray[np.bool_]], Findings]
