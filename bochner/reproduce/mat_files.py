"""Files of MATLAB, versions 5 to 7, that nobody vouches for: numbers, text, sparse matrices and cells of these.

A file is a row of elements, each a type, a number of bytes and these bytes; an array is an element made of elements: its
class, its dimensions, its name and what it holds; a compressed element holds another one. Nothing is allocated but what
the bytes of a file give. (SciPy's reader allocates what dimensions say, and reads beyond its memory in spoiled files.)
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from bochner.archives import DENSEST
from bochner.arrays import Array
from bochner.errors import FileContentError
from bochner.reproduce.errors import ReproduceError

HEADER, ARRAY, COMPRESSED = 128, 14, 15
"""Bytes before the first element; types of elements."""
CELL, TEXT, SPARSE = 1, 4, 5
"""Classes of arrays that are not made of numbers in a row."""
NUMBERS = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
"""The other classes that are read."""
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""Types of elements that hold numbers."""
LETTERS = {**STORED, 16: "u1", 17: "u2", 18: "u4"}
TEXT_BYTES, ELEMENT_BYTES = 32, 400
"""Most memory that a letter takes on the way to text, and an element beside what it holds."""
LOGICAL, COMPLEX = 0x200, 0x800
DEEPEST = 50
"""Most arrays within arrays."""


class MatError(FileContentError):
    """What is wrong with a file of MATLAB."""


def read_mat(path: Path) -> dict[str, Any]:
    """The variables of a file by name, those of other kinds left out; ReproduceError says why there are none."""
    try:
        return dict(_variables(path.read_bytes()))
    except (OSError, MatError, zlib.error, struct.error, UnicodeDecodeError) as error:
        raise ReproduceError(f"{path}: this file cannot be read as MATLAB 5 ({error}); save it as npz.") from error


@dataclass
class Room:
    """Bytes that the variables of a file may still take in memory: no more in all than an array of NumPy's file could."""

    left: int

    def take(self, size: int) -> None:
        """Take some of them, before they are allocated."""
        self.left -= size
        if self.left < 0:
            raise MatError("its variables need far more memory than a file of its size")


@dataclass(frozen=True)
class Parts:
    """The elements of an array."""

    flags: int
    dimensions: tuple[int, ...]
    name: str
    held: list[tuple[int, memoryview]]


def _variables(content: bytes) -> Iterator[tuple[str, Any]]:
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    if order is None:
        raise MatError("it does not begin as files of MATLAB 5 to 7 do")
    room = Room(DENSEST * len(content))
    for kind, data in _elements(memoryview(content)[HEADER:], order, room, padded=False):
        if kind == COMPRESSED:
            unpacked = zlib.decompressobj().decompress(data, max(room.left // 2, 1))
            room.take(2 * len(unpacked))  # as it is put together from pieces
            inner = next(_elements(memoryview(unpacked), order, room), (0, memoryview(b"")))
        else:
            inner = kind, data
        if inner[0] == ARRAY:
            parts = _parts(inner[1], order, room)
            value = _value(parts, order, 0, room)
            if value is not None:
                yield parts.name, value


def _elements(data: memoryview, order: str, room: Room, padded: bool = True) -> Iterator[tuple[int, memoryview]]:
    """Types and bytes of the elements in a row; those of few bytes share a word with their tag."""
    at = 0
    while at + 8 <= len(data):
        kind, size = struct.unpack(f"{order}II", data[at : at + 8])
        if kind >> 16:
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
            at += 8
        else:
            start = at + 8
            at = start + size + (-size % 8 if padded else 0)
        if start + size > len(data):
            raise MatError(f"an element of {size} bytes has {len(data) - start}")
        room.take(ELEMENT_BYTES)
        yield kind, data[start : start + size]


def _parts(data: memoryview, order: str, room: Room) -> Parts:
    """The elements of an array, the first three of them understood."""
    found = list(_elements(data, order, room))
    if len(found) < 3 or len(found[0][1]) < 4 or len(found[1][1]) % 4:
        raise MatError("an array has no class, dimensions and name")
    (flags,) = struct.unpack(f"{order}I", found[0][1][:4])
    dimensions = struct.unpack(f"{order}{len(found[1][1]) // 4}i", found[1][1])
    if not dimensions or min(dimensions) < 0 or len(dimensions) > 8:
        raise MatError(f"an array has the dimensions {dimensions}")
    return Parts(flags, dimensions, bytes(found[2][1]).decode("latin1"), found[3:])


def _value(parts: Parts, order: str, depth: int, room: Room) -> Any:
    """What an array holds; None for kinds that are not read."""
    kind = parts.flags & 0xFF
    if kind == CELL:
        return _cell(parts, order, depth, room)
    if kind == SPARSE:
        room.take(8 * sum(len(data) for _, data in parts.held))
        return _sparse(parts, order)
    if kind == TEXT:
        room.take(TEXT_BYTES * sum(len(data) for _, data in parts.held))
        return _text(parts, order)
    if kind not in NUMBERS or parts.flags & COMPLEX:
        return None
    room.take(math.prod(parts.dimensions) * int(NUMBERS[kind][1]))
    numbers = _numbers(parts, 0, order, math.prod(parts.dimensions))
    with np.errstate(all="ignore"):  # numbers beyond their class, which MATLAB does not write
        result = numbers.astype(bool if parts.flags & LOGICAL else NUMBERS[kind])
    return result.reshape(parts.dimensions, order="F")


def _numbers(parts: Parts, which: int, order: str, count: int, types: dict[int, str] = STORED) -> Array:
    """The numbers of one of the elements that an array holds, as many as there should be."""
    kind, data = parts.held[which] if which < len(parts.held) else (9, memoryview(b""))
    if kind not in types:
        raise MatError(f"{parts.name!r} holds elements of type {kind} where there should be numbers: save it again")
    numbers = np.frombuffer(data[: len(data) // int(types[kind][1]) * int(types[kind][1])], dtype=f"{order}{types[kind]}")
    if len(numbers) != count:
        raise MatError(f"{parts.name!r} of dimensions {parts.dimensions} holds {len(numbers)} numbers instead of {count}")
    return numbers


def _cell(parts: Parts, order: str, depth: int, room: Room) -> Array:
    """A cell, each entry an array of any kind."""
    if depth >= DEEPEST:
        raise MatError(f"{parts.name!r} has cells within cells, more than {DEEPEST} deep: use a cell of views")
    if math.prod(parts.dimensions) != len(parts.held):
        raise MatError(f"the cell {parts.name!r} of dimensions {parts.dimensions} has {len(parts.held)} entries")
    result = np.empty(len(parts.held), dtype=object)
    for i, (kind, data) in enumerate(parts.held):
        if kind != ARRAY:
            raise MatError(f"the cell {parts.name!r} holds elements of type {kind} where there should be arrays")
        result[i] = _value(_parts(data, order, room), order, depth + 1, room) if data else np.empty((0, 0))
    return result.reshape(parts.dimensions, order="F")


def _sparse(parts: Parts, order: str) -> Any:
    """A sparse matrix, which MATLAB keeps by columns."""
    if len(parts.held) < 3 or len(parts.dimensions) != 2 or parts.flags & COMPLEX:
        return None
    rows, ends = (np.frombuffer(data[: len(data) // 4 * 4], dtype=f"{order}i4") for _, data in parts.held[:2])
    n_rows, n_columns = parts.dimensions
    n = int(ends[-1]) if len(ends) else -1
    whole = len(ends) == n_columns + 1 and 0 <= n <= len(rows) and ends[0] == 0 and np.all(np.diff(ends) >= 0)
    if not whole or np.any((rows[:n] < 0) | (rows[:n] >= n_rows)):
        raise MatError(f"the sparse matrix {parts.name!r} points at numbers that are not there")
    kind, data = parts.held[2]
    size = int(STORED.get(kind, "f8")[1])
    numbers = _numbers(Parts(parts.flags, (n,), parts.name, [(kind, data[: n * size])]), 0, order, n)
    with np.errstate(all="ignore"):
        native = rows[:n].astype(np.int32), ends.astype(np.int32)
        return sparse.csc_array((numbers.astype(float), *native), shape=(n_rows, n_columns))


def _text(parts: Parts, order: str) -> Array:
    """Text, a string for each row of letters."""
    if len(parts.dimensions) != 2 or not parts.held:
        raise MatError(f"the text {parts.name!r} has no letters in rows and columns")
    codes = _numbers(parts, 0, order, math.prod(parts.dimensions), LETTERS).astype(np.int64)
    if np.any((codes < 0) | (codes > 0x10FFFF)):
        raise MatError(f"the text {parts.name!r} holds numbers that are no letters")
    letters = codes.reshape(parts.dimensions, order="F")
    return np.array(["".join(map(chr, row)) for row in letters.tolist()])
