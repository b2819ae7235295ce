"""Factors in the memory of one matrix: against NumPy's, and the iterations that they precondition."""

import numpy as np
import pytest
import torch

from bochner import arrays, in_place, iterated_ridge
from bochner.engines.devices import on_device
from bochner.features import CentreMap
from bochner.in_place import SecondFactor, cholesky_in_place
from bochner.iterated_ridge import IteratedHeldOutError, OwnMatrix, SameMatrix
from bochner.kernels import Gaussian, Matern
from tests.test_iterated_ridge import EXACT, centre_map, data

BLOCKS = pytest.mark.parametrize("block", [1, 4, 7, 12, 100])


def positive(size=12, seed=0):
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((size, size + 3))
    return half @ half.T


@BLOCKS
def test_a_factor_is_numpys(block):
    matrix = torch.tensor(positive())
    assert not cholesky_in_place(matrix, block)
    np.testing.assert_allclose(matrix, np.linalg.cholesky(positive()), rtol=0, atol=1e-12)


@BLOCKS
@pytest.mark.parametrize("bad", [0, 11])
def test_a_matrix_without_a_factor_is_told_of(block, bad):
    matrix = positive()
    matrix[bad, bad] = -1
    assert cholesky_in_place(torch.tensor(matrix), block)


@BLOCKS
def test_the_second_factor_solves_and_leaves_the_first_one(block):
    lower = np.linalg.cholesky(positive())
    shared = torch.tensor(lower)
    factor = SecondFactor(shared, block)
    right = np.random.default_rng(1).standard_normal((12, 3))
    for alpha in (1e-3, 10.0):
        assert not factor.make(alpha)
        B = lower.T @ (np.eye(12) - 1 / 12) @ lower / 12 + alpha * np.eye(12)
        np.testing.assert_allclose(factor.solve(torch.tensor(right)), np.linalg.solve(B, right), rtol=0, atol=1e-9)
        np.testing.assert_array_equal(np.tril(shared), lower)


def test_rounding_that_makes_a_matrix_indefinite_is_made_up_for():
    points = 0.1 * np.random.default_rng(0).standard_normal((40, 2))
    lower = torch.tensor(np.linalg.cholesky(Gaussian()(points) + 1.1e-13 * np.eye(40)))
    assert SecondFactor(torch.clone(lower), 16).make(1e-30)
    factor = SameMatrix(lower).at(1e-30)
    solved = factor.solve(torch.ones((40, 1), dtype=torch.float64))
    assert torch.isfinite(solved).all()
    assert (solved.T @ torch.ones((40, 1), dtype=torch.float64)) > 0


def test_a_matrix_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        SameMatrix(torch.full((4, 4), torch.nan, dtype=torch.float64)).at(1e-6)


@pytest.mark.parametrize(("room", "kind"), [(None, OwnMatrix), (2.1, SameMatrix), (2.3, OwnMatrix)])
def test_factors_share_a_matrix_where_there_is_no_room_for_others(room, kind, monkeypatch):
    """Room in matrices of the size of L; None: on the host."""
    monkeypatch.setattr(iterated_ridge, "gpu_of", lambda _: None if room is None else "cuda")
    monkeypatch.setattr(iterated_ridge, "free_room", lambda _: room * 8 * 12**2)
    lower = np.linalg.cholesky(positive())
    assert type(iterated_ridge.factors_of(torch.tensor(lower))) is kind


@pytest.mark.parametrize("alpha", [1e-2, 1e-6])
def test_regressions_on_centres_are_those_of_two_matrices(alpha, monkeypatch):
    """The large matrices' way for 40 centres, in blocks of 16."""
    folds = data(c=2)
    feature_map = centre_map(folds)
    expected = IteratedHeldOutError(folds, penalty=alpha, tol=EXACT).evaluate(feature_map)
    monkeypatch.setattr(in_place, "LARGE", 10)
    for function in (in_place.SecondFactor.__init__, in_place.cholesky_in_place):
        monkeypatch.setattr(function, "__defaults__", (16,))
    monkeypatch.setattr(iterated_ridge, "factors_of", SameMatrix)
    placed = on_device(folds, "cpu")
    shared = CentreMap(feature_map.kernel, feature_map.centres)
    iterated = IteratedHeldOutError(placed, penalty=alpha, tol=EXACT)
    found = iterated.evaluate(shared)
    assert found.converged
    size = np.max(np.abs(expected.models[0][0]))
    np.testing.assert_allclose(found.models[0][0], expected.models[0][0], rtol=0, atol=1e-6 * size)
    fit = iterated.fit(shared, found)
    np.testing.assert_allclose(
        shared.dual(fit.coef), feature_map.dual(fit.coef), rtol=0, atol=1e-6 * np.abs(feature_map.dual(fit.coef)).max()
    )


def test_large_matrices_are_factorised_in_place(monkeypatch):
    monkeypatch.setattr(in_place, "LARGE", 12)
    matrix = torch.tensor(positive())
    triangle, failed = arrays.cholesky(matrix, 0.5)
    assert triangle is matrix
    assert not failed
    np.testing.assert_allclose(triangle, np.linalg.cholesky(positive() + 0.5 * np.eye(12)), rtol=0, atol=1e-12)


def test_the_kernel_between_centres_is_made_some_rows_at_a_time(monkeypatch):
    monkeypatch.setattr("bochner.features.centres.DEVICE_BYTES", 8 * 40 * 20)
    centres = np.random.default_rng(0).standard_normal((40, 3))
    kernel = Matern(nu=1.5)
    there = CentreMap(kernel, torch.tensor(centres))
    np.testing.assert_allclose(there.kernels.square(), kernel(centres), rtol=0, atol=1e-12)
    np.testing.assert_allclose(there.factor, np.linalg.cholesky(kernel(centres)), rtol=0, atol=1e-9)
