"""How the time of a pass grows in rows, columns, features, kernels and workers, for ``scale.py``."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from harness import markdown_table
from scale_rows import SEED, made_rows, prepared

from bochner.engines import fold_moments
from bochner.engines.dask_rows import dask_rows
from bochner.features import FeatureChoices, FeatureMap, StackedMap, build_map
from bochner.folds import FoldedRows, Folds, Rows
from bochner.kernels import Gaussian
from bochner.streamed import HashCut

AXES: dict[str, tuple[int, ...]] = {
    "rows": (25_000, 50_000, 100_000, 200_000),
    "columns": (10, 50, 250, 1000),
    "features": (500, 1000, 2000, 4000),
    "kernels": (1, 2, 4, 8),
}
"""What is varied; all else stays as in BASE. Kernels have BASE["features"] features between them."""
BASE = {"rows": 50_000, "columns": 50, "features": 2000, "kernels": 1}
QUICK_BASE = {"rows": 1000, "columns": 10, "features": 100, "kernels": 1}
QUICK_AXES: dict[str, tuple[int, ...]] = {"rows": (500, 1000), "columns": (5, 10), "features": (50, 100), "kernels": (1, 2)}


def growth(*, quick: bool) -> list[dict[str, Any]]:
    """Seconds of a pass for every value of every axis: the better of two."""
    base, axes = (QUICK_BASE, QUICK_AXES) if quick else (BASE, AXES)
    found = []
    for axis, values in axes.items():
        for value in values:
            size = base | {axis: value}
            seconds = _better_of_two(_pass(**size))
            found.append({"axis": axis, "value": value, "seconds": seconds})
    return found


def _pass(*, rows: int, columns: int, features: int, kernels: int) -> Callable[[], Any]:
    """The sums over so many rows of the features of so many kernels, which share columns and features evenly."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((rows, columns))
    folds = HashCut(SEED).folds(np.arange(rows), Rows(X, X[:, :1], np.ones(rows)))
    parts = [np.arange(columns)[k::kernels] for k in range(kernels)]
    choices = FeatureChoices(n_features=features // kernels)
    maps = tuple(build_map(Gaussian(scale=0.1), len(part), choices, rng) for part in parts)
    feature_map: FeatureMap = maps[0] if kernels == 1 else StackedMap(maps, tuple(parts))
    return lambda: fold_moments(feature_map, folds)


def _better_of_two(call: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def on_workers(path: Path, n_rows: int, feature_map: FeatureMap) -> dict[str, float]:
    """Seconds of a pass over the rows of a Parquet file: held by one and by two Dask workers of one thread, and here."""
    X, y = (np.concatenate(some) for some in zip(*made_rows(n_rows), strict=True))
    cut = HashCut(SEED)
    here = cut.folds(np.arange(n_rows), Rows(X, y[:, None], np.ones(n_rows)))
    found = {"in memory": _better_of_two(lambda: fold_moments(feature_map, here))}
    expected = fold_moments(feature_map, here)
    few = Folds(tuple(part.take(slice(0, 100)) for part in here.parts), here.validated)
    for workers in (1, 2):
        with _cluster(workers):
            there = _on_cluster(path, cut, few)
            for one, two in zip(fold_moments(feature_map, there), expected, strict=True):  # which also brings rows there
                np.testing.assert_allclose(one.gram, two.gram, rtol=1e-8, atol=1e-8 * np.abs(two.gram).max())
            found[f"{workers} worker{'s' * (workers > 1)}"] = _better_of_two(
                lambda there=there: fold_moments(feature_map, there)
            )
    return found


@contextmanager
def _cluster(workers: int) -> Iterator[None]:
    """Worker processes of one thread each on this machine, for whatever Dask computes inside."""
    from distributed import Client, LocalCluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ports and memory limits
        cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50)
        with cluster, Client(cluster):
            yield


def _on_cluster(path: Path, cut: HashCut, few: Folds) -> FoldedRows:
    """The rows of a file on the workers, a partition for each of its row groups."""
    import dask.dataframe as dd

    frame = dd.read_parquet(path, split_row_groups=1)
    rows = dask_rows(frame.drop(columns="y"), frame["y"])
    return rows.folds(n=rows.n_rows, cut=cut, in_memory=few, smallest_value=-np.inf, prepare=prepared)


def growth_table(found: list[dict[str, Any]]) -> str:
    """Seconds by axis, and the slope of their logarithms between the last two values."""
    lines = []
    for axis in dict.fromkeys(entry["axis"] for entry in found):
        some = [entry for entry in found if entry["axis"] == axis]
        (n1, t1), (n2, t2) = ((entry["value"], entry["seconds"]) for entry in some[-2:])
        slope = np.log(t2 / t1) / np.log(n2 / n1)
        values, seconds = (
            ", ".join(f"{entry[key]:{form}}" for entry in some) for key, form in (("value", ","), ("seconds", ".2f"))
        )
        lines.append([axis, values, seconds, f"{slope:.2f}"])
    return markdown_table(["what grows", "values", "s, one pass", "exponent at the end"], lines, n_text=3)


def workers_table(found: dict[str, float]) -> str:
    """A pass on one and two workers, in units of that in memory on all cores."""
    lines = [[name, f"{seconds:.2f}", f"{seconds / found['in memory']:.2f}"] for name, seconds in found.items()]
    return markdown_table(["where", "s, one pass", "in units of memory, two threads"], lines)
