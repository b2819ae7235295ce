"""Pyramids of histograms of gradient orientations: where in a segment edges run, and which way."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np

from bochner.arrays import Array
from bochner.vision.pyramid import Pieces
from bochner.vision.sift import gradients


@dataclass(frozen=True)
class Edges:
    """How strong the edge through each pixel is (h, w), and the bin of the orientation of the gradient across it (h, w)."""

    strength: Array
    bins: Array


def image_edges(gray: Array, n_bins: int, sigma: float) -> Edges:
    """Edges of an image (h, w): lengths and orientations of its gradients."""
    right, down = gradients(gray, sigma)
    return Edges(np.hypot(right, down), orientation_bins(np.arctan2(down, right), n_bins))


def boundary_edges(strength: Array, n_bins: int, sigma: float) -> Edges:
    """Edges of a map of boundaries (h, w): their strength, and the orientation across the ridge.

    On a ridge the gradient of the map vanishes, so that the orientation is that of the structure tensor: the mean of the
    products of gradients about the pixel.
    """
    strength = np.ascontiguousarray(strength, dtype=np.float32)
    right, down = gradients(strength, sigma)
    spread = max(2 * sigma, 1.0)
    xx, xy, yy = (cv2.GaussianBlur(a, (0, 0), spread) for a in (right * right, right * down, down * down))
    return Edges(strength, orientation_bins(0.5 * np.arctan2(2 * xy, xx - yy), n_bins))


def orientation_bins(angles: Array, n_bins: int) -> Array:
    """The bin of each angle: [0, pi/n) is the first, and angles that differ by half a turn are the same."""
    bins = np.floor(angles * np.float32(n_bins / math.pi)).astype(np.int64)
    return bins % n_bins


def crossings(labels: Array, block: int) -> tuple[Pieces, Array, Array]:
    """Pairs of neighbouring pixels on two superpixels, in pieces of the same two and the same block.

    Also the pixels of each pair (n, 2), in ``ravel`` order, and the two superpixels of each piece (A, 2).
    """
    pixels = np.arange(labels.size).reshape(labels.shape)
    aside, below = labels[:, :-1] != labels[:, 1:], labels[:-1] != labels[1:]
    first = np.concatenate([pixels[:, :-1][aside], pixels[:-1][below]])
    second = np.concatenate([pixels[:, 1:][aside], pixels[1:][below]])
    pairs = np.stack([first, second], axis=1)
    sides = np.sort(labels.ravel()[pairs], axis=1)
    kinds = sides[:, 0].astype(np.int64) * (int(labels.max()) + 1) + sides[:, 1]
    pieces = Pieces.of(kinds, first // labels.shape[1], first % labels.shape[1], block)
    return pieces, pairs, sides[pieces.first]
