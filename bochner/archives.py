"""Arrays in archives of NumPy (npz) that nobody vouches for: what a header promises is compared with what is there first.

Nothing in such a file is executed, and it takes no more memory than DENSEST times its size.
"""

from __future__ import annotations

import io
import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from typing import IO, Any, TypeVar

import numpy as np

from bochner.errors import FileContentError

Array = Any

T = TypeVar("T")

DENSEST = 1032
"""Most bytes that a byte of the compression of zip (deflate) may stand for."""
WIDEST_EMPTY = 10**6
"""Longest side of an array of no numbers, such as (0, 3): who reads it may allocate as much."""
LONGEST_HEADER = 10_000
"""Most characters of the header of an array, as NumPy has it."""
DAMAGED = (
    *(OSError, ValueError, KeyError, EOFError, RuntimeError),
    *(NotImplementedError, SyntaxError, OverflowError, zlib.error, tokenize.TokenError),
)
"""What reading a file that is spoiled may end in, within Python's own readers."""


class ArchiveError(FileContentError):
    """A file that is no archive of arrays, or that promises more than it holds."""


def read_arrays(file: IO[bytes]) -> dict[str, Array]:
    """All arrays of an archive by name; ArchiveError says why there are none."""
    try:
        with zipfile.ZipFile(file) as archive:
            check_archive(archive, file.seek(0, os.SEEK_END))
            return {
                info.filename.removesuffix(".npy"): _read(archive, info)
                for info in archive.infolist()
                if info.filename.endswith(".npy")
            }
    except ArchiveError:
        raise
    except (*DAMAGED, zipfile.BadZipFile) as error:
        raise ArchiveError(f"it is no archive of arrays, or not a whole one ({error})") from error


def read_made(path: str | os.PathLike[str], what: str, make: Callable[[dict[str, Array]], T]) -> T:
    """What ``make`` makes of the arrays of a file; an error that names the file and ``what`` should be in it."""
    with open(path, "rb") as file:
        try:
            return make(read_arrays(file))
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
            told = str(error) or type(error).__name__
            raise ArchiveError(f"{os.fspath(path)}: the file holds no {what} ({told}); make it again.") from error


def check_archive(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse what is compressed in another way, and more bytes than a file of this size can hold."""
    total = packed = 0
    for info in archive.infolist():
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ArchiveError(f"{info.filename!r} is compressed in a way that numpy.savez does not use")
        if info.flag_bits & 1:
            raise ArchiveError(f"{info.filename!r} is encrypted: save it without a password")
        total, packed = total + info.file_size, packed + info.compress_size
    if packed > size:
        raise ArchiveError(f"it promises {packed} bytes of compressed arrays, and the file has {size}")
    if total > DENSEST * size:
        raise ArchiveError(f"it promises {total} bytes of arrays, more than a file of {size} bytes can hold")


def check_header(name: str, shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> None:
    """Refuse an array whose numbers take more than the bytes that there are, or that holds objects."""
    if dtype.hasobject:
        raise ArchiveError(f"the array {name!r} holds Python objects, which are not read")
    if (
        any(length < 0 for length in shape)
        or math.prod(shape) * dtype.itemsize > size
        or max(shape, default=0) > max(size, WIDEST_EMPTY)
    ):
        raise ArchiveError(f"the array {name!r} of shape {shape} and {dtype} needs more than the {size} bytes that it has")


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, Fortran order and dtype; the file is then at the first number."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ArchiveError(f"its arrays are of version {version}, and numpy.savez writes 1.0 or 2.0")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file, max_header_size=LONGEST_HEADER)
    return shape, fortran, dtype


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    """One array, its header compared with its size before anything is allocated."""
    with archive.open(info) as file:
        content = file.read()  # no more than the size that was checked
    start = io.BytesIO(content)
    shape, fortran, dtype = read_header(start)
    name = info.filename.removesuffix(".npy")
    check_header(name, shape, dtype, len(content) - start.tell())
    count = math.prod(shape)
    numbers = np.frombuffer(content, dtype=dtype, count=count, offset=start.tell()) if count else np.empty(0, dtype=dtype)
    return numbers.reshape(shape, order="F" if fortran else "C").copy(order="K")
