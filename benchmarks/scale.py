"""Rows streamed from disk beside the same rows in memory, and on Dask workers: time, its growth, and memory.

    python benchmarks/scale.py                          10^5 to 10^6 rows of 50 columns, 2000 features; about 20 minutes
    python benchmarks/scale.py --parts workers growth   some parts; the others stay as they are in the file of results
    python benchmarks/scale.py --quick                  2000 to 20,000 rows; nothing is kept
    python benchmarks/scale.py --folder DIR             where the files are written; they are deleted at the end
    python benchmarks/scale.py --table                  no run: rewrite the tables of docs/benchmarks.md and docs/scale.md

Rows are standard normal, the target is sin(2 x0) + x1 x2 and noise of deviation 0.1 (``made_rows``); the second set is
MNIST, every image shifted by up to two pixels in each direction, drawn anew for every row (needs --data or BOCHNER_DATA).

- *passes*: the sums over all rows that a regression on random features takes, in the two parts of a hold-out by hash: from
  a Parquet file, and from an array in memory with the same parts. A ratio near one says that reading hides behind
  computing.
- *fits*: all of ``KernelRegressor.fit`` from the file, its kernel learned on a sample, in a fresh process that tells its
  peak of resident memory.
- *workers*: the same sums of rows that one and two Dask workers of one thread hold, beside two threads of this process.
- *growth*: the same sums of other numbers of rows, columns, features and kernels, in memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from harness import PACKAGES, ROOT, manifest, read_results, write_results
from scale_growth import growth, on_workers
from scale_report import table, write_tables
from scale_rows import COLUMNS, SEED, prepared, shifted_digits, write_rows
from skl_process import memory_bytes
from uci_data import data_folder

from bochner import KernelRegressor, open_rows
from bochner.engines import fold_moments
from bochner.features import FeatureChoices, FeatureMap, build_map
from bochner.folds import Folds
from bochner.kernels import Gaussian
from bochner.rows import RowSource
from bochner.streamed import HashCut, StreamedFolds

READ_ROWS = 100_000
PARTS = ("passes", "fits", "workers", "growth")
SIZES, N_FEATURES = (100_000, 300_000, 1_000_000), 2000
QUICK_SIZES, QUICK_FEATURES = (2_000, 6_000, 20_000), 200
PROGRAM = "from scale import child; child({path!r}, {n_features!r})"


def time_passes(source: RowSource, feature_map: FeatureMap) -> dict[str, float]:
    """Seconds of a pass over a source, and over the same rows in memory, in turn; the better of two each."""
    cut = HashCut(SEED)
    whole = next(iter(source.blocks(source.n_rows)))
    in_memory = cut.folds(np.arange(source.n_rows), prepared(whole))
    del whole
    few = Folds(tuple(part.take(slice(0, 100)) for part in in_memory.parts), in_memory.validated)
    streamed = StreamedFolds(
        source=source,
        n=source.n_rows,
        prepare=prepared,
        cut=cut,
        in_memory=few,
        block_rows=min(READ_ROWS, max(1, source.n_rows // 3)),
        smallest_value=-np.inf,
    )
    seconds: dict[str, list[float]] = {"streamed": [], "in memory": []}
    sums = {}
    for _ in range(2):
        for name, folds in (("streamed", streamed), ("in memory", in_memory)):
            start = time.perf_counter()
            sums[name] = fold_moments(feature_map, folds)
            seconds[name].append(time.perf_counter() - start)
    for one, two in zip(*sums.values(), strict=True):
        np.testing.assert_allclose(one.gram, two.gram, rtol=1e-4, atol=1e-4 * np.abs(two.gram).max())
    return {name: min(each) for name, each in seconds.items()}


def fit_in_process(path: Path, n_features: int) -> dict[str, Any]:
    """A whole fit in a fresh process."""
    command = [sys.executable, "-c", PROGRAM.format(path=str(path), n_features=n_features)]
    run = subprocess.run(command, cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout)


def child(path: str, n_features: int) -> None:
    """What that process does."""
    start = time.perf_counter()
    model = KernelRegressor("gaussian", n_features=n_features, random_state=SEED).fit(open_rows(path, target="y"))
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "peak_bytes": memory_bytes("VmHWM"), "error": model.validation_error_}))


def made_map(n_features: int) -> FeatureMap:
    """Features of the made rows."""
    choices = FeatureChoices(n_features=n_features)
    return build_map(Gaussian(scale=0.1), COLUMNS, choices, np.random.default_rng(SEED))


def files(sizes: Sequence[int], folder: Path | None) -> Generator[tuple[int, Path], None, None]:
    """A Parquet file of so many made rows for each size, which is gone when the next is asked for."""
    for n_rows in sizes:
        with tempfile.TemporaryDirectory(dir=folder) as made:
            path = Path(made) / "rows.parquet"
            write_rows(path, n_rows)
            yield n_rows, path


def passes(options: argparse.Namespace) -> dict[str, Any]:
    """Passes over files and memory, with a line for each on standard error."""
    sizes, n_features = (QUICK_SIZES, QUICK_FEATURES) if options.quick else (SIZES, N_FEATURES)
    rows = []
    for n_rows, path in files(sizes, options.folder):
        found = time_passes(open_rows(path, target="y"), made_map(n_features))
        rows.append({"set": "made", "n": n_rows, "m": COLUMNS, **found})
        print(f"   {rows[-1]}", file=sys.stderr, flush=True)
    if options.data is not None:
        digits = np.load(options.data / "mnist" / "mnist_uint8.npz")
        source = shifted_digits(digits["X_train"].reshape(-1, 28, 28), digits["y_train"], sizes[1])
        choices = FeatureChoices(n_features=n_features)
        mnist_map = build_map(Gaussian(scale=0.1), 784, choices, np.random.default_rng(SEED))
        rows.append({"set": "MNIST, shifted", "n": sizes[1], "m": 784, **time_passes(source, mnist_map)})
        print(f"   {rows[-1]}", file=sys.stderr, flush=True)
    return {"n_features": n_features, "cores": len(os.sched_getaffinity(0)), "rows": rows}


def fits(options: argparse.Namespace) -> dict[str, Any]:
    """Whole fits from files, each in a fresh process."""
    sizes, n_features = (QUICK_SIZES, QUICK_FEATURES) if options.quick else (SIZES, N_FEATURES)
    rows = []
    for n_rows, path in files(sizes, options.folder):
        rows.append({"n": n_rows, **fit_in_process(path, n_features)})
        print(f"   {rows[-1]}", file=sys.stderr, flush=True)
    return {"n_features": n_features, "rows": rows}


def workers(options: argparse.Namespace) -> dict[str, Any]:
    """A pass on Dask workers and here."""
    n_rows, n_features = (QUICK_SIZES[1], QUICK_FEATURES) if options.quick else (SIZES[1], N_FEATURES)
    with closing(files([n_rows], options.folder)) as each:
        found = on_workers(next(each)[1], n_rows, made_map(n_features))
    return {"n": n_rows, "n_features": n_features, "found": found}


RUNS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "passes": passes,
    "fits": fits,
    "workers": workers,
    "growth": lambda options: {"found": growth(quick=options.quick)},
}


def keep(part: str, entry: dict[str, Any]) -> Path:
    """Put one part into the file of results; the others stay."""
    try:
        results, _ = read_results("scale")
    except FileNotFoundError:
        results = {}
    results[part] = entry
    return write_results("scale", {name: results[name] for name in PARTS if name in results}, entry["manifest"])


def main() -> None:
    """Parse the options, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="which parts to run")
    parser.add_argument("--quick", action="store_true", help="few rows; nothing is kept")
    parser.add_argument("--folder", type=Path, default=None, help="where the files are written")
    parser.add_argument("--data", type=Path, default=None, metavar="DIR", help="folder with mnist; without it, no MNIST")
    parser.add_argument("--table", action="store_true", help="rewrite the tables from the last runs, without running")
    options = parser.parse_args()
    if options.table:
        write_tables()
        return
    try:
        options.data = data_folder(options.data)
    except FileNotFoundError:
        options.data = None
    for part in options.parts:
        entry = {"manifest": manifest(SEED, (*PACKAGES, "pyarrow", "dask")), **RUNS[part](options)}
        print(f"\n{table(part, entry)}\n", flush=True)
        if not options.quick:
            print(keep(part, entry).relative_to(ROOT))
            write_tables()


if __name__ == "__main__":
    main()
