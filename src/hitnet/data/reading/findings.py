"""What one pass over many image files finds: their headers, checksums, and which of them cannot be used."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hitnet.data.reading.decode import Header
from hitnet.data.reading.entries import Checksums, Entries, Skipped
from hitnet.runtime.ranks import Ranks


@dataclass
class Findings:
    """What a pass over N files found; odd ones by place, in order."""

    decoded: npt.NDArray[np.bool_]  # (N,), whether it is known if it can be decoded; of the others, only the header is
    checksums: Checksums  # of the decoded files; zeros for others
    headers: Counter[Header] = field(default_factory=Counter)  # how many files have each
    unreadable: dict[int, Skipped] = field(default_factory=dict)  # without a sound header
    undecodable: dict[int, Skipped] = field(default_factory=dict)  # with a sound header but no pixels

    def note(self, place: int, header: Header | Skipped, checksum: bytes = b"") -> None:
        if isinstance(header, Skipped):
            self.unreadable[place] = header
        else:
            self.headers[header] += 1
        if checksum:
            self.checksums[place] = np.void(checksum)

    def joined(self, ranks: Ranks) -> "Findings":
        """What all processes found, each of which looked at files of its own."""
        parts = list(ranks.gather({ranks.rank: self}).values())
        sums = np.bitwise_or.reduce([part.checksums.view(np.uint8) for part in parts]).view(self.checksums.dtype)
        odd = [dict(sorted(item for part in parts for item in getattr(part, name).items())) for name in ODD]
        return Findings(self.decoded, sums, sum((part.headers for part in parts), Counter()), *odd)


ODD = ("unreadable", "undecodable")
# Looks at files, and decodes those where the mask (N,) is true.
Look = Callable[[Entries, npt.NDArray[np.bool_]], Findings]
