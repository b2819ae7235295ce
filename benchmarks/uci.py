"""Accuracy of KernelRegressor and KernelClassifier beside tuned peers, the time of all tuning counted.

    python benchmarks/uci.py                     what benchmarks/results/uci.json does not hold yet; hours
    python benchmarks/uci.py --sets airfoil wine --methods bochner grid --splits 0 --fresh
    python benchmarks/uci.py --budget 3000       start no new fit after 3000 seconds; run again to go on
    python benchmarks/uci.py --merge FILE        no run: take over the rows of files made elsewhere
    python benchmarks/uci.py --table             no run: rewrite the tables of docs/benchmarks.md and the figure

Regression: the UCI sets of at least 500 rows with their own splits, all ten where there are fewer than 2000 rows (a test
part of 50 to 160 rows leaves much to chance), the first three of larger sets; columns and target are standardised by the
training rows, and the score is the root mean squared error (RMSE) of the standardised target. Classification: PMLB sets,
split 80/20 by class and standardised, and MNIST (its own split, pixels from 0 to 1); the scores are error rate and log
loss. ``seconds`` is the time of a fit with all its tuning, ``core_seconds`` what its threads spent on processors together,
and ``predict_seconds`` the time of the predictions on the test rows.

- bochner: KernelRegressor or KernelClassifier with effort="default", from 2000 rows on on a GPU where there is one.
- bochner fast: effort="fast" with n_features=4000, the paper's learner; bochner best: effort="best", for few sets on a GPU.
- grid, regression: RBFSampler(n_components=4000) and Ridge(solver="cholesky"), 5 gammas x 3 penalties by 3 folds, refitted
  on all rows. It gets the results of GridSearchCV in less time, since work that a plain search repeats is shared: this
  flatters its time (see uci_methods.py, which also holds the ranges of all searches).
- grid, classification: the same features and LogisticRegression, 5 gammas x 3 values of C by accuracy on at most 5000 rows
  (the features shared likewise), then refitted on all rows; at most 100 iterations each, scikit-learn's default.
- kernel ridge: the grid of the regression on the full kernel matrix, up to 5000 training rows.
- gp gaussian, gp matern32: exact Gaussian processes with one length scale a column, by GPyTorch where it is installed (``pip
  install gpytorch``, see uci_gp.py); beyond 2000 rows only on a GPU.
- svc: 5 gammas x 3 values of C by accuracy; beyond 8000 training rows tuned on 5000 of them; up to 20,000. No log loss.
- boosted trees: HistGradientBoosting, stopped early, 2 learning rates x 3 sizes of tree by 3 folds; for classes 2 x 2 by
  accuracy on at most 8000 rows, then refitted on all rows.
- xrfm: xRFM by default, where it is installed (``pip install xrfm``); beyond 10,000 rows only on a GPU.

Rows are written as soon as they are there, cheap fits first, and a rerun leaves out those that exist unless --fresh is
given. A method that fails leaves a row with its error. Every row names the manifest (machine, versions, commit) it
was made under. The data lie in the folder that --data or the environment variable BOCHNER_DATA names; docs/benchmarks.md
says what it holds.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from harness import PACKAGES, RESULTS, manifest, write_text
from sklearn.metrics import log_loss
from uci_data import VARIABLE, DataSet, Split, data_folder, find_sets
from uci_methods import METHODS, Method, Run
from uci_report import write_report

Row = dict[str, Any]
Key = tuple[str, str, int, str]
SMALL = 2000
"""Sets of fewer rows have so few test rows that all of their ten splits are measured, of larger sets three."""


@dataclass(frozen=True)
class Job:
    """One fit: a method on one split of a set."""

    data: DataSet
    split: int
    method: Method

    @property
    def key(self) -> Key:
        """What tells rows apart."""
        return self.data.task, self.data.name, self.split, self.method.name

    @property
    def cost(self) -> float:
        """Rough seconds, to run cheap jobs first."""
        return self.method.cost(self.data)


def plan(sets: Iterable[DataSet], methods: Iterable[Method], splits: list[int] | None = None) -> list[Job]:
    """All jobs of these sets and methods, the cheapest first; ``splits`` None: as many as the size of a set asks for."""
    methods = list(methods)
    jobs = [
        Job(data, split, method)
        for data in sets
        for method in methods
        if method.task == data.task and method.takes(data)
        for split in data.splits(_wanted(data, splits, method))
    ]
    return sorted(jobs, key=lambda job: (job.cost, job.key))


def _wanted(data: DataSet, splits: list[int] | None, method: Method) -> list[int]:
    if splits is None:
        splits = list(range(10 if data.n < SMALL else 3))
    return [split for split in splits if split == 0] if method.one_split else splits


def key_of(row: Row) -> Key:
    """What tells rows apart."""
    return row["task"], row["set"], row["split"], row["method"]


@dataclass(frozen=True)
class Store:
    """A file {"manifests": {id: manifest}, "rows": [row, ...]}, written anew with every row."""

    path: Path

    def read(self) -> tuple[list[Row], dict[str, Any]]:
        """Rows and manifests; none where there is no file."""
        if not self.path.exists():
            return [], {}
        stored = json.loads(self.path.read_text(encoding="utf-8"))
        return stored["rows"], stored["manifests"]

    def add(self, rows: list[Row], manifests: dict[str, Any]) -> None:
        """Merge rows into the file, and keep the manifests that rows still name."""
        old, known = self.read()
        merged = merge(old, rows)
        used = {row["manifest"] for row in merged}
        kept = {name: about for name, about in (known | manifests).items() if name in used}
        write_text(self.path, json.dumps({"manifests": kept, "rows": merged}, indent=1) + "\n")


def merge(old: list[Row], new: list[Row]) -> list[Row]:
    """All rows, one for each key and in the order of the keys: the one of the later date."""
    latest: dict[Key, Row] = {}
    for row in [*old, *new]:
        other = latest.get(key_of(row))
        if other is None or row["date"] >= other["date"]:
            latest[key_of(row)] = row
    return [latest[key] for key in sorted(latest)]


def about_this_run() -> tuple[str, dict[str, Any]]:
    """The manifest of this process and its id."""
    about = manifest(None, (*PACKAGES, "torch", "gpytorch", "xrfm"))
    about["gpu"] = _gpu()
    lasting = json.dumps({key: value for key, value in about.items() if key != "date"}, sort_keys=True)
    return hashlib.sha256(lasting.encode()).hexdigest()[:8], about


def _gpu() -> str | None:
    if find_spec("torch") is None:
        return None
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def run_job(job: Job, jobs: int | None) -> Row:
    """Fit and score; the row of the result, or of the error that a method raised."""
    split = job.data.load(job.split)
    row: Row = dict(zip(("task", "set", "split", "method"), job.key, strict=True))
    row |= {"n": len(split.X), "n_test": len(split.X_test), "m": split.X.shape[1], "d": job.method.d}
    gc.collect()
    start, of_cores = time.perf_counter(), time.process_time()
    try:
        model, row["settings"] = job.method.fit(split.X, split.y, Run(seed=job.split, jobs=jobs))
        row |= {"seconds": time.perf_counter() - start, "core_seconds": time.process_time() - of_cores}
        start = time.perf_counter()
        row |= scores(model, split, job.data.task)
        row["predict_seconds"] = time.perf_counter() - start
    except Exception as error:  # noqa: BLE001 - a peer may fail in any way, and the others go on
        row["error"] = f"{type(error).__name__}: {error}"[:300]
        row.setdefault("seconds", time.perf_counter() - start)
    return row | {"date": datetime.now(UTC).isoformat(timespec="seconds")}


def scores(model: Any, split: Split, task: str) -> dict[str, float]:
    """RMSE, or error rate and (where there are probabilities) log loss, on the test rows."""
    predicted = np.asarray(model.predict(split.X_test))
    if task == "regression":
        rmse = float(np.sqrt(np.mean((predicted.reshape(-1) - split.y_test) ** 2)))
        if not np.isfinite(rmse):
            raise ValueError("some predictions are not finite")
        return {"rmse": rmse}
    found = {"error_rate": float(np.mean(predicted != split.y_test))}
    if hasattr(model, "predict_proba"):
        probabilities = np.asarray(model.predict_proba(split.X_test), dtype=np.float64)
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        found["log_loss"] = float(log_loss(split.y_test, probabilities, labels=np.arange(probabilities.shape[1])))
    return found


def run(todo: Sequence[Job], store: Store, options: argparse.Namespace) -> None:
    """Run the jobs that have no row yet, write each row at once, and stop when the budget is spent."""
    rows, _ = store.read()
    done = set() if options.fresh else {key_of(row) for row in rows}
    part, n_parts = options.part
    todo = [job for job in todo if job.key not in done][part::n_parts]
    name, about = about_this_run()
    start = time.monotonic()
    print(f"{len(todo)} fits to do, {len(rows)} rows in {store.path}", flush=True)
    for i, job in enumerate(todo):
        if options.budget is not None and time.monotonic() - start > options.budget:
            print(f"Stopped after {options.budget:.0f} s with {len(todo) - i} fits to do; run again to go on.")
            return
        row = run_job(job, options.jobs) | {"manifest": name}
        store.add([row], {name: about})
        print(f"{i + 1}/{len(todo)} {progress(row)}", flush=True)


def progress(row: Row) -> str:
    """One line: set, split, method, scores, seconds."""
    found = [f"{key.replace('_', ' ')} {row[key]:.4f}" for key in ("rmse", "error_rate", "log_loss") if key in row]
    told = ", ".join(found) or f"failed: {row['error']}"
    return f"{row['set']} split {row['split']} {row['method']}: {told}, {row['seconds']:.1f} s"


def chosen(names: list[str] | None, known: Sequence[str], kind: str) -> list[str]:
    """The names asked for, or all that are known."""
    for name in names or ():
        if name not in known:
            raise SystemExit(f"There is no {kind} {name!r}; there are {', '.join(dict.fromkeys(known))}.")
    return names or list(known)


def reported(store: Store, options: argparse.Namespace, write: Callable[[list[Row], dict[str, Any]], None]) -> bool:
    """Whether the options ask for no run: other rows are taken over, or the report is written."""
    for other in options.merge or ():
        if not other.exists():
            raise SystemExit(f"{other} does not exist.")
        store.add(*Store(other).read())
    if options.table:
        rows, manifests = store.read()
        if not rows:
            raise SystemExit(f"{store.path} holds no rows: run the benchmark first, without --table.")
        write(rows, manifests)
    return bool(options.merge or options.table)


def parser(about: str | None, results: Path) -> argparse.ArgumentParser:
    """The options of a benchmark that keeps its rows in a file."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0] if about else None)
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"folder with uci, pmlb and mnist (default: ${VARIABLE})")
    parser.add_argument("--results", type=Path, default=results, help="file of results")
    parser.add_argument("--task", choices=("regression", "classification"), help="one of both tasks only")
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="these sets only")
    parser.add_argument(
        "--methods", nargs="+", metavar="NAME", help='these methods only, such as bochner or "boosted trees"'
    )
    parser.add_argument("--splits", nargs="+", type=int, help="default: 0 to 9 below 2000 rows, else 0 to 2")
    parser.add_argument("--fresh", action="store_true", help="fit again what already has a row")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="start no new fit after this time")
    told = "of the fits that are to do, those that leave I when numbered by N: for N processes, each with its own --results"
    parser.add_argument("--part", nargs=2, type=int, default=(0, 1), metavar=("I", "N"), help=told)
    parser.add_argument("--jobs", type=int, default=-1, help="processes of the searches of svc and of the logistic grid")
    parser.add_argument("--list", action="store_true", help="no run: list the fits that would be done, in order")
    parser.add_argument("--merge", type=Path, nargs="+", metavar="FILE", help="no run: take over the rows of other files")
    parser.add_argument("--table", action="store_true", help="no run: rewrite the tables and figures from the file")
    return parser


def main() -> None:
    """Run, merge or rewrite the tables."""
    options = parser(__doc__, RESULTS / "uci.json").parse_args()
    store = Store(options.results)
    if reported(store, options, write_report):
        return
    try:
        sets = find_sets(data_folder(options.data))
    except FileNotFoundError as error:
        raise SystemExit(str(error)) from None
    names = chosen(options.sets, [data.name for data in sets], "set")
    methods = chosen(options.methods, [method.name for method in METHODS], "method")
    todo = plan(
        (data for data in sets if data.name in names and options.task in (None, data.task)),
        (method for method in METHODS if method.name in methods),
        options.splits,
    )
    if options.list:
        print("\n".join(f"{job.cost:8.0f} s  {' '.join(map(str, job.key))}" for job in todo))
    else:
        run(todo, store, options)


if __name__ == "__main__":
    main()
