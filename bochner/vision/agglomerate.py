"""Regions that become one, two at a time, those with the weakest border first."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bochner.arrays import Array

SIZE_POWER, COLOUR_FACTOR = 0.25, 0.5
"""How much of a smaller region's size, and of a difference of colours, counts in the order of first merges."""


@dataclass(frozen=True)
class Borders:
    """Borders between regions: pairs (E, 2), lengths (E,), and sums of boundary strengths (E,)."""

    pairs: Array
    lengths: Array
    sums: Array


Costs = Callable[[int, list[int], list[float]], list[float]]
"""Costs (k,) of merging region i with each of its neighbours j (k), which have the mean border strengths (k,) with it."""
Joins = Callable[[int, int, int], None]
"""Called with (i, j, new) when two regions become a new one, so that costs know it."""


def merge_weakest(borders: Borders, sizes: Array, colours: Array, n_left: int) -> Array:
    """Parents of regions that merge until ``n_left`` are left, in the order of strength, colour and size."""
    size, colour = dict(enumerate(sizes.tolist())), dict(enumerate(colours.tolist()))

    def costs(i: int, others: list[int], strengths: list[float]) -> list[float]:
        own, (x, y, z) = size[i], colour[i]
        found = []
        for j, strength in zip(others, strengths, strict=True):
            u, v, w = colour[j]
            far = ((x - u) ** 2 + (y - v) ** 2 + (z - w) ** 2) ** 0.5
            found.append((strength + COLOUR_FACTOR * far) * min(own, size[j]) ** SIZE_POWER)
        return found

    def join(i: int, j: int, new: int) -> None:
        total = size[i] + size[j]
        size[new] = total
        colour[new] = [(size[i] * a + size[j] * b) / total for a, b in zip(colour[i], colour[j], strict=True)]

    return agglomerate(borders, len(sizes), costs, join, n_left)


def agglomerate(borders: Borders, n_regions: int, costs: Costs, join: Joins, n_left: int = 1) -> Array:
    """Merge the two neighbours of the least cost again and again: parents (n + merges,), of a root itself.

    Region n + k is made by merge k. Regions that do not touch never merge.
    """
    touching: list[dict[int, tuple[float, float]]] = [{} for _ in range(n_regions)]
    for (i, j), length, total in zip(borders.pairs.tolist(), borders.lengths.tolist(), borders.sums.tolist(), strict=True):
        touching[i][j] = touching[j][i] = (length, total)
    heap: list[tuple[float, int, int]] = []
    for i, near in enumerate(touching):
        _push(heap, i, {j: border for j, border in near.items() if j > i}, costs)
    parents = list(range(n_regions))
    while n_left < 2 * n_regions - len(parents) and heap:
        _, i, j = heapq.heappop(heap)
        if parents[i] != i or parents[j] != j:
            continue
        new = len(parents)
        parents.append(new)
        parents[i] = parents[j] = new
        join(i, j, new)
        joined: dict[int, tuple[float, float]] = {}
        for old in (i, j):
            for other, (length, total) in touching[old].items():
                if other not in (i, j):
                    before = joined.get(other, (0.0, 0.0))
                    joined[other] = (before[0] + length, before[1] + total)
                    del touching[other][old]
            touching[old] = {}
        touching.append(joined)
        for other, border in joined.items():
            touching[other][new] = border
        _push(heap, new, joined, costs)
    return np.array(parents)


def cluster_labels(parents: Array, n_regions: int) -> Array:
    """Numbers from 0 of the roots above the first regions: (n,)."""
    roots = parents.copy()
    for k in range(len(parents) - 1, -1, -1):
        roots[k] = roots[parents[k]]
    return np.unique(roots[:n_regions], return_inverse=True)[1]


def members_of(parents: Array, n_regions: int) -> Array:
    """The first regions that are in each region of a tree: (n + merges, n) of bool."""
    members = np.zeros((len(parents), n_regions), dtype=bool)
    members[np.arange(n_regions), np.arange(n_regions)] = True
    for k, parent in enumerate(parents):
        if parent != k:
            members[parent] |= members[k]
    return members


def _push(heap: list[tuple[float, int, int]], i: int, near: dict[int, tuple[float, float]], costs: Costs) -> None:
    others = list(near)
    if others:
        strengths = [total / length for length, total in near.values()]
        for j, cost in zip(others, costs(i, others, strengths), strict=True):
            heapq.heappush(heap, (cost, i, j))
