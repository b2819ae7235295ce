"""Sizes of files of models: on random features and on data centres, in both precisions, with and without sums.

python benchmarks/model_size.py            fit, save, and write benchmarks/results/model_size.json
python benchmarks/model_size.py --table    no run: rewrite the table of docs/saving.md
"""

from __future__ import annotations

import argparse
import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from harness import ROOT, describe, manifest, markdown_table, read_results, replace_table, write_results

SEED = 0
COLUMNS = 100
FEATURES, CENTRES = 4000, 1000
SAVED: dict[str, dict[str, Any]] = {
    "float64": {},
    "float32": {"dtype": "float32"},
    "compact=False": {"compact": False},
}
"""Ways to save a model."""


def models() -> dict[str, Any]:
    """Fitted models of 100 columns, by their names."""
    from bochner import KernelRegressor

    X = np.random.default_rng(SEED).standard_normal((CENTRES, COLUMNS))
    y = X[:, 0] + np.sin(X[:, 1])
    options: dict[str, Any] = {"scale": "shared", "tol": 0.5, "random_state": SEED}
    features = KernelRegressor("gaussian", n_features=FEATURES, alpha=0.1, **options)
    centres = KernelRegressor("gaussian", finish="centres", n_centres=CENTRES, random_state=SEED)
    return {
        f"{FEATURES:,} random features": features.fit(X, y),
        f"{CENTRES:,} data centres": centres.fit(X, y),
    }


def sizes(model: Any) -> dict[str, int]:
    """Bytes of files of a model: saved in every way, and pickled."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, options in SAVED.items():
            path = Path(folder) / "model.safetensors"
            model.save(path, **options)
            found[name] = os.path.getsize(path)
    return {**found, "pickle": len(pickle.dumps(model))}


def table(results: dict[str, Any]) -> str:
    """Megabytes of each model in each way."""
    ways = [*SAVED, "pickle"]
    rows = [[name, *(f"{found[way] / 1e6:.2f}" for way in ways)] for name, found in results["models"].items()]
    return markdown_table([f"{results['columns']} columns, MB", *ways], rows)


def main() -> None:
    """Parse the options, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--table", action="store_true", help="rewrite the table from the last run, without running")
    if parser.parse_args().table:
        results, about = read_results("model_size")
        replace_table(ROOT / "docs" / "saving.md", "model_size", f"{table(results)}\n\n{describe(about)}")
        return
    about = manifest(SEED)
    results = {"columns": COLUMNS, "models": {name: sizes(model) for name, model in models().items()}}
    print(table(results))
    print(write_results("model_size", results, about).relative_to(ROOT))


if __name__ == "__main__":
    main()
