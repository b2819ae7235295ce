"""Tables and the figure of ``uci.py``, from its rows alone.

Methods are compared on the splits that both have, times only where both ran on the same machine.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness import ROOT, describe, markdown_table, replace_table

Row = dict[str, Any]
OURS, PEER = "bochner", "grid"
COLUMNS = {
    "regression": (
        *("bochner", "bochner fast", "bochner best", "grid", "kernel ridge"),
        *("gp gaussian", "gp matern32", "boosted trees", "xrfm"),
    ),
    "classification": ("bochner", "bochner fast", "bochner best", "grid", "svc", "boosted trees", "xrfm"),
}
GOALS = {
    "bochner": {
        **{"elevators": 0.35, "kin40k": 0.056, "bike": 0.001, "parkinsons": 0.001, "pumadyn32nm": 0.215, "protein": 0.52},
        "mnist": 0.012,
    },
    "bochner best": {"kin40k": 0.037, "protein": 0.475},
    "bochner fast": {"elevators": 0.365, "kin40k": 0.13, "bike": 0.025, "pumadyn32nm": 0.215, "protein": 0.62},
}
"""RMSE (of classes, error rate) to reach on split 0, for each effort."""
RANKED = ("bochner", "bochner fast", "grid", "gp gaussian", "gp matern32", "boosted trees", "xrfm")
"""Methods that are ranked on sets that all of them have."""
TIED = 0.005
"""Ratios that differ from one by this are a tie."""
FEWEST_SPLITS = 3
"""Splits of the large sets."""
DOCUMENT = ROOT / "docs" / "benchmarks.md"
TICKS = (1e-4, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.5, 1, 2, 5, 10)
FIGURE = ROOT / "docs" / "figures" / "uci.png"
LOOKS = {
    "bochner": ("#0072b2", "o"),
    "grid": ("#555555", "|"),
    "kernel ridge": ("#009e73", "^"),
    "bochner fast": ("#56b4e9", "o"),
    "gp gaussian": ("#cc79a7", "D"),
    "gp matern32": ("#7d3c64", "d"),
    "boosted trees": ("#d55e00", "s"),
    "xrfm": ("#e6a000", "X"),
}
"""Colour (of Okabe and Ito, told apart by colour-blind people) and marker of each method."""


class Scores:
    """The rows of one task that hold a score, by set, method and split."""

    def __init__(self, rows: Sequence[Row], manifests: dict[str, Any], task: str) -> None:
        self.methods = COLUMNS[task]
        self.rows = {
            (row["set"], row["method"], row["split"]): row for row in rows if row["task"] == task and "error" not in row
        }
        self.failed = [row for row in rows if row["task"] == task and "error" in row]
        self._machines = {name: _machine(about) for name, about in manifests.items()}
        sizes = {row["set"]: row["n"] + row["n_test"] for row in self.rows.values()}
        self.sets = sorted(sizes, key=lambda name: (sizes[name], name))

    def of(self, name: str, method: str) -> list[Row]:
        """The rows of a method on a set, in the order of the splits."""
        return [row for (s, m, _), row in sorted(self.rows.items()) if (s, m) == (name, method)]

    def mean(self, name: str, method: str, key: str) -> float | None:
        """The mean over the splits; None where there is no such row."""
        values = [row[key] for row in self.of(name, method) if key in row]
        return statistics.fmean(values) if values else None

    def ratio(self, name: str, method: str, other: str, key: str, n_splits: int | None = None) -> float | None:
        """The ratio of means of two methods over the splits that both have; of times, over those on the same machine.

        ``n_splits``: of the first splits only.
        """
        pairs = [
            (row[key], self.rows[name, other, row["split"]][key])
            for row in self.of(name, method)
            if (n_splits is None or row["split"] < n_splits)
            and key in row
            and self._comparable(row, self.rows.get((name, other, row["split"])), key)
        ]
        if not pairs or not sum(pair[1] for pair in pairs):
            return None
        return sum(pair[0] for pair in pairs) / sum(pair[1] for pair in pairs)

    def _comparable(self, row: Row, other: Row | None, key: str) -> bool:
        if other is None or key not in other:
            return False
        return "seconds" not in key or self._machines[row["manifest"]] == self._machines[other["manifest"]]

    def best(self, name: str, key: str) -> str | None:
        """The method of the lowest score: the least ratio to ours over shared splits."""
        ratios = {method: self.ratio(name, method, OURS, key) for method in self.methods}
        found = {method: ratio for method, ratio in ratios.items() if ratio is not None}
        return min(found, key=lambda method: found[method]) if found else None

    def ratios(self, method: str, other: str, key: str) -> dict[str, float]:
        """The ratio on every set that has it."""
        found = {name: self.ratio(name, method, other, key) for name in self.sets}
        return {name: ratio for name, ratio in found.items() if ratio is not None}

    def cells(self, name: str, key: str, form: Callable[[float], str]) -> list[str]:
        """One cell a method: its mean, the best in bold, with the number of splits where that differs from ours."""
        cells = []
        for method in self.methods:
            mean, count = self.mean(name, method, key), len(self.of(name, method))
            text = "" if mean is None else form(mean)
            if text and self.best(name, key) == method:
                text = f"**{text}**"
            cells.append(f"{text} ({count})" if text and count != len(self.of(name, OURS)) else text)
        return cells


def _machine(about: dict[str, Any]) -> tuple[Any, ...]:
    """What must agree for two times to be compared."""
    threads = about["blas"][0]["num_threads"] if about["blas"] else None
    return about["cpu"], about["cores"], about["system"], threads, about.get("gpu")


def regression_table(scores: Scores) -> str:
    """RMSE of every method on every set, and the ratios of ours to the grid."""
    header = ["set", "rows", "columns", "splits", *scores.methods, f"{OURS} / {PEER}", f"{OURS}, s"]
    header.append(f"time {OURS} / {PEER}")
    rows = []
    for name in scores.sets:
        sizes = [*_sizes(scores, name), str(len(scores.of(name, OURS)))]
        ours = [scores.ratio(name, OURS, PEER, "rmse"), scores.mean(name, OURS, "seconds")]
        tail = [_ratio(ours[0]), _seconds(ours[1]), _ratio(scores.ratio(name, OURS, PEER, "seconds"))]
        rows.append([name, *sizes, *scores.cells(name, "rmse", "{:.4f}".format), *tail])
    return markdown_table(header, rows)


def classification_table(scores: Scores) -> str:
    """Error rates in percent, log losses and the ratios of ours to the grid."""
    losses = [f"log loss, {method}" for method in scores.methods if method != "svc"]
    header = ["set", "rows", "columns", *(f"{method}, %" for method in scores.methods), *losses, f"{OURS} / {PEER}"]
    header += [f"{OURS}, s", f"time {OURS} / {PEER}"]
    rows = []
    for name in scores.sets:
        errors = scores.cells(name, "error_rate", lambda value: f"{100 * value:.2f}")
        logs = [
            cell
            for cell, method in zip(scores.cells(name, "log_loss", "{:.3f}".format), scores.methods, strict=True)
            if method != "svc"
        ]
        ours = scores.ratio(name, OURS, PEER, "error_rate"), scores.mean(name, OURS, "seconds")
        tail = [_ratio(ours[0]), _seconds(ours[1]), _ratio(scores.ratio(name, OURS, PEER, "seconds"))]
        rows.append([name, *_sizes(scores, name), *errors, *logs, *tail])
    return markdown_table(header, rows)


def time_table(scores: Scores) -> str:
    """Seconds of a fit with its tuning, by set and method."""
    rows = [[name, *(_seconds(scores.mean(name, method, "seconds")) for method in scores.methods)] for name in scores.sets]
    return markdown_table(["seconds, tuning counted", *scores.methods], rows)


def _sizes(scores: Scores, name: str) -> list[str]:
    row = next(row for (s, _, _), row in scores.rows.items() if s == name)
    return [str(row["n"] + row["n_test"]), str(row["m"])]


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _met(reached: bool) -> str:
    return "reached" if reached else "missed"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def summary(scores: Scores, key: str) -> str:
    """On how many sets ours is better than the grid, the worst ratio, and the ratio of times."""
    ratios = scores.ratios(OURS, PEER, key)
    if not ratios:
        return f"No set has rows of both {OURS} and {PEER} yet."
    worst = max(ratios, key=lambda name: ratios[name])
    better = sum(ratio < 1 for ratio in ratios.values())
    text = (
        f"Better than the grid on {better} of {len(ratios)} sets; ratio of {key.replace('_', ' ')} to the grid's: "
        f"median {statistics.median(ratios.values()):.2f}, worst {ratios[worst]:.3f} ({worst})."
    )
    if key == "rmse":
        often, close = better >= 0.8 * len(ratios), ratios[worst] <= 1.02
        text += f" Goals: better on 80 %, {_met(often)}; never above 1.02, {_met(close)}. {_first_splits(scores, key)}"
    times = scores.ratios(OURS, PEER, "seconds")
    if times:
        text += (
            f" Time in units of the grid's: median {statistics.median(times.values()):.2f}, most {max(times.values()):.2f}."
        )
    return text


def _first_splits(scores: Scores, key: str) -> str:
    """The same of as many splits of every set as the large ones have."""
    some = {name: scores.ratio(name, OURS, PEER, key, n_splits=FEWEST_SPLITS) for name in scores.sets}
    ratios = {name: ratio for name, ratio in some.items() if ratio is not None}
    worst = max(ratios, key=lambda name: ratios[name])
    better = sum(ratio < 1 for ratio in ratios.values())
    return (
        f"On the first {FEWEST_SPLITS} splits of every set alone: better on {better} of {len(ratios)}, worst "
        f"{ratios[worst]:.3f} ({worst})."
    )


def goals(scores: Scores, key: str) -> str:
    """The goals on split 0 of each effort, reached or not."""
    rows = []
    for method, wanted in GOALS.items():
        for name, goal in wanted.items():
            row = scores.rows.get((name, method, 0))
            if name in scores.sets:
                verdict = "not measured" if row is None else "reached" if row[key] <= goal else "not reached"
                rows.append([method, name, str(goal), "" if row is None else f"{row[key]:.4f}", verdict])
    return markdown_table(["", "goal, split 0", f"{key.replace('_', ' ')} at most", "found", ""], rows) if rows else ""


def standing(scores: Scores, key: str) -> str:
    """Mean ranks on the sets that all have, and of ours against each: mean ratio, and sets won, tied and lost."""
    ratios = {method: {OURS: 1.0} if method == OURS else scores.ratios(method, OURS, key) for method in RANKED}
    methods = [method for method in RANKED if method == OURS or ratios[method]]
    shared = [name for name in scores.sets if all(m == OURS or name in ratios[m] for m in methods) and scores.of(name, OURS)]
    rows = []
    for method in methods:
        own = [
            1 + sum(_of(ratios, other, name) < _of(ratios, method, name) * (1 - 1e-9) for other in methods)
            for name in shared
        ]
        ours = scores.ratios(OURS, method, key) if method != OURS else {}
        counts = [
            sum(ratio < 1 - TIED for ratio in ours.values()),
            sum(abs(ratio - 1) <= TIED for ratio in ours.values()),
            sum(ratio > 1 + TIED for ratio in ours.values()),
        ]
        mean = f"{statistics.geometric_mean([max(r, 1e-3) for r in ours.values()]):.2f}" if ours else ""
        rows.append([method, f"{statistics.fmean(own):.2f}" if own else "", mean, *(map(str, counts) if ours else [""] * 3)])
    header = ["", f"mean rank on {len(shared)} sets", f"{OURS} in units of it", "won", "tied", "lost"]
    return (
        f"Ranks on the sets that all methods have; ratios of {key.replace('_', ' ')} over shared splits, geometric mean "
        f"over sets; within {TIED:.1%} is a tie:\n\n" + markdown_table(header, rows)
    )


def _of(ratios: dict[str, dict[str, float]], method: str, name: str) -> float:
    return 1.0 if method == OURS else ratios[method][name]


def losses(scores: Scores, keys: Sequence[str]) -> str:
    """Who beats ours, where, and by how much; and which fits failed."""
    lines = []
    for key in keys:
        for method in scores.methods[1:]:
            ratios = scores.ratios(OURS, method, key)
            lost = sorted((name for name in ratios if ratios[name] > 1), key=lambda name: -ratios[name])
            where = ", ".join(f"{name} ({ratios[name]:.2f})" for name in lost)
            if ratios:
                lines.append(
                    f"- {key.replace('_', ' ')}, {method}: {len(lost)} of {len(ratios)} sets lost"
                    + (f": {where}." if lost else ".")
                )
    lines += [f"- Failed: {row['method']} on {row['set']}, split {row['split']} ({row['error']})." for row in scores.failed]
    return (
        "Where we lose (our score in units of the winner's):\n\n" + "\n".join(lines)
        if lines
        else "Nothing to compare with yet."
    )


def machines(rows: Sequence[Row], manifests: dict[str, Any]) -> str:
    """Which rows were made where."""
    lines = []
    for name, about in manifests.items():
        mine = [row for row in rows if row["manifest"] == name]
        methods = ", ".join(sorted({row["method"] for row in mine}))
        gpu = f" GPU: {about['gpu']}." if about.get("gpu") else ""
        lines.append(f"- {len(mine)} fits ({methods}): {describe(about)}{gpu}")
    return "\n".join(lines)


def report(rows: Sequence[Row], manifests: dict[str, Any]) -> str:
    """All that stands between the markers of docs/benchmarks.md."""
    parts = []
    regression, classes = (Scores(rows, manifests, task) for task in COLUMNS)
    if regression.sets:
        parts += [
            "RMSE of the standardised target, mean over the splits, or over as many as in brackets; best in bold, by the "
            "splits that it shares with ours:",
            regression_table(regression),
            summary(regression, "rmse"),
            f"![RMSE of every method in units of the grid's, by set](figures/{FIGURE.name})",
            standing(regression, "rmse"),
            goals(regression, "rmse"),
            time_table(regression),
            losses(regression, ("rmse",)),
        ]
    if classes.sets:
        parts += [
            "### Classification",
            "Error rate and log loss, mean over the splits, best in bold; the last ratio is of error rates:",
            classification_table(classes),
            summary(classes, "error_rate"),
            standing(classes, "error_rate"),
            goals(classes, "error_rate"),
            time_table(classes),
            losses(classes, ("error_rate", "log_loss")),
        ]
    return "\n\n".join([*parts, machines(rows, manifests)])


def draw(scores: Scores, path: Path = FIGURE) -> None:
    """A dot for every method and set: its RMSE in units of the grid's, on a logarithmic axis."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    figure = Figure(figsize=(8, 1.4 + 0.34 * len(scores.sets)), layout="constrained")
    ax = figure.subplots()
    ax.axvline(1, color=LOOKS[PEER][0], linewidth=1.2, zorder=1)
    others = [method for method in scores.methods if method in LOOKS and method not in (OURS, PEER)]
    shifts = {method: 0.6 * k / len(others) - 0.3 for k, method in enumerate(others)} | {
        OURS: 0.0
    }  # so that none hides another
    for method, shift in shifts.items():
        ratios = scores.ratios(method, PEER, "rmse")
        colour, marker = LOOKS[method]
        heights = [scores.sets.index(name) + shift for name in ratios]
        size = 70 if method == OURS else 42
        ax.scatter(
            list(ratios.values()),
            heights,
            s=size,
            color=colour,
            marker=marker,
            label=method,
            zorder=3,
            edgecolor="white",
            linewidth=0.6,
        )
    sizes = [f"{name}  ({int(_sizes(scores, name)[0]):,})" for name in scores.sets]
    ax.set_yticks(range(len(scores.sets)), sizes)
    ax.set(xscale="log", xlabel="RMSE / RMSE of the grid search (left is better)", ylim=(len(scores.sets) - 0.4, -0.6))
    ax.xaxis.set_major_locator(FixedLocator(TICKS))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.grid(axis="both", color="#dddddd", linewidth=0.7, zorder=0)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside upper center", ncols=(len(labels) + 1) // 2, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})


def write_report(rows: Sequence[Row], manifests: dict[str, Any], document: Path = DOCUMENT, figure: Path = FIGURE) -> None:
    """Rewrite the tables of the documentation and draw the figure."""
    regression = Scores(rows, manifests, "regression")
    if regression.ratios(OURS, PEER, "rmse"):
        draw(regression, figure)
    replace_table(document, "uci", report(rows, manifests))
