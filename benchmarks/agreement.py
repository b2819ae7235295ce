"""How far two ways to the same answer are apart: the matrix of tests/agreement for every public estimator, as tables.

python benchmarks/agreement.py             run the matrix, some seconds
python benchmarks/agreement.py --table     no run: rewrite the tables of docs/reliability.md
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

from harness import ROOT, describe, manifest, markdown_table, read_results, replace_table, write_results

sys.path.insert(0, str(ROOT))
from tests.agreement import default_settings
from tests.agreement.matrix import AGREEMENTS, Agreement, Case
from tests.public import ESTIMATORS

DOCUMENT = ROOT / "docs" / "reliability.md"
SEED = 11
PACKAGES = ("bochner", "numpy", "scipy", "scikit-learn", "torch", "dask", "onnxruntime", "pandas")


def outcome(agreement: Agreement, case: Case) -> dict[str, Any]:
    """What came of one cell."""
    if case.name in agreement.refused:
        try:
            agreement.both(case)
        except (ValueError, TypeError) as error:
            return {"refused": str(error)}
        return {"refused": None}
    return {"difference": agreement.difference(case), "bound": agreement.bound(case)}


def outcomes(agreements: dict[str, Agreement], cases: list[Case]) -> dict[str, dict[str, Any]]:
    """What came of every cell of a matrix."""
    return {name: {case.name: outcome(each, case) for case in cases} for name, each in agreements.items()}


def tables(results: Any, about: Any) -> str:
    """Rows are agreements, columns are estimators: with kernels that stay, and with default settings."""
    parts = []
    for title, found in results.items():
        names = list(next(iter(found.values())))
        rows = [[name, *(shown(cells[estimator]) for estimator in names)] for name, cells in found.items()]
        parts.append(markdown_table([title, *names], rows))
    return "\n\n".join([*parts, describe(about)])


def shown(cell: dict[str, Any]) -> str:
    """A difference, or that it is refused."""
    if "refused" in cell:
        return "refused" if cell["refused"] else "not refused"
    difference = cell["difference"]
    found = "same bits" if difference == 0 else f"{difference:.0e}"
    return found if difference <= cell["bound"] else f"**{found}**"


def main() -> None:
    """Run, or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="rewrite the tables from the last results")
    if not parser.parse_args().table:
        warnings.simplefilter("error")
        results = {
            "kernel and penalty stay": outcomes(AGREEMENTS, [Case(name) for name in ESTIMATORS]),
            "default settings": outcomes(
                default_settings.AGREEMENTS, [default_settings.DefaultCase(name) for name in default_settings.NAMES]
            ),
        }
        write_results("agreement", results, manifest(SEED, PACKAGES))
    replace_table(DOCUMENT, "agreement", tables(*read_results("agreement")))


if __name__ == "__main__":
    main()
