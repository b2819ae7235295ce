"""A program that fits every public estimator by default settings and says what they predict, for other versions of NumPy.

    python -m tests.estimators.kept_fits            predictions of one table, as JSON
    python -m tests.estimators.kept_fits 10         of so many tables
    python -m tests.estimators.kept_fits --keep     write kept_fits.json, which the test compares with

Kernels, metrics, penalties and sizes are all learned or chosen: every step amplifies the roundings of the one before.
"""

import json
import platform
import sys
import warnings
from pathlib import Path

import numpy as np
import scipy
import sklearn
from sklearn.exceptions import ConvergenceWarning

from bochner import FourierFeatures, KernelClassifier, KernelRegressor, MultipleKernelClassifier, MultipleKernelRegressor
from bochner.exact import GMKLClassifier, GMKLRegressor, KernelRidgeGD

KEPT = Path(__file__).with_suffix(".json")
TOLERANCE = 1e-3
"""Predictions of a fit on any machine, with any version of NumPy, differ by no more than this part of the largest of them,
as docs/reliability.md says; on one machine by a tenth of it."""
PARTS = [("first", "gaussian", [0, 1]), ("others", "matern32", [2, 3, 4])]
ROWS, NEW = 120, 20
FITS = {
    "FourierFeatures": lambda: FourierFeatures(random_state=0),
    "KernelRegressor": lambda: KernelRegressor(random_state=0),
    "KernelRegressor, scales alone": lambda: KernelRegressor(effort="fast", random_state=0),
    "KernelRegressor, few features": lambda: KernelRegressor("gaussian", n_features=64, random_state=0),
    "KernelClassifier": lambda: KernelClassifier(random_state=0),
    "KernelClassifier, scales alone": lambda: KernelClassifier(effort="fast", random_state=0),
    "KernelClassifier, logistic": lambda: KernelClassifier("gaussian", loss="logistic", n_features=64, random_state=0),
    "MultipleKernelRegressor": lambda: MultipleKernelRegressor(PARTS, random_state=0),
    "MultipleKernelClassifier": lambda: MultipleKernelClassifier(PARTS, random_state=0),
    "KernelRidgeGD": lambda: KernelRidgeGD(random_state=0),
    "GMKLRegressor": lambda: GMKLRegressor(PARTS),
    "GMKLClassifier": lambda: GMKLClassifier(PARTS),
}


def table(number=0):
    """Rows of five columns with a target that three of them make, and noise, little or much; the last rows are new."""
    rng = np.random.default_rng(number)
    X = rng.standard_normal((ROWS + NEW, 5))
    noise = (0.1, 0.5, 1.0)[number % 3] * rng.standard_normal(len(X))
    return X, np.sin(2 * X[:, 0] + X[:, 1]) + 0.5 * X[:, 2] + noise


def predicted(name, number=0):
    """What one estimator says of rows of a table that are new to it: (NEW, outputs)."""
    model, (X, y) = FITS[name](), table(number)
    y = y > 0 if "Classifier" in name else y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X[:ROWS], y[:ROWS])
    says = next(getattr(model, each) for each in ("transform", "decision_function", "predict") if hasattr(model, each))
    return np.asarray(says(X[ROWS:])).reshape(NEW, -1)[:, :4]


def difference(one, other):
    """The largest difference of two arrays of predictions, as a part of the largest prediction."""
    return float(np.max(np.abs(np.subtract(one, other))) / np.max(np.abs(one)))


def versions():
    """Those of what computes."""
    modules = {"numpy": np, "scipy": scipy, "scikit-learn": sklearn}
    return {"python": platform.python_version(), **{name: module.__version__ for name, module in modules.items()}}


def main(asked="1"):
    numbers = range(1 if asked == "--keep" else int(asked))
    fits = {f"{name}, table {number}": predicted(name, number).tolist() for name in FITS for number in numbers}
    text = json.dumps({"versions": versions(), "predictions": fits})
    if asked == "--keep":
        KEPT.write_text(text + "\n", encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
