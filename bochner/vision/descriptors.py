"""Eight descriptors of every segment of an image: words of gradients, inside and around it, edges and texture in its box."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np

from bochner.arrays import Array
from bochner.errors import InputError
from bochner.vision.lbp import n_patterns, patterns
from bochner.vision.options import DescriptorOptions
from bochner.vision.phog import Edges, boundary_edges, crossings, image_edges
from bochner.vision.pool import SegmentPool
from bochner.vision.pyramid import Boxes, Pieces, Pyramid, normalised, pooled
from bochner.vision.sift import brightness
from bochner.vision.words import Vocabularies

WORDS = ("sift_fg", "sift_bg", "colour_sift_fg", "colour_sift_bg")
PYRAMIDS = ("phog_contour", "phog_foreground", "phog_plain", "lbp")
DESCRIPTORS = WORDS + PYRAMIDS
"""Names of all descriptors."""


class BoundaryMaps(Protocol):
    """Strength of the boundary through each pixel (h, w), at two scales."""

    @property
    def fine(self) -> Array: ...

    @property
    def coarse(self) -> Array: ...


def describe(
    image: Array,
    pool: SegmentPool,
    boundaries: BoundaryMaps,
    vocabularies: Vocabularies,
    options: DescriptorOptions | None = None,
) -> dict[str, Array]:
    """Histograms (s, q) of float32 of all segments under their names, in the order of DESCRIPTORS.

    Each sums to one, or is zero where there is nothing to count: the background of a segment that fills the image, say.
    """
    options = options or DescriptorOptions(sift=vocabularies.sift)
    if options.sift != vocabularies.sift:
        told = f"The vocabularies are of {vocabularies.sift}: got options of {options.sift}"
        raise InputError(f"{told}; give DescriptorOptions(sift=vocabularies.sift).")
    shapes = {np.shape(image)[:2], pool.labels.shape, np.shape(boundaries.fine), np.shape(boundaries.coarse)}
    if len(shapes) > 1:
        raise InputError(f"image, pool and boundaries must be of the same pixels: got {sorted(shapes)}.")
    return word_histograms(image, pool, vocabularies) | pyramid_histograms(image, pool, boundaries, options)


def word_histograms(image: Array, pool: SegmentPool, vocabularies: Vocabularies) -> dict[str, Array]:
    """Histograms of gray and of colour words on each segment, and on all of the image but the segment."""
    gray, colour = vocabularies.counts(image, pool.labels, pool.n_superpixels)
    found = {}
    for name, counts in (("sift", gray), ("colour_sift", colour)):
        inside = pool.pool_histograms(counts)
        found[f"{name}_fg"] = normalised(inside)
        found[f"{name}_bg"] = normalised(counts.sum(axis=0) - inside)
    return found


def pyramid_histograms(
    image: Array, pool: SegmentPool, boundaries: BoundaryMaps, options: DescriptorOptions
) -> dict[str, Array]:
    """Pyramids of edges (fine ones on the contour, coarse ones inside, gradients of the image) and of binary patterns."""
    gray = brightness(image)
    n, sigma = options.n_orientations, options.smoothing
    boxes = Boxes.of(pool.labels, pool.members)
    contour = contour_cells(pool, boundary_edges(boundaries.fine, n, sigma), n, boxes, replace(options.pyramid, block=1))
    rows, columns = np.indices(gray.shape).reshape(2, -1)
    pieces = Pieces.of(pool.labels.ravel(), rows, columns, options.pyramid.block)
    maps = (boundary_edges(boundaries.coarse, n, sigma), image_edges(gray, n, sigma))
    histograms = [pieces.histogram(some.bins.ravel(), n, some.strength.ravel()) for some in maps]
    for n_points, radius in options.circles:
        found = patterns(gray, n_points, radius).ravel()
        histograms.append(pieces.histogram(found, n_patterns(n_points)))
    inside = pool.members.T[pool.labels.ravel()[pieces.first]]
    cells = pooled(pieces, inside, boxes, options.pyramid, np.concatenate(histograms, axis=1))
    parts = (contour, cells[..., :n], cells[..., n : 2 * n], cells[..., 2 * n :])
    return {name: normalised(options.pyramid.stack(part)) for name, part in zip(PYRAMIDS, parts, strict=True)}


def contour_cells(pool: SegmentPool, edges: Edges, n_bins: int, boxes: Boxes, pyramid: Pyramid) -> Array:
    """Edges along the contours of segments, cell by cell: (s, side, side, n_bins).

    Neighbouring pixels of which one lies in the segment and one does not count with the strength of both. They are few, so
    that blocks may be single pixels.
    """
    pieces, pairs, sides = crossings(pool.labels, pyramid.block)
    strength, bins = edges.strength.ravel()[pairs], edges.bins.ravel()[pairs]
    histograms = sum(pieces.histogram(bins[:, i], n_bins, strength[:, i]) for i in range(2))
    inside = pool.members.T[sides[:, 0]] != pool.members.T[sides[:, 1]]
    return pooled(pieces, inside, boxes, pyramid, histograms)
