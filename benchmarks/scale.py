"""Rows streamed from disk beside the same rows in memory: time, its growth, and memory.

    python benchmarks/scale.py                  10^5 to 10^6 rows of 50 columns, 2000 features; about 20 minutes
    python benchmarks/scale.py --quick          2000 to 20,000 rows, results in scale-quick.json
    python benchmarks/scale.py --folder DIR     where the files are written; they are deleted at the end
    python benchmarks/scale.py --table          no run: rewrite the table of docs/benchmarks.md

Rows are standard normal, the target is sin(2 x0) + x1 x2 and noise of deviation 0.1 (``made_rows``); the second set is
MNIST, every image shifted by up to two pixels in each direction, drawn anew for every row (needs --data or BOCHNER_DATA).

- *pass*: the sums over all rows that a regression on random features takes, in the two parts of a hold-out by hash: from a
  Parquet file, and from an array in memory with the same parts. A ratio near one says that reading hides behind computing.
- *fit*: all of ``KernelRegressor.fit`` from the file, its kernel learned on a sample, in a fresh process that also tells its
  peak of resident memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import PACKAGES, ROOT, describe, manifest, markdown_table, read_results, replace_table, write_results
from skl_process import memory_bytes
from uci_data import data_folder

from bochner import KernelRegressor, open_rows
from bochner.engines import fold_moments
from bochner.features import FeatureChoices, FeatureMap, build_map
from bochner.folds import Folds, Rows
from bochner.kernels import Gaussian
from bochner.rows import Block, RowSource, from_blocks
from bochner.streamed import HashCut, StreamedFolds

SEED = 0
COLUMNS = 50
GROUP_ROWS = 50_000
READ_ROWS = 100_000
SIZES = {"scale": ((100_000, 300_000, 1_000_000), 2000), "scale-quick": ((2_000, 6_000, 20_000), 200)}
"""Numbers of rows, and features."""
GOALS = {"ratio": 1.3, "slope": 1.03, "memory": 1.1}
LARGEST_SHIFT = 2
PLANNED_ROWS, PLANNED_CORES, PLANNED_NETWORK = 1e9, 16, 1.25e9
"""Rows, cores of a worker, and bytes a second between workers of the plan on paper."""
PROGRAM = "from scale import child; child({path!r}, {n_features!r})"


def made_rows(n_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows and targets, GROUP_ROWS at a time; the first ones are the same for any number."""
    for group, start in enumerate(range(0, n_rows, GROUP_ROWS)):
        rng = np.random.default_rng([SEED, group])
        X = rng.standard_normal((GROUP_ROWS, COLUMNS))
        y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(GROUP_ROWS)
        yield X[: n_rows - start], y[: n_rows - start]


def write_rows(path: Path, n_rows: int) -> None:
    """A Parquet file of them."""
    names = [*(f"x{i}" for i in range(COLUMNS)), "y"]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for X, y in made_rows(n_rows):
            writer.write_table(pa.table([*X.T, y], schema=schema))


def shifted_digits(images: np.ndarray, labels: np.ndarray, n_rows: int) -> RowSource:
    """MNIST over and over, every image shifted at random; whether it is a 3 is the target."""
    side, pad = images.shape[1], LARGEST_SHIFT
    padded = np.pad(images, ((0, 0), (pad, pad), (pad, pad)))

    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, n_rows, 10_000):
            rng = np.random.default_rng([SEED, start])
            which = rng.integers(len(images), size=min(10_000, n_rows - start))
            down, right = rng.integers(2 * pad + 1, size=(2, len(which), 1, 1))
            across = np.arange(side)
            X = padded[which[:, None, None], down + across[:, None], right + across]
            yield X.reshape(len(which), -1).astype(np.float32) / 255, (labels[which] == 3).astype(float)

    return from_blocks(blocks, n_rows=n_rows, dtype="float32")


def prepared(block: Block) -> Rows:
    """The rows of a block as they are."""
    return Rows(block.X, np.asarray(block.y)[:, None], np.ones(block.n_rows))


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


def measure(sizes: tuple[int, ...], n_features: int, folder: Path | None, data: Path | None) -> dict[str, Any]:
    """All of it, with a line for each step on standard error."""
    rng = np.random.default_rng(SEED)
    made_map = build_map(Gaussian(scale=0.1), COLUMNS, FeatureChoices(n_features=n_features), rng)
    rows = []
    for n_rows in sizes:
        with tempfile.TemporaryDirectory(dir=folder) as made:
            path = Path(made) / "rows.parquet"
            write_rows(path, n_rows)
            entry = {"set": "made", "n": n_rows, "m": COLUMNS, **time_passes(open_rows(path, target="y"), made_map)}
            entry["fit"] = fit_in_process(path, n_features)
        rows.append(entry)
        print(f"   {entry}", file=sys.stderr, flush=True)
    if data is not None:
        digits = np.load(data / "mnist" / "mnist_uint8.npz")
        source = shifted_digits(digits["X_train"].reshape(-1, 28, 28), digits["y_train"], sizes[1])
        mnist_map = build_map(Gaussian(scale=0.1), 784, FeatureChoices(n_features=n_features), rng)
        rows.append({"set": "MNIST, shifted", "n": sizes[1], "m": 784, **time_passes(source, mnist_map)})
        print(f"   {rows[-1]}", file=sys.stderr, flush=True)
    return {"n_features": n_features, "cores": len(os.sched_getaffinity(0)), "rows": rows}


def table(results: dict[str, Any]) -> str:
    """The passes and fits, and what became of the goals."""
    header = ["set", "rows", "pass from disk, s", "in memory, s", "ratio", "rows/s", "whole fit, s", "peak of the fit, MB"]
    lines = []
    for row in results["rows"]:
        fit = row.get("fit")
        told = ["", ""] if fit is None else [f"{fit['seconds']:.1f}", f"{fit['peak_bytes'] / 1e6:.0f}"]
        ratio = row["streamed"] / row["in memory"]
        passes = [f"{row['streamed']:.2f}", f"{row['in memory']:.2f}", f"{ratio:.2f}", f"{row['n'] / row['streamed']:,.0f}"]
        lines.append([f"{row['set']}, {row['m']} columns", f"{row['n']:,}", *passes, *told])
    made = [row for row in results["rows"] if row["set"] == "made"]
    slope = float(np.polyfit(np.log([row["n"] for row in made]), np.log([row["streamed"] for row in made]), 1)[0])
    peaks = made[-1]["fit"]["peak_bytes"] / made[0]["fit"]["peak_bytes"]
    goals = {"ratio": made[-1]["streamed"] / made[-1]["in memory"], "slope": slope, "memory": peaks}
    words = {
        "ratio": f"{made[-1]['n']:,} rows from disk, in units of the same arithmetic in memory",
        "slope": "slope of the time of a pass against rows, both as logarithms",
        "memory": f"peak memory of the fit at {made[-1]['n']:,} rows in units of that at {made[0]['n']:,}",
    }
    verdicts = [
        f"- {words[name]}: {value:.2f} (goal: at most {GOALS[name]}), {'reached' if value <= GOALS[name] else 'missed'}."
        for name, value in goals.items()
    ]
    parts = [markdown_table(header, lines), f"{results['n_features']} features.", "\n".join(verdicts), plan(results)]
    return "\n\n".join(parts)


def plan(results: dict[str, Any]) -> str:
    """What 10^9 rows would take on a cluster, by the speed of the largest pass that was measured; on paper."""
    row, d = [row for row in results["rows"] if row["set"] == "made"][-1], results["n_features"]
    speed = row["n"] / row["streamed"] / results["cores"]
    lines = []
    for workers in (8, 32, 128):
        cores = workers * PLANNED_CORES
        read = PLANNED_ROWS * 8 * (row["m"] + 1) / workers
        computed, sums = PLANNED_ROWS / (speed * cores), 2 * 8 * d**2 * np.ceil(np.log2(workers)) / PLANNED_NETWORK
        lines.append(
            [f"{workers}", f"{cores}", f"{read / 1e9:.1f}", f"{computed:.0f}", f"{read / computed / 1e9:.2f}", f"{sums:.2f}"]
        )
    header = [
        "workers",
        "cores",
        "GB read by each, a pass",
        "s, a pass",
        "GB/s that each must read",
        "s for the tree of sums",
    ]
    return (
        f"On paper, {PLANNED_ROWS:.0e} rows of {row['m']} columns in float64 and {d} features, at the speed measured above, "
        f"{speed:,.0f} rows a second and core, with workers of {PLANNED_CORES} cores and a network of "
        f"{PLANNED_NETWORK / 1e9:.3g} GB/s. A fit takes two passes, the first of which is bound by reading; sums are two "
        f"matrices of {8 * d**2 / 1e6:.0f} MB:\n\n{markdown_table(header, lines, n_text=0)}"
    )


def main() -> None:
    """Parse the options, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="few rows")
    parser.add_argument("--folder", type=Path, default=None, help="where the files are written")
    parser.add_argument("--data", type=Path, default=None, metavar="DIR", help="folder with mnist; without it, no MNIST")
    parser.add_argument("--table", action="store_true", help="rewrite the table from the last full run, without running")
    arguments = parser.parse_args()
    if arguments.table:
        results, about = read_results("scale")
        replace_table(ROOT / "docs" / "benchmarks.md", "scale", f"{table(results)}\n\n{describe(about)}")
        return
    try:
        data: Path | None = data_folder(arguments.data)
    except FileNotFoundError:
        data = None
    name = "scale-quick" if arguments.quick else "scale"
    about = manifest(SEED, (*PACKAGES, "pyarrow"))
    results = measure(*SIZES[name], arguments.folder, data)
    print(table(results))
    print(write_results(name, results, about).relative_to(ROOT))


if __name__ == "__main__":
    main()
