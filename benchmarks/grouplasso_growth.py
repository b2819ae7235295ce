"""Part D of ``grouplasso.py``: time and memory against the rows, ours beside GMKL on full kernel matrices.

Both solve one problem at one penalty, ours with the making of its features: y depends on two of four groups of columns, and
each group has a Gaussian kernel of its own. Every run has a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from grouplasso_problem import SEED
from harness import markdown_table
from skl_common import NOISE, WARM_UP_ROWS, say
from skl_growth import log_slope, of_runs
from skl_process import memory_bytes

KERNELS, COLUMNS = 4, 5
SCALE = (2 * COLUMNS) ** -0.5
PARTS = [slice(COLUMNS * t, COLUMNS * (t + 1)) for t in range(KERNELS)]
ALPHA = 0.02
TITLES = {"ours": "features and group lasso", "gmkl": "GMKLRegressor"}
PROGRAM = "from grouplasso_growth import child; child({kind!r}, {n}, {per_kernel})"
GMKL_BYTES = 8 * (KERNELS + 3)
"""Bytes that GMKL takes for each pair of rows, about: its kernel matrices, their sum and its factor."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Rows, features a kernel, and how long a run of GMKL may take and how much memory it may need."""

    rows: tuple[int, ...] = (2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
    per_kernel: int = 50
    repeats: int = 3
    limit_s: float = 120.0
    limit_bytes: float = 12e9


SIZES = Sizes()
QUICK_SIZES = Sizes(rows=(200, 500, 1_000), per_kernel=20, repeats=1, limit_s=30.0)


def growth(sizes: Sizes) -> dict[str, Any]:
    """Seconds and peak memory at every size; GMKL goes up until it would take too long or too much memory."""
    curves: dict[str, list[dict[str, Any]]] = {"ours": [], "gmkl": []}
    stopped = None
    for n in sizes.rows:
        runs = [in_process("ours", n, sizes.per_kernel) for _ in range(sizes.repeats)]
        curves["ours"].append(of_runs(n, runs))
    for n in sizes.rows:
        if GMKL_BYTES * n**2 > sizes.limit_bytes:
            stopped = f"{n:,} rows would take more than {sizes.limit_bytes / 1e9:.0f} GB"
            break
        try:
            curves["gmkl"].append(of_runs(n, [in_process("gmkl", n, sizes.per_kernel, sizes.limit_s)]))
        except subprocess.TimeoutExpired:
            stopped = f"{n:,} rows take more than {sizes.limit_s:.0f} s"
            break
        except subprocess.CalledProcessError as error:
            stopped = f"the run of {n:,} rows failed: {(error.stderr or '').strip().splitlines()[-1:]}"
            break
    if stopped:
        say(f"   {TITLES['gmkl']}: {stopped}")
    return {"kernels": KERNELS, "per_kernel": sizes.per_kernel, "alpha": ALPHA, "curves": curves, "gmkl_stopped": stopped}


def in_process(kind: str, n: int, per_kernel: int, timeout: float | None = None) -> dict[str, float]:
    """One run in a fresh process: its seconds, and its peak of memory above what the process held before."""
    command = [sys.executable, "-c", PROGRAM.format(kind=kind, n=n, per_kernel=per_kernel)]
    folder = Path(__file__).parent  # where the program finds this module
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=timeout)
    measured: dict[str, float] = json.loads(run.stdout)
    say(f"   {TITLES[kind]}, n = {n}: {measured['seconds']:.2f} s, {measured['peak_bytes'] / 1e6:.0f} MB")
    return measured


def child(kind: str, n: int, per_kernel: int) -> None:
    """What the process of ``in_process`` does: a warm-up on few rows, the run, one line of JSON."""
    calls = {"ours": ours_call, "gmkl": gmkl_call}
    calls[kind](WARM_UP_ROWS, per_kernel)()
    run = calls[kind](n, per_kernel)
    before = memory_bytes("VmRSS")
    start = time.perf_counter()
    run()
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "peak_bytes": memory_bytes("VmHWM") - before}))


def additive_rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal rows, four groups of columns, and a standardised target that depends on the first two groups."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, KERNELS * COLUMNS))
    y = np.sin(X[:, :COLUMNS].sum(axis=1) / 2) + np.cos(X[:, COLUMNS : 2 * COLUMNS].sum(axis=1) / 2)
    y += NOISE * rng.standard_normal(n)
    return X, (y - y.mean()) / y.std()


def ours_call(n: int, per_kernel: int) -> Callable[[], object]:
    """The sums over the features of all kernels, a block of rows at a time, and the group lasso at one penalty."""
    from bochner.engines import moments
    from bochner.features import FeatureChoices, StackedMap, build_map
    from bochner.kernels import Gaussian
    from bochner.solvers.group_path import ElasticGroups, solve_path, with_intercept
    from bochner.solvers.groups import Groups
    from bochner.solvers.least_squares import LeastSquares
    from bochner.solvers.normal_equations import CentredMoments

    X, y = additive_rows(n)
    choices, rng = FeatureChoices(n_features=per_kernel), np.random.default_rng(SEED)
    maps = tuple(build_map(Gaussian(scale=SCALE), COLUMNS, choices, rng) for _ in PARTS)
    penalties = ElasticGroups(groups=Groups((per_kernel,) * KERNELS), weights=np.ones(KERNELS))

    def call() -> object:
        centred = CentredMoments(moments(StackedMap(maps), X, y[:, None], np.ones(n)))
        return with_intercept(solve_path(LeastSquares.of(centred, together=False), penalties, np.array([ALPHA])), centred)

    return call


def gmkl_call(n: int, _per_kernel: int) -> Callable[[], object]:
    """GMKL with the same kernels, exact ones, and the cost that is the same penalty: C = sqrt(2) / (n alpha)."""
    from bochner.exact import GMKLRegressor
    from bochner.kernels import Gaussian

    X, y = additive_rows(n)
    kernels = [(f"part {t}", Gaussian(scale=SCALE), part) for t, part in enumerate(PARTS)]
    return lambda: GMKLRegressor(kernels, loss="squared", C=2**0.5 / (n * ALPHA)).fit(X, y)


def growth_table(entry: Mapping[str, Any]) -> str:
    """Seconds and memory at every size, with the exponents in the rows."""
    curves = entry["curves"]
    by_rows = {kind: {point["rows"]: point for point in curve} for kind, curve in curves.items()}
    columns = [(kind, key) for kind in TITLES for key in ("median_s", "peak_bytes")]
    header = ["rows", *(f"{TITLES[kind]}, {'s' if key == 'median_s' else 'MB'}" for kind, key in columns)]
    sizes = sorted({point["rows"] for curve in curves.values() for point in curve})
    rows = [[f"{n:,}", *(_cell(by_rows[kind].get(n), key) for kind, key in columns)] for n in sizes]
    slopes = [log_slope(*_positive(curves[kind], key)) for kind, key in columns]
    rows.append(["exponent, all sizes", *("" if np.isnan(slope) else f"{slope:.2f}" for slope in slopes)])
    stopped = f"\n\n{TITLES['gmkl']} stops there: {entry['gmkl_stopped']}." if entry["gmkl_stopped"] else ""
    return markdown_table(header, rows) + stopped


def _positive(curve: list[Mapping[str, Any]], key: str) -> tuple[list[float], list[float]]:
    points = [point for point in curve if point[key] > 0]
    return [point["rows"] for point in points], [point[key] for point in points]


def _cell(point: Mapping[str, Any] | None, key: str) -> str:
    if point is None:
        return ""
    return f"{point[key] / 1e6:.0f}" if key == "peak_bytes" else f"{point[key]:.3g}"
