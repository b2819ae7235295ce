"""Dense gradient-orientation descriptors (SIFT) of an image: all positions of a grid at once, at several scales.

Gradients are shared out over eight maps, one for each orientation. A cell of a descriptor is a weighted sum of these maps
near its centre, and cells of neighbouring descriptors are the same, so each is computed once, by two products with matrices
of weights (rows, then columns).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.lib.stride_tricks import as_strided

from bochner.arrays import Array
from bochner.errors import InputError

ORIENTATIONS, SIDE = 8, 4
"""Orientations of a cell, and cells along a side of a descriptor."""
LENGTH = SIDE * SIDE * ORIENTATIONS
"""Numbers of a descriptor of one channel."""
WINDOW = 2.0
"""Standard deviation of the Gaussian weight of cells about the centre of a descriptor, in cells."""
LARGEST = 0.2
"""No number of a descriptor of length one is larger; what is cut off is shared out by making the length one again."""
STRIPE = 24
"""Positions that are pooled in one product: few, so that most weights of their matrix are not zero."""
AT_A_TIME = 2000
"""Descriptors that are made at a time: few, so that they stay in the cache until they are words."""
TINY = np.float32(1e-20)


@dataclass(frozen=True)
class SiftOptions:
    """A descriptor every ``step`` pixels, of cells of some widths in pixels: SIDE x SIDE cells each."""

    step: int = 4
    widths: tuple[int, ...] = (4, 8)
    smoothing: float = 1 / 6
    """Standard deviation of the Gaussian that smooths gradients, in widths of a cell."""

    def __post_init__(self) -> None:
        if self.step < 1 or not self.widths or min(self.widths) < 1 or self.smoothing < 0:
            raise InputError(f"step and widths must be 1 or more, and smoothing not negative: got {self}.")


@dataclass(frozen=True)
class Cells:
    """Cells of all descriptors of one width: sums of orientation maps about the points of a lattice."""

    sums: Array
    """(c, lattice rows, lattice columns, ORIENTATIONS) of float32, of c channels."""
    shape: tuple[int, int]
    """Rows and columns of the grid of descriptors."""
    stride: int
    """Lattice points from one descriptor to the next."""
    gap: int
    """Lattice points from one cell of a descriptor to the next."""

    def rows(self, start: int, stop: int) -> Array:
        """Descriptors of some rows of the grid, not normalised: (n, c, LENGTH)."""
        c, _, _, k = self.sums.shape
        _, down, right, unit = self.sums.strides
        shape = (stop - start, self.shape[1], c, SIDE, SIDE, k)
        strides = (self.stride * down, self.stride * right, self.sums.strides[0], self.gap * down, self.gap * right, unit)
        view = as_strided(self.sums[:, start * self.stride :], shape, strides, writeable=False)
        found = np.empty(shape, dtype=np.float32)
        np.multiply(view, window()[:, :, None], out=found)
        return found.reshape(-1, c, LENGTH)


def brightness(image: Array) -> Array:
    """The sum of red, green and blue (h, w) of an image (h, w, 3), exact where they are bytes."""
    red, green, blue = _colours(image)
    return red + green + blue


def opponent(image: Array) -> Array:
    """Intensity, red against green and yellow against blue (3, h, w) of an image (h, w, 3), or (h, w) of gray values."""
    red, green, blue = _colours(image)
    both = red + green
    found = np.stack([both + blue, red - green, both - 2 * blue])
    found /= np.sqrt([[[3]], [[2]], [[6]]]).astype(np.float32)
    return found


def gradients(channel: Array, sigma: float = 0.0) -> tuple[Array, Array]:
    """Differences of neighbours to the right and below (h, w), smoothed; zero across the border of the image.

    They are smoothed and not the image, so that flat places have gradients of zero and not of rounding errors.
    """
    channel = np.asarray(channel, dtype=np.float32)
    right, down = np.zeros(channel.shape, dtype=np.float32), np.zeros(channel.shape, dtype=np.float32)
    np.subtract(channel[:, 2:], channel[:, :-2], out=right[:, 1:-1])
    np.subtract(channel[2:], channel[:-2], out=down[1:-1])
    if sigma > 0:
        right, down = (cv2.GaussianBlur(some, (0, 0), sigma, borderType=cv2.BORDER_REPLICATE) for some in (right, down))
    return right, down


def orientation_maps(channel: Array, sigma: float = 0.0) -> Array:
    """Lengths of gradients, shared out over the two nearest of ORIENTATIONS directions: (ORIENTATIONS, h, w)."""
    right, down = gradients(channel, sigma)
    length = np.hypot(right, down)
    place = np.arctan2(down, right) * np.float32(ORIENTATIONS / (2 * math.pi))
    maps = np.empty((ORIENTATIONS, *length.shape), dtype=np.float32)
    for k, share in enumerate(maps):
        np.subtract(place, np.float32(k if k <= ORIENTATIONS // 2 else k - ORIENTATIONS), out=share)
        np.abs(share, out=share)
        if k in (ORIENTATIONS // 2 - 1, ORIENTATIONS // 2, ORIENTATIONS // 2 + 1):
            np.minimum(share, ORIENTATIONS - share, out=share)
        np.subtract(np.float32(1), share, out=share)
        np.maximum(share, 0, out=share)
        share *= length
    return maps


def grid(extent: int, step: int) -> Array:
    """Positions every ``step`` pixels, as far from one end of an image as from the other."""
    return np.arange((extent - 1) % step // 2, extent, step)


def cells(channels: Array, options: SiftOptions, width: int) -> Cells:
    """Cells of descriptors of one width, of all channels (c, h, w)."""
    _, h, w = channels.shape
    sigma = options.smoothing * width
    pitch = math.gcd(options.step, width)
    lattices = [_lattice(grid(extent, options.step), options.step, width, pitch) for extent in (h, w)]
    down, right = (_weights(extent, lattice, width) for extent, lattice in zip((h, w), lattices, strict=True))
    sums = np.empty((len(channels), len(lattices[0]), len(lattices[1]), ORIENTATIONS), dtype=np.float32)
    for channel, own in zip(channels, sums, strict=True):
        maps = _pooled(orientation_maps(channel, sigma), down)
        own[:] = np.moveaxis(_pooled(maps.swapaxes(1, 2), right), 0, -1).swapaxes(0, 1)
    shape = (len(grid(h, options.step)), len(grid(w, options.step)))
    return Cells(sums, shape, options.step // pitch, width // pitch)


def normalised(raw: Array) -> Array:
    """Descriptors (n, q) made of length one, cut off at LARGEST, and again of length one; zero where it is flat.

    Those of several channels (n, c, LENGTH) are put side by side: channels count by the strength of their gradients.
    """
    raw = raw.reshape(len(raw), math.prod(raw.shape[1:]))
    found = raw * (1 / np.sqrt(_squares(raw) + TINY))[:, None]
    np.minimum(found, np.float32(LARGEST), out=found)
    found *= (1 / np.sqrt(_squares(found) + TINY))[:, None]
    return found


def dense(channels: Array, options: SiftOptions) -> Iterator[tuple[Array, Array]]:
    """Descriptors (n, c, LENGTH), not normalised, and their pixels (n,) in ``ravel`` order, some at a time."""
    _, h, w = channels.shape
    down, right = grid(h, options.step), grid(w, options.step)
    pixels = down[:, None] * w + right
    some = max(1, AT_A_TIME // len(right))
    for width in options.widths:
        found = cells(channels, options, width)
        for start in range(0, len(down), some):
            stop = min(start + some, len(down))
            yield found.rows(start, stop), pixels[start:stop].ravel()


def window() -> Array:
    """Weights of the cells of a descriptor (SIDE, SIDE), by the distance of their centres from its own."""
    centres = np.arange(SIDE) - (SIDE - 1) / 2
    weights = np.exp(-(centres**2) / (2 * WINDOW**2))
    return np.outer(weights, weights).astype(np.float32)


def _colours(image: Array) -> list[Array]:
    """Red, green and blue, (h, w) of float32 each."""
    image = np.asarray(image)
    if image.ndim == 2:
        image = np.repeat(image[:, :, None], 3, axis=2)
    if image.ndim != 3 or image.shape[2] != 3 or not image.size:
        raise InputError(f"image must be (h, w, 3) or (h, w): got {image.shape}.")
    return [np.ascontiguousarray(image[:, :, i], dtype=np.float32) for i in range(3)]


def _lattice(positions: Array, step: int, width: int, pitch: int) -> Array:
    """Centres of cells of descriptors at ``positions``, every ``pitch`` pixels."""
    reach = (SIDE - 1) / 2 * width
    n = (len(positions) - 1) * step // pitch + (SIDE - 1) * width // pitch + 1
    return positions[0] - reach + pitch * np.arange(n)


def _weights(extent: int, centres: Array, width: int) -> Array:
    """Weight of each pixel in the cell about each centre, one at the centre and zero a width away: (centres, extent)."""
    distance = np.abs(np.arange(extent) - centres[:, None])
    return np.maximum(0, 1 - distance / width).astype(np.float32)


def _pooled(maps: Array, weights: Array) -> Array:
    """Products of weights (p, a) with maps (k, a, b): (k, p, b). Weights are zero but near the diagonal."""
    found = np.zeros((len(maps), len(weights), maps.shape[2]), dtype=np.float32)
    for start in range(0, len(weights), STRIPE):
        own = weights[start : start + STRIPE]
        used = np.flatnonzero(own.any(axis=0))
        if len(used):
            near = slice(used[0], used[-1] + 1)
            np.matmul(own[:, near], maps[:, near], out=found[:, start : start + STRIPE])
    return found


def _squares(rows: Array) -> Array:
    """Squared lengths of the rows."""
    return np.einsum("ij,ij->i", rows, rows)
