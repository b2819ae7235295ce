"""The learners as they are if nothing is said, but for their kernel and a seed: a metric is learned, on data centres.

Here the kernel and the penalty are learned, so that only such ways are compared as hold out the same rows. Rows of float32
are compared where they are predicted: by the rule of the matrix, rounding in the rows of a fit may do anything to it at
penalties as small as those that are learned here.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from sklearn.base import clone

from tests.agreement import matrix
from tests.agreement.matrix import Agreement, Case, Pair, nothing, promised

N, M = 120, 3
OPTIONS: dict[str, Any] = {"kernel": "gaussian", "random_state": 0}
NAMES = ("KernelRegressor", "KernelClassifier")


def table() -> tuple[np.ndarray, np.ndarray]:
    """Rows (N, M) of numbers that float32 holds, and targets that vary in one direction, which is that of no column."""
    rng = np.random.default_rng(11)
    X = rng.random((N, M)).astype(np.float32).astype(np.float64)
    y = np.sin(4 * (X[:, 0] + X[:, 1] - X[:, 2])) + 0.3 * rng.standard_normal(N)
    X.flags.writeable = y.flags.writeable = False
    return X, y


X, Y = table()
LABELS = np.searchsorted(np.quantile(Y, [1 / 3, 2 / 3]), Y)


class DefaultCase(Case):
    """A learner with its default settings."""

    @property
    def rows(self) -> np.ndarray:
        return X

    @property
    def y(self) -> np.ndarray:
        return LABELS if self.is_classifier else Y

    @property
    def options(self) -> dict[str, Any]:
        return OPTIONS

    def fit(self, rows: Any = None, y: Any = None, **options: Any) -> Any:
        if rows is None and y is None and not options:
            return fitted(self)
        return super().fit(rows, y, **options)


@functools.cache
def fitted(case: DefaultCase) -> Any:
    """The model of a case; one for all ways, since it takes long."""
    return case.make().fit(case.rows, case.y)


def rounding(case: Case, dtype: Any = np.float64, *, solved: bool = True) -> float:
    """4 (n + d) eps (1 + s^2 / alpha) (1 + r), as :func:`.matrix.rounding`, at the penalty that was learned.

    Where nothing is ``solved`` there is no condition, which is the factor with alpha.
    """
    model = case.fit()
    features = model.feature_map_.forward(model.standardiser_(case.rows))
    square = np.max(np.sum(features**2, axis=1))
    reach = np.sqrt(square) * np.linalg.norm(model.coef_) / np.abs(case.says(model)).max()
    condition = 1 + square / np.min(model.alpha_) if solved else 1.0
    return float(4 * sum(features.shape) * np.finfo(dtype).eps * condition * (1 + reach))


def single(case: Case) -> float:
    """The same of rows of float32, by a model that is there."""
    return rounding(case, np.float32, solved=False)


def predicted_in_float32(case: Case) -> Pair:
    model = case.fit()
    return case.says(model, case.rows.astype(np.float32)), case.says(model)


def of_clones(case: Case) -> Pair:
    copy = clone(case.fit()).fit(case.rows, case.y)
    first, second = case.says(copy, wholly=True), case.says(copy.fit(case.rows, case.y), wholly=True)
    return np.stack([first, second]), np.stack([case.says(case.fit(), wholly=True)] * 2)


AGREEMENTS = {
    each.name: each
    for each in (
        Agreement("float32 rows to predict against float64", predicted_in_float32, single),
        Agreement("tensors of PyTorch against NumPy", matrix.of_tensors, rounding),
        Agreement("pandas against NumPy", matrix.of_frames, rounding),
        Agreement("loaded against saved", matrix.saved, nothing),
        Agreement("pickle", matrix.pickled, nothing),
        Agreement("joblib", matrix.by_joblib, nothing),
        Agreement("ONNX against predict", matrix.as_graph, promised),
        Agreement("clone and second fit", of_clones, nothing),
        Agreement("row by row against all", matrix.row_by_row, rounding),
    )
}
"""The agreements that do without other folds, by name."""
