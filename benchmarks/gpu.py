"""Learning on a GPU: evaluations and whole descents, moments of rows that stream from the host, group lasso.

    python benchmarks/gpu.py                   all parts on "cuda", a few minutes
    python benchmarks/gpu.py --parts a,b       some of them; the others stay as they are in the file of results
    python benchmarks/gpu.py --n 20000         another number of rows, for all parts that run
    python benchmarks/gpu.py --quick           small sizes on the host, to see that everything runs: nothing is kept
    python benchmarks/gpu.py --table           no run: rewrite the table of docs/benchmarks.md

Part a times evaluations of the held-out error with the slopes of all scales in three precisions, and the whole
small-to-large schedule, beside the same objective in plain PyTorch and, where it is installed, an epoch of GPyTorch's SVGP.
Part b takes the moments of rows that stream from the host through pinned memory, beside the copies alone and the matrix
products alone. Part c takes the moments of many kernels on the GPU and follows the path of group lasso on the host. All
rows are synthetic, of a fixed seed: see ``smooth_rows`` of gpu_common.py and ``lasso_folds`` of gpu_passes.py. Results are
written after every part; one that fails leaves its error there. Without the environment of the Makefile, for instance on a
machine that reaches no network: PYTHONPATH=. python benchmarks/gpu.py
"""

from __future__ import annotations

import argparse
import os
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpu_common import Config, about_device, free_memory, quick_config
from gpu_learning import learning
from gpu_passes import group_lasso, streamed
from harness import PACKAGES, RESULTS, ROOT, describe, manifest, markdown_table, read_results, replace_table, write_results
from skl_common import SEED, say

PARTS: dict[str, str] = {"a": "learning", "b": "streamed", "c": "group_lasso"}
RUNS: dict[str, Callable[[Config], dict[str, Any]]] = {"a": learning, "b": streamed, "c": group_lasso}
MOST_EVALUATIONS_S, MOST_SCHEDULE_S, MOST_RATIO = 5.0, 1.5, 1.5
"""Goals: seconds of 60 evaluations in float64, of the schedule, and time of the pass over that of its slower half."""


def goal(value: float, bound: float, *sizes: int) -> str:
    """Whether a goal is reached, in words; ``sizes`` are pairs of what was measured and what the goal is for."""
    if any(one != two for one, two in zip(sizes[::2], sizes[1::2], strict=True)):
        return "of other sizes than the goal"
    return f"goal at most {bound:g}: {'reached' if value <= bound else 'not reached'}"


def learning_table(found: Mapping[str, Any]) -> str:
    """Part a."""
    n, rows, notes = found["evaluations"], [], []
    for name, entry in found["precisions"].items():
        errors = "" if name == "float64" else f"{entry['value_error']:.1e}, {entry['gradient_error']:.1e}"
        rows.append([f"{n} evaluations, {name}", f"{entry['seconds']:.2f}", f"{1e3 * entry['seconds'] / n:.1f}", errors])
    names = {"schedule": "small to large, rows on the device", "fit": "KernelRegressor.fit, rows on the host"}
    for key, entry in found["whole"].items():
        if "error" in entry:
            notes.append(f"- {names[key]}: {entry['error']}.")
            continue
        each = 1e3 * entry["seconds"] / max(entry["evaluations"], 1)
        rows.append([f"{names[key]} ({entry['evaluations']} evaluations)", f"{entry['seconds']:.2f}", f"{each:.1f}", ""])
    for name, entry in found["peers"].items():
        if "error" in entry:
            notes.append(f"- {name} is left out: {entry['error']}.")
        elif "gradient_difference" in entry:
            errors = f"{entry['value_difference']:.1e}, {entry['gradient_difference']:.1e}"
            rows.append(
                [f"{name}, one evaluation, float64", f"{entry['seconds']:.3f}", f"{1e3 * entry['seconds']:.1f}", errors]
            )
        else:
            rows.append([f"{name}, held-out error {entry['held_out_error']:.3f}", f"{entry['seconds']:.2f}", "", ""])
    exact, whole = found["precisions"]["float64"]["seconds"], found["whole"]["schedule"]
    sizes = found["rows"], Config.rows, found["columns"], Config.columns, found["features"], Config.features
    if "error" not in whole:
        notes.insert(
            0,
            f"- The schedule takes {whole['seconds']:.2f} s to a held-out error of {whole['held_out_error']:.4f}, "
            f"{goal(whole['seconds'], MOST_SCHEDULE_S, *sizes)}.",
        )
    notes.insert(
        0,
        f"- {found['rows']:,} x {found['columns']}, d = {found['features']}: {n} evaluations in float64 take {exact:.2f} s, "
        f"{goal(exact, MOST_EVALUATIONS_S, *sizes, n, Config.evaluations)}.",
    )
    header = ["single-kernel learning", "s", "ms each", "error of value, of slopes"]
    return f"{markdown_table(header, rows)}\n\n" + "\n".join(notes)


def streamed_table(found: Mapping[str, Any]) -> str:
    """Part b."""

    def last(entry: Mapping[str, float]) -> list[str]:
        return [f"{entry['ratio']:.2f}", f"{entry['seconds']:.2f}"]

    rows = [
        [name, *(f"{rate / 1e6:.2f}" for rate in (entry["moments"], entry["products"], found["copies"])), *last(entry)]
        for name, entry in found["passes"].items()
    ]
    header = ["products in", "moments, M rows/s", "products alone", "copies alone", "slower of both / moments", "s"]
    ratio = found["passes"]["float32"]["ratio"]
    sizes = found["rows"], Config.stream_rows, found["columns"], Config.stream_columns
    return (
        f"{markdown_table(header, rows)}\n\n- {found['rows']:,} x {found['columns']} of float32, d = {found['features']}, "
        f"from the memory of the host; pinned copies run at {found['copy_bytes_per_s'] / 1e9:.1f} GB/s. The pass takes "
        f"{ratio:.2f} times as long as the slower of copies and products, {goal(ratio, MOST_RATIO, *sizes)}."
    )


def group_lasso_table(found: Mapping[str, Any]) -> str:
    """Part c."""
    rows = [
        ["moments, on the device", f"{found['moments_s']:.2f}"],
        [f"path of {found['penalties']} penalties and choice, on the host", f"{found['rest_s']:.2f}"],
        ["together", f"{found['total_s']:.2f}"],
    ]
    return (
        f"{markdown_table(['group lasso', 's'], rows)}\n\n- {found['rows']:,} rows, {found['kernels']} kernels of "
        f"{found['features']} features, of which the first two count: {len(found['kernels_in'])} are in "
        f"({', '.join(map(str, found['kernels_in']))}), the held-out error is {found['held_out_error']:.4f}."
    )


TABLES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "learning": learning_table,
    "streamed": streamed_table,
    "group_lasso": group_lasso_table,
}


def table(part: str, entry: Mapping[str, Any]) -> str:
    """The table of a part with a line on the machine, or the error that it ended with."""
    about = entry["manifest"]
    text = f"{part} failed: {entry['error']}" if "error" in entry else TABLES[part](entry)
    gpu = f"{about['gpu']}, {about['gpu_memory_gib']:.0f} GiB, CUDA {about['cuda']}" if about["gpu"] else "no GPU"
    return f"{text}\n\nOn {gpu}. {describe(about)}"


def write_tables(document: Path = ROOT / "docs" / "benchmarks.md", folder: Path = RESULTS) -> None:
    """Rewrite the table of the documentation from the file of results."""
    results, _ = read_results("gpu", folder)
    replace_table(document, "gpu", "\n\n".join(table(part, entry) for part, entry in results.items()))


def run_part(letter: str, config: Config) -> dict[str, Any]:
    """One part with its manifest; an error is its result where it fails."""
    about = manifest(SEED, (*PACKAGES, "torch", "gpytorch")) | about_device(config.device)
    try:
        entry = RUNS[letter](config)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other parts go on and the file says what it was
        traceback.print_exc()
        entry = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
    free_memory(config.device)
    return {"manifest": about, **entry}


def merge(part: str, entry: Mapping[str, Any], folder: Path = RESULTS) -> Path:
    """Put one part into the file of results; the other parts stay."""
    try:
        results, _ = read_results("gpu", folder)
    except FileNotFoundError:
        results = {}
    results[part] = entry
    return write_results("gpu", {name: results[name] for name in TABLES if name in results}, entry["manifest"], folder)


def main() -> None:
    """Parse the options, run the parts one by one, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--parts", default="a,b,c", help="which parts to run: a (learning), b (streamed), c (group lasso)")
    parser.add_argument("--device", help="where to compute (default: cuda; cpu with --quick)")
    parser.add_argument("--n", type=int, metavar="ROWS", help="rows of every part that runs, in place of its own number")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything runs; nothing is kept")
    parser.add_argument("--table", action="store_true", help="rewrite the table from the last runs, without running")
    arguments = parser.parse_args()
    if arguments.table:
        write_tables()
        return
    parts = arguments.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--parts takes letters out of {','.join(PARTS)}, got {','.join(sorted(unknown))}.")
    device = arguments.device or ("cpu" if arguments.quick else "cuda")
    config = quick_config(device) if arguments.quick else Config(device=device)
    if arguments.n is not None:
        config = replace(config, rows=arguments.n, stream_rows=arguments.n, lasso_rows=arguments.n)
    failed = False
    for letter in parts:
        entry = run_part(letter, config)
        failed = failed or "error" in entry
        print(f"\n{table(PARTS[letter], entry)}\n", flush=True)
        if not arguments.quick:
            print(os.path.relpath(merge(PARTS[letter], entry), ROOT))
    if not arguments.quick:
        write_tables()
        say("docs/benchmarks.md is up to date")
    raise SystemExit(int(failed))


if __name__ == "__main__":
    main()
