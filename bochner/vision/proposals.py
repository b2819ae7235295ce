"""Segments of an image that may be objects: minimum cuts from many seeds, and regions of several hierarchies."""

from __future__ import annotations

from dataclasses import dataclass, field

import cv2
import numpy as np

from bochner.arrays import Array
from bochner.vision.boundaries import Boundaries, as_colour, boundaries_of
from bochner.vision.cuts import CutOptions, figures
from bochner.vision.hierarchy import Likeness, border_scores, coarse_regions, distinct, hierarchy, unions
from bochner.vision.pool import SegmentPool
from bochner.vision.superpixels import RegionGraph, graph_of, sharpened, superpixels_of

LIKENESSES = (
    Likeness(border=0.2, colour=0.5, texture=0.5, size=8.0, fill=8.0),
    Likeness(border=0.2, colour=0.5, texture=1.0, size=4.0, fill=4.0),
    Likeness(border=0.4, colour=0.5, texture=0.5, size=4.0, fill=4.0),
    Likeness(border=0.2, colour=0.5, texture=0.5, size=200.0, fill=200.0),
)
"""The last one merges small and compact regions first, whatever they look like: objects of a few parts that differ."""


@dataclass(frozen=True, kw_only=True)
class ProposalOptions:
    """How segments are proposed."""

    longest_side: int = 500
    """Larger images are reduced to this many pixels before all else; labels are scaled back."""
    n_superpixels: int = 500
    likenesses: tuple[Likeness, ...] = LIKENESSES
    """One hierarchy each."""
    cuts: CutOptions = field(default_factory=CutOptions)
    seed_counts: tuple[int, ...] = (40, 20, 20)
    """Regions of the first hierarchies, one number each, that are seeds of cuts."""
    n_paired: int = 40
    """The largest regions of each hierarchy, whose unions with neighbours are segments too."""
    smallest: float = 0.0002
    """Least share of the image of a segment."""
    alike: float = 0.95
    """Of two segments that overlap more than this, one is left out."""
    n_segments: int = 2000
    """At most."""


@dataclass(frozen=True)
class Proposals:
    """A pool of segments with what they were made from, at the size at which they were made.

    The superpixels of the pool are those of the graph, with borders that are moved to sharp edges.
    """

    pool: SegmentPool
    graph: RegionGraph
    boundaries: Boundaries
    scores: Array
    """Scores (E,) of the borders in ``graph``."""


def propose(image: Array, options: ProposalOptions | None = None) -> SegmentPool:
    """A pool of segments of an image (h, w, 3) or (h, w) of uint8; the whole image is one of them."""
    options = ProposalOptions() if options is None else options
    found = proposals_of(image, options).pool
    return at_size(found, np.asarray(image).shape[:2])


def at_size(pool: SegmentPool, shape: tuple[int, ...]) -> SegmentPool:
    """The pool with its label map scaled to another size."""
    if pool.labels.shape == shape:
        return pool
    h, w = pool.labels.shape
    rows, columns = (np.arange(shape[0]) * h) // shape[0], (np.arange(shape[1]) * w) // shape[1]
    return SegmentPool(pool.labels[rows[:, None], columns], pool.members)


def reduced(image: Array, longest_side: int) -> Array:
    """An image (h, w, 3) whose longer side has at most ``longest_side`` pixels."""
    h, w = image.shape[:2]
    factor = longest_side / max(h, w)
    if factor >= 1:
        return image
    return cv2.resize(image, (max(1, round(w * factor)), max(1, round(h * factor))), interpolation=cv2.INTER_AREA)


def proposals_of(image: Array, options: ProposalOptions) -> Proposals:
    """Segments of an image, and the graph they were made from."""
    image = reduced(as_colour(image), options.longest_side)
    boundaries = boundaries_of(image)
    graph = graph_of(image, boundaries, superpixels_of(image, boundaries, options.n_superpixels))
    scores = border_scores(graph)
    whole = np.ones((1, graph.n_regions), dtype=bool)
    trees = [hierarchy(graph, scores, likeness) for likeness in options.likenesses]
    touching = np.zeros((graph.n_regions, graph.n_regions), dtype=bool)
    touching[tuple(graph.pairs.T)] = touching[tuple(graph.pairs.T[::-1])] = True
    cuts = [
        figures(graph, scores, coarse_regions(tree, n), options.cuts, boxes=k == 0)
        for k, (tree, n) in enumerate(zip(trees, options.seed_counts, strict=False))
    ]
    pairs = [unions(tree[-options.n_paired :], touching) for tree in trees]
    members = distinct(np.concatenate([whole, *cuts, *(tree[::-1] for tree in trees), *pairs]))
    members = members[members @ graph.sizes >= options.smallest * graph.labels.size]
    members = members[unlike(members, graph.sizes, options.alike)][: options.n_segments]
    return Proposals(SegmentPool(sharpened(image, graph.labels), members), graph, boundaries, scores)


def overlaps_within(members: Array, sizes: Array) -> Array:
    """Intersection over union of segments (s, P) with each other: (s, s)."""
    values = members.astype(np.float32)
    both = (values * sizes.astype(np.float32)) @ values.T
    areas = np.diagonal(both)
    return both / (areas[:, None] + areas - both)


def unlike(members: Array, sizes: Array, alike: float) -> Array:
    """Numbers of segments that overlap no earlier one kept by more than ``alike``."""
    close = overlaps_within(members, sizes) > alike
    kept = np.ones(len(members), dtype=bool)
    for i in range(len(members)):
        if kept[i]:
            kept[i + 1 :] &= ~close[i, i + 1 :]
    return np.flatnonzero(kept)
