"""Memory of learning from rows on disk, beside what max_memory allows.

    python benchmarks/memory.py                 a Parquet file of 2 GB, max_memory="1GB"; ten minutes or so
    python benchmarks/memory.py --quick         300 MB and "200MB", results in memory-quick.json
    python benchmarks/memory.py --folder DIR    where the file is written; it is deleted at the end
    python benchmarks/memory.py --table         no run: rewrite the table of docs/benchmarks.md

Each step has a fresh process. Its peak is that of resident memory, less the peak of a process that imports the same modules
and does nothing.
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import PACKAGES, ROOT, describe, manifest, markdown_table, read_results, replace_table, write_results
from skl_process import memory_bytes

from bochner import KernelRegressor, open_rows
from bochner.memory import as_bytes

SEED = 0
COLUMNS = 100
GROUP_ROWS = 50_000
STEPS = ("import", "fit", "predict")
SIZES = {"memory": (2_000_000_000, "1GB"), "memory-quick": (300_000_000, "200MB")}
"""Bytes of rows, and max_memory."""
PROGRAM = "from memory import child; child({step!r}, {folder!r}, {limit!r}, {n_features!r})"


def write_rows(path: Path, n_bytes: int) -> int:
    """A Parquet file of about ``n_bytes``, one row group after the other; returns the number of rows."""
    rng = np.random.default_rng(SEED)
    names = [f"x{i}" for i in range(COLUMNS)] + ["y"]
    schema = pa.schema([(name, pa.float64()) for name in names])
    n_groups = max(1, round(n_bytes / (8 * len(names) * GROUP_ROWS)))
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for _ in range(n_groups):
            X = rng.standard_normal((GROUP_ROWS, COLUMNS))
            y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(GROUP_ROWS)
            writer.write_table(pa.table([*X.T, y], schema=schema))
    return n_groups * GROUP_ROWS


def in_process(step: str, folder: Path, limit: str, n_features: int | None) -> dict[str, Any]:
    """One step in a fresh process: its seconds and its peak of memory."""
    program = PROGRAM.format(step=step, folder=str(folder), limit=limit, n_features=n_features)
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True, check=True)
    measured: dict[str, Any] = json.loads(run.stdout)
    print(f"   {step}: {measured['seconds']:.1f} s, {measured['peak_bytes'] / 1e6:.0f} MB", file=sys.stderr, flush=True)
    return measured


def child(step: str, folder: str, limit: str, n_features: int | None) -> None:
    """What the process of ``in_process`` does: one step, one line of JSON."""
    rows, kept = Path(folder) / "rows.parquet", Path(folder) / "model.pickle"
    start, cpu_start, more = time.perf_counter(), time.process_time(), {}
    if step == "fit":
        model = KernelRegressor("gaussian", n_features=n_features, max_memory=limit, random_state=SEED)
        model.fit(open_rows(rows, target="y"))
        more = {"n_features": model.feature_map_.n_features, "validation_error": model.validation_error_}
        kept.write_bytes(pickle.dumps(model))
    elif step == "predict":
        predictions = pickle.loads(kept.read_bytes()).predict(open_rows(rows, target="y"))
        more = {"predicted": len(predictions)}
    took = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu_start}
    print(json.dumps({**took, "peak_bytes": memory_bytes("VmHWM"), **more}))


def measure(n_bytes: int, limit: str, folder: Path | None, n_features: int | None) -> dict[str, Any]:
    """All steps on a file that is written first and deleted at the end."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        path = Path(made) / "rows.parquet"
        n_rows = write_rows(path, n_bytes)
        size = path.stat().st_size
        steps = {step: in_process(step, Path(made), limit, n_features) for step in STEPS}
    about = {"rows": n_rows, "columns": COLUMNS, "file_bytes": size, "max_memory": limit}
    return {**about, "limit_bytes": as_bytes(limit), "steps": steps}


def table(results: dict[str, Any]) -> str:
    """Peak of each step, and what part of the limit it is above the import alone."""
    alone = results["steps"]["import"]["peak_bytes"]
    rows = []
    for step, entry in results["steps"].items():
        above = entry["peak_bytes"] - alone
        share = "" if step == "import" else f"{100 * above / results['limit_bytes']:.0f} %"
        times = [f"{entry[name]:.0f}" for name in ("seconds", "cpu_seconds")]
        rows.append([step, f"{entry['peak_bytes'] / 1e6:.0f}", f"{above / 1e6:.0f}", share, *times])
    header = ["step", "peak, MB", "above import, MB", "of max_memory", "s", "s of all cores"]
    return (
        f"{markdown_table(header, rows)}\n\n"
        f"{results['rows']:,} rows of {results['columns']} columns, a file of {results['file_bytes'] / 1e9:.2f} GB, "
        f'`max_memory="{results["max_memory"]}"`, {results["steps"]["fit"]["n_features"]} features.'
    )


def main() -> None:
    """Parse the options, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a file of 300 MB and max_memory='200MB'")
    parser.add_argument("--folder", type=Path, default=None, help="where the file is written")
    parser.add_argument(
        "--features", type=int, default=None, help="number of features; default: what max_memory has room for"
    )
    parser.add_argument("--table", action="store_true", help="rewrite the table from the last full run, without running")
    arguments = parser.parse_args()
    if arguments.table:
        results, about = read_results("memory")
        replace_table(ROOT / "docs" / "benchmarks.md", "memory", f"{table(results)}\n\n{describe(about)}")
        return
    name = "memory-quick" if arguments.quick else "memory"
    about = manifest(SEED, (*PACKAGES, "pyarrow"))
    results = measure(*SIZES[name], arguments.folder, arguments.features)
    print(table(results))
    print(write_results(name, results, about).relative_to(ROOT))


if __name__ == "__main__":
    main()
