"""Local binary patterns: which neighbours of a pixel, on a circle about it, are at least as bright as it is."""

from __future__ import annotations

from functools import cache

import numpy as np

from bochner.arrays import Array


def n_patterns(n_points: int) -> int:
    """Patterns that are told apart: 0 to n_points bright neighbours in one arc, and all others together."""
    return n_points + 2


def patterns(gray: Array, n_points: int, radius: float) -> Array:
    """The rotation-invariant pattern of each pixel (h, w): how many neighbours are bright where they are one arc.

    Neighbour p is at the angle 2 pi p / n_points, between four pixels, whose values are interpolated. Beyond the border of
    the image the nearest pixel counts. Patterns of more than one arc are n_points + 1.
    """
    gray = np.asarray(gray, dtype=np.float32)
    h, w = gray.shape
    reach = int(np.ceil(radius))
    wide = np.pad(gray, reach, mode="edge")
    code = np.zeros((h, w), dtype=np.uint32)
    for p in range(n_points):
        angle = 2 * np.pi * p / n_points
        row, column = round(-radius * np.sin(angle), 5), round(radius * np.cos(angle), 5)
        top, left = int(np.floor(row)), int(np.floor(column))
        difference = np.zeros_like(gray)
        for i, down in enumerate((1 - (row - top), row - top)):
            for j, right in enumerate((1 - (column - left), column - left)):
                if down * right > 0:
                    y, x = reach + top + i, reach + left + j
                    difference += np.float32(down * right) * (wide[y : y + h, x : x + w] - gray)
        code |= (difference >= 0).astype(np.uint32) << np.uint32(p)
    return _table(n_points)[code]


@cache
def _table(n_points: int) -> Array:
    """The pattern of every code of n_points bits."""
    codes = np.arange(2**n_points, dtype=np.uint32)
    bits = (codes[:, None] >> np.arange(n_points, dtype=np.uint32)) & 1
    changes = (bits != np.roll(bits, 1, axis=1)).sum(axis=1)
    return np.where(changes <= 2, bits.sum(axis=1), n_points + 1).astype(np.int64)
