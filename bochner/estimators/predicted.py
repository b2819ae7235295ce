"""Predictions of features and coefficients, computed where rows or devices are, and given back in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from bochner.arrays import Array, dtype_of, fetch64, is_foreign
from bochner.engines import predict
from bochner.engines.devices import predict_on
from bochner.errors import InputError
from bochner.features import FeatureMap


def predicted(device: str | None, feature_map: FeatureMap, rows: Array, coef: Array, intercept: Array) -> Array:
    """Predictions (n, c) of standardised rows, in NumPy and float64: computed on ``device``, or where the rows are."""
    if dtype_of(rows) == np.float32:  # sums of features in units that float32 has; the rest is added in float64
        unit = np.maximum(np.abs(coef).max(axis=0), np.finfo(np.float64).tiny)
        return _sums(device, feature_map, rows, coef / unit, np.zeros(len(unit))) * unit + intercept
    return _sums(device, feature_map, rows, coef, intercept)


def _sums(device: str | None, feature_map: FeatureMap, rows: Array, coef: Array, intercept: Array) -> Array:
    """The same, computed in the precision of the rows."""
    if device is None or is_foreign(rows):
        return fetch64(predict(feature_map, rows, coef, intercept))
    return predict_on(device, feature_map, rows, coef, intercept).astype(np.float64)


def refuse_device(estimator: Any, what: str, instead: str) -> None:
    """An error where an estimator has a device and something that is computed on the host."""
    if estimator.device is not None:
        raise InputError(
            f"{what} is computed on the host, and device is {estimator.device!r}: use device=None, or {instead}."
        )
