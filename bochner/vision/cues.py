"""What a segment looks like before one knows what it is: its contour, inside, shape, place, contrast and company."""

from __future__ import annotations

import numpy as np

from bochner.arrays import Array
from bochner.vision.hierarchy import chi_squared
from bochner.vision.proposals import Proposals, overlaps_within
from bochner.vision.superpixels import RegionGraph

SCORE_BOUNDS = (-4.0, -3.0, -2.0, -1.0)
"""Scores of borders, the shares of a contour below which are cues."""
COMPANY_BOUNDS = (0.3, 0.5, 0.7, 0.85)
"""Overlaps, the shares of the pool above which are cues."""
DIRECTIONS = 16
"""Directions in which the extent of a segment is measured."""


def cues_of(proposals: Proposals, overlaps: Array | None = None) -> Array:
    """Cues of all segments of a pool: (s, q) of float32. ``overlaps`` (s, s) within the pool are computed if not given."""
    graph, members = proposals.graph, proposals.pool.members.astype(np.float32)
    if overlaps is None:
        overlaps = overlaps_within(proposals.pool.members, graph.sizes)
    parts = (
        _contour(graph, proposals.scores, members),
        _shape(graph, members),
        _frame(graph, members),
        _contrast(graph, members),
        _company(overlaps, members @ graph.sizes.astype(np.float32)),
    )
    return np.nan_to_num(np.hstack(parts).astype(np.float32), posinf=0.0, neginf=0.0)


def _ratio(top: Array, bottom: Array) -> Array:
    return top / np.maximum(bottom, 1e-6)


def _contour(graph: RegionGraph, scores: Array, members: Array) -> Array:
    """Strengths along the contour and inside, and the costs of the cut relative to length, area and the smaller side."""
    i, j = graph.pairs.T
    first, second = members[:, i], members[:, j]
    inner = first * second
    cut = first + second - 2 * inner
    weights = np.logaddexp(0, -scores)
    below = [scores < bound for bound in SCORE_BOUNDS]
    values = np.stack([np.ones(len(scores)), *graph.strengths.T, scores, weights, *below], axis=1) * graph.lengths[:, None]
    values = values.astype(np.float32)
    outside, inside = cut @ values, inner @ values[:, :6]
    length, areas = outside[:, :1], members @ graph.sizes.astype(np.float32)
    rest = graph.labels.size - areas
    contour = _ratio(outside[:, 1:], length)
    texture = _ratio(inside[:, 1:], inside[:, :1])
    costs = outside[:, 5]
    return np.column_stack(
        [
            contour,
            texture,
            contour[:, :5] - texture,
            _ratio(costs, areas),
            _ratio(costs, np.sqrt(areas)),
            _ratio(costs, np.minimum(areas, rest)),
            _ratio(inside[:, 0], areas),
            length[:, 0] / np.sqrt(graph.labels.size),
        ]
    )


def _shape(graph: RegionGraph, members: Array) -> Array:
    """Area, box, moments, convexity and compactness."""
    h, w = graph.labels.shape
    n = graph.n_regions
    flat = graph.labels.ravel()
    rows, columns = (axis.ravel() / max(h, w) for axis in np.indices((h, w), dtype=np.float64))
    products = (np.ones(h * w), rows, columns, rows * rows, columns * columns, rows * columns)
    sums = members.astype(np.float64) @ np.stack([np.bincount(flat, value, minlength=n) for value in products], axis=1)
    areas, (y, x, yy, xx, xy) = sums[:, 0], (sums[:, 1:] / sums[:, :1]).T
    yy, xx, xy = yy - y * y, xx - x * x, xy - x * y
    spread = np.sqrt((yy - xx) ** 2 + 4 * xy**2)
    long, short = (yy + xx + spread) / 2, np.maximum((yy + xx - spread) / 2, 0)
    extents = _extents(graph, members, rows, columns)
    top, left, bottom, right = -extents[:, 12], -extents[:, 8], extents[:, 4], extents[:, 0]
    height, width = bottom - top, right - left
    share = areas / (max(h, w) ** 2)
    i, j = graph.pairs.T
    length = np.abs(members[:, i] - members[:, j]) @ graph.lengths.astype(np.float32) + members @ graph.frame.sum(axis=1)
    return np.column_stack(
        [
            areas / (h * w),
            np.log(areas / (h * w)),
            y * max(h, w) / h,
            x * max(h, w) / w,
            np.abs(x * max(h, w) / w - 0.5),
            top * max(h, w) / h,
            bottom * max(h, w) / h,
            height * max(h, w) / h,
            width * max(h, w) / w,
            np.log(_ratio(height + 1e-3, width + 1e-3)),
            share / ((height + 1e-3) * (width + 1e-3)),
            share / (_hull_areas(extents) + 1e-5),
            np.sqrt(_ratio(short, long)),
            share / (2 * np.pi * (yy + xx) + 1e-5),
            areas / (length**2 + 1),
            np.cos(np.arctan2(2 * xy, xx - yy)),
        ]
    )


def _extents(graph: RegionGraph, members: Array, rows: Array, columns: Array) -> Array:
    """How far segments reach in each direction: (s, DIRECTIONS)."""
    flat = graph.labels.ravel()
    order = np.argsort(flat, kind="stable")
    starts = np.searchsorted(flat[order], np.arange(graph.n_regions))
    rows, columns = rows[order], columns[order]
    found = []
    for angle in 2 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS:
        reach = np.maximum.reduceat(np.cos(angle) * columns + np.sin(angle) * rows, starts).astype(np.float32)
        found.append(np.where(members > 0, reach, -np.float32(np.inf)).max(axis=1))
    return np.stack(found, axis=1)


def _hull_areas(extents: Array) -> Array:
    """Areas of the polygons whose sides lie at given distances in evenly spread directions."""
    angle = 2 * np.pi / extents.shape[1]
    before, after = np.roll(extents, 1, axis=1), np.roll(extents, -1, axis=1)
    sides = (before + after - 2 * extents * np.cos(angle)) / np.sin(angle)
    return np.maximum(0.5 * np.sum(extents * sides, axis=1), 0)


def _frame(graph: RegionGraph, members: Array) -> Array:
    """Shares of each edge of the image, and of all of them."""
    h, w = graph.labels.shape
    touched = members @ graph.frame.astype(np.float32)
    return np.column_stack([touched / (w, h, w, h), touched.sum(axis=1) / (2 * (h + w)), (touched > 0).sum(axis=1)])


def _contrast(graph: RegionGraph, members: Array) -> Array:
    """Colours and textures inside, and distances from those around, of all the rest and of the frame."""
    n = graph.n_regions
    touching = np.zeros((n, n), dtype=np.float32)
    i, j = graph.pairs.T
    touching[i, j] = touching[j, i] = 1
    around = ((members @ touching) > 0) & (members == 0)
    farther = ((around.astype(np.float32) @ touching) > 0) & (members == 0)
    looks = np.hstack([graph.palette, graph.textures, graph.colours, graph.colours**2]).astype(np.float32)
    sizes = graph.sizes.astype(np.float32)
    weighted = np.hstack([looks * sizes[:, None], sizes[:, None]])
    inside = members @ weighted
    edge = graph.frame.sum(axis=1) > 0
    others = [
        around @ weighted,
        farther @ weighted,
        weighted.sum(axis=0) - inside,
        (1 - members) @ (weighted * edge[:, None]),
    ]
    own = _ratio(inside[:, :-1], inside[:, -1:])
    n_colour, n_texture = graph.palette.shape[1], graph.textures.shape[1]
    stop = n_colour + n_texture
    columns = []
    for other in others:
        theirs = _ratio(other[:, :-1], other[:, -1:])
        columns += [
            chi_squared(own[:, :n_colour], theirs[:, :n_colour]),
            chi_squared(own[:, n_colour:stop], theirs[:, n_colour:stop]),
        ]
        columns += [np.linalg.norm(own[:, stop : stop + 3] - theirs[:, stop : stop + 3], axis=1)]
    means, squares = own[:, stop : stop + 3], own[:, stop + 3 :]
    spread = np.sqrt(np.maximum(squares - means**2, 0))
    histograms = own[:, :stop]
    evenness = np.stack(
        [np.sum(h * np.log(h + 1e-6), axis=1) for h in (histograms[:, :n_colour], histograms[:, n_colour:])], axis=1
    )
    flat = own[:, [n_colour, n_colour + n_texture // 2]]
    return np.column_stack([*columns, means, spread, evenness, flat])


def _company(overlaps: Array, areas: Array) -> Array:
    """Shares of the pool that overlap a segment by much, and that hold it or lie in it."""
    both = overlaps * (areas[:, None] + areas) / (1 + overlaps)
    within = (both > 0.95 * areas[:, None]).mean(axis=1)
    holding = (both > 0.95 * areas).mean(axis=1)
    return np.column_stack([*((overlaps > bound).mean(axis=1) for bound in COMPANY_BOUNDS), within, holding])
