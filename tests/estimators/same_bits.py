"""A program that fits every public estimator and prints digests of its models: ``python -m tests.estimators.same_bits 4``.

The number is that of the threads that BLAS has. Sizes are such that BLAS shares products out, and that matrices are
larger than a tile of ours.
"""

import hashlib
import json
import sys
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from bochner import FourierFeatures, KernelClassifier, KernelRegressor, MultipleKernelClassifier, MultipleKernelRegressor
from bochner.exact import GMKLClassifier, GMKLRegressor, KernelRidgeGD

PARTS = [("first", "gaussian", [0, 1, 2]), ("others", "laplacian", list(range(3, 12)))]


class Enough:
    """A callback that ends a fit after its first evaluations, as Ctrl-C does: the model is whole."""

    def __init__(self, most=2):
        self.most, self.seen = most, 0

    def __call__(self, record):
        self.seen += 1
        if self.seen == self.most:
            raise KeyboardInterrupt


def few(n_features=520, **options):
    return {"n_features": n_features, "random_state": 0, "callback": Enough(), **options}


ESTIMATORS = {
    "FourierFeatures": (lambda: FourierFeatures("gaussian", n_features=640, random_state=0), 2000),
    "KernelRegressor": (lambda: KernelRegressor("gaussian", schedule="full", **few()), 800),
    "KernelRegressor, float32": (lambda: KernelRegressor("gaussian", schedule="full", **few()), 800),
    "KernelRegressor, fewer rows than features": (lambda: KernelRegressor("gaussian", schedule="full", **few(640)), 520),
    "KernelRegressor, leave-one-out": (lambda: KernelRegressor("gaussian", criterion="loo", **few()), 640),
    "KernelRegressor, penalty for each target": (lambda: KernelRegressor("matern32", alpha="per-target", **few(200)), 400),
    "KernelRegressor, centres": (
        lambda: KernelRegressor("gaussian", finish="centres", n_centres=60, metric="diagonal", tol=0.9, random_state=0),
        200,
    ),
    "KernelRegressor, default": (lambda: KernelRegressor("gaussian", random_state=0), 200),
    "KernelClassifier, default": (lambda: KernelClassifier("gaussian", random_state=0), 200),
    "KernelClassifier": (lambda: KernelClassifier("gaussian", schedule="full", **few()), 700),
    "KernelClassifier, logistic": (lambda: KernelClassifier("gaussian", loss="logistic", **few(100, validation=0.3)), 700),
    "MultipleKernelRegressor": (lambda: MultipleKernelRegressor(PARTS, n_features=100, n_alphas=3, random_state=0), 400),
    "MultipleKernelClassifier": (lambda: MultipleKernelClassifier(PARTS, n_features=60, n_alphas=3, random_state=0), 300),
    "KernelRidgeGD": (lambda: KernelRidgeGD("gaussian", random_state=0, callback=Enough(1)), 540),
    "GMKLRegressor": (lambda: GMKLRegressor(PARTS, max_iter=2), 300),
    "GMKLClassifier": (lambda: GMKLClassifier(PARTS, max_iter=2), 300),
}
KEPT = ("coef_", "intercept_", "dual_coef_", "scale_", "alpha_", "relevance_", "kernel_weights_", "metric_")


def digest(arrays):
    """A digest of the bytes of arrays."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:16]


def table(n):
    """Rows, two targets and three classes."""
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 12))
    f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    Y = np.column_stack([f, np.cos(X[:, 3])]) + 0.1 * rng.standard_normal((n, 2))
    return X, Y, np.digitize(Y[:, 0], [-0.5, 0.5])


def outputs(name):
    """What one estimator learns and says."""
    make, n = ESTIMATORS[name]
    model, (X, Y, classes) = make(), table(n)
    y = Y if "each target" in name else Y[:, 0]
    y = (classes > 0 if name.startswith("GMKL") else classes) if "Classifier" in name else y
    X = X.astype(np.float32) if "float32" in name else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    yield from (getattr(model, kept) for kept in KEPT if hasattr(model, kept))
    for method in ("transform", "predict", "decision_function", "predict_proba"):
        if hasattr(model, method):
            yield getattr(model, method)(X[:700])
    if name == "KernelRegressor":
        yield from model.predict(X[:700], return_std=True)


def main(n_threads, *names):
    with threadpool_limits(int(n_threads), user_api="blas"):
        sys.stdout.write(json.dumps({name: digest(outputs(name)) for name in names or ESTIMATORS}))


if __name__ == "__main__":
    main(*sys.argv[1:])
