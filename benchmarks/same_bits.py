"""Digests of every estimator's models for 1, 2 and 4 threads, what equal bits cost, and another NumPy beside this one.

    python benchmarks/same_bits.py                          digests, results in benchmarks/results/same_bits.json
    python benchmarks/same_bits.py --other PYTHON           also with another interpreter, whose NumPy is another
    python benchmarks/same_bits.py --before FOLDER          also the time of a fit, and that of the package in a folder
    python benchmarks/same_bits.py --table                  no run: rewrite the table of docs/reliability.md

The other interpreter needs NumPy, SciPy, scikit-learn, array-api-compat, threadpoolctl and safetensors. It loads the models
of tests/persistence/archive, and fits estimators anew; differences are told as parts of the largest prediction.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from harness import ROOT, describe, manifest, markdown_table, read_results, replace_table, write_results

DOCUMENT = ROOT / "docs" / "reliability.md"
THREADS, SEED, REPEATS = (1, 2, 4), 0, 1
ROWS, FEATURES = 20_000, 2000

PREDICTIONS = """
import json, sys
from pathlib import Path
import numpy as np
import bochner
from bochner import KernelClassifier, KernelRegressor, MultipleKernelRegressor
found = {}
for path in sorted(Path("tests/persistence/archive").glob("*.safetensors")):
    stored = json.loads(path.with_suffix(".json").read_text())
    X = stored["X"]
    X = {name: np.array(view) for name, view in X.items()} if isinstance(X, dict) else np.array(X)
    for method in stored["expected"]:
        values = np.asarray(getattr(bochner.load(path), method)(X))
        if values.dtype.kind == "f":
            found[f"archive {path.stem} {method}"] = values
rng = np.random.default_rng(0)
X = rng.standard_normal((300, 4))
y = np.sin(2 * X[:, 0]) + X[:, 1]
few = {"n_features": 64, "random_state": 0, "tol": 0.3}
found["fit KernelRegressor"] = KernelRegressor("gaussian", **few).fit(X, y).predict(X)
found["fit KernelClassifier"] = KernelClassifier("laplacian", **few).fit(X, y > 0).decision_function(X)
parts = [("a", "gaussian", [0, 1]), ("b", "matern32", [2, 3])]
found["fit MultipleKernelRegressor"] = MultipleKernelRegressor(parts, n_features=32, random_state=0).fit(X, y).predict(X)
np.savez(sys.argv[1], **found)
sys.stdout.write(np.__version__)
"""
TIMING = f"""
import sys, time, warnings
import numpy as np
from bochner import KernelRegressor
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.standard_normal(({ROWS}, 20))
y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]

class Enough:
    seen = 0

    def __call__(self, record):
        self.seen += 1
        if self.seen == 1:
            raise KeyboardInterrupt

start, used = time.perf_counter(), time.process_time()
KernelRegressor("gaussian", n_features={FEATURES}, schedule="full", random_state=0, callback=Enough()).fit(X, y)
sys.stdout.write(f"{{time.perf_counter() - start}} {{time.process_time() - used}}")
"""


def told(*command: Any, threads: int = 1, package: Path = ROOT) -> str:
    """What another process says."""
    environment = {**os.environ, "PYTHONPATH": str(package)}
    environment |= {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
    arguments = [str(part) for part in command]
    return subprocess.run(arguments, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout


def digests() -> dict[str, dict[str, str]]:
    """A digest of each estimator's models for each number of threads."""
    program = ("-m", "tests.estimators.same_bits")
    return {str(n): json.loads(told(sys.executable, *program, n, threads=n)) for n in THREADS}


def differences(other: str) -> dict[str, Any]:
    """The largest differences between predictions here and with another interpreter."""
    with tempfile.TemporaryDirectory() as name:
        paths = [Path(name) / f"{i}.npz" for i in range(2)]
        versions = [
            told(python, "-c", PREDICTIONS, path) for python, path in zip((sys.executable, other), paths, strict=True)
        ]
        here, there = (dict(np.load(path, allow_pickle=False)) for path in paths)
    largest = {"archive": 0.0, "fit": 0.0}
    for key, values in here.items():
        kind = key.split(" ")[0]
        largest[kind] = max(largest[kind], float(np.max(np.abs(values - there[key])) / np.max(np.abs(values))))
    return {"versions": versions, "predictions": len(here), "largest": largest}


def times(before: Path) -> list[dict[str, Any]]:
    """Seconds of a fit of few steps, by the clock and of the processor, with this package and with another, in turn."""
    found = []
    for threads in (1, 2):
        seconds: dict[str, list[list[float]]] = {"before": [], "now": []}
        for _ in range(REPEATS):
            for name, package in (("before", before), ("now", ROOT)):
                text = told(sys.executable, "-P", "-c", TIMING, threads=threads, package=package)
                seconds[name].append([float(number) for number in text.split()])
        found.append({"threads": threads, "seconds": seconds})
    return found


def table(results: dict[str, Any]) -> str:
    """Whether digests are equal, times, and differences."""
    found = results["digests"]
    names = list(found[str(THREADS[0])])
    equal = sum(len({found[str(n)][name] for n in THREADS}) == 1 for name in names)
    rows = [["fits and predictions of equal bits for 1, 2 and 4 threads", f"{equal} of {len(names)}"]]
    for other in results.get("others", []):
        here, there = other["versions"]
        rows += [
            [f"NumPy {there} and {here}: arrays of predictions compared", f"{other['predictions']}"],
            [f"largest difference, models of the archive ({there})", f"{other['largest']['archive']:.1e}"],
            [f"largest difference, fitted anew ({there})", f"{other['largest']['fit']:.1e}"],
        ]
    for entry in results.get("times", []):
        for name in ("before", "now"):
            clock, used = (statistics.median(pair[i] for pair in entry["seconds"][name]) for i in range(2))
            rows.append([f"fit, {entry['threads']} threads, {name}: seconds (of processors)", f"{clock:.1f} ({used:.1f})"])
    return markdown_table(["what", "found"], rows)


def main() -> None:
    """Run, write the results, and say what came of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--other", action="append", default=[], help="a Python with another NumPy")
    parser.add_argument("--before", type=Path, default=None, help="a folder with the package as it was")
    parser.add_argument("--table", action="store_true", help="rewrite the table from the stored results")
    options = parser.parse_args()
    if not options.table:
        about = manifest(SEED)
        results: dict[str, Any] = {"digests": digests(), "others": [differences(other) for other in options.other]}
        if options.before is not None:
            results["times"] = times(options.before.resolve())
        write_results("same_bits", results, about)
    results, about = read_results("same_bits")
    print(table(results))
    replace_table(DOCUMENT, "same_bits", f"{table(results)}\n\n{describe(about)}")


if __name__ == "__main__":
    main()
