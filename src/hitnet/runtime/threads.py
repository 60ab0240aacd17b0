"""Process many image files in threads, in their order. Pillow releases the interpreter lock while it decodes."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

AHEAD = 4096  # how many files threads may read before they are asked for
LARGEST_HANDFUL = 16
T = TypeVar("T")
Item = TypeVar("Item")


def thread_count() -> int:
    return min(16, (os.cpu_count() or 1) + 2)


def in_threads(
    work: Callable[[Item], T],
    entries: Iterable[Item],
    *,
    ahead: int = AHEAD,
    threads: int | None = None,
    begin: Callable[[], None] | None = None,
) -> Iterator[T]:
    """The result of `work` for each entry, in their order, from threads that stay at most `ahead` entries ahead.

    Each thread calls `begin` first.
    """
    threads = threads or thread_count()
    # Entries are handed over in groups: decoding a small image takes less time than handing over a single entry.
    size = max(1, min(LARGEST_HANDFUL, ahead // (2 * threads)))
    rest = iter(entries)
    handfuls = iter(lambda: list(islice(rest, size)), [])
    pool = ThreadPoolExecutor(threads, initializer=begin)
    try:
        pending: deque[Future[list[T]]] = deque()
        for handful in islice(handfuls, ahead // size):
            pending.append(pool.submit(_each, work, handful))
        while pending:
            results = pending.popleft().result()
            for handful in islice(handfuls, 1):
                pending.append(pool.submit(_each, work, handful))
            yield from results
    finally:
        pool.shutdown(cancel_futures=True)


def _each(work: Callable[[Item], T], entries: list[Item]) -> list[T]:
    return [work(entry) for entry in entries]
