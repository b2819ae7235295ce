"""What bochner.load makes of spoiled model files: 100,000 of them, by chance and on purpose.

    python benchmarks/fuzz_models.py             100,000 files
    python benchmarks/fuzz_models.py --quick     3000 files, results in fuzz_models-quick.json
    python benchmarks/fuzz_models.py --table     no run: rewrite the table of docs/saving.md

The files are those of tests/persistence/archive, spoiled in the ways of fuzz_mutations.py. Each must be refused with a
ModelFileError, or load as a model that predicts; it must take no more memory than a multiple of its size, and open, write or
run nothing else. Whatever is not so is counted as a failure, and its file is kept in the folder of --keep.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import tempfile
import time
import tracemalloc
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_mutations import MUTATIONS, of_two_files
from harness import ROOT, describe, manifest, markdown_table, read_results, replace_table, write_results

import bochner

ARCHIVE = ROOT / "tests" / "persistence" / "archive"
DOCUMENT = ROOT / "docs" / "saving.md"
FILES, QUICK_FILES, SEED = 100_000, 3000, 20261118
PART = 1000
"""Files that a process sees at a time."""
LARGEST_FACTOR, BESIDE = 64, 16_000_000
"""Most bytes that loading and predicting may take: so many for each byte of the file, and so many beside."""
FORBIDDEN = ("os.", "subprocess.", "shutil.", "socket.", "pickle.", "ctypes.", "tempfile.")
"""Events of Python's audit that loading must not cause; imports of the package's own modules aside."""

OF_THE_MACHINE = ("/proc/", "/sys/fs/cgroup/")
"""Where Linux says how much memory there is, which predicting asks for."""


@dataclass
class Outcome:
    """What became of the files of one kind."""

    refused: int = 0
    loaded: int = 0
    failures: list[str] = field(default_factory=list)
    peak_bytes: int = 0
    """Most memory that one of them took."""
    slowest_s: float = 0.0

    def joined(self, other: Outcome) -> Outcome:
        """What became of the files of both."""
        return Outcome(
            self.refused + other.refused,
            self.loaded + other.loaded,
            self.failures + other.failures,
            max(self.peak_bytes, other.peak_bytes),
            max(self.slowest_s, other.slowest_s),
        )


class Watch:
    """An audit hook, which cannot be taken off, and notes what happens between :meth:`begin` and :meth:`end`."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self._allowed: str | None = None
        sys.addaudithook(self._see)

    def begin(self, path: Path) -> None:
        """From now on ``path`` alone may be opened."""
        self.events, self._allowed = [], str(path)

    def end(self) -> list[str]:
        """What else happened."""
        self._allowed = None
        return self.events

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._allowed is None:
            return
        if event == "open":
            name = str(os.fspath(arguments[0])) if isinstance(arguments[0], str | os.PathLike) else ""
            if name != self._allowed and not _is_module(name) and not name.startswith(OF_THE_MACHINE):
                self.events.append(f"open {name}")
        elif event in ("compile", "exec"):  # of modules that scikit-learn imports when it needs them
            name = str(arguments[1] if event == "compile" else getattr(arguments[0], "co_filename", ""))
            if not _is_module(name):
                self.events.append(event)
        elif event.startswith(FORBIDDEN) and event not in ("os.listdir", "os.scandir"):
            self.events.append(event)


def _is_module(name: str) -> bool:
    """Whether a file is one of Python's own, of an installed package or of this one."""
    inside = any(Path(name).is_relative_to(folder) for folder in (ROOT, sys.prefix, sys.base_prefix))
    return inside and name.endswith((".py", ".pyc"))


@functools.cache
def the_watch() -> Watch:
    """The one of this process."""
    return Watch()


def try_file(path: Path, watch: Watch) -> tuple[str, float, int]:
    """What load makes of a file, "refused", "loaded" or what went wrong; seconds; and the most bytes that it took."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    start = time.perf_counter()
    watch.begin(path)
    try:
        with np.errstate(all="ignore"):
            predict(bochner.load(path))
        result = "loaded"
    except bochner.ModelFileError:
        result = "refused"
    except Exception as error:  # noqa: BLE001, any other one is what is looked for
        result = f"{type(error).__name__}: {error}"[:200]
    strayed = watch.end()
    peak = tracemalloc.get_traced_memory()[1] - before
    if strayed:
        result = f"touched {strayed[0]}"
    elif peak > LARGEST_FACTOR * path.stat().st_size + BESIDE:
        result = f"took {peak} bytes for a file of {path.stat().st_size}"
    return result, time.perf_counter() - start, peak


def predict(model: Any) -> None:
    """All that a model says of three rows."""
    views = getattr(model, "_views", None)
    if views is not None and views.labels:
        tables = [np.full((3, table.n_features_in_), 0.5) for table in views.tables]
        X: Any = dict(zip(views.labels, tables, strict=True)) if isinstance(views.labels[0], str) else tables
    elif model.n_features_in_ > 1000:  # of a transformer without arrays: who gives so many columns has them
        return
    else:
        X = np.full((3, model.n_features_in_), 0.5)
    for method in ("transform", "predict", "predict_proba"):
        if hasattr(model, method):
            getattr(model, method)(X)


def run(numbers: range, seed: int, keep: Path | None = None) -> dict[str, Outcome]:
    """Spoil files of these numbers, all kinds in turn, and see what load makes of each."""
    originals = [path.read_bytes() for path in sorted(ARCHIVE.glob("*.safetensors"))]
    kinds = [*MUTATIONS, "parts of two files"]
    outcomes = {kind: Outcome() for kind in kinds}
    watch = the_watch()
    tracemalloc.start()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.safetensors"
        path.write_bytes(originals[0])
        try_file(path, watch)  # which imports what loading needs
        for number in numbers:
            rng = np.random.default_rng([seed, number])
            kind, data = kinds[number % len(kinds)], originals[rng.integers(len(originals))]
            spoiled = data
            while spoiled == data:
                other = originals[rng.integers(len(originals))]
                spoiled = MUTATIONS[kind](rng, data) if kind in MUTATIONS else of_two_files(rng, data, other)
            path.write_bytes(spoiled)
            note(outcomes[kind], f"number {number}", spoiled, try_file(path, watch), keep)
    tracemalloc.stop()
    return outcomes


def note(outcome: Outcome, name: str, data: bytes, tried: tuple[str, float, int], keep: Path | None) -> None:
    """Count what became of one file."""
    result, seconds, peak = tried
    outcome.slowest_s, outcome.peak_bytes = max(outcome.slowest_s, seconds), max(outcome.peak_bytes, peak)
    if result == "refused":
        outcome.refused += 1
    elif result == "loaded":
        outcome.loaded += 1
    else:
        outcome.failures.append(f"{name}: {result}")
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{name.replace(' ', '-')}.safetensors").write_bytes(data)


def run_all(n_files: int, seed: int, keep: Path | None) -> dict[str, Outcome]:
    """The same in several processes, part after part."""
    parts = [range(start, min(start + PART, n_files)) for start in range(0, n_files, PART)]
    total: dict[str, Outcome] = {}
    with ProcessPoolExecutor() as pool:
        for part, found in zip(parts, pool.map(partial(run, seed=seed, keep=keep), parts), strict=True):
            print(f"{part.stop:,} of {n_files:,} files", file=sys.stderr)
            for kind, outcome in found.items():
                total[kind] = total[kind].joined(outcome) if kind in total else outcome
    return total


def table(results: dict[str, Any]) -> str:
    """Counts of each kind, and of all."""
    rows = []
    for kind, entry in results["kinds"].items():
        counts = [entry["refused"], entry["loaded"], len(entry["failures"])]
        rows.append([kind, *(f"{count:,}" for count in [sum(counts), *counts]), f"{entry['peak_bytes'] / 1e6:.1f}"])
    totals = [sum(int(row[i].replace(",", "")) for row in rows) for i in range(1, 5)]
    rows.append(["all", *(f"{total:,}" for total in totals), max((row[5] for row in rows), key=float)])
    header = ["how the file is spoiled", "files", "refused", "loaded, predicts", "anything else", "most memory, MB"]
    return markdown_table(header, rows)


def main() -> None:
    """Run, write the results, and say what came of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_FILES} files only")
    parser.add_argument("--table", action="store_true", help="rewrite the table from the stored results")
    parser.add_argument("--keep", type=Path, default=None, help="folder for files that make something else happen")
    options = parser.parse_args()
    name = "fuzz_models-quick" if options.quick else "fuzz_models"
    if not options.table:
        about = manifest(SEED, ("bochner", "numpy", "scipy", "scikit-learn", "safetensors"))
        outcomes = run_all(QUICK_FILES if options.quick else FILES, SEED, options.keep)
        kinds = {kind: vars(outcome) for kind, outcome in outcomes.items()}
        write_results(name, {"kinds": kinds}, about)
        for outcome in outcomes.values():
            print("\n".join(outcome.failures[:5]), end="\n" if outcome.failures else "")
    results, about = read_results(name)
    print(table(results))
    if not options.quick:
        replace_table(DOCUMENT, "fuzz", f"{table(results)}\n\n{describe(about)}")


if __name__ == "__main__":
    main()
