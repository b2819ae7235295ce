"""Hashes of row numbers: random choices of rows that need no memory and are the same on every machine.

The hash of row i is the i-th number of the generator splitmix64 that starts at ``seed`` (Steele, Lea and Flood, 2014). It
depends on the number of the row and on the seed alone, so choices made block by block do not depend on the blocks.
"""

from __future__ import annotations

import numpy as np

from bochner.arrays import Array
from bochner.errors import InputError

STEP = np.uint64(0x9E3779B97F4A7C15)
HALF = np.uint64(32)
LOW = np.uint64(2**32 - 1)


def row_hash(start: int, stop: int, seed: int = 0) -> Array:
    """Hashes of the rows from ``start`` to ``stop`` (not included), uniform over all of uint64: (stop - start,).

    Examples
    --------
    >>> from bochner.rows.hashing import row_hash
    >>> bool((row_hash(10, 20)[3:] == row_hash(13, 20)).all())
    True
    """
    if start < 0 or stop < start:
        raise InputError(f"start and stop must be row numbers, 0 <= start <= stop, got {start} and {stop}.")
    return hash_numbers(np.arange(start, stop, dtype=np.uint64), seed)


def hash_numbers(numbers: Array, seed: int = 0) -> Array:
    """The same for rows whose numbers (n,) are given one by one."""
    z = (numbers.astype(np.uint64) + np.uint64(1)) * STEP + np.uint64(seed % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def in_part(hashes: Array, fraction: float) -> Array:
    """Which rows are in a part of about ``fraction`` of all: (n,) of bool. A smaller part lies inside a larger one."""
    if not 0 <= fraction <= 1:
        raise InputError(f"fraction must be from 0 to 1, got {fraction!r}.")
    limit = int(fraction * 2.0**64)
    return np.ones(len(hashes), dtype=bool) if limit >= 2**64 else hashes < np.uint64(limit)


def fold_of(hashes: Array, n_folds: int) -> Array:
    """The fold of each row, from 0 to n_folds - 1: (n,) of int64.

    Folds are of about the same size. They come from the low bits, parts from the high ones: one says nothing of the other.
    """
    if not 1 <= n_folds < 2**32:
        raise InputError(f"n_folds must be a whole number, 1 or more, got {n_folds!r}.")
    return (((hashes & LOW) * np.uint64(n_folds)) >> HALF).astype(np.int64)
