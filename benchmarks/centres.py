"""Time of ridge regression on growing numbers of centres: by sums of products of features, and by conjugate gradients.

    python benchmarks/centres.py                  36,000 rows, up to 20,000 centres; half an hour or so on two cores
    python benchmarks/centres.py --quick          2,000 rows and up to 400 centres, results in centres-quick.json
    python benchmarks/centres.py --device cuda    150,000 rows and up to 100,000 centres on a GPU, in centres-cuda.json
    python benchmarks/centres.py --table          no run: rewrite the table of docs/benchmarks.md

Both ways choose the penalty on held-out rows, from the same start and on the same centres, then fit all rows. Times have the
kernel and the factor of the centres in them. Each way is timed once at every size, after a run of a few rows.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import PACKAGES, RESULTS, ROOT, describe, manifest, markdown_table, read_results, replace_table, write_results

from bochner.criteria import HeldOutError
from bochner.engines import predict
from bochner.engines.devices import on_device
from bochner.features import CentreMap
from bochner.folds import FoldedRows, Folds, Rows
from bochner.iterated_ridge import IteratedHeldOutError
from bochner.kernels import Matern

SEED = 0
COLUMNS = 8
SIZES = (36_000, (1000, 2000, 4000, 8000, 20_000))
"""Rows to learn from, and numbers of centres."""
QUICK_SIZES = (2000, (100, 200, 400))
GPU_SIZES = (150_000, (5000, 10_000, 20_000, 50_000, 100_000))
MOST_DIRECT, MOST_DIRECT_ON_A_GPU = 8000, 20_000
"""Most centres for which sums of products are made."""
WAYS = {"sums of products": HeldOutError, "conjugate gradients": IteratedHeldOutError}
START = float(np.log(1e-6))


def made_rows(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of eight normal columns, and targets of interactions with a tenth of noise."""
    X = rng.standard_normal((n, COLUMNS))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.cos(X[:, 3] + X[:, 4]) + 0.1 * rng.standard_normal(n)
    return X, y[:, None]


def run(way: str, folds: FoldedRows, centres: np.ndarray, test: tuple[np.ndarray, np.ndarray]) -> dict[str, Any]:
    """One way to a fitted model: its seconds, penalty, iterations, and error on other rows."""
    feature_map = CentreMap(Matern(nu=1.5, scale=0.5), centres)
    begin = time.perf_counter()
    criterion = WAYS[way](folds)
    evaluation = criterion.evaluate(feature_map, START, gradient=False)
    chosen = time.perf_counter()
    fit = criterion.fit(feature_map, evaluation)
    end = time.perf_counter()
    error = predict(feature_map.kernels, test[0], feature_map.dual(fit.coef), fit.intercept) - test[1]
    return {
        "choose_s": chosen - begin,
        "fit_s": end - chosen,
        "seconds": end - begin,
        "log10_alpha": float(evaluation.log_alpha / np.log(10)),
        "n_iter": getattr(evaluation, "n_iter", None),
        "converged": fit.converged,
        "test_rmse": float(np.sqrt(np.mean(error**2))),
    }


def measure(n_rows: int, sizes: tuple[int, ...], device: str | None) -> dict[str, Any]:
    """Both ways for every number of centres."""
    rng = np.random.default_rng(SEED)
    X, y = made_rows(n_rows, rng)
    test = made_rows(min(n_rows, 5000), rng)
    held = n_rows // 5

    def folds(n: int) -> FoldedRows:
        cut = [Rows(X[some], y[some], np.ones(len(y[some]))) for some in (slice(0, held * n // n_rows), slice(held, n))]
        made = Folds(tuple(cut), (0,))
        return made if device is None else on_device(made, device)

    whole, few = folds(n_rows), folds(held + 100)
    entries = []
    for size in sizes:
        ways = {}
        for way in WAYS:
            if way == next(iter(WAYS)) and size > (MOST_DIRECT if device is None else MOST_DIRECT_ON_A_GPU):
                continue
            if size == sizes[0]:
                run(way, few, X[held : held + 50], test)
            ways[way] = run(way, whole, X[held : held + size], test)
            print(f"   {size} centres, {way}: {ways[way]['seconds']:.1f} s", file=sys.stderr, flush=True)
        entries.append({"centres": size, "ways": ways})
    return {"rows": n_rows, "columns": COLUMNS, "device": device or "numpy", "sizes": entries}


def table(results: dict[str, Any]) -> str:
    """A line for each number of centres: seconds of both ways, their ratio, iterations, and errors on test rows."""
    direct, iterated = WAYS
    rows = []
    for entry in results["sizes"]:
        ways = entry["ways"]
        new, old = ways[iterated], ways.get(direct)
        rows.append(
            [
                f"{entry['centres']:,}",
                "" if old is None else f"{old['seconds']:.1f}",
                f"{new['seconds']:.1f}",
                "" if old is None else f"{old['seconds'] / new['seconds']:.1f}",
                f"{new['n_iter']}" + ("" if new["converged"] else " (not converged)"),
                "" if old is None else f"{old['test_rmse']:.4f}",
                f"{new['test_rmse']:.4f}",
            ]
        )
    header = [
        "centres",
        f"{direct}, s",
        f"{iterated}, s",
        "ratio",
        "iterations",
        "test error, sums",
        "test error, gradients",
    ]
    return (
        f"{markdown_table(header, rows)}\n\n{results['rows']:,} made rows of {results['columns']} columns, a fifth held "
        f"out, on {results['device']}; iterations of all penalties that were tried; test errors are roots of mean squares."
    )


def main() -> None:
    """Parse the options, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="few rows and few centres")
    parser.add_argument("--device", help="where PyTorch keeps the rows: cuda or cpu (default: NumPy)")
    parser.add_argument("--table", action="store_true", help="rewrite the table from the last full runs, without running")
    arguments = parser.parse_args()
    if arguments.table:
        names = [name for name in ("centres", "centres-cuda") if (RESULTS / f"{name}.json").exists()] or ["centres"]
        parts = [f"{table(results)}\n\n{describe(about)}" for results, about in map(read_results, names)]
        replace_table(Path(ROOT / "docs" / "benchmarks.md"), "centres", "\n\n".join(parts))
        return
    name = "-".join(["centres", *([arguments.device] if arguments.device else []), *(["quick"] if arguments.quick else [])])
    about = manifest(SEED, (*PACKAGES, *(["torch"] if arguments.device else [])))
    sizes = QUICK_SIZES if arguments.quick else SIZES if arguments.device is None else GPU_SIZES
    results = measure(*sizes, arguments.device)
    print(table(results))
    print(write_results(name, results, about).relative_to(ROOT))


if __name__ == "__main__":
    main()
