"""Group lasso: our path beside those of adelie, skglm and celer, and growth with the rows beside GMKL on kernel matrices.

    python benchmarks/grouplasso.py                      everything
    python benchmarks/grouplasso.py --races A D          some parts; the others stay as they are in the file of results
    python benchmarks/grouplasso.py --peers adelie       fewer peers
    python benchmarks/grouplasso.py --quick              small sizes, to see that everything runs: nothing is kept
    python benchmarks/grouplasso.py --table              no run: rewrite the tables of docs/benchmarks.md

Race A has 5000 rows of MNIST, eight kernels of 100 features, one digit against the rest and 20 penalties; race B all ten
digits; race C 20,000 rows and kernels of 500 features. Part D follows time and memory from two thousand rows to a hundred
thousand. adelie needs NumPy 1 and gets an environment of its own in build/adelie-venv, made from requirements/adelie.txt,
unless --adelie names an interpreter that has it. skglm and celer run in this environment, or in that of --python; a peer
that is not installed is left out. The data lie in the folder that --data or the environment variable BOCHNER_DATA names.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grouplasso_growth import QUICK_SIZES, SIZES, growth, growth_table
from grouplasso_problem import SEED
from grouplasso_races import (
    CLOSE,
    OURS,
    QUICK_RACES,
    RACES,
    TOLERANCES,
    Peers,
    race,
    race_table,
)
from harness import PACKAGES, RESULTS, ROOT, describe, manifest, read_results, replace_table, write_results
from peers import Unavailable, peer_python
from skl_common import say
from uci_data import VARIABLE, data_folder

NAME = "grouplasso"
PARTS = ("A", "B", "C", "D")
PEERS = ("adelie", "skglm", "celer")
DOCUMENT = ROOT / "docs" / "benchmarks.md"
IDLE_LOAD = 0.5


def find_peers(arguments: argparse.Namespace) -> Peers:
    """The solvers that take part, with their interpreters; a peer whose environment cannot be made is left out."""
    names = [OURS] + [solver for solver in TOLERANCES if solver.split(",")[0] in arguments.peers]
    pythons = dict.fromkeys(("skglm", "celer"), arguments.python) if arguments.python else {}
    if "adelie" in arguments.peers:
        try:
            python = arguments.adelie or peer_python("adelie", "--adelie PYTHON")
            pythons |= {solver: python for solver in names if solver.startswith("adelie")}
        except Unavailable as error:
            say(f"adelie is left out: {error}")
            names = [solver for solver in names if not solver.startswith("adelie")]
    repeats = 1 if arguments.quick else 3
    return Peers(names=tuple(names), pythons=pythons, limit_s=arguments.limit, repeats=repeats)


def part_table(part: str, entry: Mapping[str, Any]) -> str:
    """The heading and the table of one part."""
    if part == "D":
        return f"**D.** Growth with the rows, 4 kernels of {entry['per_kernel']} features.\n\n{growth_table(entry)}"
    classes = "one class" if entry["classes"] == 1 else f"{entry['classes']} classes"
    heading = (
        f"**{part}.** {entry['rows']:,} rows, {entry['kernels']} kernels of {entry['per_kernel']} features, {classes}, "
        f"{len(entry['alphas'])} penalties."
    )
    return f"{heading}\n\n{race_table(entry)}"


def tables(results: Mapping[str, Any]) -> str:
    """The tables of all parts, each with its manifest."""
    return "\n\n".join(
        f"{part_table(part, results[part])}\n\n{describe(results[part]['manifest'])}" for part in PARTS if part in results
    )


def merge(part: str, entry: Mapping[str, Any], about: Mapping[str, Any], folder: Path = RESULTS) -> Path:
    """Put one part, with its own manifest, into the file of results; the other parts stay."""
    try:
        results, _ = read_results(NAME, folder)
    except FileNotFoundError:
        results = {}
    results[part] = {"manifest": about, **entry}
    return write_results(NAME, {name: results[name] for name in PARTS if name in results}, about, folder)


def with_versions(about: dict[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest with the versions of the peers, which may live in other environments."""
    runs = [run for run in entry.get("runs", []) if "version" in run and run["solver"] != OURS]
    return about | {"versions": about["versions"] | {run["solver"].split(",")[0]: run["version"] for run in runs}}


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--races", nargs="+", choices=PARTS, default=PARTS, help="parts to run (default: all)")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS, help="peers to run (default: all)")
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"folder of data (default: ${VARIABLE})")
    parser.add_argument("--adelie", metavar="PYTHON", help="interpreter that has adelie (default: made in build/)")
    parser.add_argument("--python", metavar="PYTHON", help="interpreter that has skglm and celer (default: this one)")
    parser.add_argument("--limit", type=float, default=300.0, metavar="S", help="seconds after which a run is stopped")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="folder of the file of results")
    parser.add_argument("--quick", action="store_true", help="small sizes; results are not kept")
    parser.add_argument("--table", action="store_true", help="rewrite the tables from the last runs, without running")
    return parser.parse_args()


def main() -> None:
    """Run the parts one by one, print and write; or rewrite the tables."""
    arguments = parse()
    if arguments.table:
        replace_table(DOCUMENT, NAME, tables(read_results(NAME, arguments.results)[0]))
        return
    races = [part for part in PARTS if part in arguments.races]
    try:
        folder = data_folder(arguments.data) if set(races) - {"D"} else Path()
    except FileNotFoundError as error:
        raise SystemExit(f"{error}\nOf these, this benchmark reads MNIST; --races D needs no data.") from None
    peers = find_peers(arguments) if set(races) - {"D"} else Peers(names=())
    if (load := os.getloadavg()[0]) > IDLE_LOAD:
        say(f"load average {load:.1f}: other work on this machine disturbs the times")
    say(f"peers are asked for smaller tolerances until they are within {CLOSE:g} of the best objectives")
    for part in races:
        about = manifest(SEED, PACKAGES)
        if part == "D":
            entry = growth(QUICK_SIZES if arguments.quick else SIZES)
        else:
            entry = race(part, (QUICK_RACES if arguments.quick else RACES)[part], folder, peers)
        about = with_versions(about, entry)
        print(f"\n{part_table(part, entry)}\n\n{describe(about)}\n", flush=True)
        if not arguments.quick:
            print(merge(part, entry, about, arguments.results))


if __name__ == "__main__":
    main()
