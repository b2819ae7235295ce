"""What tables, figures and goals ask of rows: those of a learner by their number of training rows, times, slopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from bochner.arrays import Array
from bochner.reproduce.options import GMKL, RFF_GL
from bochner.reproduce.rows import Row

PLAIN = {"schedule": "small-to-large", "metric": "diagonal", "refit": False, "one_class": False}
"""Options of runs that compare with the paper; others are of runs that go past it."""


def of_learner(rows: Sequence[Row], learner: str, **options: object) -> dict[int, Row]:
    """Rows of a learner by the rows they learned from, ascending; options other than those given are as in the paper."""
    wanted = PLAIN | options
    found = {}
    for row in rows:
        own = row["run"]["options"]
        if row["run"]["learner"] == learner and all(own.get(name, PLAIN[name]) == value for name, value in wanted.items()):
            found[row["run"]["n"]] = row
    return dict(sorted(found.items()))


def measured(rows: Sequence[Row], learner: str, **options: object) -> dict[int, Row]:
    """The same, those that were run."""
    return {n: row for n, row in of_learner(rows, learner, **options).items() if "result" in row}


def accuracies(rows: Sequence[Row], learner: str) -> dict[int, float]:
    """Accuracy by n, of those that have one."""
    return {n: row["result"]["accuracy"] for n, row in measured(rows, learner).items() if "accuracy" in row["result"]}


def spread(row: Row) -> float:
    """The standard error of the mean over classes of an accuracy."""
    each = np.array(row["result"]["class_accuracies"])
    return float(each.std(ddof=1) / len(each) ** 0.5) if len(each) > 1 else 0.0


@dataclass(frozen=True)
class ClassTime:
    """Seconds that a class takes: the mean over classes, and their standard deviation."""

    mean: float
    deviation: float = 0.0
    n_features: int | None = None
    """Features of each kernel, where sizes differ in them."""


def class_times(rows: Sequence[Row], learner: str) -> dict[int, ClassTime]:
    """Seconds by n. GMKL: kernel matrices and the weights of one class. All others: one run, whatever it learns."""
    found = {n: class_time(row) for n, row in measured(rows, learner).items()}
    if learner == GMKL:
        one = {n: class_time(row) for n, row in measured(rows, learner, one_class=True).items()}
        found = dict(sorted({**one, **found}.items()))
    return found


def class_time(row: Row) -> ClassTime:
    """The seconds of a row."""
    seconds = row["seconds"]
    if "classes" not in seconds:
        return ClassTime(seconds["total"], n_features=row["result"].get("n_features"))
    each = seconds["kernels"] + np.array(seconds["classes"])
    return ClassTime(float(each.mean()), float(each.std()))


SLOPE_FROM, SLOPE_SIZES = 2500, 3
"""Slopes are of sizes from the first of the paper's table on, where a learner has so many; else of all its sizes.

Below, costs that do not depend on n count most. Sizes with other numbers of features than the largest are left out too:
with more features for fewer rows, a slope would be flattered.
"""


def sizes_of_slope(times: dict[int, ClassTime]) -> list[int]:
    """The sizes whose times make a slope."""
    last = times[max(times)].n_features if times else None
    large = [n for n in sorted(times) if n >= SLOPE_FROM and times[n].n_features == last]
    return large if len(large) >= SLOPE_SIZES else sorted(times)


def slope(times: dict[int, ClassTime], sizes: Sequence[int] | None = None) -> float | None:
    """The power of n with which seconds grow: least squares on logarithms; None for fewer than two sizes.

    It is that of ``sizes``, or else of :func:`sizes_of_slope`.
    """
    some = sizes_of_slope(times) if sizes is None else sizes
    if len(some) < 2:
        return None
    return float(np.polyfit(np.log(some), np.log([times[n].mean for n in some]), 1)[0])


@dataclass(frozen=True)
class Weights:
    """Kernel weights (r, c) of both learners of many kernels on the same n rows."""

    n: int
    kernels: list[str]
    group_lasso: Array
    gmkl: Array

    def correlations(self) -> Array:
        """Spearman's rank correlation of each class (c,); NaN where one learner gives all kernels the same weight."""
        pairs = zip(self.group_lasso.T, self.gmkl.T, strict=True)
        return np.array([_rank_correlation(one, other) for one, other in pairs])


def weights_of(rows: Sequence[Row]) -> Weights | None:
    """Those of the largest n at which both learned all classes; None where there is none."""
    lasso, exact = measured(rows, RFF_GL), measured(rows, GMKL)
    both = [n for n in exact if n in lasso]
    if not both:
        return None
    n = max(both)
    theirs = [np.array(found[n]["result"]["weights"]) for found in (lasso, exact)]
    return Weights(n, lasso[n]["result"]["kernels"], *theirs)


def _rank_correlation(one: Array, other: Array) -> float:
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan")
    return float(spearmanr(one, other).statistic)
