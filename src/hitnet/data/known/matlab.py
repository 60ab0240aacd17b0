"""Read numeric arrays from a Matlab file of version 5 to 7: only what SVHN and affNIST need, every size checked first.

A file is a header of 128 bytes, then elements: a type, a number of bytes, the bytes. An element may be compressed. An
array is an element of elements: its class, its shape, its name, its values; a structure has an array per field.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

HEADER = 128
LARGEST = 8 << 30  # bytes of one variable
BLOCK = 1 << 16
MATRIX, COMPRESSED = 14, 15
STRUCTURE = 2
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
Order = Literal["<", ">"]
ORDERS: dict[bytes, Order] = {b"IM": "<", b"MI": ">"}
Array = npt.NDArray[Any]


class MatlabError(Exception):
    """Why a file cannot be read."""


@dataclass(frozen=True)
class Variable:
    """One variable: its name, and the array or, of a structure, the array of each field."""

    name: str
    value: Array | dict[str, Array]


def read_variables(path: Path, names: tuple[str, ...]) -> dict[str, Array | dict[str, Array]]:
    """Those variables of a file that have one of these names, once each."""
    found: dict[str, Array | dict[str, Array]] = {}
    with path.open("rb") as file:
        head = file.read(HEADER)
        order = ORDERS.get(head[126:128])
        if head.startswith(b"MATLAB 7.3") or head[1:4] == b"HDF":
            raise MatlabError("it is of version 7.3, which is HDF5; save it as version 7")
        if len(head) < HEADER or order is None:
            raise MatlabError("it does not begin like a Matlab file of version 5 to 7")
        while tag := file.read(8):
            if len(tag) < 8:
                raise MatlabError("it ends within an element")
            kind, size = struct.unpack(f"{order}II", tag)
            stored = file.read(size)
            if len(stored) < size:
                raise MatlabError("it ends within an element")
            kind, content = _unpacked(stored, order) if kind == COMPRESSED else (kind, memoryview(stored))
            if kind == MATRIX and (variable := _variable(content, order, names)) is not None:
                found.setdefault(variable.name, variable.value)
    return found


def _unpacked(content: bytes, order: Order) -> tuple[int, memoryview]:
    """The element in a compressed one, in memory that grows only with the bytes that are there."""
    stream, data, kind, size = zlib.decompressobj(), bytearray(), 0, LARGEST
    for begin in range(0, len(content), BLOCK):
        data += stream.decompress(content[begin : begin + BLOCK])
        if len(data) >= 8:
            kind, size = struct.unpack_from(f"{order}II", data)
        if len(data) >= size + 8:
            break
    if len(data) < min(size, LARGEST) + 8:
        raise MatlabError("a compressed element ends too early")
    return kind, memoryview(data)[8 : size + 8]


def _elements(content: memoryview, order: Order) -> Iterator[tuple[int, memoryview]]:
    """Type and bytes of each element; those of at most four bytes have a shorter form."""
    place = 0
    while place + 8 <= len(content):
        first, size = struct.unpack_from(f"{order}II", content, place)
        if first >> 16:
            kind, size, begin = first & 0xFFFF, first >> 16, place + 4
            if size > 4:
                raise MatlabError("a short element has more than four bytes")
            place += 8
        else:
            kind, begin = first, place + 8
            place = begin + size + -size % 8
        if begin + size > len(content):
            raise MatlabError("an element is longer than what it is part of")
        yield kind, content[begin : begin + size]


def _numbers(element: tuple[int, memoryview], order: Order, what: str) -> Array:
    kind, content = element
    if kind not in STORED or len(content) % np.dtype(STORED[kind]).itemsize:
        raise MatlabError(f"{what} is of an unknown type")
    return np.frombuffer(content, np.dtype(STORED[kind]).newbyteorder(order))


def _next(parts: Iterator[tuple[int, memoryview]], what: str) -> tuple[int, memoryview]:
    part = next(parts, None)
    if part is None:
        raise MatlabError(f"a variable ends before its {what}")
    return part


def _variable(content: memoryview, order: Order, names: tuple[str, ...] | None) -> Variable | None:
    """A variable; None if it has none of these names, or is no array of numbers and no structure."""
    parts = _elements(content, order)
    flags = _numbers(_next(parts, "class"), order, "the class")
    shape = tuple(int(side) for side in _numbers(_next(parts, "shape"), order, "the shape"))
    name = bytes(_next(parts, "name")[1]).decode("latin-1")
    if not len(flags) or not shape or min(shape) < 0 or math.prod(shape) > LARGEST:
        raise MatlabError("a variable has no sound class and shape")
    if names is not None and name not in names:
        return None
    kind = int(flags[0]) & 0xFF
    if kind == STRUCTURE:
        return Variable(name, _fields(parts, shape, order))
    if kind not in CLASSES:
        return None
    values = _numbers(_next(parts, "values"), order, "its values")
    if len(values) != math.prod(shape):
        raise MatlabError(f"a variable of shape {shape} has {len(values):,} values")
    return Variable(name, values.astype(CLASSES[kind], copy=False).reshape(shape, order="F"))


def _fields(parts: Iterator[tuple[int, memoryview]], shape: tuple[int, ...], order: Order) -> dict[str, Array]:
    """The fields of numbers of a single structure; other fields are left out."""
    if math.prod(shape) != 1:
        raise MatlabError(f"a structure of shape {shape} is not a single one")
    length = _numbers(_next(parts, "fields"), order, "the length of names")
    letters = bytes(_next(parts, "fields")[1])
    if len(length) != 1 or not 1 <= int(length[0]) <= 64 or len(letters) % int(length[0]):
        raise MatlabError("a structure has no sound names of fields")
    size = int(length[0])
    fields = {}
    for begin in range(0, len(letters), size):
        kind, content = _next(parts, "fields")
        name = letters[begin : begin + size].split(b"\0")[0].decode("latin-1")
        field = _variable(content, order, None) if kind == MATRIX and len(content) else None
        if field is not None and not isinstance(field.value, dict):
            fields[name] = field.value
    return fields
