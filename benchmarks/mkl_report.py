"""Tables, verdicts and the figure of ``mkl.py``, from its rows alone. Methods are compared on the splits that both have."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import ROOT, markdown_table, replace_table
from uci_report import machines

Row = dict[str, Any]
CLEAN, NOISY = "clean", "noise"
OURS, LEARNED, AVERAGE = "bochner", "bochner, learned", "average"
COLUMNS = (OURS, LEARNED, AVERAGE, "best single", "stacked", "gmkl", "easymkl", "himalaya")
SETS = ("MSRC_v1", "100Leaves", "Mfeat", "BDGP", "Wikipedia", "Scene_15", "MNIST")
TRIAL = {"Mfeat": 0.989, "MSRC_v1": 0.958, "Scene_15": 0.807, "100Leaves": 0.990, "Wikipedia": 0.729}
"""The best accuracy of an early trial on three splits; where it has none, the bar is our own average and group lasso."""
LOSS, OUT, ABOVE_AVERAGE, ABOVE_TRIAL = 0.01, 0.95, 5, 4
"""Goals: the part of the clean score that noise may cost, runs without noise views, and numbers of sets out of six."""
DOCUMENT = ROOT / "docs" / "benchmarks.md"
FIGURE = ROOT / "docs" / "figures" / "mkl.png"
LOOKS = {
    OURS: ("#0072b2", "o"),
    LEARNED: ("#56b4e9", "P"),
    AVERAGE: ("#555555", "|"),
    "best single": ("#cc79a7", "D"),
    "stacked": ("#009e73", "^"),
    "gmkl": ("#d55e00", "s"),
    "easymkl": ("#e6a000", "X"),
    "himalaya": ("#7a5230", "v"),
}
"""Colour (of Okabe and Ito, told apart by colour-blind people, and a brown) and marker of each method."""


class Scores:
    """The rows of one task that hold a score, by set, method and split."""

    def __init__(self, rows: Sequence[Row], task: str) -> None:
        mine = [row for row in rows if row["task"] == task]
        self.rows = {(row["set"], row["method"], row["split"]): row for row in mine if "error" not in row}
        self.failed = [row for row in mine if "error" in row]
        self.sets = [name for name in SETS if any(key[0] == name for key in self.rows)]
        self.methods = [method for method in COLUMNS if any(key[1] == method for key in self.rows)]

    def of(self, name: str, method: str) -> dict[int, Row]:
        """The rows of a method on a set, by split."""
        return {split: row for (s, m, split), row in sorted(self.rows.items()) if (s, m) == (name, method)}

    def values(self, name: str, method: str, key: str = "accuracy") -> list[float]:
        """One number a split."""
        return [row[key] for row in self.of(name, method).values()]

    def mean(self, name: str, method: str, key: str = "accuracy") -> float | None:
        """The mean over the splits; None where there are none."""
        values = self.values(name, method, key)
        return statistics.fmean(values) if values else None

    def differences(self, name: str, method: str, other: str) -> list[float]:
        """Accuracy of a method less that of another, on the splits that both have."""
        mine, theirs = self.of(name, method), self.of(name, other)
        return [mine[split]["accuracy"] - theirs[split]["accuracy"] for split in mine if split in theirs]

    def difference(self, name: str, method: str, other: str) -> float | None:
        """The mean of those differences."""
        values = self.differences(name, method, other)
        return statistics.fmean(values) if values else None

    def best(self, name: str) -> list[str]:
        """The methods of the highest accuracy: by the difference to ours on shared splits, by their means without ours."""
        found = {method: self.difference(name, method, OURS) for method in self.methods}
        if not self.of(name, OURS):
            found = {method: self.mean(name, method) for method in self.methods}
        most = max(value for value in found.values() if value is not None)
        return [method for method, value in found.items() if value is not None and value > most - 1e-12]

    def best_other(self, name: str, method: str) -> str | None:
        """The method, none of ours, that is most above ours on shared splits."""
        others = [other for other in self.methods if other not in (OURS, LEARNED) and self.differences(name, other, method)]
        return max(others, key=lambda other: statistics.fmean(self.differences(name, other, method)), default=None)


def standard_error(values: Sequence[float]) -> float | None:
    """Of the mean; None for fewer than two values."""
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None


def accuracy_table(scores: Scores, heading: str) -> str:
    """Mean and standard error in percent by set and method; the number of splits in brackets where it is not ours."""
    rows = []
    for name in scores.sets:
        best = scores.best(name)
        cells = [_cell(scores, name, method, best=method in best) for method in scores.methods]
        rows.append([name, _sizes(scores, name), *cells])
    return markdown_table([heading, "rows, views, classes", *scores.methods], rows, n_text=2)


def _cell(scores: Scores, name: str, method: str, *, best: bool) -> str:
    values = scores.values(name, method)
    if not values:
        return ""
    error = standard_error(values)
    text = f"{100 * statistics.fmean(values):.2f}" + ("" if error is None else f" ± {100 * error:.2f}")
    text = f"**{text}**" if best else text
    return text if len(values) == len(scores.of(name, OURS)) else f"{text} ({len(values)})"


def _sizes(scores: Scores, name: str) -> str:
    row = next(row for key, row in scores.rows.items() if key[0] == name)
    return f"{row['n']} + {row['n_test']}, {len(row['columns'])}, {row['classes']}"


def seconds_table(scores: Scores) -> str:
    """Mean seconds of a fit with its tuning, by set and method."""

    def cell(name: str, method: str) -> str:
        value = scores.mean(name, method, "seconds")
        return "" if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"

    rows = [[name, *(cell(name, method) for method in scores.methods)] for name in scores.sets]
    return markdown_table(["seconds, tuning counted", *scores.methods], rows)


def not_measured(scores: Scores) -> str:
    """Which methods have no score on which sets, in one line; empty where all have."""
    gaps = {method: [name for name in scores.sets if not scores.of(name, method)] for method in scores.methods}
    told = [f"{method} on {', '.join(names)}" for method, names in gaps.items() if names]
    return f"Not measured: {'; '.join(told)}." if told else ""


def verdicts(clean: Scores, noisy: Scores) -> str:
    """Every goal, for our two methods: reached, or by how much it is missed."""
    lines = []
    for method in (OURS, LEARNED):
        if method in clean.methods:
            lines.append(_beside_others(clean, method))
        if method in noisy.methods:
            lines += [_under_noise(clean, noisy, method), _above_average(noisy, method), _noise_out(noisy, method)]
    if LEARNED in clean.methods:
        lines.append(_above_trial(clean))
    return "Goals:\n\n" + "\n".join(f"- {line}" for line in lines) if lines else "No fit of ours is there yet."


def _verdict(goal: str, missed: Sequence[str], measured: int) -> str:
    return f"{goal}: {'missed, ' + '; '.join(missed) if missed else 'reached'} ({measured} sets measured)."


def _beside_others(scores: Scores, method: str) -> str:
    """Never below the best of the others by more than one standard error of its mean."""
    missed, measured = [], 0
    for name in scores.sets:
        other = scores.best_other(name, method)
        if other is None:
            continue
        measured += 1
        gaps = scores.differences(name, other, method)
        error, gap = standard_error(scores.values(name, other)) or 0.0, statistics.fmean(gaps)
        if gap > error:
            paired = standard_error(gaps)
            spread = "" if paired is None else f" ± {100 * paired:.2f} from split to split"
            missed.append(f"{name} by {100 * gap:.2f}{spread} (to {other}, its standard error {100 * error:.2f})")
    return _verdict(f"{method}, never more than one standard error below the best of the others", missed, measured)


def _pairs(clean: Scores, noisy: Scores, method: str, name: str) -> list[tuple[float, float]]:
    """Accuracies without and with noise, on the splits that have both."""
    without, with_noise = clean.of(name, method), noisy.of(name, method)
    return [(without[split]["accuracy"], with_noise[split]["accuracy"]) for split in with_noise if split in without]


def _under_noise(clean: Scores, noisy: Scores, method: str) -> str:
    missed, measured = [], 0
    for name in noisy.sets:
        pairs = _pairs(clean, noisy, method, name)
        if pairs:
            measured += 1
            lost = 1 - sum(pair[1] for pair in pairs) / sum(pair[0] for pair in pairs)
            if lost > LOSS:
                missed.append(f"{name} loses {100 * lost:.2f} %")
    return _verdict(f"{method}, noise views cost at most {100 * LOSS:g} % of the clean score on every set", missed, measured)


def _counted(goal: str, gains: dict[str, float], needed: int) -> str:
    """A goal that is reached on so many sets."""
    above = sum(gain > 0 for gain in gains.values())
    told = ", ".join(f"{name} {100 * gain:+.2f}" for name, gain in gains.items())
    verdict = "reached" if above >= needed else f"missed, {needed - above} short"
    return f"{goal} on at least {needed} of six sets: {verdict}; above on {above} of {len(gains)} ({told})."


def _above_average(noisy: Scores, method: str) -> str:
    gains = {name: noisy.difference(name, method, AVERAGE) for name in noisy.sets}
    found = {name: gain for name, gain in gains.items() if gain is not None}
    return _counted(f"{method}, with noise views above the plain average", found, ABOVE_AVERAGE)


def _noise_out(noisy: Scores, method: str) -> str:
    out = [row["settings"]["noise_out"] for key, row in noisy.rows.items() if key[1] == method]
    share = sum(out) / len(out)
    verdict = "reached" if share >= OUT else "missed"
    kept = sorted({key[0] for key, row in noisy.rows.items() if key[1] == method and not row["settings"]["noise_out"]})
    where = f"; some are kept in {', '.join(kept)}" if kept else ""
    return (
        f"{method}, all noise views at weight zero in at least {100 * OUT:g} % of runs: {verdict}, "
        f"{sum(out)} of {len(out)} ({100 * share:.0f} %){where}."
    )


def _above_trial(clean: Scores) -> str:
    gains = {}
    for name in clean.sets:
        bars = [TRIAL[name]] if name in TRIAL else [clean.mean(name, method) for method in (AVERAGE, OURS)]
        mean, known = clean.mean(name, LEARNED), [bar for bar in bars if bar is not None]
        if mean is not None and known and name != "MNIST":
            gains[name] = mean - max(known)
    return _counted(f"{LEARNED}, above the best of the first trial", gains, ABOVE_TRIAL)


def report(rows: Sequence[Row], manifests: dict[str, Any]) -> str:
    """All that stands between the markers of docs/benchmarks.md."""
    clean, noisy = Scores(rows, CLEAN), Scores(rows, NOISY)
    splits = max((len(clean.of(name, OURS)) for name in clean.sets), default=0)
    parts = [
        f"Accuracy in percent, mean ± standard error over {splits} splits, or as many as in brackets; best in bold:",
        accuracy_table(clean, "set"),
    ]
    if clean.methods and AVERAGE in clean.methods:
        parts.append(f"![Accuracy of every method less that of the plain average, by set](figures/{FIGURE.name})")
    if noisy.sets:
        parts += ["With three views of noise added:", accuracy_table(noisy, "set, with noise")]
    parts += filter(None, [not_measured(clean), verdicts(clean, noisy), seconds_table(clean)])
    failed = [*clean.failed, *noisy.failed]
    if failed:
        parts.append(
            "\n".join(
                f"- Failed: {row['method']} on {row['set']}, {row['task']}, split {row['split']} ({row['error']})."
                for row in failed
            )
        )
    return "\n\n".join([*parts, machines(rows, manifests)])


def draw(scores: Scores, path: Path = FIGURE) -> None:
    """A dot for every method and set: its accuracy less that of the average, in points, with standard errors."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1.6 + 0.75 * len(scores.sets)), layout="constrained")
    ax = figure.subplots()
    ax.axvline(0, color=LOOKS[AVERAGE][0], linewidth=1.2, label=AVERAGE, zorder=1)
    others = [method for method in scores.methods if method != AVERAGE]
    for i, method in enumerate(others):
        shift = 0.7 * (i / max(len(others) - 1, 1) - 0.5)
        colour, marker = LOOKS[method]
        found = {name: scores.differences(name, method, AVERAGE) for name in scores.sets}
        found = {name: values for name, values in found.items() if values}
        ax.errorbar(
            [100 * statistics.fmean(values) for values in found.values()],
            [scores.sets.index(name) + shift for name in found],
            xerr=[100 * (standard_error(values) or 0.0) for values in found.values()],
            fmt=marker,
            color=colour,
            label=method,
            markersize=8 if method == OURS else 6,
            markeredgecolor="white",
            markeredgewidth=0.6,
            elinewidth=1.0,
            zorder=3,
        )
    ax.set_yticks(range(len(scores.sets)), scores.sets)
    ax.set_xscale("symlog", linthresh=2.0)
    ticks = (-20, -10, -5, -2, -1, 0, 1, 2, 5, 10)
    low, high = ax.get_xlim()
    ax.set_xticks(shown := [tick for tick in ticks if low <= tick <= high], [f"{tick:g}" for tick in shown])
    ax.set_xticks([], minor=True)
    ax.set(xlabel="accuracy less that of the plain average, points (right is better)", ylim=(len(scores.sets) - 0.4, -0.6))
    ax.grid(axis="x", color="#dddddd", linewidth=0.7, zorder=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})


def write_report(rows: Sequence[Row], manifests: dict[str, Any], document: Path = DOCUMENT, figure: Path = FIGURE) -> None:
    """Rewrite the tables of the documentation and draw the figure."""
    clean = Scores(rows, CLEAN)
    if AVERAGE in clean.methods:
        draw(clean, figure)
    replace_table(document, "mkl", report(rows, manifests))
