"""How far new observations lie from what a ridge regression on features predicts."""

from __future__ import annotations

from bochner.arrays import Array
from bochner.engines import quadratic_form
from bochner.features import FeatureMap
from bochner.solvers.normal_equations import CentredMoments
from bochner.statistics import Moments


def relative_variances(feature_map: FeatureMap, rows: Array, moments: Moments, alpha: float) -> Array:
    """Variances (n,) of new observations at ``rows``, relative to the average over the rows of ``moments``.

    They are those of Bayesian regression: noise, intercept and coefficients together, 1 + 1/W + c' S^-1 c with c the
    centred features of a row and S = A_c + W alpha I, in units of the noise.
    """
    centred = CentredMoments(moments)
    factor = centred.solve(alpha).factor
    shrunk = centred.weight * alpha * factor.inverse_trace()
    average = 1 + (1 + len(centred.mean) - shrunk) / centred.weight
    return (1 + 1 / centred.weight + quadratic_form(feature_map, rows, factor.triangle, centred.mean)) / average
