"""Hostile but legal data: a finite prediction no worse than the mean, or an error that says what to do, 10,000 times.

    python benchmarks/hostile.py               10,000 generated cases (hours of one core; goes on where it was stopped)
    python benchmarks/hostile.py --quick       500 cases
    python benchmarks/hostile.py --jobs 4      in so many processes
    python benchmarks/hostile.py --peers       the same generated data for peers (scikit-learn's, and GPyTorch and xRFM where
                                               they can be imported), and ours beside them, joined to the stored results
    python benchmarks/hostile.py --case "..."  one case again, by its line
    python benchmarks/hostile.py --table       no run: rewrite the tables of docs/reliability.md

Generators, judge and estimators are those of tests/hostile. Chunk k is what hypothesis makes of the seed SEED + k; a failure
is kept with its seed and its line.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from harness import ROOT, describe, manifest, markdown_table, read_results, replace_table, write_results, write_text
from hypothesis import HealthCheck, Phase, given, seed, settings
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(ROOT))
from tests.hostile import cases, estimators

DOCUMENT = ROOT / "docs" / "reliability.md"
N_CASES, N_QUICK, N_PEERS, CHUNK, SEED = 10_000, 500, 500, 50, 20261119
KEPT = ROOT / "build" / "hostile"
RESULTS = ("finite", "error", "failed")
AT_DEFAULTS = ", default settings"
OURS_BESIDE = tuple(name + way for name in ("KernelRegressor", "KernelClassifier") for way in ("", AT_DEFAULTS))
"""Those of ours that are asked about the cases of peers, on plain settings (few features) and on their defaults."""
OF_PEERS = ("finite", "error", "scaler", "failed")
"""What may come of a case of a peer: "scaler" is a failure of the scalers before it."""


def one_thread() -> None:
    """Let BLAS have one thread in each process: they fill the cores already."""
    threadpool_limits(1)


def generated(number: int, size: int = CHUNK) -> list[cases.Case]:
    """The cases of a chunk, those that hypothesis makes of its seed."""
    found: list[cases.Case] = []

    @seed(SEED + number)
    @settings(
        max_examples=size, database=None, phases=(Phase.generate,), deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(cases.cases(estimators.learners(), estimators.is_classifier))
    def collect(case: cases.Case) -> None:
        found.append(case)

    collect()
    return list(dict.fromkeys(found))


def run_chunk(number: int, folder: Path) -> list[dict[str, Any]]:
    """The outcome of every case of a chunk; kept in a file, and read from there if it is there, and nothing failed."""
    path = folder / f"seed-{SEED + number}.json"
    if path.exists():
        kept: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        if not any(row["result"] == "failed" for row in kept):
            return kept
    commit = manifest(None)["commit"]
    rows = [outcome_of(case, SEED + number) | {"commit": commit[:7]} for case in generated(number)]
    write_text(path, json.dumps(rows))
    return rows


def outcome_of(case: cases.Case, number: int) -> dict[str, Any]:
    """One row."""
    found = estimators.attempt(case)
    return {"seed": number, "case": str(case), "result": found.result, "message": found.message}


def run(n_cases: int, jobs: int) -> dict[str, Any]:
    """Chunks until there are so many different cases."""
    rows: dict[str, dict[str, Any]] = {}
    number = 0
    with ProcessPoolExecutor(jobs, initializer=one_thread) as pool:
        while len(rows) < n_cases:
            missing = -(-(n_cases - len(rows)) // CHUNK)
            for found in pool.map(partial(run_chunk, folder=KEPT), range(number, number + missing)):
                rows.update((row["case"], row) for row in found)
                print(f"{len(rows):,} of {n_cases:,} cases", file=sys.stderr)
            number += missing
    return summary(list(rows.values())) | {"first_seed": SEED, "seeds": number}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts by estimator and by kind, the failures, and what errors said."""
    by_estimator: dict[str, Counter[str]] = {}
    by_kind: dict[str, Counter[str]] = {}
    said: Counter[str] = Counter()
    for row in rows:
        case = cases.Case.parse(row["case"])
        by_estimator.setdefault(case.estimator, Counter())[row["result"]] += 1
        asked = [f"engine: {case.engine}", f"loss: {case.loss}", f"variant: {case.variant}"]
        for kind in dict.fromkeys([*case.kinds, *asked]):
            by_kind.setdefault(kind, Counter())[row["result"]] += 1
        if row["result"] == "error":
            said[row["message"][:160]] += 1
    return {
        "cases": len(rows),
        "commits": dict(Counter(row["commit"] for row in rows)),
        "by_estimator": {name: dict(counts) for name, counts in sorted(by_estimator.items())},
        "by_kind": {kind: dict(counts) for kind, counts in sorted(by_kind.items())},
        "failures": [row for row in rows if row["result"] == "failed"],
        "errors_said": dict(said.most_common(60)),
    }


def peer_cases(n: int) -> dict[bool, list[cases.Case]]:
    """The first cases on the host whose options are plain, of regressors and of classifiers, without the largest."""
    found: dict[bool, list[cases.Case]] = {False: [], True: []}
    number = 0
    while min(map(len, found.values())) < n:
        for case in generated(10**6 + number):
            classifier = estimators.is_classifier(case.estimator)
            usual = case.target not in (*cases.ROWS, "1000-targets") and case.variant not in cases.NOT_NEGATIVE
            if usual and len(found[classifier]) < n:
                found[classifier].append(replace(case, loss="squared", engine="threads", variant="plain", weights="none"))
        number += 1
    return found


def run_peer(name: str, found: dict[bool, list[cases.Case]]) -> dict[str, Any]:
    """Counts of a peer, or of one of ours, on the same data."""
    import hostile_peers

    ours = name in OURS_BESIDE
    if not ours:
        hostile_peers.warm_up(name)
    estimator = name.removesuffix(AT_DEFAULTS)
    classifier = estimators.is_classifier(estimator) if ours else hostile_peers.PEERS[name][1]
    counts: Counter[str] = Counter()
    why: Counter[str] = Counter()
    for case in found[classifier]:
        if not ours:
            ask = partial(hostile_peers.attempt_peer, name, case)
        elif name.endswith(AT_DEFAULTS):
            ask = partial(hostile_peers.attempt_ours, estimator, case)
        else:
            ask = partial(estimators.attempt, replace(case, estimator=estimator))
        outcome = hostile_peers.isolated(ask)
        counts[outcome.result] += 1
        if outcome.result in ("failed", "scaler"):
            why[f"{outcome.result}: {outcome.message[:100]}"] += 1
    return {"cases": len(found[classifier]), **{key: counts[key] for key in OF_PEERS}, "why": dict(why.most_common(8))}


def run_peers(n: int, jobs: int) -> dict[str, Any]:
    """All peers that are there, and ours."""
    import hostile_peers

    found = peer_cases(n)
    names = [*OURS_BESIDE, *hostile_peers.there()]
    with ProcessPoolExecutor(jobs, initializer=one_thread) as pool:
        return dict(zip(names, pool.map(partial(run_peer, found=found), names), strict=True))


def tables(results: dict[str, Any]) -> str:
    """Ours by estimator, and peers beside ours."""
    parts = []
    if "ours" in results:
        counts = results["ours"]["by_estimator"]
        rows = [[f"`{name}`", *_numbers(each)] for name, each in counts.items()]
        total = {key: sum(each.get(key, 0) for each in counts.values()) for key in RESULTS}
        header = ["estimator", "cases", "finite, no worse than the mean", "error that says what to do", "anything else"]
        parts.append(markdown_table(header, [*rows, ["all", *_numbers(total)]]))
        ours = results["ours"]
        last = ours["first_seed"] + ours["seeds"] - 1
        seeds = f"The cases of seeds {ours['first_seed']} to {last}, in parts that were run at "
        commits = ", ".join(f"{commit} ({n:,})" for commit, n in ours["commits"].items())
        parts.append(f"{seeds}commits {commits}; a part with a failure is run again.\n{describe(ours['about'])}")
    if "peers" in results:
        header = [
            "on plain settings, if nothing else is said",
            "cases",
            "finite, no worse than the mean",
            "error that says what to do",
            "in the scaler, before the peer",
            "anything else",
        ]
        rows = [[_named(name), *_numbers_of_peer(name, each)] for name, each in results["peers"]["counts"].items()]
        parts.append(markdown_table(header, rows))
        parts.append(describe(results["peers"]["about"]))
    return "\n\n".join(parts)


def _numbers(counts: dict[str, Any]) -> list[str]:
    values = [counts.get(key, 0) for key in RESULTS]
    return [f"{value:,}" for value in [sum(values), *values]]


def _numbers_of_peer(name: str, counts: dict[str, Any]) -> list[str]:
    """The same with failures of the scaler apart; ours have none, and earlier runs have them among the rest."""
    cells = [f"{counts['cases']:,}", *(f"{counts.get(key, 0):,}" for key in OF_PEERS)]
    cells[3] = "-" if name in OURS_BESIDE else cells[3] if "scaler" in counts else "not told apart"
    return cells


def _named(name: str) -> str:
    if name not in OURS_BESIDE:
        return name
    return f"`{name.removesuffix(AT_DEFAULTS)}` (ours{AT_DEFAULTS if name.endswith(AT_DEFAULTS) else ''})"


def stored(name: str) -> dict[str, Any]:
    """The results that are there."""
    try:
        return dict(read_results(name)[0])
    except FileNotFoundError:
        return {}


def main() -> None:
    """Run, write the results, and say what came of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{N_QUICK} cases only, kept apart")
    parser.add_argument("--peers", action="store_true", help="ask peers")
    parser.add_argument("--cases", type=int, default=None, help="how many cases")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--case", default=None, help="one case, by its line")
    parser.add_argument("--table", action="store_true", help="rewrite the tables from the stored results")
    options = parser.parse_args()
    if options.case:
        print(estimators.attempt(cases.Case.parse(options.case)))
        return
    name = "hostile-quick" if options.quick else "hostile"
    packages = ("bochner", "numpy", "scipy", "scikit-learn", "torch", "dask", "hypothesis", "gpytorch", "xrfm")
    if not options.table:
        about = manifest(SEED, packages)
        if options.peers:
            part = {"peers": {"counts": run_peers(options.cases or N_PEERS, options.jobs), "about": about}}
        else:
            n_cases = options.cases or (N_QUICK if options.quick else N_CASES)
            part = {"ours": run(n_cases, options.jobs) | {"about": about}}
            for row in part["ours"]["failures"][:20]:
                print(row["message"], "\n   ", row["case"])
        write_results(name, stored(name) | part, about)
    results = stored(name)
    print(tables(results))
    if not options.quick:
        replace_table(DOCUMENT, "hostile", tables(results))


if __name__ == "__main__":
    main()
