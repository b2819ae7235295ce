"""Part b of ``skl.py``: time and memory of whole fits and of one evaluation, against the number of rows."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import TimerOptions, markdown_table, time_in_turn
from skl_common import Config, evaluation_call, goal, say
from skl_process import in_process

MOST_SLOPE = 1.05
"""The goal, for the exponent of time in the number of rows."""
COLOURS = {"fit": "#1f6fb4", "exact": "#d1601f", "evaluation": "#777777"}
MARKERS = {"fit": "o", "exact": "s", "evaluation": "^"}
TITLES = {"fit": "KernelRegressor", "exact": "KernelRidgeGD", "evaluation": "one evaluation, all rows"}


def growth(config: Config) -> dict[str, Any]:
    """Seconds and peak memory of whole fits, each in a process of its own, and seconds of one evaluation."""
    m, d = config.columns, config.features
    fit: list[list[dict[str, float]]] = [[] for _ in config.rows]
    for repeat in range(config.repeats):
        for i in range(len(config.rows)) if repeat % 2 == 0 else reversed(range(len(config.rows))):
            fit[i].append(in_process("fit", config.rows[i], m, d))
    curves = {"fit": [of_runs(n, runs) for n, runs in zip(config.rows, fit, strict=True)], "exact": []}
    for n in config.exact_rows:
        try:
            curves["exact"].append(of_runs(n, [in_process("exact", n, m, d, timeout=config.exact_limit_s)]))
        except subprocess.TimeoutExpired:
            say(f"b: exact, n = {n}: more than {config.exact_limit_s:.0f} s, left out")
            break
    calls = {str(n): evaluation_call(n, m, d) for n in config.rows}
    say("b: one evaluation at every size")
    timings = time_in_turn(calls, TimerOptions(repeats=config.repeats))
    curves["evaluation"] = [{"rows": int(n), **timing.to_dict()} for n, timing in timings.items()]
    return {"columns": m, "features": d, "exact_limit_s": config.exact_limit_s, "curves": curves}


def of_runs(n: int, runs: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Several runs at one size as they are stored: all seconds, their best and median, the largest peak."""
    seconds = [run["seconds"] for run in runs]
    return {
        "rows": n,
        "best_s": min(seconds),
        "median_s": float(np.median(seconds)),
        "seconds": seconds,
        "peak_bytes": max(run["peak_bytes"] for run in runs),
    }


def log_slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent p of y ~ x^p by least squares on logarithms; NaN from less than two points."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0]) if len(x) > 1 else float("nan")


def largest_decade(curve: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The points from a tenth of the most rows on (a hair less, so that 300 goes with 3000 after rounding)."""
    most = max((point["rows"] for point in curve), default=0)
    return [point for point in curve if point["rows"] >= 0.099 * most]


def slopes(curve: Sequence[Mapping[str, Any]], key: str = "median_s") -> tuple[float, float]:
    """Exponents in the number of rows: over the largest decade of rows, and over all."""
    one, every = (
        log_slope([point["rows"] for point in points], [point[key] for point in points])
        for points in (largest_decade(curve), curve)
    )
    return one, every


def growth_table(results: Mapping[str, Any]) -> str:
    """Seconds and memory at every size, the slopes, and whether the goal is reached."""
    curves = results["curves"]
    sizes = sorted({point["rows"] for curve in curves.values() for point in curve})
    by_rows = {kind: {point["rows"]: point for point in curve} for kind, curve in curves.items()}
    columns = [("fit", "median_s"), ("fit", "peak_bytes"), ("exact", "median_s"), ("exact", "peak_bytes")]
    columns.append(("evaluation", "median_s"))
    header = ["rows", *(f"{TITLES[kind]}, {'s' if key == 'median_s' else 'MB'}" for kind, key in columns)]
    rows = [[f"{n:,}", *(_cell(by_rows[kind].get(n), key) for kind, key in columns)] for n in sizes]
    both = [slopes(curves[kind], key) for kind, key in columns]
    rows.append(["exponent, largest decade", *(_exponent(pair[0]) for pair in both)])
    rows.append(["exponent, all sizes", *(_exponent(pair[1]) for pair in both)])
    verdicts = []
    for kind in ("fit", "evaluation"):
        slope, sizes = slopes(curves[kind])[0], [point["rows"] for point in largest_decade(curves[kind])]
        verdicts.append(
            f"- {TITLES[kind]}: exponent of time {slope:.2f} from {min(sizes):,} to {max(sizes):,} rows, "
            f"{goal(slope, MOST_SLOPE)}."
        )
    return f"{markdown_table(header, rows)}\n\n" + "\n".join(verdicts)


def _cell(point: Mapping[str, Any] | None, key: str) -> str:
    if point is None:
        return ""
    return f"{point[key] / 1e6:.0f}" if key == "peak_bytes" else f"{point[key]:.3g}"


def _exponent(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.2f}"


def draw_growth(results: Mapping[str, Any], folder: Path) -> None:
    """Time and memory against the rows, on logarithmic axes: skl-time.png and skl-memory.png."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    pictures = (
        ("skl-time.png", "median_s", 1.0, "seconds", ("fit", "exact", "evaluation")),
        ("skl-memory.png", "peak_bytes", 1e6, "peak memory of a fit, MB", ("fit", "exact")),
    )
    for file, key, unit, label, kinds in pictures:
        figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
        for kind in kinds:
            curve = results["curves"][kind]
            rows, values = [point["rows"] for point in curve], [point[key] / unit for point in curve]
            name = f"{TITLES[kind]}, $n^{{{slopes(curve, key)[0]:.2f}}}$"
            axes.loglog(rows, values, color=COLOURS[kind], marker=MARKERS[kind], markersize=5, linewidth=1.5, label=name)
        axes.set_xlabel("rows n")
        axes.set_ylabel(label)
        title = f"{results['columns']} columns, {results['features']} features; exponents over the largest decade of rows"
        axes.set_title(title, fontsize=10)
        axes.grid(visible=True, color="#e6e6e6", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside lower center", ncols=len(kinds), frameon=False, fontsize=9)
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / file, dpi=120, metadata={"Software": None})
        plt.close(figure)
