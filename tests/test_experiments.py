"""What the experiments rest on."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes

from bochner import KernelRegressor
from bochner.exact import KernelRidgeGD

ROOT = Path(__file__).resolve().parent.parent


def test_the_same_seed_cuts_the_same_folds_with_features_and_without():
    X, y = load_diabetes(return_X_y=True)
    found = []
    for learner in (KernelRegressor, KernelRidgeGD):

        class Spy(learner):
            def _folds(self, *arguments):
                found.append(super()._folds(*arguments))
                return found[-1]

        Spy("gaussian", random_state=3, tol=1.0).fit(X[:60], y[:60])
    for one, other in zip(*(folds.parts for folds in found), strict=True):
        np.testing.assert_array_equal(one.X, other.X)
        np.testing.assert_array_equal(one.targets, other.targets)


def test_the_table_of_the_exact_limit_compares_seed_by_seed(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    exact_limit = importlib.import_module("exact_limit")
    try:
        config = exact_limit.Config(features=(64,), n_seeds=2)
        one = {"errors": [[0.2, 0.6]], "seconds": [[1.0, 3.0]], "exact_errors": [0.1, 0.2], "exact_seconds": [5.0, 6.0]}
        table = exact_limit.table({"some": one}, config)
    finally:
        for name in ("exact_limit", "harness"):
            sys.modules.pop(name, None)
    cells = [cell.strip() for cell in table.splitlines()[2].split("|")[1:-1]]
    ratio = float(np.std([2.0, 3.0], ddof=1))
    assert cells == ["some", "64", "0.400 ± 0.283", f"2.500 ± {ratio:.3f}", "2.0"]
