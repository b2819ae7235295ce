"""How far new observations lie from what a ridge regression on features predicts."""

from __future__ import annotations

import numpy as np

from bochner.arrays import Array
from bochner.engines import quadratic_form, squared_lengths
from bochner.features import CentreMap, FeatureMap
from bochner.solvers.normal_equations import CentredMoments
from bochner.statistics import Moments


def relative_variances(feature_map: FeatureMap, rows: Array, moments: Moments, alpha: float) -> Array:
    """Variances (n,) of new observations at ``rows``, relative to the average over the rows of ``moments``.

    They are those of Bayesian regression: noise, intercept and coefficients together, 1 + 1/W + c' S^-1 c with c the
    centred features of a row and S = A_c + W alpha I, in units of the noise. Features from centres fade where there are
    none, and with them what the coefficients can vary: what the squared length of a row's features lacks of its mean over
    the training rows varies as the functions do that the penalty stands for, with 1 / (W alpha).
    """
    centred = CentredMoments(moments)
    factor = centred.solve(alpha).factor
    shrunk = centred.weight * alpha * factor.inverse_trace()
    average = 1 + (1 + len(centred.mean) - shrunk) / centred.weight
    variances = 1 + 1 / centred.weight + quadratic_form(feature_map, rows, factor.triangle, centred.mean)
    if isinstance(feature_map, CentreMap):
        missing = float(np.trace(moments.gram)) / moments.weight - squared_lengths(feature_map, rows)
        variances = variances + np.maximum(missing, 0.0) / (centred.weight * alpha)
    return variances / average
