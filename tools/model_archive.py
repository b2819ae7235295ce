"""Write small model files of this version, with what they predict, to tests/persistence/archive, for later versions.

    python tools/model_archive.py            all files that are not there yet
    python tools/model_archive.py --again    all files of this version once more

Run it when a version is released, or an estimator is new. Files of earlier versions are never written again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bochner
from bochner.exact import GMKLClassifier, GMKLRegressor, KernelRidgeGD
from bochner.kernels import Gaussian, MetricKernel

ARCHIVE = Path(__file__).resolve().parents[1] / "tests" / "persistence" / "archive"
METHODS = ("transform", "predict", "decision_function", "predict_proba")
FEW = {"alpha": 0.1, "tol": 0.9, "criterion": "holdout", "scale": "shared", "random_state": 0}
"""Fits that take few steps, so that their histories are short, and are well conditioned."""


def rows(n: int, seed: int) -> Any:
    """Rows of three columns, none of them negative."""
    return np.random.default_rng(seed).random((n, 3)).round(3)


def views(X: Any) -> dict[str, Any]:
    """The same rows as two views."""
    return {"left": X[:, :2], "right": X[:, 2:]}


def models() -> dict[str, Callable[[], Any]]:
    """What makes each model."""
    X = rows(30, seed=0)
    y = np.sin(4 * X[:, 0]) + X[:, 1] * X[:, 2]
    text = np.where(y > np.median(y), "high", "low")
    three = np.searchsorted(np.quantile(y, [0.3, 0.6]), y)
    pairs = [("first", "gaussian", [0, 1]), ("last", "exponentiated_chi2", 2)]
    metric = MetricKernel(Gaussian(), [[1.0, 0.0], [-1.0, 0.5], [0.0, 2.0]])
    many = {"n_features": 6, "n_alphas": 3, "random_state": 0}
    centres = {"finish": "centres", "n_centres": 5, "metric": "diagonal", "tol": 0.9, "random_state": 0}
    return {
        "FourierFeatures": lambda: bochner.FourierFeatures("matern52", n_features=6, random_state=0).fit(X),
        "FourierFeatures-additive": lambda: bochner.FourierFeatures("jensen_shannon").fit(X),
        "FourierFeatures-metric": lambda: bochner.FourierFeatures(metric, n_features=6, random_state=0).fit(X),
        "KernelRegressor": lambda: bochner.KernelRegressor("gaussian", n_features=6, **FEW).fit(X, y),
        "KernelRegressor-skewed": lambda: bochner.KernelRegressor("skewed_chi2", n_features=6, **FEW).fit(X, X[:, :2]),
        "KernelRegressor-centres": lambda: bochner.KernelRegressor("matern32", **centres).fit(X, y),
        "KernelRegressor-metric": lambda: bochner.KernelRegressor("gaussian", **{**centres, "metric": "full"}).fit(X, y),
        "KernelClassifier-metric": lambda: bochner.KernelClassifier("gaussian", **{**centres, "metric": "full"}).fit(
            X, text
        ),
        "KernelClassifier": lambda: bochner.KernelClassifier("cauchy", n_features=6, **FEW).fit(X, text),
        "MultipleKernelRegressor": lambda: bochner.MultipleKernelRegressor(pairs, alpha=0.1, **many).fit(X, y),
        "MultipleKernelRegressor-views": lambda: bochner.MultipleKernelRegressor("gaussian", **many).fit(views(X), y),
        "MultipleKernelClassifier": lambda: bochner.MultipleKernelClassifier(pairs, alpha=0.1, **many).fit(X, three),
        "KernelRidgeGD": lambda: KernelRidgeGD("laplacian", **FEW).fit(X, y),
        "GMKLRegressor": lambda: GMKLRegressor(pairs).fit(X, y),
        "GMKLClassifier": lambda: GMKLClassifier(pairs).fit(X, three),
    }


def main() -> None:
    """Write what is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--again", action="store_true", help="also files of this version that are there")
    again = parser.parse_args().again
    ARCHIVE.mkdir(exist_ok=True)
    table = rows(5, seed=1)
    for name, make in models().items():
        path = ARCHIVE / f"{bochner.__version__}-{name}.safetensors"
        if path.exists() and not again:
            continue
        model = make()
        model.save(path)
        X = views(table) if name.endswith("views") else table
        expected = {each: getattr(model, each)(X).tolist() for each in METHODS if hasattr(model, each)}
        listed = {key: view.tolist() for key, view in X.items()} if isinstance(X, dict) else X.tolist()
        path.with_suffix(".json").write_text(json.dumps({"X": listed, "expected": expected}) + "\n", encoding="utf-8")
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
