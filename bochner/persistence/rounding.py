"""Models of rows of the fit in single precision: what is rounded, and what keeps its digits.

Their predictions are sums sum_j k(x, c_j) a_j over centres c. Coefficients a may be a million times as large as these sums
where targets have little noise, so they are never rounded, and they are those of the rounded centres.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bochner.arrays import Array, is_plain
from bochner.features import CentreKernels, CentreMap

LARGEST_CHANGE = 1e-6
"""How much rounded centres may change a prediction, in units of the largest: where they do more, they are not rounded."""
COMPARED = 1000
"""Rows for which that is looked at."""


def rounded(attributes: Mapping[str, Any]) -> tuple[dict[str, Any], list[Array]]:
    """Fitted attributes to be stored in single precision, and those matrices among them that are to keep their digits."""
    feature_map, at_centres = attributes.get("feature_map_"), attributes.get("_at_centres")
    if isinstance(feature_map, CentreMap) and at_centres is not None:
        return _on_centres(attributes, feature_map, at_centres)
    if "dual_coef_" not in attributes:
        return dict(attributes), []
    dual, rows = attributes["dual_coef_"], attributes["X_fit_"]
    if not isinstance(rows, np.ndarray):  # several kernels, whose coefficients have a bound
        return dict(attributes), [dual]
    spread = attributes["standardiser_"].spread
    kernel = attributes["kernel_"].replace(scale=attributes["kernel_"].scale * spread)
    changes = _change(CentreKernels(kernel, rows), dual, CentreKernels(kernel, _in_single(rows)), dual) > LARGEST_CHANGE
    return dict(attributes), [dual, rows] if changes else [dual]


def _on_centres(
    attributes: Mapping[str, Any], feature_map: CentreMap, at_centres: Array
) -> tuple[dict[str, Any], list[Array]]:
    """The attributes of a model on centres, with rounded centres and their coefficients where that can be."""
    if not is_plain(feature_map.centres) or feature_map.centres.dtype == np.float32:
        return dict(attributes), [at_centres]
    coef = attributes["coef_"]
    near = CentreMap(feature_map.kernel, _in_single(feature_map.centres))
    dual = at_centres if coef is at_centres else near.dual(coef)  # the former where coefficients are not those of features
    if _change(feature_map.kernels, at_centres, near.kernels, dual) > LARGEST_CHANGE:
        return dict(attributes), [at_centres, feature_map.centres]
    return {**attributes, "feature_map_": near, "_at_centres": dual}, [dual]


def _in_single(rows: Array) -> Array:
    """Rows in float64 as they come back from single precision."""
    return rows.astype(np.float32).astype(np.float64)


def _change(before: CentreKernels, dual: Array, after: CentreKernels, new: Array) -> float:
    """The largest change of predictions half way between neighbouring centres, over the largest prediction."""
    step = max(1, len(before.centres) // COMPARED)
    some = before.centres[::step]
    rows = 0.5 * (some + np.roll(some, 1, axis=0))
    first, second = before.forward(rows) @ dual, after.forward(rows) @ new
    return float(np.abs(first - second).max() / max(float(np.abs(first).max()), np.finfo(np.float64).tiny))
