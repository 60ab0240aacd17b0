"""Networks in ONNX files: run by ONNX Runtime, with everything that a prediction needs in the file itself.

The graph takes images as they are read, uint8 (B, C, H, W), and scales and normalises them itself. The metadata entry
`hitnet` says in JSON what else there is to know (`About`); `hitnet-checksum` finds damage. A file without the latter is
read too, for those who changed it on purpose.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hitnet.data.reading.decode import check_shape
from hitnet.errors import HitNetError, need
from hitnet.inference.pictures import Pictures, batches_of
from hitnet.inference.prediction import DecisionRule, Predictions, misfits
from hitnet.runtime import schemas
from hitnet.runtime.files import check_regular, expand

FORMAT = 1
ENTRY, CHECKSUM = "hitnet", "hitnet-checksum"
LARGEST = (2 << 30) - 1  # bytes; protobuf reads no more
LARGEST_VALUES = 4 << 30  # bytes
ENDLESS = {"Loop", "Scan", "SequenceMap"}
BATCH_PIXELS = 2**22


@dataclass(frozen=True, kw_only=True)
class About(DecisionRule):
    """What an ONNX file says about its network: how distances become a class, and more.

    Attributes:
        format: Version of these entries.
        in_shape: (C, H, W) of an image; C = 1 is grey, 3 is RGB.
        model_name: The name that the network was chosen by.
        data: The data that it was trained on.
        hitnet: The version that wrote the file.
        crop: Whether images of another size are scaled to fill this one and cropped to the middle, rather than
            scaled to fit and centred on black (both bilinear, antialiased, with the aspect ratio).
    """

    format: int
    in_shape: tuple[int, int, int]
    model_name: str
    data: str
    hitnet: str
    crop: bool = False

    @classmethod
    def read(cls, text: str, path: Path) -> About:
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise HitNetError(f"{path} is damaged: its metadata is not readable JSON ({error}).") from error
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise HitNetError(f"{path} is not an ONNX file that this version of hitnet can read. Export it again.")
        schemas.check_schema(values, schemas.schema_of(cls), path)
        known: dict[str, Any] = {entry.name: values[entry.name] for entry in fields(cls) if entry.name in values}
        known |= {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
        about = cls(**known)
        about.check(path)
        return about

    def check(self, path: Path) -> None:
        if len(self.in_shape) != 3 or len(self.class_names) < 2 or (self.radii is not None and len(self.radii) != 2):
            raise HitNetError(f"{path} is damaged: its metadata does not describe a network. Export it again.")
        check_shape(self.in_shape)


class OnnxNetwork:
    """A classifier in an ONNX file, with ONNX Runtime's session and what the file says about it."""

    def __init__(self, session: Any, about: About, path: Path) -> None:
        self.session, self.about, self.path = session, about, path

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.about.class_names

    def distances(self, pixels: np.ndarray) -> np.ndarray:
        """Distances (N, K) of uint8 images (N, C, H, W), in batches."""
        size = max(1, BATCH_PIXELS // int(np.prod(self.about.in_shape)))
        parts = [self.judge(pixels[start : start + size])[0] for start in range(0, len(pixels), size)]
        return np.concatenate([*parts, np.empty((0, len(self.class_names)), np.float32)])

    def judge(self, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distances (B, K) and misfits (B,) of a batch of uint8 images (B, C, H, W)."""
        names = [entry.name for entry in self.session.get_outputs() if entry.name in ("distances", "misfit")]
        try:
            values = dict(zip(names, self.session.run(names, {"images": batch}), strict=True))
        except Exception as error:  # ONNX Runtime's errors have no common class
            raise HitNetError(f"{self.path} cannot be run: {error}") from error
        distances = np.asarray(values["distances"], np.float32)
        if distances.shape != (len(batch), len(self.class_names)):
            raise HitNetError(f"{self.path} is damaged: its distances have the shape {distances.shape}.")
        unlike = np.asarray(values.get("misfit", misfits(distances)), np.float32)
        if unlike.shape != (len(batch),):
            raise HitNetError(f"{self.path} is damaged: its misfits have the shape {unlike.shape}.")
        return distances, unlike

    def predict(self, images: Pictures) -> Predictions:
        """Classify images, each brought to the size that the network takes; see `hitnet.predict`."""
        return Predictions(
            self.about.predict(name, row, float(unlike) if self.about.radii else None)
            for names, pixels in batches_of(images, self.about.in_shape, crop=self.about.crop)
            for name, row, unlike in zip(names, *self.judge(pixels.numpy()), strict=True)
        )


def is_onnx(path: object) -> bool:
    """Whether this is the path of an ONNX file, by its name."""
    return isinstance(path, str | Path) and Path(path).suffix.lower() == ".onnx" and not expand(path).is_dir()


def open_onnx(path: str | Path, *, threads: int = 0) -> OnnxNetwork:
    """Open the classifier in an ONNX file that `Run.export` wrote.

    Args:
        path: The file. It must hold all its weights: no other file is read.
        threads: Threads of ONNX Runtime; 0 leaves the choice to it.
    """
    onnx, runtime = need("ONNX files", "onnx", "onnxruntime")
    file = expand(path)
    check_regular(file, largest=LARGEST)
    content = file.read_bytes()
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:  # protobuf's errors have no common class
        raise HitNetError(f"{file} is not a readable ONNX file: {error}") from error
    about = read_about(model, file)
    check_graph(model, file, onnx)
    bound_memory(runtime)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4  # what matters is raised
    options.add_session_config_entry("session.load_model_format", "ONNX")
    options.add_session_config_entry("session.use_env_allocators", "1")
    unlimited = ["ConstantFolding"]  # computes parts of the graph before, without the limit of memory
    try:
        session = runtime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"], disabled_optimizers=unlimited
        )
    except Exception as error:
        raise HitNetError(f"{file} is not a network that ONNX Runtime can run: {error}") from error
    names = [entry.name for entry in session.get_inputs()], {entry.name for entry in session.get_outputs()}
    if names[0] != ["images"] or "distances" not in names[1]:
        raise HitNetError(f"{file} has no input `images` or no output `distances`. Export the run again.")
    return OnnxNetwork(session, about, file)


def write_about(model: Any, about: About) -> None:
    """Put metadata and checksum into a model."""
    text = json.dumps(asdict(about))
    digest = model_checksum(model, text)
    for key, value in ((ENTRY, text), (CHECKSUM, digest)):
        model.metadata_props.add(key=key, value=value)


def read_about(model: Any, path: Path) -> About:
    """What a model says about itself, after a look at its checksum."""
    pairs = ((entry.key, entry.value) for entry in model.metadata_props)
    entries = {key: value for key, value in pairs if isinstance(value, str)}  # what is not UTF-8 is read as bytes
    if ENTRY not in entries:
        raise HitNetError(f"{path} is not an ONNX file of hitnet: it has no metadata. Write it by `hitnet export`.")
    if CHECKSUM in entries and entries[CHECKSUM] != model_checksum(model, entries[ENTRY]):
        raise HitNetError(
            f"{path} is damaged: its checksum does not match. Export the run again. If you changed the file on "
            f"purpose, remove its metadata entry {CHECKSUM}."
        )
    return About.read(entries[ENTRY], path)


def model_checksum(model: Any, text: str) -> str:
    """A hash of the graph and of what is said about it."""
    bare = type(model)()
    bare.CopyFrom(model)
    bare.ClearField("metadata_props")
    content = bare.SerializeToString(deterministic=True)
    return hashlib.blake2b(content + text.encode(), digest_size=16).hexdigest()


@cache
def bound_memory(runtime: Any) -> None:
    """Limit, once per process, the memory of all values that ONNX networks compute: a graph may ask for any size."""
    place = runtime.OrtMemoryInfo("Cpu", runtime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, runtime.OrtMemType.DEFAULT)
    limit = runtime.OrtArenaCfg({"max_mem": LARGEST_VALUES, "arena_extend_strategy": 1})  # 1: no more than is asked for
    runtime.create_and_register_allocator(place, limit)


def check_graph(model: Any, path: Path, onnx: Any) -> None:
    """Raise HitNetError if a model would read other files, never end, or run operators that are not ONNX's own."""
    foreign = sorted({entry.domain for entry in model.opset_import} - {"", "ai.onnx"})
    if foreign:
        raise HitNetError(f"{path} uses operators that are not ONNX's own ({foreign[0]}), which are not run.")
    endless = ENDLESS & {node.op_type for node in _parts(model, onnx.NodeProto)}
    if endless or model.functions:
        what = f"the operator {min(endless)}" if endless else "functions"
        raise HitNetError(f"{path} uses {what}, which hitnet does not write and which may never end: it is not run.")
    for tensor in _parts(model, onnx.TensorProto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
            raise HitNetError(
                f"{path} refers to another file for its weights, which hitnet does not read. Save both as one file."
            )


def _parts(message: Any, kind: type) -> Iterator[Any]:
    """All parts of a kind in a message of protobuf, however deep: in subgraphs and functions, too."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in (value,) if hasattr(value, "ListFields") else value:
            if isinstance(part, kind):
                yield part
            yield from _parts(part, kind)
