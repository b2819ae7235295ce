"""A fitted model with fewer of its features: smaller, faster, and as a rule less accurate."""

from __future__ import annotations

import numbers
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from bochner.errors import InputError
from bochner.estimators.provenance import forget
from bochner.features import CentreMap
from bochner.features.fourier import FourierMap
from bochner.solvers.normal_equations import CentredMoments


def with_features(model: Any, n_features: int) -> Any:
    """A copy of a fitted ``KernelRegressor`` or ``KernelClassifier`` that has the first ``n_features`` of its features.

    Kernel, penalty and calibration stay; coefficients are those of ridge regression on the same rows, from their sums: no
    row is needed. Fourier features come as pairs of cosine and sine.

    Examples
    --------
    >>> from bochner import KernelRegressor
    >>> from bochner.estimators.smaller import with_features
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRegressor("gaussian", n_features=64, random_state=0).fit(X, y)
    >>> with_features(model, 16).feature_map_.n_features
    16
    """
    sums, feature_map = getattr(model, "moments_", None), getattr(model, "feature_map_", None)
    if sums is None or not isinstance(feature_map, FourierMap | CentreMap):
        raise InputError(
            f"{type(model).__name__} cannot do with fewer features: give a KernelRegressor or KernelClassifier of "
            "random features or centres, fitted with loss='squared' and keep_moments=True."
        )
    most, step = feature_map.n_features, 2 if isinstance(feature_map, FourierMap) else 1
    whole = isinstance(n_features, numbers.Integral) and 0 < n_features <= most and n_features % step == 0
    if not whole:
        kind = "an even number" if step == 2 else "a whole number"
        raise InputError(f"n_features must be {kind} from {step} to {most}, got {n_features!r}.")
    n = int(n_features)
    if isinstance(feature_map, CentreMap):
        used, factor = np.arange(n), 1.0
        fewer: Any = CentreMap(feature_map.kernel, feature_map.centres[:n], feature_map.factor[:n, :n])
    else:
        used, factor = np.concatenate([np.arange(n // 2), most // 2 + np.arange(n // 2)]), (most / n) ** 0.5
        fewer = replace(feature_map, points=feature_map.points[:, : n // 2])
    small = copy(model)
    forget(small)
    small.feature_map_ = fewer
    small.moments_ = sums.scaled(used, np.full((n, 1), factor))
    small._keep_coefficients(*CentredMoments(small.moments_).coefficients(model.alpha_))
    return small
