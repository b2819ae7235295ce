"""Hierarchies of regions by several measures of likeness; their regions, pairs and triples of neighbours are segments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bochner.arrays import Array
from bochner.vision.agglomerate import Borders, agglomerate, members_of
from bochner.vision.superpixels import RegionGraph

CONSTANT, STRENGTH, COLOUR, TEXTURE = -3.5, 0.6, 0.9, 0.9
"""Of border scores: rounded from a logistic regression on which borders part objects in 40 training images of VOC 2012."""


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """Cost of merging two regions: factors of border score, chi-squared distances of colour and texture, size and fill.

    The size is the share of the image that both have, the fill the share of it in their common box but in neither.
    """

    border: float = 0.0
    colour: float = 0.0
    texture: float = 0.0
    size: float = 0.0
    fill: float = 0.0


def chi_squared(first: Array, second: Array) -> Array:
    """Half the sum of (a - b)^2 / (a + b) over the last axis."""
    return 0.5 * np.sum((first - second) ** 2 / (first + second + 1e-9), axis=-1)


def border_scores(graph: RegionGraph) -> Array:
    """Scores (E,) of the borders of superpixels: about the logarithms of the odds that they bound an object."""
    i, j = graph.pairs.T
    strength = np.clip(graph.strengths[:, 0], 1e-6, 1 - 1e-6)
    colour, texture = chi_squared(graph.palette[i], graph.palette[j]), chi_squared(graph.textures[i], graph.textures[j])
    return CONSTANT + STRENGTH * np.log(strength / (1 - strength)) + COLOUR * colour + TEXTURE * texture


def hierarchy(graph: RegionGraph, scores: Array, likeness: Likeness) -> Array:
    """The superpixels in each region of a hierarchy (n, P), single ones first and the largest ones last."""
    n, total = graph.n_regions, graph.labels.size
    sizes = np.concatenate([graph.sizes.astype(float), np.zeros(n)])
    histograms = np.zeros((2 * n, graph.palette.shape[1] + graph.textures.shape[1]), dtype=np.float32)
    histograms[:n] = np.hstack([likeness.colour * graph.palette, likeness.texture * graph.textures])
    boxes = np.concatenate([graph.boxes, np.zeros((n, 4), dtype=int)])

    def costs(i: int, others: list[int], strengths: list[float]) -> list[float]:
        found = likeness.border * np.array(strengths)
        if likeness.colour or likeness.texture:
            found += chi_squared(histograms[i], histograms[others])
        if likeness.size or likeness.fill:
            both = sizes[i] + sizes[others]
            low, high = np.minimum(boxes[i, :2], boxes[others, :2]), np.maximum(boxes[i, 2:], boxes[others, 2:])
            found += (likeness.size * both + likeness.fill * (np.prod(high - low, axis=1) - both)) / total
        return found.tolist()

    def join(i: int, j: int, new: int) -> None:
        sizes[new] = sizes[i] + sizes[j]
        histograms[new] = (sizes[i] * histograms[i] + sizes[j] * histograms[j]) / sizes[new]
        boxes[new] = np.r_[np.minimum(boxes[i, :2], boxes[j, :2]), np.maximum(boxes[i, 2:], boxes[j, 2:])]

    borders = Borders(graph.pairs, graph.lengths, graph.lengths * scores)
    return members_of(agglomerate(borders, n, costs, join), n)


def coarse_regions(members: Array, n_regions: int) -> Array:
    """The regions (k, P) that the superpixels form when k = ``n_regions`` are left, fewer where there are no more."""
    n_superpixels = members.shape[1]
    n_merges = len(members) - n_superpixels
    made = n_superpixels + max(0, n_merges - n_regions + 1)
    owner = np.zeros(n_superpixels, dtype=int)
    for k, row in enumerate(members[:made]):
        owner[row] = k
    return members[np.unique(owner)]


def unions(nodes: Array, touching: Array) -> Array:
    """Unions (k, P) of two disjoint regions that touch, of those (n, P) given. ``touching`` (P, P) is of superpixels."""
    values = nodes.astype(np.float32)
    disjoint = values @ values.T == 0
    near = (values @ touching.astype(np.float32)) @ values.T > 0
    first, second = np.nonzero(np.triu(disjoint & near, 1))
    return nodes[first] | nodes[second]


def distinct(members: Array) -> Array:
    """The rows of (s, P) that do not stand above already, in their order."""
    _, first = np.unique(np.packbits(members, axis=1), axis=0, return_index=True)
    return members[np.sort(first)]
