"""What effort="fast", "default" and "best" cost and gain, and xRFM beside them: all on the cores of one machine, no GPU.

    python benchmarks/efforts.py                     what benchmarks/results/efforts.json does not hold yet; hours
    python benchmarks/efforts.py --sets housing kin40k --methods fast default --fresh
    python benchmarks/efforts.py --table             no run: rewrite the tables of docs/learning.md

Sets, splits and scores are those of ``uci.py``: the root mean squared error of the standardised target, the error rate of
classes, on test rows. All is left at its defaults but ``effort``. Times count all tuning and are seconds of cores, over all
threads, so that other programs of the machine do not count. effort="best" is measured
up to BEST_ROWS rows here, on larger sets it is for a GPU: see ``uci.py``. xRFM is measured where it is installed.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from statistics import fmean
from typing import Any

from harness import RESULTS, ROOT, describe, markdown_table, replace_table
from uci import Row, Store, chosen, parser, plan, reported, run
from uci_data import DataSet, data_folder, find_sets
from uci_methods import Method, fit_bochner, fit_bochner_classes, fit_xrfm, fit_xrfm_classes

SETS = ("housing", "concrete", "pumadyn32nm", "elevators", "kin40k", "spambase", "pendigits")
MANY_ROWS, TIMES_FASTER = 30_000, 10
"""On sets of so many rows to learn from xRFM should take so many times as long as we do by default."""
BEST_ROWS = 10_000
"""Most rows of effort="best"."""
EFFORTS = ("fast", "default", "best")
SECONDS_A_ROW = {"fast": 0.005, "default": 0.01, "best": 0.05}
PEER = "xrfm"
SCORE = {"regression": "rmse", "classification": "error_rate"}
DOCUMENT = ROOT / "docs" / "learning.md"


def methods() -> list[Method]:
    """Ours with every effort, and xRFM."""
    found = []
    for effort in EFFORTS:
        common = {"name": effort, "cost": partial(_cost, effort), "takes": partial(_takes, effort)}
        for task, fit in (("regression", fit_bochner), ("classification", fit_bochner_classes)):
            found.append(Method(task=task, fit=partial(fit, effort=effort, device=None), **common))
    common = {"name": PEER, "cost": lambda data: 1e-6 * data.n**2, "takes": lambda _: find_spec("xrfm") is not None}
    return [
        *found,
        Method(task="regression", fit=fit_xrfm, **common),
        Method(task="classification", fit=fit_xrfm_classes, **common),
    ]


def _cost(effort: str, data: DataSet) -> float:
    return 10 + SECONDS_A_ROW[effort] * data.n


def _takes(effort: str, data: DataSet) -> bool:
    return effort != "best" or data.n <= BEST_ROWS


def table(rows: list[Row], manifests: dict[str, Any]) -> str:
    """Scores and seconds of every effort on every set, means over splits."""
    names = (*EFFORTS, PEER)
    rows = [row for row in rows if "error" not in row]
    sizes = {row["set"]: row["n"] + row["n_test"] for row in rows}
    lines = []
    for name in sorted(sizes, key=lambda name: (sizes[name], name)):
        of_method = {method: [row for row in rows if (row["set"], row["method"]) == (name, method)] for method in names}
        errors = [_mean([row[SCORE[row["task"]]] for row in some], 4) for some in of_method.values()]
        seconds = [_mean([row["core_seconds"] for row in some], 1) for some in of_method.values()]
        lines.append([name, f"{sizes[name]:,}", str(len(of_method["default"])), *errors, *seconds])
    header = ["set", "rows", "splits", *(f"error, {name}" for name in names), *(f"core seconds, {name}" for name in names)]
    return "\n\n".join([markdown_table(header, lines), *_verdicts(rows), *_manifests(rows, manifests)])


def _verdicts(rows: list[Row]) -> list[str]:
    """How many times as long as effort="default" xRFM takes on each large set."""
    seconds: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if row["n"] >= MANY_ROWS:
            seconds.setdefault(row["set"], {}).setdefault(row["method"], []).append(row["core_seconds"])
    ratios = {name: fmean(of[PEER]) / fmean(of["default"]) for name, of in seconds.items() if {PEER, "default"} <= set(of)}
    return [
        f"- {name}: {PEER} takes {ratio:.1f} times the core seconds of the default, goal at least {TIMES_FASTER}: "
        f"{'reached' if ratio >= TIMES_FASTER else 'missed'}."
        for name, ratio in ratios.items()
    ]


def _manifests(rows: list[Row], manifests: dict[str, Any]) -> list[str]:
    """Where, when and with what each row was measured."""
    made: dict[str, list[str]] = {}
    for row in rows:
        made.setdefault(row["manifest"], []).append(f"{row['set']} {row['method']}")
    told = ((", ".join(names), manifests[name]) for name, names in made.items() if name in manifests)
    return [f"{names}: {describe(about)}" for names, about in told]


def _mean(values: list[float], digits: int) -> str:
    return f"{fmean(values):.{digits}f}" if values else ""


def write(rows: list[Row], manifests: dict[str, Any]) -> None:
    """Rewrite the table of the documentation."""
    replace_table(DOCUMENT, "efforts", table(rows, manifests))


def main() -> None:
    """Run, merge or rewrite the table."""
    options = parser(__doc__, RESULTS / "efforts.json").parse_args()
    store = Store(options.results)
    if reported(store, options, write):
        return
    try:
        sets = find_sets(data_folder(options.data))
    except FileNotFoundError as error:
        raise SystemExit(str(error)) from None
    names = chosen(options.sets, SETS, "set")
    wanted = chosen(options.methods, (*EFFORTS, PEER), "method")
    todo = plan(
        (data for data in sets if data.name in names and options.task in (None, data.task)),
        (method for method in methods() if method.name in wanted),
        options.splits or [0],
    )
    if options.list:
        print("\n".join(f"{job.cost:8.0f} s  {' '.join(map(str, job.key))}" for job in todo))
    else:
        run(todo, store, options)


if __name__ == "__main__":
    main()
