"""Races A, B and C of ``grouplasso.py``: solvers on one problem, each in a process of its own, judged by one objective."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from grouplasso_problem import Problem, mnist_problem
from grouplasso_solvers import ABSENT
from harness import Timing, markdown_table
from peers import THREADS, Unavailable
from skl_common import say

OURS = "bochner"
TOLERANCES = {
    OURS: (1e-6, 1e-5, 1e-4),
    "adelie": (1e-7, 1e-9, 1e-10, 1e-11, 1e-12),
    "adelie, Gram": (1e-7, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13),
    "skglm": (1e-4, 1e-5, 1e-6),
    "celer": (1e-4, 1e-6, 1e-7),
}
"""Tolerances of each solver, in its own meaning, the default of its estimator first: all of ours, those of peers until one
is CLOSE."""
CLOSE, NEARLY = 1e-6, 1e-5
"""Close enough, for all solvers: a relative excess over the best objective, at every penalty; and ten times as much."""
FEW_CLASSES = {"skglm": 2, "celer": 2}
"""Slow solvers of one class at a time are measured on so many classes; the table gives the time of all in proportion."""
PROGRAM = "import sys, json; from grouplasso_solvers import child; child(sys.argv[1], json.loads(sys.argv[2]))"


@dataclass(frozen=True, kw_only=True)
class Race:
    """Sizes of a race: rows, features a kernel (of eight), digits that are told from the rest."""

    rows: int
    per_kernel: int
    digits: tuple[int, ...] = (3,)


RACES = {
    "A": Race(rows=5_000, per_kernel=100),
    "B": Race(rows=5_000, per_kernel=100, digits=tuple(range(10))),
    "C": Race(rows=20_000, per_kernel=500),
}
QUICK_RACES = {
    "A": Race(rows=500, per_kernel=20),
    "B": Race(rows=500, per_kernel=20, digits=(0, 1, 2, 3)),
    "C": Race(rows=1_000, per_kernel=40),
}


@dataclass(frozen=True, kw_only=True)
class Peers:
    """Who runs, and by which interpreters: ``pythons`` maps solvers to them, all others take this one."""

    names: tuple[str, ...]
    pythons: Mapping[str, str] = field(default_factory=dict)
    limit_s: float = 300.0
    """A run that takes longer is stopped, and its solver is not asked for a smaller tolerance."""
    repeats: int = 3
    again_s: float = 20.0


def race(name: str, config: Race, folder: Path, peers: Peers) -> dict[str, Any]:
    """Every solver with its tolerances; objectives, bounds and times."""
    problem = mnist_problem(folder, config.rows, config.per_kernel, config.digits)
    n, columns = problem.features.shape
    say(f"{name}: {n} x {columns}, {problem.targets.shape[1]} classes, {len(problem.alphas)} penalties")
    result = run_all(problem, peers)
    return {"rows": n, "kernels": len(np.unique(problem.groups)), "per_kernel": config.per_kernel, **result}


def run_all(problem: Problem, peers: Peers) -> dict[str, Any]:
    """All solvers on one problem, in the order in which they are named."""
    runs: list[dict[str, Any]] = []
    skipped: dict[str, str] = {}
    bound = np.full((problem.targets.shape[1], len(problem.alphas)), -np.inf)
    best = np.full(bound.shape, np.inf)
    with tempfile.TemporaryDirectory(prefix="grouplasso-") as temporary:
        store(problem, Path(temporary))
        for solver in peers.names:
            try:
                for run in solver_runs(problem, solver, peers, Path(temporary)):
                    runs.append(run)
                    if "stopped_s" in run:
                        break
                    objective = np.array(run["objective"])
                    bound[: len(objective)] = np.maximum(bound[: len(objective)], run.pop("bound"))
                    reference = np.where(np.isfinite(best), best, bound)[: len(objective)]
                    if solver != OURS and np.max(objective / reference) <= 1 + CLOSE:
                        break
            except Unavailable as error:
                skipped[solver] = str(error)
                say(f"   {solver} is left out: {error}")
            for objective in (np.array(run["objective"]) for run in runs if "objective" in run):  # what others must reach
                best[: len(objective)] = np.minimum(best[: len(objective)], objective)
    judge(runs, bound)
    return {"classes": problem.targets.shape[1], "alphas": problem.alphas.tolist(), "runs": runs, "skipped": skipped}


def store(problem: Problem, folder: Path) -> None:
    """The problem as the processes read it."""
    sizes = np.unique(problem.groups, return_counts=True)[1]
    arrays = {"features": problem.features, "targets": problem.targets, "sizes": sizes, "alphas": problem.alphas}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)


def solver_runs(problem: Problem, solver: str, peers: Peers, folder: Path) -> Iterator[dict[str, Any]]:
    """The runs of one solver, one a tolerance: with one thread and with all, of which the faster is kept."""
    classes = min(FEW_CLASSES.get(solver, problem.targets.shape[1]), problem.targets.shape[1])
    choices = sorted({1, os.cpu_count() or 1}, reverse=True)
    for number, tol in enumerate(TOLERANCES[solver]):
        best: dict[str, Any] | None = None
        for threads in choices:
            job = {"solver": solver, "tol": tol, "threads": threads, "classes": classes}
            run = run_one(problem, job, peers, folder)
            if best is None or run_seconds(run) < run_seconds(best):
                best = run
        if best is not None:
            yield {**best, "default": number == 0 and solver != OURS}


def run_seconds(run: Mapping[str, Any]) -> float:
    """The median time of a run; infinite where it was stopped."""
    return float(run.get("median_s", np.inf))


def run_one(problem: Problem, job: dict[str, Any], peers: Peers, folder: Path) -> dict[str, Any]:
    """One run in a process of its own: times, objectives and bounds, or the time at which it was stopped."""
    python = peers.pythons.get(job["solver"], sys.executable)
    order = json.dumps({**job, "repeats": peers.repeats, "again_s": peers.again_s})
    command = [python, "-W", "ignore", "-c", PROGRAM, str(folder), order]
    environment = os.environ | dict.fromkeys(THREADS, str(job["threads"]))
    title = f"   {job['solver']}, tol {job['tol']:g}, {job['threads']} threads"
    try:
        answer = subprocess.run(
            command, cwd=Path(__file__).parent, env=environment, capture_output=True, text=True, timeout=peers.limit_s
        )
    except subprocess.TimeoutExpired:
        say(f"{title}: stopped after {peers.limit_s:.0f} s")
        return {**job, "stopped_s": peers.limit_s}
    if answer.returncode == ABSENT:
        package = job["solver"].split(",")[0]
        raise Unavailable(f"{json.loads(answer.stdout)['absent']}; to have it run: {python} -m pip install {package}")
    if answer.returncode:
        raise Unavailable(f"it failed: {answer.stderr.strip().splitlines()[-1:]}")
    told = json.loads(answer.stdout.splitlines()[-1])
    coef, intercept = np.load(folder / "coef.npy"), np.load(folder / "intercept.npy")
    pairs = [problem.objective(coef[i], intercept[i], i) for i in range(len(coef))]
    objective, bound = (np.array(values) for values in zip(*pairs, strict=True))
    timing = Timing(tuple(told["seconds"]))
    say(f"{title}: {timing.median:.2f} s, objectives from {objective[0, 0]:.6f} to {objective[0, -1]:.6f} (first class)")
    return {
        **job,
        **timing.to_dict(),
        "version": told["version"],
        "numpy": told["numpy"],
        "objective": objective.tolist(),
        "bound": bound,
        "gap": float(np.max(1 - bound / objective)),
    }


def judge(runs: Sequence[dict[str, Any]], bound: np.ndarray) -> None:
    """Add to every run its largest relative excess over the best objective of its class and penalty, and over the bound."""
    finished = [run for run in runs if "objective" in run]
    best = np.full(bound.shape, np.inf)
    for run in finished:
        objective = np.array(run["objective"])
        best[: len(objective)] = np.minimum(best[: len(objective)], objective)
    for run in finished:
        objective = np.array(run["objective"])
        run["excess"] = float(np.max(objective / best[: len(objective)] - 1))
        run["excess_over_bound"] = float(np.max(objective / bound[: len(objective)] - 1))


def all_seconds(run: Mapping[str, Any], classes: int) -> float:
    """The time of all classes: as measured, or in proportion to those that were."""
    return float(run["median_s"]) * classes / run["classes"]


def race_table(entry: Mapping[str, Any]) -> str:
    """Every run of a race, and how much faster than each peer ours is, where that peer is close enough."""
    classes, rows = entry["classes"], []
    ours = fastest(entry, OURS, CLOSE)
    for run in entry["runs"]:
        tol = f"{run['tol']:g}" + (" (default)" if run.get("default") else "")
        if "median_s" not in run:
            rows.append([run["solver"], tol, str(run["threads"]), f"> {run['stopped_s']:.0f}", "", "", "", ""])
            continue
        seconds = all_seconds(run, classes)
        part = "" if run["classes"] == classes else f" ({run['classes']} classes x {classes / run['classes']:g})"
        ratio = f"{seconds / all_seconds(ours, classes):.2f}" if ours else ""
        last = f"{run['objective'][0][-1]:.6f}"
        tail = [last, f"{max(run['excess'], 0):.1e}", f"{max(run['gap'], 0):.1e}"]
        rows.append([run["solver"], tol, str(run["threads"]), f"{seconds:.3g}{part}", ratio, *tail])
    header = ["solver", "tolerance", "threads", "seconds", "ratio to ours", "last objective", "excess", "own gap"]
    lines = [markdown_table(header, rows, n_text=2)]
    if verdicts := _verdicts(entry, ours):
        lines.append("\n".join(verdicts))
    lines.extend(f"{solver} was left out: {why}." for solver, why in entry["skipped"].items())
    return "\n\n".join(lines)


def fastest(entry: Mapping[str, Any], solver: str, excess: float) -> Mapping[str, Any] | None:
    """The fastest run of a solver whose objectives are that close to the best."""
    near = [run for run in entry["runs"] if run["solver"] == solver and run.get("excess", np.inf) <= excess]
    return min(near, key=lambda run: all_seconds(run, entry["classes"]), default=None)


def _verdicts(entry: Mapping[str, Any], ours: Mapping[str, Any] | None) -> list[str]:
    """For each peer, its fastest run beside ours: as close to the best objective as ours, and ten times less close."""
    lines = []
    for solver in dict.fromkeys(run["solver"] for run in entry["runs"] if run["solver"] != OURS):
        told = []
        for excess in (CLOSE, NEARLY):
            peer = fastest(entry, solver, excess)
            if ours is not None and peer is not None:
                ratio = all_seconds(peer, entry["classes"]) / all_seconds(ours, entry["classes"])
                told.append(f"{ratio:.2f} times our time with objectives within {excess:g} of the best")
        lines.append(f"- {solver}: {', '.join(told) or f'no run came within {NEARLY:g} of the best objectives'}.")
    return lines
