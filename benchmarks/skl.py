"""Time and memory of single-kernel learning: whole fits, growth with the rows, one evaluation against its floor.

    python benchmarks/skl.py                  all parts, about an hour
    python benchmarks/skl.py --parts b,c      some of them; the others stay as they are in the file of results
    python benchmarks/skl.py --quick          small sizes, to see that everything runs: nothing is kept
    python benchmarks/skl.py --table          no run: rewrite the tables of docs/benchmarks.md and their figures

Part a fits two real data sets: KernelRegressor beside one fit of a fixed kernel (RBFSampler and Ridge), a grid search over
that pipeline, and the plain run of the paper. Part b follows time and memory from a thousand rows to a hundred thousand.
Part c times one evaluation of the criterion with its gradient beside the matrix products that it cannot do without. The data
lie in the folder that --data or the environment variable BOCHNER_DATA names; docs/benchmarks.md says what it holds.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness import ROOT, describe, manifest, read_results, replace_table, write_results
from skl_common import SEED, Config, quick_config, say
from skl_fits import DATA_SETS, fits, fits_table
from skl_floor import floor, floor_table
from skl_growth import draw_growth, growth, growth_table
from uci_data import VARIABLE, data_folder, uci_files

PARTS = {"a": "fits", "b": "growth", "c": "floor"}
TABLES: dict[str, Callable[[Mapping[str, Any]], str]] = {"fits": fits_table, "growth": growth_table, "floor": floor_table}
IDLE_LOAD = 0.5
"""Above this load average a run warns that it is not alone."""


def find_data(named: Path | None) -> Path:
    """The folder of data; a run stops at once, with a clear message, where a file of part a is not there."""
    try:
        folder = data_folder(named)
        for name in DATA_SETS:
            uci_files(folder, name)
    except FileNotFoundError as error:
        raise SystemExit(
            f"{error}\nOf these, this benchmark reads {' and '.join(DATA_SETS)}; --parts b,c needs no data."
        ) from None
    return folder


def write_tables() -> None:
    """Rewrite the tables of the documentation and their figures from the file of results."""
    results, _ = read_results("skl")
    for part, entry in results.items():
        text = f"{TABLES[part](entry)}\n\n{describe(entry['manifest'])}"
        if part == "growth":
            draw_growth(entry, ROOT / "docs" / "figures")
            text += "\n\n![Time against rows](figures/skl-time.png)\n\n![Peak memory against rows](figures/skl-memory.png)"
        replace_table(ROOT / "docs" / "benchmarks.md", f"skl-{part}", text)


def merge(part: str, entry: Mapping[str, Any], about: Mapping[str, Any]) -> Path:
    """Put one part, with its own manifest, into the file of results; the other parts stay."""
    try:
        results, _ = read_results("skl")
    except FileNotFoundError:
        results = {}
    results[part] = {"manifest": about, **entry}
    return write_results("skl", {name: results[name] for name in TABLES if name in results}, about)


def main() -> None:
    """Parse the options, run the parts one by one, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--parts", default="a,b,c", help="which parts to run: a (fits), b (growth), c (floor)")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, to see that everything runs; results are not kept"
    )
    parser.add_argument("--no-grid", action="store_true", help="leave the grid search out of part a")
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"folder of data, for part a (default: ${VARIABLE})")
    parser.add_argument(
        "--table", action="store_true", help="rewrite tables and figures from the last runs, without running"
    )
    arguments = parser.parse_args()
    if arguments.table:
        write_tables()
        return
    parts = arguments.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--parts takes letters out of {','.join(PARTS)}, got {','.join(sorted(unknown))}.")
    folder = find_data(arguments.data) if "a" in parts else Path()
    config = quick_config(grid=not arguments.no_grid) if arguments.quick else Config(grid=not arguments.no_grid)
    runs: dict[str, Callable[[], dict[str, Any]]] = {
        "a": lambda: fits(config, folder),
        "b": lambda: growth(config),
        "c": lambda: floor(config),
    }
    if (load := os.getloadavg()[0]) > IDLE_LOAD:
        say(f"load average {load:.1f}: other work on this machine disturbs the times")
    for letter in parts:
        about = manifest(SEED)
        entry = runs[letter]()
        print(f"\n{TABLES[PARTS[letter]](entry)}\n\n{describe(about)}\n", flush=True)
        if not arguments.quick:
            print(merge(PARTS[letter], entry, about).relative_to(ROOT))
        elif letter == "b":
            draw_growth(entry, figures := Path(tempfile.mkdtemp(prefix="skl-quick-")))
            print(f"figures in {figures}")


if __name__ == "__main__":
    main()
