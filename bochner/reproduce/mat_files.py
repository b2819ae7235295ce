"""Files of MATLAB, versions 5 to 7, that nobody vouches for: sizes are compared with what is there before anything is read.

A file is a row of elements, each a type, a number of bytes and these bytes; an array is an element of elements, of which the
second has its dimensions; an element of compressed bytes holds one other. SciPy allocates what dimensions say.
"""

from __future__ import annotations

import math
import struct
import tokenize
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from bochner.archives import DENSEST
from bochner.reproduce.errors import ReproduceError

HEADER, ARRAY, COMPRESSED = 128, 14, 15
"""Bytes before the first element; types of elements."""
CELL, STRUCT, OBJECT, SPARSE = 1, 2, 3, 5
"""Classes of arrays that are not made of numbers in a row."""
DEEPEST = 50
"""Most arrays within arrays."""
DAMAGED = (
    *(OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, EOFError, OverflowError, ZeroDivisionError),
    *(
        NotImplementedError,
        AssertionError,
        NameError,
        RuntimeError,
        struct.error,
        zlib.error,
        tokenize.TokenError,
        SyntaxError,
        UserWarning,
    ),
)
"""What SciPy's reader ends in on files that are cut or spoiled."""


def read_mat(path: Path) -> dict[str, Any]:
    """The variables of a file by name; ReproduceError says why there are none."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        content = path.read_bytes()
        check_sizes(content)
        with np.errstate(all="ignore"):
            return dict(loadmat(BytesIO(content)))
    except (*DAMAGED, MatReadError, RuntimeWarning) as error:
        told = str(error) or type(error).__name__
        raise ReproduceError(f"{path}: this file cannot be read as MATLAB 5 ({told}); save it as npz.") from error


def check_sizes(content: bytes) -> None:
    """Refuse arrays whose dimensions need more bytes than they have."""
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    if order is None:
        raise ValueError("it does not begin as files of MATLAB 5 do")
    for kind, data in _elements(content[HEADER:], order, padded=False):
        if kind == COMPRESSED:
            unpacker = zlib.decompressobj()
            unpacked = unpacker.decompress(data, DENSEST * len(data) + HEADER)
            for inner, array in _elements(unpacked, order):
                _check_array(inner, array, order)
        else:
            _check_array(kind, data, order)


def _check_array(kind: int, data: bytes, order: str, depth: int = 0) -> None:
    if kind != ARRAY or not data:
        return
    if depth > DEEPEST:
        raise ValueError(f"it has arrays within arrays, more than {DEEPEST} deep")
    parts = list(_elements(data, order))
    if len(parts) < 2 or len(parts[0][1]) < 4:
        raise ValueError("an array has no dimensions")
    flags, dimensions = parts[0][1], parts[1][1]
    array_class = struct.unpack(f"{order}I", flags[:4])[0] & 0xFF
    sizes = struct.unpack(f"{order}{len(dimensions) // 4}i", dimensions[: len(dimensions) // 4 * 4])
    each = 8 if array_class in (CELL, STRUCT, OBJECT) else 1
    if array_class != SPARSE and (min(sizes, default=0) < 0 or math.prod(sizes) * each > len(data)):
        raise ValueError(f"an array of dimensions {sizes} needs more than the {len(data)} bytes that it has")
    for inner, some in parts[2:]:
        _check_array(inner, some, order, depth + 1)


def _elements(data: bytes, order: str, padded: bool = True) -> Iterator[tuple[int, bytes]]:
    """Types and bytes of the elements in a row; those of few bytes share a word with their tag."""
    at = 0
    while at + 8 <= len(data):
        kind, size = struct.unpack(f"{order}II", data[at : at + 8])
        if kind >> 16:
            kind, size, start = kind & 0xFFFF, min(kind >> 16, 4), at + 4
            at += 8
        else:
            start = at + 8
            at = start + size + (-size % 8 if padded else 0)
        if start + size > len(data):
            raise ValueError(f"an element of {size} bytes has {len(data) - start}")
        yield kind, data[start : start + size]
