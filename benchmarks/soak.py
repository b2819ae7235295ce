"""Fit, predict, save and load for half an hour in one process, while 8 threads predict with two models: is anything lost?

    python benchmarks/soak.py                  30 minutes, results in benchmarks/results/soak.json
    python benchmarks/soak.py --minutes 0.2    shorter, nothing stored
    python benchmarks/soak.py --table          no run: rewrite the table of docs/reliability.md

One thread goes through learners and shapes of rows, round after round: it fits, predicts, saves and loads. Eight others call
``predict`` of two models, one on random features and one on data centres, with rows of many shapes. Every result must have
the bits of the first time, when nothing else ran. Memory, open files and threads are noted twice a second; over the second
half, the line through the memory must not rise by more than RISE_MB, and there must be no more files and threads than in the
first.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from harness import ROOT, describe, manifest, markdown_table, read_results, replace_table, write_results

import bochner
from bochner import (
    FourierFeatures,
    KernelClassifier,
    KernelRegressor,
    MultipleKernelClassifier,
    MultipleKernelRegressor,
)
from bochner.exact import GMKLClassifier, GMKLRegressor, KernelRidgeGD

DOCUMENT = ROOT / "docs" / "reliability.md"
MINUTES, SEED, THREADS, PAUSE, BREATH = 30.0, 20261118, 8, 0.5, 0.02
RISE_MB = 16.0
"""Most that the line through the memory of the second half may rise from its beginning to its end."""
FEW = {"n_features": 48, "tol": 0.3, "random_state": 0}
ROUGH = {"n_features": 32, "random_state": 0}
PARTS = [("a", "gaussian", [0]), ("b", "gaussian", [1, 2])]
BY_DEFAULT: dict[str, Callable[[], Any]] = {
    "KernelRegressor, default": lambda: KernelRegressor("gaussian", random_state=0),
    "KernelClassifier, default": lambda: KernelClassifier("gaussian", random_state=0),
}
"""Learners as they are if nothing is said: of 100 rows and more they learn a metric, on centres, which takes seconds."""
LEARNERS: dict[str, Callable[[], Any]] = {
    "KernelRegressor": lambda: KernelRegressor("gaussian", **FEW),
    "KernelClassifier": lambda: KernelClassifier("laplacian", **FEW),
    **BY_DEFAULT,
    "MultipleKernelRegressor": lambda: MultipleKernelRegressor(PARTS, **ROUGH),
    "MultipleKernelClassifier": lambda: MultipleKernelClassifier(PARTS, **ROUGH),
    "GMKLRegressor": lambda: GMKLRegressor(PARTS, tol=0.1),
    "GMKLClassifier": lambda: GMKLClassifier(PARTS, tol=0.1),
    "KernelRidgeGD": lambda: KernelRidgeGD("gaussian", tol=0.3, random_state=0),
    "FourierFeatures": lambda: FourierFeatures("matern32", n_features=64, random_state=0),
}
SHAPES = ((60, 3), (200, 5), (333, 12), (1000, 3), (90, 40))
MOST_BY_DEFAULT = 400
"""Rows of the largest shape that these learners get."""
BATCHES = (1, 2, 17, 300, 1024, 5000)
"""Rows that threads predict at a time."""


@dataclass
class Watch:
    """What the process holds, noted from time to time."""

    seconds: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)

    def note(self, start: float) -> None:
        """One more note."""
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        self.seconds.append(round(time.monotonic() - start, 3))
        self.memory_mb.append(round(resident / 1e6, 3))
        self.files.append(len(os.listdir("/proc/self/fd")))
        self.threads.append(len(os.listdir("/proc/self/task")))

    def rise_mb(self) -> float:
        """How far the line through the memory of the second half rises in that time."""
        half = len(self.seconds) // 2
        t, memory = np.array(self.seconds[half:]), np.array(self.memory_mb[half:])
        slope = np.polyfit(t - t[0], memory, 1)[0]
        return float(slope * (t[-1] - t[0]))

    def more(self, name: str) -> int:
        """By how many files or threads the second half never falls to what the first did.

        What is open for a moment, such as a model that is being saved, does not count; what is never closed does.
        """
        values = getattr(self, name)
        return int(min(values[len(values) // 2 :]) - min(values[: len(values) // 2]))


@dataclass
class Counts:
    """What was done, and how often it came to other bits than the first time."""

    fits: int = 0
    files: int = 0
    predictions: int = 0
    different: int = 0
    errors: list[str] = field(default_factory=list)


def digest(array: Any) -> bytes:
    """The bits of an array in short."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest()


def rows(shape: tuple[int, int]) -> tuple[Any, Any]:
    """Rows and targets."""
    rng = np.random.default_rng([SEED, *shape])
    X = rng.standard_normal(shape)
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(shape[0])


def one_round(folder: Path, name: str, shape: tuple[int, int]) -> list[bytes]:
    """Fit, predict, save, load and predict; the bits of all results."""
    X, y = rows(shape)
    model = LEARNERS[name]().fit(X, y > 0 if "Classifier" in name else y)
    method = "transform" if name == "FourierFeatures" else "predict"
    path = folder / "model.safetensors"
    model.save(path)
    first, again = (getattr(each, method)(X) for each in (model, bochner.load(path)))
    if digest(first) != digest(again):
        raise AssertionError(f"A saved {name} of {shape} predicts other bits.")
    kept = [digest(getattr(model, each)) for each in ("coef_", "dual_coef_", "intercept_") if hasattr(model, each)]
    return [*kept, digest(first)]


def shared() -> list[Any]:
    """The models that all threads predict with: on random features, and on data centres, with a metric."""
    models = [KernelRegressor("gaussian", n_features=300, tol=0.3, random_state=0), BY_DEFAULT["KernelRegressor, default"]()]
    return [model.fit(*rows((n, 6))) for model, n in zip(models, (800, 200), strict=True)]


def predicting(
    models: list[Any], expected: list[dict[int, bytes]], stop: threading.Event, counts: Counts, lock: Any, seed: int
) -> None:
    """One of the threads: predict and compare, until it is told to stop."""
    rng, X = np.random.default_rng(seed), rows((max(BATCHES), 6))[0]
    while not stop.is_set():
        which, n = int(rng.integers(len(models))), int(rng.choice(BATCHES))
        try:
            same = digest(models[which].predict(X[:n])) == expected[which][n]
        except Exception as error:  # noqa: BLE001, told at the end
            with lock:
                counts.errors.append(f"{type(error).__name__}: {error}"[:200])
            return
        with lock:
            counts.predictions += 1
            counts.different += not same
        stop.wait(BREATH)  # or Python's lock would leave little to the thread that fits


def soak(minutes: float, n_threads: int = THREADS) -> tuple[Counts, Watch]:
    """Run for so long; what was counted and noted."""
    counts, watch, stop, lock = Counts(), Watch(), threading.Event(), threading.Lock()
    models, many = shared(), rows((max(BATCHES), 6))[0]
    expected = [{n: digest(model.predict(many[:n])) for n in BATCHES} for model in models]
    rounds = [
        (name, shape)
        for name, shape in itertools.product(LEARNERS, SHAPES)
        if name not in BY_DEFAULT or shape[0] <= MOST_BY_DEFAULT
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = {each: one_round(folder, *each) for each in rounds}  # alone
        threads = [
            threading.Thread(target=predicting, args=(models, expected, stop, counts, lock, seed))
            for seed in range(n_threads)
        ]
        start = time.monotonic()
        noting = threading.Thread(target=lambda: _note(watch, start, stop))
        for thread in [*threads, noting]:
            thread.start()
        try:
            for each in itertools.cycle(rounds):
                if time.monotonic() - start >= 60 * minutes:
                    break
                same = one_round(folder, *each) == first[each]
                with lock:
                    counts.fits, counts.files, counts.different = (
                        counts.fits + 1,
                        counts.files + 1,
                        counts.different + (not same),
                    )
        finally:
            stop.set()
            for thread in [*threads, noting]:
                thread.join()
    return counts, watch


def _note(watch: Watch, start: float, stop: threading.Event) -> None:
    while not stop.is_set():
        with suppress(FileNotFoundError):  # a thread that has just ended
            watch.note(start)
        stop.wait(PAUSE)


def faults_of(counts: Counts, watch: Watch) -> list[str]:
    """What is not as it must be."""
    found = [f"{counts.different} results of other bits"] if counts.different else []
    found += counts.errors
    found += [f"{watch.more(name)} more {name} in the second half" for name in ("files", "threads") if watch.more(name) > 0]
    rise = watch.rise_mb()
    return found + ([f"memory rises by {rise:.1f} MB in the second half"] if rise > RISE_MB else [])


def table(results: dict[str, Any]) -> str:
    """All counts."""
    counts, watch = Counts(**results["counts"]), Watch(**results["watch"])
    half = len(watch.seconds) // 2
    lines = [
        ["minutes", f"{watch.seconds[-1] / 60:.1f}"],
        ["fits, each saved, loaded and compared", f"{counts.fits:,}"],
        [f"calls of predict in {THREADS} threads", f"{counts.predictions:,}"],
        ["results of other bits than alone", f"{counts.different:,}"],
        ["errors", f"{len(counts.errors):,}"],
        ["memory in the middle and at the end, MB", f"{watch.memory_mb[half]:.0f} and {watch.memory_mb[-1]:.0f}"],
        [f"rise of memory over the second half, MB (at most {RISE_MB:.0f})", f"{watch.rise_mb():.1f}"],
        ["more files, more threads in the second half", f"{watch.more('files')}, {watch.more('threads')}"],
    ]
    return markdown_table(["what", "count"], lines)


def main() -> None:
    """Run, write the results, and say what came of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=MINUTES, help="how long")
    parser.add_argument("--table", action="store_true", help="rewrite the table from the stored results")
    options = parser.parse_args()
    if not options.table:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            about = manifest(SEED, ("bochner", "numpy", "scipy", "scikit-learn", "safetensors"))
            counts, watch = soak(options.minutes)
        results = {"counts": asdict(counts), "watch": asdict(watch)}
        print(table(results))
        wrong = faults_of(counts, watch)
        print("\n".join(wrong) or "Nothing is wrong.")
        if options.minutes >= MINUTES:
            write_results("soak", results, about)
        if wrong:
            sys.exit(1)
    if options.table or options.minutes >= MINUTES:
        results, about = read_results("soak")
        replace_table(DOCUMENT, "soak", f"{table(results)}\n\n{describe(about)}")


if __name__ == "__main__":
    main()
