"""How much of what a model predicts goes with each column."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bochner.arrays import Array, dense

MOST_ROWS, MOST_PREDICTIONS = 256, 20_000
"""Rows that columns are tried on, and predictions for all columns together."""
MOST_COLUMNS = 2_000
"""With more columns than that, trying each of them would take longer than learning."""
AT_A_TIME = 4_096
"""Predictions at a time."""


def total_effects(predict: Callable[[Array], Array], X: Array, rng: np.random.Generator) -> Array:
    """The mean square of what predictions (n, c) change by when one column of X has the values of other rows: (m,).

    Half of it is the variance of the predictions that goes with a column, alone or together with others (Jansen's estimate
    of Sobol's total effect).
    """
    n, m = X.shape
    rows = rng.permutation(n)[: max(min(MOST_ROWS, MOST_PREDICTIONS // m), 2)]
    here = dense(X[rows]).astype(np.float64)
    there, before = np.roll(here, 1, axis=0), predict(here)
    effects = np.empty(m)
    step = max(AT_A_TIME // len(rows), 1)
    for columns in (np.arange(first, min(first + step, m)) for first in range(0, m, step)):
        tried = np.tile(here, (len(columns), 1, 1))
        tried[np.arange(len(columns)), :, columns] = there.T[columns]
        after = predict(tried.reshape(-1, m)).reshape(len(columns), *before.shape)
        effects[columns] = np.mean(np.sum((after - before) ** 2, axis=2), axis=1)
    return effects
