"""Tables of ``scale.py``: passes and fits with their goals, growth, and what a billion rows would take on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from harness import ROOT, describe, markdown_table, read_results, replace_table
from scale_growth import growth_table, workers_table

GOALS = {"ratio": 1.3, "slope": 1.03, "memory": 1.1, "workers": 1.3}
PLANNED_ROWS, PLANNED_CORES, PLANNED_NETWORK = 1e9, 16, 1.25e9
"""Rows, cores of a worker, and bytes a second between workers of the plan on paper."""


def write_tables() -> None:
    """Rewrite the tables of the documentation from the file of results."""
    results, _ = read_results("scale")
    texts = {part: f"{table(part, entry)}\n\n{describe(entry['manifest'])}" for part, entry in results.items()}
    replace_table(
        ROOT / "docs" / "benchmarks.md",
        "scale",
        "\n\n".join(texts[part] for part in ("passes", "fits", "workers") if part in texts),
    )
    growth = [texts[part] for part in ("growth",) if part in texts]
    growth += [plan(results["passes"])] if "passes" in results else []
    replace_table(ROOT / "docs" / "scale.md", "growth", "\n\n".join(growth))


def table(part: str, entry: Mapping[str, Any]) -> str:
    """One part of the results."""
    if part in ("passes", "fits"):
        return passes_table(entry) if part == "passes" else fits_table(entry)
    return (
        growth_table(entry["found"]) if part == "growth" else f"{workers_table(entry['found'])}\n\n{workers_verdict(entry)}"
    )


def workers_verdict(entry: Mapping[str, Any]) -> str:
    """What became of the goal of two workers."""
    found = entry["found"]
    return f"{entry['n']:,} rows, {entry['n_features']} features.\n\n" + verdict(
        "workers", "two Dask workers of one thread, in units of two threads here", found["2 workers"] / found["in memory"]
    )


def verdict(name: str, words: str, value: float) -> str:
    """A goal in words."""
    return f"- {words}: {value:.2f} (goal: at most {GOALS[name]}), {'reached' if value <= GOALS[name] else 'missed'}."


def passes_table(results: Mapping[str, Any]) -> str:
    """The passes, and what became of the goals."""
    header = ["set", "rows", "pass from disk, s", "in memory, s", "ratio", "rows/s"]
    lines = []
    for row in results["rows"]:
        ratio = row["streamed"] / row["in memory"]
        passes = [f"{row['streamed']:.2f}", f"{row['in memory']:.2f}", f"{ratio:.2f}", f"{row['n'] / row['streamed']:,.0f}"]
        lines.append([f"{row['set']}, {row['m']} columns", f"{row['n']:,}", *passes])
    made = [row for row in results["rows"] if row["set"] == "made"]
    slope = float(np.polyfit(np.log([row["n"] for row in made]), np.log([row["streamed"] for row in made]), 1)[0])
    goals = {"ratio": made[-1]["streamed"] / made[-1]["in memory"], "slope": slope}
    words = {
        "ratio": f"{made[-1]['n']:,} rows from disk, in units of the same arithmetic in memory",
        "slope": "slope of the time of a pass against rows, both as logarithms",
    }
    verdicts = [verdict(name, words[name], value) for name, value in goals.items()]
    return "\n\n".join([markdown_table(header, lines), f"{results['n_features']} features.", "\n".join(verdicts)])


def fits_table(results: Mapping[str, Any]) -> str:
    """Whole fits from files, and whether their memory stays the same."""
    fits = results["rows"]
    lines = [[f"{fit['n']:,}", f"{fit['seconds']:.1f}", f"{fit['peak_bytes'] / 1e6:.0f}"] for fit in fits]
    words = f"peak memory of the fit at {fits[-1]['n']:,} rows in units of that at {fits[0]['n']:,}"
    peaks = verdict("memory", words, fits[-1]["peak_bytes"] / fits[0]["peak_bytes"])
    return f"{markdown_table(['rows', 'whole fit, s', 'peak of the fit, MB'], lines)}\n\n{peaks}"


def plan(results: Mapping[str, Any]) -> str:
    """What 10^9 rows would take on a cluster, by the speed of the largest pass that was measured; on paper."""
    row, d = [row for row in results["rows"] if row["set"] == "made"][-1], results["n_features"]
    speed = row["n"] / row["streamed"] / results["cores"]
    lines = []
    for workers in (8, 32, 128):
        cores = workers * PLANNED_CORES
        read = PLANNED_ROWS * 8 * (row["m"] + 1) / workers
        computed, sums = PLANNED_ROWS / (speed * cores), 2 * 8 * d**2 * np.ceil(np.log2(workers)) / PLANNED_NETWORK
        lines.append(
            [f"{workers}", f"{cores}", f"{read / 1e9:.1f}", f"{computed:.0f}", f"{read / computed / 1e9:.2f}", f"{sums:.2f}"]
        )
    header = [
        "workers",
        "cores",
        "GB read by each, a pass",
        "s, a pass",
        "GB/s that each must read",
        "s for the tree of sums",
    ]
    return (
        f"On paper, {PLANNED_ROWS:.0e} rows of {row['m']} columns in float64 and {d} features, at the speed of the passes "
        "in [benchmarks.md](benchmarks.md#rows-on-disk-beside-rows-in-memory), "
        f"{speed:,.0f} rows a second and core, with workers of {PLANNED_CORES} cores and a network of "
        f"{PLANNED_NETWORK / 1e9:.3g} GB/s. A fit takes two passes, the first of which is bound by reading; sums are two "
        f"matrices of {8 * d**2 / 1e6:.0f} MB:\n\n{markdown_table(header, lines, n_text=0)}"
    )
