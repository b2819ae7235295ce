"""Accuracy of MultipleKernelClassifier on several views of the same rows, beside other ways to use many kernels.

    python benchmarks/mkl.py                     what benchmarks/results/mkl.json does not hold yet; hours
    python benchmarks/mkl.py --sets MSRC_v1 Mfeat --methods bochner average --splits 0 1 --fresh
    python benchmarks/mkl.py --budget 3000       start no new fit after 3000 seconds; run again to go on
    python benchmarks/mkl.py --merge FILE        no run: take over the rows of a file made on another machine
    python benchmarks/mkl.py --table             no run: rewrite the tables of docs/benchmarks.md and the figure

Six sets of views: 70 % of each class to train and 30 % to test, drawn anew for every split (five, or twenty of sets below
500 rows), columns standardised by the training rows. MNIST: the four quarters of the images with two Gaussian kernels each
(half and one and a half times the median scale), 2000 training and 5000 test rows drawn by class for every split. A kernel
is Gaussian, its scale one over the median distance, and the same for all methods; there are as many random features as
MultipleKernelClassifier takes by default.

- bochner: MultipleKernelClassifier, all else by default.
- bochner, learned: the same with kernels="auto", scale="learned": one kernel a view, its family and its scale learned.
- average: l1_ratio=0, ridge regression on all features: the plain average of the kernels.
- best single: the kernel that is best by itself, by its held-out error; ridge regression.
- stacked: one kernel of median width on the columns of all views, with as many features as the others have in all.
- gmkl: bochner.exact.GMKLClassifier on kernel matrices, C out of 1, 10, 100 by accuracy on a fifth of the rows.
- easymkl: EasyMKL of MKLpy on kernel matrices, one class against the rest, with support vector machines; lam out of 0.1,
  0.5, 0.9, then C out of 1, 10, 100, by accuracy on a fifth of the rows.
- himalaya: MultipleKernelRidgeCV on kernel matrices and indicators of the classes; 20 steps of random search over the
  weights, ten penalties, 3 folds.

The first five run again with three views of standard normal noise, as wide as the median view of the set.

``seconds`` is the time of a fit with all its tuning. Rows are written as soon as they are there, cheap fits first, and a
rerun leaves out those that exist unless --fresh is given. A method that fails leaves a row with its error. easymkl and
himalaya live in an environment of their own in build/mkl-venv, made from requirements/mkl.txt, unless --python names an
interpreter that has them; a peer that cannot be had is left out. The data lie in the folder that --data or the environment
variable BOCHNER_DATA names; docs/benchmarks.md says what it holds.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from harness import RESULTS
from mkl_data import LAYOUT, MNIST, ViewSet, find_sets
from mkl_methods import METHODS, Method
from mkl_process import Environment
from mkl_report import CLEAN, NOISY, Row, write_report
from peers import Unavailable
from uci import Key, Store, about_this_run, chosen, key_of, reported
from uci_data import VARIABLE, data_folder

FEW_ROWS = 500
"""Sets with fewer training rows have more splits."""


@dataclass(frozen=True)
class Job:
    """One fit: a method on one split of a set, with or without views of noise."""

    data: ViewSet
    split: int
    method: Method
    noise: bool

    @property
    def key(self) -> Key:
        """What tells rows apart."""
        return NOISY if self.noise else CLEAN, self.data.name, self.split, self.method.name

    @property
    def cost(self) -> float:
        """Rough seconds, to run cheap jobs first."""
        return self.method.cost(self.data) * (3 if self.noise else 1)


def default_splits(data: ViewSet) -> range:
    """Five splits, or twenty where a test row is half a percent or more: chance moves small sets by several of them."""
    return range(20 if data.n < FEW_ROWS else 5)


def plan(sets: Sequence[ViewSet], methods: Sequence[Method], splits: list[int] | None) -> list[Job]:
    """All jobs of these sets and methods, the cheapest first; MNIST without noise. ``splits`` None: those by default."""
    jobs = [
        Job(data, split, method, noise)
        for data in sets
        for method in methods
        for noise in (False, True)[: 2 if method.noise and data.name != MNIST else 1]
        for split in (default_splits(data) if splits is None else splits)
    ]
    return sorted(jobs, key=lambda job: (job.cost, job.key))


def run_job(job: Job, environment: Environment) -> Row:
    """Fit and score; the row of the result, or of the error that a method raised."""
    problem = job.data.problem(job.split, noise=job.noise)
    row: Row = dict(zip(("task", "set", "split", "method"), job.key, strict=True))
    row |= {"n": len(problem.y), "n_test": len(problem.y_test), "d": problem.d}
    row |= {"classes": job.data.classes, "columns": [table.shape[1] for table in problem.tables]}
    gc.collect()
    start = time.perf_counter()
    try:
        fitted = job.method.fit(problem, environment)
        row |= {"accuracy": float(np.mean(fitted.predicted == problem.y_test))}
        row |= {"seconds": fitted.seconds, "settings": fitted.settings}
    except Unavailable:
        raise
    except Exception as error:  # noqa: BLE001 - a peer may fail in any way, and the others go on
        row |= {"error": f"{type(error).__name__}: {error}"[:300], "seconds": time.perf_counter() - start}
    return row | {"date": datetime.now(UTC).isoformat(timespec="seconds")}


def run(todo: Sequence[Job], store: Store, options: argparse.Namespace) -> None:
    """Run the jobs that have no row yet, write each row at once, and stop when the budget is spent."""
    rows, _ = store.read()
    done = set() if options.fresh else {key_of(row) for row in rows}
    todo = [job for job in todo if job.key not in done]
    environment = Environment(options.python, options.limit)
    name, about = about_this_run()
    left_out: set[str] = set()
    start = time.monotonic()
    print(f"{len(todo)} fits to do, {len(rows)} rows in {store.path}", flush=True)
    for i, job in enumerate(todo):
        if options.budget is not None and time.monotonic() - start > options.budget:
            print(f"Stopped after {options.budget:.0f} s with {len(todo) - i} fits to do; run again to go on.")
            return
        if job.method.name in left_out:
            continue
        try:
            row = run_job(job, environment) | {"manifest": name}
        except Unavailable as error:
            left_out.add(job.method.name)
            print(f"{job.method.name} is left out: {error}", flush=True)
            continue
        store.add([row], {name: about})
        print(f"{i + 1}/{len(todo)} {progress(row)}", flush=True)


def progress(row: Row) -> str:
    """One line: set, split, method, accuracy, seconds."""
    told = f"accuracy {row['accuracy']:.4f}" if "accuracy" in row else f"failed: {row['error']}"
    return f"{row['set']} split {row['split']}, {row['task']}, {row['method']}: {told}, {row['seconds']:.1f} s"


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"folder with multiview and mnist (default: ${VARIABLE})")
    parser.add_argument("--results", type=Path, default=RESULTS / "mkl.json", help="file of results")
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="these sets only")
    parser.add_argument("--methods", nargs="+", metavar="NAME", help='these methods only, such as bochner or "best single"')
    parser.add_argument("--task", choices=(CLEAN, NOISY), help="without views of noise only, or with them only")
    parser.add_argument("--splits", nargs="+", type=int, help=f"default: five; twenty of sets below {FEW_ROWS} rows")
    parser.add_argument("--fresh", action="store_true", help="fit again what already has a row")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="start no new fit after this time")
    parser.add_argument(
        "--python", metavar="PYTHON", help="interpreter that has MKLpy and himalaya (default: made in build/)"
    )
    parser.add_argument("--limit", type=float, default=1800.0, metavar="S", help="seconds after which a peer is stopped")
    parser.add_argument("--list", action="store_true", help="no run: list the fits that would be done, in order")
    parser.add_argument("--merge", type=Path, nargs="+", metavar="FILE", help="no run: take over the rows of other files")
    parser.add_argument("--table", action="store_true", help="no run: rewrite the tables and the figure from the file")
    return parser.parse_args()


def main() -> None:
    """Run, list or rewrite the tables."""
    options = parse()
    store = Store(options.results)
    if reported(store, options, write_report):
        return
    try:
        sets = find_sets(data_folder(options.data))
    except FileNotFoundError as error:
        raise SystemExit(f"{error}\nThis benchmark reads\n{LAYOUT}") from None
    names = chosen(options.sets, [data.name for data in sets], "set")
    methods = chosen(options.methods, [method.name for method in METHODS], "method")
    todo = plan(
        [data for data in sets if data.name in names],
        [method for method in METHODS if method.name in methods],
        options.splits,
    )
    todo = [job for job in todo if options.task in (None, job.key[0])]
    if options.list:
        print("\n".join(f"{job.cost:8.0f} s  {' '.join(map(str, job.key))}" for job in todo))
    else:
        run(todo, store, options)


if __name__ == "__main__":
    main()
