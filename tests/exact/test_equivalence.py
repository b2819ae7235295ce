"""The paper's equivalence: GMKL on the kernel matrices F_t F_t' and group lasso on the features F_t are one problem."""

import numpy as np
import pytest

from bochner.exact import GMKLRegressor
from bochner.solvers import group_lasso_path


@pytest.mark.parametrize(("C", "n_in"), [(0.02, 1), (0.05, 2), (0.5, 4), (5.0, 4)])
def test_gmkl_and_group_lasso_agree(C, n_in):
    rng = np.random.default_rng(0)
    n, sizes = 60, (3, 5, 4, 6)
    parts = [rng.standard_normal((n, size)) for size in sizes]
    y = parts[0] @ rng.standard_normal(3) + 0.3 * parts[1] @ rng.standard_normal(5) + 0.5 * rng.standard_normal(n)
    exact = GMKLRegressor("precomputed", loss="squared", C=C, tol=1e-9, max_iter=10_000)
    grams = np.stack([part @ part.T for part in parts])
    exact.fit(grams, y)
    labels = np.repeat(np.arange(4), sizes)
    # sum of losses + (2^(1/2) / C) sum |w_t|, over n
    path = group_lasso_path(np.hstack(parts), y, labels, alphas=[np.sqrt(2) / (C * n)], tol=1e-12)
    weights = path.norms[0, :, 0] / np.sqrt(2)
    assert np.count_nonzero(weights) == n_in  # kernels come in as the loss counts for more
    asked = 1e-4  # the equivalence is asked to hold to this part of the largest; a gap says nothing of a single weight
    np.testing.assert_allclose(exact.kernel_weights_, weights, rtol=0, atol=asked * weights.max())
    np.testing.assert_array_equal(exact.kernel_weights_ > asked * weights.max(), weights > 0)
    # Objectives grow by C |f - f*|^2 (exact), or |f - f*|^2 / n (path), around their minimum, and are known to n eps.
    rounding = n * np.finfo(np.float64).eps * exact.objective_
    apart = np.sqrt((exact.duality_gap_ + rounding) / C) + np.sqrt(n * path.gap[0, 0] + rounding / C)
    assert apart <= asked * np.ptp(y)
    predictions = np.hstack(parts) @ path.coef[0, :, 0] + path.intercept[0, 0]
    np.testing.assert_allclose(exact.predict(grams), predictions, rtol=0, atol=apart)
