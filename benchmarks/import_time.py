"""Time to import bochner beside scikit-learn's linear_model, and to start its command line.

    python benchmarks/import_time.py            fresh processes in turn, 15 of each
    python benchmarks/import_time.py --quick    9 of each, results in import_time-quick.json
    python benchmarks/import_time.py --table    no run: rewrite the table of docs/benchmarks.md

Each process measures the import alone, without the start of the interpreter; commands are measured as a whole, from outside.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import time
from typing import Any

from harness import (
    ROOT,
    Timing,
    describe,
    manifest,
    markdown_table,
    read_results,
    replace_table,
    write_results,
)

MODULES = ("sklearn.linear_model", "bochner")
"""The peer, then ours."""
STATEMENTS = {"sklearn.linear_model": "import sklearn.linear_model", "bochner": "from bochner import KernelRegressor"}
"""What is imported: bochner's modules come when a name is asked for, so an estimator is."""
COMMANDS = {"bochner --help": ["-m", "bochner.cli", "--help"], "bochner fit --help": ["-m", "bochner.cli", "fit", "--help"]}
"""What people type, and what Python is given for it."""
COMMAND_TARGET = 0.5
"""Seconds in which a command should say what it can do."""
TARGET = 1.3
"""The import of bochner should take less than this many times that of the peer."""
PROGRAM = "import time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"


def measure(repeats: int) -> dict[str, Timing]:
    """Import times of both modules, in turn and in fresh processes; one unmeasured round writes the bytecode files."""
    seconds: dict[str, list[float]] = {module: [] for module in MODULES}
    for repeat in range(repeats + 1):
        for module in MODULES if repeat % 2 else reversed(MODULES):
            elapsed = _import_once(module)
            if repeat:
                seconds[module].append(elapsed)
    return {module: Timing(tuple(values)) for module, values in seconds.items()}


def _import_once(module: str) -> float:
    command = [sys.executable, "-c", PROGRAM.format(statement=STATEMENTS[module])]
    return float(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


def measure_commands(repeats: int) -> dict[str, Timing]:
    """Wall-clock times of commands, interpreter and all; one unmeasured round."""
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for repeat in range(repeats + 1):
        for name, arguments in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, check=True)
            if repeat:
                seconds[name].append(time.perf_counter() - start)
    return {name: Timing(tuple(values)) for name, values in seconds.items()}


def table(results: dict[str, Any]) -> str:
    """Minimum and median of both, their ratios, and the target."""
    rows = []
    for module, entry in results["modules"].items():
        ratios = [entry[key] / results["modules"][MODULES[0]][key] for key in ("best_s", "median_s")]
        times = [f"{entry[key] * 1000:.0f}" for key in ("best_s", "median_s")]
        rows.append([f"`{STATEMENTS[module]}`", *times, *(f"{ratio:.2f}" for ratio in ratios)])
    header = ["", "minimum, ms", "median, ms", "ratio of minima", "ratio of medians"]
    text = f"{markdown_table(header, rows)}\n\nTarget: a ratio below {results['target']}."
    if not results.get("commands"):
        return text
    started = [
        [f"`{name}`", *(f"{entry[key] * 1000:.0f}" for key in ("best_s", "median_s"))]
        for name, entry in results["commands"].items()
    ]
    target = f"Target: below {1000 * results['command_target']:.0f} ms, from the shell's call to the end."
    return f"{text}\n\n{markdown_table(['', 'minimum, ms', 'median, ms'], started)}\n\n{target}"


def main() -> None:
    """Parse the options, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="9 processes of each instead of 15")
    parser.add_argument("--table", action="store_true", help="rewrite the table from the last full run, without running")
    arguments = parser.parse_args()
    if arguments.table:
        results, about = read_results("import_time")
        replace_table(ROOT / "docs" / "benchmarks.md", "import_time", f"{table(results)}\n\n{describe(about)}")
        return
    importlib.import_module("bochner")  # loads the BLAS that the manifest names
    about = manifest(None)
    repeats = 9 if arguments.quick else 15
    results = {
        "target": TARGET,
        "modules": {module: timing.to_dict() for module, timing in measure(repeats).items()},
        "command_target": COMMAND_TARGET,
        "commands": {name: timing.to_dict() for name, timing in measure_commands(repeats).items()},
    }
    print(table(results))
    print(write_results("import_time-quick" if arguments.quick else "import_time", results, about).relative_to(ROOT))


if __name__ == "__main__":
    main()
