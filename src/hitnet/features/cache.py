"""Features kept on disk, so that each image is computed once: a second audit or 50 new files cost only what is new."""

import hashlib
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from hitnet.data.reading.entries import Checksums
from hitnet.errors import HitNetError
from hitnet.features.extraction import all_finite, in_half
from hitnet.models.backbones import Backbone
from hitnet.runtime.files import cache_folder, expand, remove_litter, replacing, tell_room
from hitnet.runtime.ranks import SINGLE, Ranks

KEY_BYTES = 16
PER_BLOCK = 8_192  # images whose features are in memory while a file of all is written
ADVICE = "Set the variable HITNET_CACHE to a folder that can be written and has room for features."


class FeatureCache:
    """Features (n, D) under the checksums of files, in shards of one folder. Damaged ones, or of other widths, go."""

    def __init__(self, folder: Path, num_features: int) -> None:
        self.folder, self.num_features = folder, num_features
        self.shards: list[Path] = []
        remove_litter(folder, shared=True)
        keys, places = [_as_keys(b"")], [np.zeros((0, 2), np.int64)]
        for path in sorted(folder.glob("[!.]*.safetensors")) if folder.is_dir() else ():
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

    @classmethod
    def of(cls, backbone: Backbone, folder: str | Path | None = None) -> Self:
        """The features of a backbone below a folder; None: `cache_folder()`."""
        base = cache_folder() if folder is None else expand(folder)
        return cls(base / "features" / f"{backbone.fingerprint}-{backbone.input_size}", backbone.num_features)

    def __contains__(self, key: bytes) -> bool:
        return bool(self.find(_as_keys(key))[0] >= 0)

    def _keys(self, path: Path) -> Checksums | None:
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
        sound = fits and expected == _checksum(keys, features) and all_finite(features)
        return _as_keys(keys.numpy().tobytes()) if sound else None

    def check_writable(self, images: int) -> None:
        """Before all work, raise HitNetError if the folder cannot be written; tell the room that is needed."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
        except OSError as error:
            raise HitNetError(f"Cannot keep features in {self.folder}: {error.strerror}. {ADVICE}") from error
        # Of all images: how many have no features yet is only known once their files are read.
        needed = images * self.num_features * torch.float16.itemsize
        tell_room(f"Features of {images:,} images", needed, self.folder, ADVICE)

    def add(self, keys: Sequence[bytes], features: Tensor) -> None:
        """Write a shard; caches that are opened later hold it."""
        tensor = torch.frombuffer(bytearray(b"".join(keys)), dtype=torch.uint8).view(-1, KEY_BYTES)
        half = in_half(features).contiguous()
        content = save({"keys": tensor, "features": half}, {"checksum": _checksum(tensor, half)})
        try:
            # A damaged shard is computed again, so nothing waits for the disk here.
            with replacing(self.folder / f"{secrets.token_hex(8)}.safetensors", lasting=False) as temporary:
                temporary.write_bytes(content)
        except HitNetError as error:
            raise HitNetError(f"{error} {ADVICE}") from error

    def find(self, keys: Checksums) -> npt.NDArray[np.int64]:
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


def kept_features(
    keys: Checksums,
    backbone: Backbone,
    *,
    folder: str | Path | None = None,
    out: str | Path | None = None,
    ranks: Ranks = SINGLE,
) -> Tensor:
    """The features (N, D) in float16 that the cache holds of these contents.

    With `out`, an .npy file, they are written to it, by the first of the processes; the result is then mapped to that
    file, and memory does not grow with the number of images.
    """
    cache = FeatureCache.of(backbone, folder)
    places = cache.find(keys)
    if (places < 0).any():
        why = "another process removed them. Try again."
        if ranks.size > 1:
            why = (
                "it is on one machine only, or another process removed them. Set the variable HITNET_CACHE to a folder "
                "that all machines see, and start all processes again."
            )
        raise HitNetError(f"{cache.folder} lacks features of {(places < 0).sum():,} of {len(keys):,} images: {why}")
    if out is None:
        features = np.empty((len(keys), cache.num_features), np.float16)
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


def _as_keys(content: bytes) -> Checksums:
    return np.frombuffer(content, f"V{KEY_BYTES}")


def _checksum(keys: Tensor, features: Tensor) -> str:
    digest = hashlib.blake2b(keys.numpy().tobytes(), digest_size=16)
    digest.update(features.contiguous().numpy().tobytes())
    return digest.hexdigest()
