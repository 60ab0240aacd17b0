"""Features kept on disk, so that each image is computed once: a second audit or 50 new files cost only what is new.

Features are kept under the checksum of a file's bytes, in a folder of the backbone and the size. Shards are written as
the pass goes: a pass that is killed resumes at the last of them. A shard that is damaged is computed again.
"""

import hashlib
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from hitnet.data.reading.entries import Lazy
from hitnet.data.reading.stored import AnyFile, as_file
from hitnet.errors import HitNetError
from hitnet.features.extraction import Extractor, in_half
from hitnet.models.backbones import Backbone
from hitnet.runtime.files import cache_folder, checksum, expand, remove_litter, replacing
from hitnet.runtime.progress import Progress
from hitnet.runtime.ranks import SINGLE, Ranks
from hitnet.runtime.threads import in_threads

KEY_BYTES = 16
PER_BLOCK = 8_192  # images whose features are in memory while a file of all is written
PER_SHARD = 1024  # images whose features are lost at most when a pass is killed
ADVICE = "Set the variable HITNET_CACHE to a folder that can be written and has room for features."
Keys = npt.NDArray[np.void]


def file_key(path: str | AnyFile) -> bytes:
    return bytes.fromhex(checksum(as_file(path)))


class FeatureCache:
    """Features (n, D) under keys of 16 bytes, in shards of one folder. Shards of another width count as damaged."""

    def __init__(self, folder: Path, num_features: int) -> None:
        self.folder, self.num_features = folder, num_features
        self.shards: list[Path] = []
        remove_litter(folder, shared=True)
        keys, places = [_as_keys(b"")], [np.zeros((0, 2), np.int64)]
        for path in sorted(folder.glob("*.safetensors")) if folder.is_dir() else ():
            own = self._keys(path)
            if own is None:
                path.unlink(missing_ok=True)
                continue
            rows = np.arange(len(own))
            keys.append(own)
            places.append(np.stack([np.full_like(rows, len(self.shards)), rows], axis=1))
            self.shards.append(path)
        self.keys, first = np.unique(np.concatenate(keys), return_index=True)
        self.places = np.concatenate(places)[first]

    def __len__(self) -> int:
        return len(self.keys)

    def _keys(self, path: Path) -> Keys | None:
        """The keys of a shard, or None if it is damaged; none of what is no file, e.g. a folder or a pipe."""
        if not path.is_file():  # also if another process found it damaged
            return _as_keys(b"")
        try:
            with safe_open(path, "pt") as shard:
                keys, features = shard.get_tensor("keys"), shard.get_tensor("features")
                expected = (shard.metadata() or {}).get("checksum")
        except SafetensorError:
            return None
        except FileNotFoundError:
            return _as_keys(b"")
        except (OSError, MemoryError) as error:
            raise HitNetError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
        types = keys.dtype == torch.uint8 and features.dtype == torch.float16 and keys.ndim == 2
        fits = types and keys.shape[1] == KEY_BYTES and features.shape == (len(keys), self.num_features)
        sound = fits and expected == _checksum(keys, features) and bool(features.isfinite().all())
        return _as_keys(keys.numpy().tobytes()) if sound else None

    def check_writable(self) -> None:
        """Raise HitNetError if the folder cannot be written, before anything is computed."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
        except OSError as error:
            raise HitNetError(f"Cannot keep features in {self.folder}: {error.strerror}. {ADVICE}") from error

    def add(self, keys: Sequence[bytes], features: Tensor) -> None:
        """Write a shard; caches that are opened later hold it."""
        tensor = torch.frombuffer(bytearray(b"".join(keys)), dtype=torch.uint8).view(-1, KEY_BYTES)
        half = in_half(features).contiguous()
        content = save({"keys": tensor, "features": half}, {"checksum": _checksum(tensor, half)})
        try:
            with replacing(self.folder / f"{secrets.token_hex(8)}.safetensors") as temporary:
                temporary.write_bytes(content)
        except HitNetError as error:
            raise HitNetError(f"{error} {ADVICE}") from error

    def find(self, keys: Keys) -> npt.NDArray[np.int64]:
        """Place in this cache of each key, -1 where it is not there."""
        if not len(self.keys):
            return np.full(len(keys), -1, np.int64)
        near = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.where(self.keys[near] == keys, near, -1)

    def read(self, places: npt.NDArray[np.int64], out: npt.NDArray[np.float16]) -> None:
        """Fill the rows of `out` (N, D) with the features at these places, one shard in memory at a time."""
        shard_of = self.places[places, 0]
        for number in np.unique(shard_of):
            rows = np.flatnonzero(shard_of == number)
            with safe_open(self.shards[number], "pt") as shard:
                out[rows] = shard.get_tensor("features").numpy()[self.places[places[rows], 1]]


def cached_features(
    paths: Sequence[str | AnyFile],
    backbone: Backbone,
    *,
    device: torch.device | str = "cpu",
    folder: str | Path | None = None,
    out: str | Path | None = None,
    progress: Progress = Progress(),
    ranks: Ranks = SINGLE,
) -> Tensor:
    """Features of image files (N, D) in float16, computed only for files that the cache does not hold.

    Files of the same content are computed once; one that cannot be read as an image raises HitNetError.

    Args:
        paths: Image files.
        backbone, device: See `Extractor`.
        folder: Of the cache; None: `cache_folder()`.
        out: An .npy file to write the features to; the result is then mapped to that file, and memory does not grow
            with the number of images.
        progress: Called for each file whose features are known.
        ranks: Processes that share the work, and the cache's folder. Only the first writes `out`.
    """
    base = cache_folder() if folder is None else expand(folder)
    place = base / "features" / f"{backbone.fingerprint}-{backbone.input_size}"
    keys = _as_keys(b"".join(in_threads(file_key, paths)))
    cache = FeatureCache(place, backbone.num_features)
    # The first process decides what is missing: another may look when the first shards are there already.
    missing = ranks.from_first(lambda: _missing(cache, keys))
    mine = missing[ranks.rank :: ranks.size]
    if len(mine):
        cache.check_writable()
        extractor = Extractor(backbone, device=device)
        _fill(cache, extractor, paths, keys, mine, progress)
    else:
        progress.step(len(paths))
    ranks.wait()
    if len(missing):
        cache = FeatureCache(place, backbone.num_features)
    places = cache.find(keys)
    if (places < 0).any():
        raise HitNetError(f"{place} lost features while they were read: another process removed them. Try again.")
    if out is None:
        features = np.empty((len(paths), backbone.num_features), np.float16)
        cache.read(places, features)
        return torch.from_numpy(features)
    if ranks.first:
        with replacing(expand(out)) as temporary:
            _write(temporary, cache, places)
    ranks.wait()
    return torch.from_numpy(np.load(expand(out), mmap_mode="r+", allow_pickle=False))


def _write(path: Path, cache: FeatureCache, places: npt.NDArray[np.int64]) -> None:
    """Write the features at these places as an .npy file; what is written leaves memory, block by block."""
    shape = (len(places), cache.num_features)
    np.lib.format.open_memmap(path, "w+", np.float16, shape).flush()
    for start in range(0, len(places), PER_BLOCK):
        block = places[start : start + PER_BLOCK]
        rows = np.empty((len(block), cache.num_features), np.float16)
        cache.read(block, rows)
        np.lib.format.open_memmap(path, "r+")[start : start + len(block)] = rows


def _missing(cache: FeatureCache, keys: Keys) -> npt.NDArray[np.int64]:
    """Places of the files whose features the cache does not hold, each content once."""
    missing = np.flatnonzero(cache.find(keys) < 0)
    return missing[np.sort(np.unique(keys[missing], return_index=True)[1])]


def _fill(
    cache: FeatureCache,
    extractor: Extractor,
    paths: Sequence[str | AnyFile],
    keys: Keys,
    missing: npt.NDArray[np.int64],
    progress: Progress,
) -> None:
    """Compute the features of the missing files and write them, shard by shard."""
    progress.step(len(paths) - len(missing))
    waiting: list[Tensor] = []
    start = 0
    for which, part in extractor.run(Lazy(paths.__getitem__, missing)):
        waiting.append(part)
        if which.stop - start >= PER_SHARD or which.stop == len(missing):
            cache.add([keys[i].tobytes() for i in missing[start : which.stop]], torch.cat(waiting))
            start, waiting = which.stop, []
        progress.step(len(which))


def _as_keys(content: bytes) -> Keys:
    return np.frombuffer(content, f"V{KEY_BYTES}")


def _checksum(keys: Tensor, features: Tensor) -> str:
    digest = hashlib.blake2b(keys.numpy().tobytes(), digest_size=16)
    digest.update(features.contiguous().numpy().tobytes())
    return digest.hexdigest()
