"""Memory of learning from rows on disk: a file larger than max_memory, in a process that measures itself."""

import json
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("resource", reason="peaks of memory are measured by POSIX means")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS, COLUMNS, LIMIT = 2_500_000, 14, 100e6
"""Rows of 300 MB with their target, and what a fit may hold of them."""
PROGRAM = """
import json, resource, sys
import pyarrow.parquet
from bochner import KernelRegressor, open_rows

def peak():
    scale = 1 if sys.platform == "darwin" else 1024
    try:
        with open("/proc/self/status") as file:  # the peak of getrusage may be that of the parent
            return scale * next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    except OSError:
        return scale * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

limit, path = float(sys.argv[1]), sys.argv[2]
start = peak()  # that of the imports
model = KernelRegressor("gaussian", n_features=16, max_memory=limit, alpha=1e-2, tol=1e9, random_state=0)
model.fit(open_rows(path, target="y"))
fitted = peak()
n_predicted = len(model.predict(open_rows(path, target="y")))
print(json.dumps({"start": start, "fit": fitted, "predict": peak(), "n": model.moments_.weight, "predicted": n_predicted}))
"""


def write_rows(path):
    rng = np.random.default_rng(0)
    schema = pa.schema([(f"x{i}", pa.float64()) for i in range(COLUMNS)] + [("y", pa.float64())])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False, data_page_size=2**17) as writer:
        for _ in range(ROWS // 25_000):
            X = rng.standard_normal((25_000, COLUMNS), dtype=np.float32).astype(np.float64)
            writer.write_table(pa.table([*X.T, np.sin(2 * X[:, 0]) + X[:, 1]], schema=schema))


def test_a_fit_stays_within_max_memory(tmp_path):
    path = tmp_path / "rows.parquet"
    write_rows(path)
    command = [sys.executable, "-c", PROGRAM, str(LIMIT), str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert path.stat().st_size >= 2.9 * LIMIT
    assert found["n"] == pytest.approx(ROWS)
    assert found["predicted"] == ROWS
    assert found["fit"] - found["start"] <= LIMIT
    assert found["predict"] - found["start"] <= LIMIT + 3 * 8 * ROWS  # predictions, in blocks and as a whole
