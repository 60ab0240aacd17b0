"""Damage to files: bytes that change, and contents that are taken apart, changed and put together again."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import struct
import zipfile
import zlib
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load, save

from hitnet.runtime.tensor_files import tensor_checksum
from reproduction.ledger import canonical, checksum

NUMBERS = (
    0,
    1,
    2,
    7,
    8,
    127,
    128,
    255,
    256,
    2**15,
    2**16 - 1,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**63 - 1,
    2**64 - 1,
)
HOSTILE = (
    *("", " ", "\0", "..", "../../etc/passwd", "/dev/zero", "/", "nan", "inf", "-1", "1e999", "9" * 5000, "a" * 70_000),
    *(
        "\ud800",
        "\U0010ffff",
        "\x1b[2J",
        "=1+1",
        "'",
        '"',
        "\n",
        "\r\n",
        "\t",
        ",",
        ";",
        "<script>",
        "%s%n",
        "\u202e",
        "é",
    ),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 10**400, -(10**30), 2**63, 0.5, 1e308, float("nan"), float("inf")),
    *([], {}, [[]], [None], {"a": 1}, [1, "a", None], *HOSTILE),
)


def mutate(content: bytes, structured: str, rng: random.Random, other: bytes) -> bytes:
    """A damaged version of a file's content; `other` is another sound file of the same kind."""
    if structured and rng.random() < 0.6:
        try:
            return STRUCTURED[structured](content, rng)
        except Exception:  # what was damaged before may not be taken apart: damage bytes instead
            pass
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8, 30))):
        content = _damage_bytes(content, rng, other)
    return content


def _damage_bytes(content: bytes, rng: random.Random, other: bytes) -> bytes:
    data = bytearray(content)
    place, end = rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)
    near_start = rng.random() < 0.4
    if near_start:
        place = rng.randrange(min(len(data), 300) + 1)
    how = rng.randrange(11)
    if how == 0 and data:
        data[place % len(data)] ^= 1 << rng.randrange(8)
    elif how == 1 and data:
        data[place % len(data)] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    elif how == 2:
        del data[min(place, end) : min(place, end) + rng.choice((1, 2, 4, 16, 500))]
    elif how == 3:
        data[place:place] = rng.randbytes(rng.choice((1, 2, 4, 16, 500)))
    elif how == 4:
        del data[place:]
    elif how == 5:
        size, order = rng.choice("BHIQ"), rng.choice("<>")
        packed = struct.pack(f"{order}{size}", rng.choice(NUMBERS) % 2 ** (8 * struct.calcsize(f"<{size}")))
        data[place : place + len(packed)] = packed
    elif how == 6:
        begin = min(place, end)
        data[end:end] = data[begin : begin + rng.choice((4, 50, 2000))]
    elif how == 7 and other:
        begin = rng.randrange(len(other))
        data[place : place + 64] = other[begin : begin + rng.choice((8, 64, 1000))]
    elif how == 8:
        data[place : place + rng.choice((2, 8, 64))] = bytes(rng.choice((2, 8, 64)))
    elif how == 9:
        text = rng.choice(HOSTILE).encode("utf-8", "surrogatepass")
        data[place : place + rng.choice((0, len(text)))] = text
    else:
        data += rng.choice((b"\0", b"\n", b"\xff", data[:100], b"\0" * 10_000))
    return bytes(data)


def _change_value(value: Any, rng: random.Random) -> Any:
    """JSON with an entry changed, removed, doubled or nested."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        changed, key = dict(value), rng.choice(list(value))
        how = rng.random()
        if how < 0.1:
            del changed[key]
        elif how < 0.2:
            changed[rng.choice(HOSTILE)] = changed.pop(key)
        else:
            changed[key] = _change_value(changed[key], rng)
        return changed
    if isinstance(value, list) and value and rng.random() < 0.7:
        changed_list, place = list(value), rng.randrange(len(value))
        how = rng.random()
        if how < 0.15:
            del changed_list[place]
        elif how < 0.3:
            changed_list.append(changed_list[place])
        else:
            changed_list[place] = _change_value(changed_list[place], rng)
        return changed_list
    if rng.random() < 0.05:
        for _ in range(rng.choice((3, 50, 900))):
            value = [value]
        return value
    return rng.choice(VALUES)


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)


def change_json(content: bytes, rng: random.Random) -> bytes:
    text = _json_text(_change_value(json.loads(content), rng))
    if rng.random() < 0.02:
        text = "[" * rng.choice((100, 1000, 100_000)) + text
    return text.encode()


def change_lines(content: bytes, rng: random.Random) -> bytes:
    """A ledger with a line changed; its checksum is often made sound again."""
    lines = content.decode().splitlines()
    place = rng.randrange(len(lines))
    values = _change_value(json.loads(lines[place]), rng)
    if isinstance(values, dict) and rng.random() < 0.8:
        values.pop("check", None)
        try:
            values["check"] = checksum(values)
            lines[place] = canonical(values)
        except ValueError:
            lines[place] = _json_text(values)
    else:
        lines[place] = _json_text(values)
    return "\n".join(lines).encode("utf-8", "surrogatepass") + b"\n" * rng.randrange(2)


def change_npz(content: bytes, rng: random.Random) -> bytes:
    """An archive with an array damaged or replaced; its checksums are sound."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    name = rng.choice(list(members))
    how = rng.random()
    if how < 0.4:
        members[name] = _damage_bytes(members[name], rng, b"")
    elif how < 0.5:
        members.pop(name)
    elif how < 0.6:
        members[rng.choice(HOSTILE)[:100].replace("\0", "") or "x"] = members[name]
    else:
        members[name] = _npy(_odd_array(rng))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for key, value in members.items():
            archive.writestr(key, value)
    return out.getvalue()


def _odd_array(rng: random.Random) -> np.ndarray:
    shape = rng.choice(
        (
            (),
            (0,),
            (1,),
            (5,),
            (24,),
            (24, 1),
            (24, 12, 12),
            (24, 1, 12, 12),
            (24, 12, 12, 3),
            (2, 2, 2, 2, 2),
            (0, 12, 12),
        )
    )
    kind = rng.choice(
        ("u1", "i1", "i8", "u8", "f2", "f4", "f8", "c8", "?", "U0", "U3", "S3", "M8[s]", "m8[s]", "V4", ">i4", "i4,f4")
    )
    raw = np.random.default_rng(rng.randrange(2**32))
    dtype = np.dtype(kind)
    count = int(np.prod(shape))
    if dtype.kind == "U" and rng.random() < 0.5:
        return np.array([rng.choice(HOSTILE)[:50] for _ in range(count)] or [""])[:count].reshape(shape)
    if rng.random() < 0.3 and dtype.kind in "fiu":
        return np.full(shape, rng.choice((0, 1, 255, -1 if dtype.kind != "u" else 3)), dtype)
    return (
        np.frombuffer(raw.bytes(max(1, count) * dtype.itemsize), dtype)[:count].reshape(shape)
        if dtype.itemsize
        else np.zeros(shape, dtype)
    )


def _npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def change_gz(content: bytes, rng: random.Random) -> bytes:
    return gzip.compress(_damage_bytes(gzip.decompress(content), rng, b""), mtime=0)


def change_mat(content: bytes, rng: random.Random) -> bytes:
    """A Matlab file whose compressed elements are damaged inside."""
    out, place = bytearray(content[:128]), 128
    while place + 8 <= len(content):
        kind, size = struct.unpack_from("<II", content, place)
        body = content[place + 8 : place + 8 + size]
        if kind == 15:
            body = zlib.compress(_damage_bytes(zlib.decompress(body), rng, b""))
        else:
            body = _damage_bytes(body, rng, b"")
        out += struct.pack("<II", kind, len(body) if rng.random() < 0.9 else rng.choice(NUMBERS) % 2**32) + body
        place += 8 + size
    return bytes(out)


def change_parquet(content: bytes, rng: random.Random) -> bytes:
    """A table with columns dropped, renamed or filled with other types."""
    frame = pd.read_parquet(io.BytesIO(content))
    for _ in range(rng.choice((1, 1, 2))):
        column = rng.choice(list(frame.columns))
        how = rng.randrange(5)
        if how == 0:
            frame = frame.drop(columns=column)
        elif how == 1:
            frame = frame.rename(columns={column: rng.choice(("x", "path", "id", "label", "", "é"))})
        elif how == 2:
            frame = frame.head(rng.choice((0, 1, 3)))
        else:
            frame = frame.assign(**{column: _odd_column(len(frame), rng)})
        if not len(frame.columns):
            break
    out = io.BytesIO()
    frame.to_parquet(out, index=False)
    return out.getvalue()


def _odd_column(count: int, rng: random.Random) -> Any:
    names = ("", "a", "\x1b", "=1", "/dev/zero", "..", "photos/a/0.png")
    columns: tuple[Any, ...] = (
        [None] * count,
        [rng.choice(names) for _ in range(count)],
        np.full(count, rng.choice((np.nan, np.inf, -1.0, 1e308))),
        np.full(count, rng.choice((-1, 0, 2**62))),
        [b"bytes"] * count,
        [[1, 2]] * count,
        [{"a": 1}] * count,
        pd.date_range("2000", periods=count),
        [True] * count,
        pd.Categorical(["c"] * count),
    )
    return rng.choice(columns)


def change_tensors(content: bytes, rng: random.Random) -> bytes:
    """Tensors dropped, renamed, reshaped or of another type; their checksum is often made sound again."""
    tensors = load(content)
    about = _metadata(content)
    kept = json.loads(about["hitnet"]) if "hitnet" in about else about
    name = rng.choice(list(tensors))
    how = rng.randrange(6)
    if how == 0:
        del tensors[name]
    elif how == 1:
        tensors[rng.choice(HOSTILE)[:200].replace("\ud800", "")] = tensors.pop(name)
    elif how == 2:
        tensors[name] = torch.zeros(rng.choice(((), (0,), (1,), (7,), (3, 3), (10, 2, 2))))
    elif how == 3:
        tensors[name] = tensors[name].to(
            rng.choice((torch.float64, torch.int8, torch.bool, torch.bfloat16, torch.int64))
        )
    elif how == 4:
        tensors[name] = torch.full_like(tensors[name].float(), rng.choice((float("nan"), float("inf"), 0.0, 1e38)))
    else:
        kept[rng.choice(("epoch", "step", "checksum", "weights"))] = rng.choice(("", "-1", "x", "9" * 5000, "1e3", "2"))
    if rng.random() < 0.8 and how != 5:
        kept.pop("checksum", None)
        kept["checksum"] = tensor_checksum(tensors, kept)
    return save(tensors, {"hitnet": json.dumps(kept)} if "hitnet" in about else kept)


def _metadata(content: bytes) -> dict[str, str]:
    size = struct.unpack_from("<Q", content)[0]
    return dict(json.loads(content[8 : 8 + size]).get("__metadata__", {}))


def change_csv(content: bytes, rng: random.Random) -> bytes:
    """A table of text with cells, rows and columns changed."""
    text = content.decode()
    separator = "\t" if "\t" in text else ","
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    for _ in range(rng.choice((1, 1, 3))):
        row = rng.choice(rows)
        how = rng.randrange(6)
        if how == 0:
            rows.remove(row)
        elif how == 1:
            rows.append(list(row))
        elif how == 2:
            row.append(rng.choice(HOSTILE))
        elif row:
            row[rng.randrange(len(row))] = rng.choice(HOSTILE)
        if not rows:
            break
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=separator, quoting=rng.choice((csv.QUOTE_ALL, csv.QUOTE_MINIMAL))).writerows(rows)
    return out.getvalue().encode("utf-8", "surrogatepass")


STRUCTURED = {
    "json": change_json,
    "lines": change_lines,
    "npz": change_npz,
    "gz": change_gz,
    "mat": change_mat,
    "parquet": change_parquet,
    "tensors": change_tensors,
    "csv": change_csv,
}
