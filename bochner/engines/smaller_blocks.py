"""Blocks of rows on a device that has no room for them: they are halved until there is, and a warning says so."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TypeVar

from bochner.errors import NotEnoughMemoryError

T = TypeVar("T")


class SmallerBlocksWarning(RuntimeWarning):
    """A device ran out of memory, and goes on with smaller blocks."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that a device has no room: PyTorch's, which is not imported here, and that of its host."""
    told = type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
    return isinstance(error, RuntimeError) and told


@contextmanager
def told_of_devices() -> Iterator[None]:
    """A context in which a device without room for what no smaller block would help is told as a MemoryError of ours."""
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise NotEnoughMemoryError(
            "The device has no room for matrices of all pairs of features or data centres, which are no smaller for fewer "
            "rows at a time: let go of other arrays there, give fewer n_features or n_centres, or leave out device=."
        ) from error


def each_block(n_rows: int, size: int, work: Callable[[slice], T]) -> Generator[tuple[slice, T], None, None]:
    """Blocks of at most ``size`` of the rows and what ``work`` makes of each, in order.

    Where that runs out of a device's memory, it is done again for half as many rows, and so on with the rest. ``work``
    changes nothing but what the next call overwrites.
    """
    start = 0
    while start < n_rows:
        block = slice(start, min(start + size, n_rows))
        try:
            result = work(block)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            size = _half(block.stop - block.start, error)
            continue
        yield block, result
        start = block.stop


def _half(size: int, error: BaseException) -> int:
    """Half of a number of rows, with a warning; a MemoryError where it is one row."""
    if size <= 1:
        raise NotEnoughMemoryError(
            "The device has no room for the features of a single row: let go of other arrays there, give fewer n_features, "
            "or leave out device=."
        ) from error
    warnings.warn(
        "The device ran out of memory: going on with blocks of fewer rows, which may be slower. To have room, let go of "
        "other arrays there or give fewer n_features.",
        SmallerBlocksWarning,
        stacklevel=2,
    )
    return size // 2
