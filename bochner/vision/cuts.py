"""Figure and ground by minimum cuts of the graph of superpixels, from many seeds and with many biases towards the figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import maxflow
import numpy as np

from bochner.arrays import Array
from bochner.vision.hierarchy import chi_squared
from bochner.vision.superpixels import RegionGraph

CERTAIN = 1e9
"""Capacity of the arc from a seed."""


@dataclass(frozen=True)
class CutOptions:
    """Which figures are cut out of their ground.

    The energy of a figure F is the sum over its border of length * log(1 + exp(-score)) less the sum over its superpixels
    of size * (bias + ``likeness`` * (distance from the ground - distance from the seed)).
    """

    region_terms: tuple[tuple[float, float], ...] = (
        (0.0, 0.0),
        (0.0, 0.01),
        (0.0, 0.03),
        (0.15, 0.1),
        (0.15, 0.2),
        (0.15, 0.4),
        (0.3, 0.1),
        (0.3, 0.2),
        (0.3, 0.4),
        (0.6, 0.4),
        (0.6, 0.8),
    )
    """Pairs (likeness, bias), in units of border per pixel, of figures that grow from a region."""
    box_terms: tuple[tuple[float, float], ...] = ((0.0, 0.1), (0.3, 0.0), (0.3, 0.2), (0.6, 0.03), (0.6, 0.1))
    """The same of figures in a box."""
    box_sides: tuple[float, ...] = (0.35, 0.6)
    """Sides of sub-frames, as shares of those of the image; ground is what lies outside."""


@dataclass(frozen=True)
class Seeds:
    """One figure to be cut out: seeds (P,) of figure and ground, and what their superpixels look like."""

    figure: Array
    ground: Array
    contrast: Array
    """Distance from the ground less distance from the figure (P,)."""


def figures(graph: RegionGraph, scores: Array, coarse: Array, options: CutOptions, *, boxes: bool) -> Array:
    """Figures (s, P) of all seeds and biases, empty and whole ones left out; those in boxes too, if asked for."""
    weights = graph.lengths * np.logaddexp(0, -scores)
    found = [cut for seeds in _region_seeds(graph, coarse) for cut in _cuts(graph, weights, seeds, options.region_terms)]
    if boxes:
        found += [
            cut for seeds in _box_seeds(graph, coarse, options) for cut in _cuts(graph, weights, seeds, options.box_terms)
        ]
    members = np.array(found, dtype=bool).reshape(-1, graph.n_regions)
    filled = members.sum(axis=1)
    return members[(filled > 0) & (filled < graph.n_regions)]


def _cuts(graph: RegionGraph, weights: Array, seeds: Seeds, terms: Sequence[tuple[float, float]]) -> Iterator[Array]:
    n = graph.n_regions
    nodes = np.arange(n)
    for likeness, bias in terms:
        gain = graph.sizes * (bias + likeness * seeds.contrast)
        network = maxflow.GraphFloat(n, len(weights))
        network.add_nodes(n)
        network.add_edges(graph.pairs[:, 0], graph.pairs[:, 1], weights, weights)
        source = np.maximum(gain, 0) + CERTAIN * seeds.figure
        network.add_grid_tedges(nodes, source, np.maximum(-gain, 0) + CERTAIN * seeds.ground)
        network.maxflow()
        yield ~network.get_grid_segments(nodes)


def _distances(graph: RegionGraph, coarse: Array) -> Array:
    """Distances of colour and texture of superpixels from coarse regions: (P, k)."""
    own = np.hstack([graph.palette, graph.textures]).astype(np.float32)
    sums = coarse @ (graph.sizes[:, None] * own)
    theirs = (sums / (coarse @ graph.sizes)[:, None]).astype(np.float32)
    return np.stack([chi_squared(own, one) for one in theirs], axis=1)


def _region_seeds(graph: RegionGraph, coarse: Array) -> Iterator[Seeds]:
    """Each coarse region against the frame of the image, and against its sides and top alone."""
    distances = _distances(graph, coarse)
    for sides in ((0, 1, 2, 3), (0, 1, 3)):
        frame = graph.frame[:, sides].sum(axis=1) > 0
        outer = (coarse & frame).any(axis=1)
        for k, figure in enumerate(coarse):
            ground = frame & ~figure
            others = outer & (np.arange(len(coarse)) != k)
            if ground.any() and others.any():
                yield Seeds(figure, ground, distances[:, others].min(axis=1) - distances[:, k])


def _box_seeds(graph: RegionGraph, coarse: Array, options: CutOptions) -> Iterator[Seeds]:
    """What is in a box against all that is outside; the figure looks like coarse regions that are mostly inside."""
    distances = _distances(graph, coarse)
    h, w = graph.labels.shape
    rows, columns = (graph.centres / (h, w)).T
    sizes = coarse @ graph.sizes
    for height in options.box_sides:
        for width in options.box_sides:
            for top in np.linspace(0, 1 - height, 4):
                for left in np.linspace(0, 1 - width, 4):
                    inside = (rows >= top) & (rows <= top + height) & (columns >= left) & (columns <= left + width)
                    within = (coarse @ (graph.sizes * inside)) / sizes
                    if (within > 0.6).any() and (within < 0.4).any():
                        yield Seeds(
                            np.zeros(len(inside), dtype=bool),
                            ~inside,
                            distances[:, within < 0.4].min(axis=1) - distances[:, within > 0.6].min(axis=1),
                        )
