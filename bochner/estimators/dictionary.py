"""Kernels where nobody says which, and how many features where nobody says how many."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from bochner.estimators.views import is_named, is_views
from bochner.span import few_rows

AUTO_FAMILIES, AUTO_FACTORS = ("gaussian", "matern32"), (0.5, 1.0, 2.0)
"""Kernels that kernels="auto" tries on all columns, and on every view: families, and multiples of the median scale."""
AUTO_COLUMNS = 20
"""Most columns of a table of which kernels="auto" gives each a kernel of its own, and most groups where there are more."""
FEWEST_IN_ALL, MOST_FEATURES, FEWEST_EACH, MOST_EACH = 1000, 4000, 50, 2000
"""Features of all kernels together, and of each, where nobody says how many."""
SEARCH_FEATURES, KEPT_FEATURES = 1000, 2000
"""Features of all kernels of kernels="auto" together while it searches, and of those that are in afterwards."""
SMALL_PROBLEM = 2000
"""Coordinates of the rows, of all kernels together, with which a problem is small."""
FEATURES_A_ROW = 4
FINE_ROWS, FINE_A_ROW, FINE_BYTES, FINE_COPIES = 4000, 2, 2**31, 3
"""Most rows with a last ridge regression on more features; how many of them, and most bytes that all of these take."""


def default_features(n_kernels: int, n_rows: int, most: int = MOST_FEATURES, *, refined: bool = False) -> int:
    """Features of each kernel where nobody says how many: ``most`` in all, or four for each row where rows are few.

    Where coordinates of the rows in their place make a problem that is no larger, the number of features costs next to
    nothing: then each kernel has four for each row. Elsewhere half of them are enough where few rows have a last
    regression on more features (``refined``).
    """
    in_all = int(np.clip(FEATURES_A_ROW * n_rows, FEWEST_IN_ALL, most))
    is_small = n_kernels * n_rows <= max(min(SMALL_PROBLEM, most), 1.05 * in_all)
    if refined and n_rows <= FINE_ROWS and not is_small:
        in_all = max(in_all // 2, FEWEST_IN_ALL)
    each = min(in_all // max(n_kernels, 1), MOST_EACH)
    if is_small:
        each = max(each, min(FEATURES_A_ROW * n_rows, MOST_FEATURES))
    return max(each // 2 * 2, FEWEST_EACH)


def joint_features(sizes: Sequence[int], n_rows: int) -> int:
    """Features of one kernel in place of kernels with so many: as many as all of them, or MOST_FEATURES where they cost."""
    return sum(sizes) if few_rows(n_rows, MOST_FEATURES) else min(sum(sizes), MOST_FEATURES)


def fine_features(n_kernels: int, n_rows: int, n_bytes: float, n_sets: int = 1) -> int:
    """Features of each of the kernels that are in for a last ridge regression on few rows, or none where they are many.

    The regression is on coordinates of the rows, so that features cost no more than their products: two for each row
    make the approximation next to exact. ``n_bytes`` is what they and their copies may take, of which there is one more
    for each further set of kernels that a target may have.
    """
    if n_rows > FINE_ROWS or n_kernels == 0:
        return 0
    copies = FINE_COPIES + n_sets - 1
    room = min(FINE_BYTES, max(n_bytes, 0.0)) / (8 * copies * n_rows * n_kernels)
    return int(min(FINE_A_ROW * n_rows, room)) // 2 * 2


def kernel_dictionary(X: Any, *, learned: bool) -> tuple[list[tuple[str, str, Any]], list[float]]:
    """Kernels by name, and multiples of the median scale, of kernels="auto"; those to be learned are one for each view."""
    wholes: list[tuple[str, Any]] = [("", slice(None))]
    if is_views(X):
        wholes = [(f"{label}, ", label) for label in (X if is_named(X) else range(len(X)))]
    if learned:
        return [(prefix.removesuffix(", ") or "all", "gaussian", where) for prefix, where in wholes], []
    kernels: list[tuple[str, str, Any]] = []
    factors: list[float] = []
    for prefix, where in wholes:
        for family in AUTO_FAMILIES:
            for factor in AUTO_FACTORS:
                kernels.append((f"{prefix}{family} x {factor:g}", family, where))
                factors.append(factor)
    groups = _groups(_column_names(X))
    if 1 < len(groups) <= AUTO_COLUMNS:
        kernels += [(name, "gaussian", where) for name, where in groups.items()]
        factors += [1.0] * len(groups)
    return kernels, factors


def _groups(names: list[Any]) -> dict[str, list[int]]:
    """Each column by itself, or, where these are many, columns whose names begin with the same word: numbers by name."""
    if len(names) <= AUTO_COLUMNS:
        return {f"column {name}": [i] for i, name in enumerate(names)}
    groups: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        word = re.match(r"[^\W\d_]+", name) if isinstance(name, str) else None
        groups.setdefault(f"columns {word[0] if word else ''}", []).append(i)
    return groups


def _column_names(X: Any) -> list[Any]:
    """The names of a table's columns, or their numbers; none of views, and of what is no table."""
    shape: tuple[int, ...] = () if is_views(X) else tuple(X.shape if hasattr(X, "shape") else np.shape(X))
    return list(getattr(X, "columns", range(shape[1]))) if len(shape) == 2 else []
