"""Digests of every estimator's models for 1, 2 and 4 threads, what equal bits cost, and another NumPy beside this one.

    python benchmarks/same_bits.py                          digests, results in benchmarks/results/same_bits.json
    python benchmarks/same_bits.py --other PYTHON           also with another interpreter, whose NumPy is another
    python benchmarks/same_bits.py --before FOLDER          also the time of a fit, and that of the package in a folder
    python benchmarks/same_bits.py --table                  no run: rewrite the table of docs/reliability.md

The other interpreter needs NumPy, SciPy, scikit-learn, array-api-compat, threadpoolctl and safetensors. It loads the models
of tests/persistence/archive, and fits those of tests/estimators/kept_fits.py on TABLES tables; differences are told as parts
of the largest prediction, and one beyond the bound of docs/reliability.md ends the run with an error.
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
TABLES = 12
BOUND = 1e-4
"""Fits on one machine differ by no more than this part of the largest prediction from one version of NumPy to another."""

PREDICTIONS = """
import json, sys
from pathlib import Path
import numpy as np
import bochner
from tests.estimators import kept_fits
found = {
    f"fit {name} {number}": kept_fits.predicted(name, number)
    for name in kept_fits.FITS for number in range(int(sys.argv[2]))
}
for path in sorted(Path("tests/persistence/archive").glob("*.safetensors")):
    stored = json.loads(path.with_suffix(".json").read_text())
    X = stored["X"]
    X = {name: np.array(view) for name, view in X.items()} if isinstance(X, dict) else np.array(X)
    for method in stored["expected"]:
        values = np.asarray(getattr(bochner.load(path), method)(X))
        if values.dtype.kind == "f":
            found[f"archive {path.stem} {method}"] = values
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
            told(python, "-c", PREDICTIONS, path, TABLES)
            for python, path in zip((sys.executable, other), paths, strict=True)
        ]
        here, there = (dict(np.load(path, allow_pickle=False)) for path in paths)
    largest = {"archive": 0.0, "fit": 0.0}
    by_estimator: dict[str, float] = {}
    for key, values in here.items():
        kind, *words = key.split(" ")
        found = float(np.max(np.abs(values - there[key])) / np.max(np.abs(values)))
        largest[kind] = float(np.maximum(largest[kind], found))  # which NaN stays with
        if kind == "fit":
            name = " ".join(words[:-1])
            by_estimator[name] = float(np.maximum(by_estimator.get(name, 0.0), found))
    return {"versions": versions, "predictions": len(here), "largest": largest, "fits": by_estimator}


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


def earlier_times() -> dict[str, Any]:
    """The times that were measured last, and where."""
    try:
        results, about = read_results("same_bits")
    except FileNotFoundError:
        return {}
    return {"times": results["times"], "times_about": results.get("times_about", about)} if "times" in results else {}


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
            *([f"of these, {name}", f"{largest:.1e}"] for name, largest in other.get("fits", {}).items()),
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
            results |= {"times": times(options.before.resolve()), "times_about": about}
        else:
            results |= earlier_times()
        write_results("same_bits", results, about)
    results, about = read_results("same_bits")
    print(table(results))
    times_about = results.get("times_about", about)
    apart = "" if times_about == about else f" The seconds were m{describe(times_about).removeprefix('M')}"
    replace_table(DOCUMENT, "same_bits", f"{table(results)}\n\n{describe(about)}{apart}")
    beyond = [other["versions"] for other in results["others"] if not other["largest"]["fit"] <= BOUND]
    if beyond:
        sys.exit(f"Fits differ by more than {BOUND:g} of the largest prediction: {beyond}")


if __name__ == "__main__":
    main()
