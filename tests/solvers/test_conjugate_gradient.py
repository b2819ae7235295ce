"""Conjugate gradients: against dense solves, with good and bad preconditioners, on matrices that are nearly singular."""

import numpy as np
import pytest
import torch
from scipy import linalg
from scipy.sparse.linalg import cg

from bochner.solvers.conjugate_gradient import conjugate_gradient


def spread(d, condition, seed=0):
    """A matrix (d, d) with eigenvalues from 1 / condition to one."""
    rng = np.random.default_rng([seed, d])
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return turn @ np.diag(np.geomspace(1 / condition, 1, d)) @ turn.T


def times(matrix):
    """The product with a matrix, and the list of numbers of columns that it was asked for."""
    asked = []

    def product(vectors):
        asked.append(vectors.shape[1])
        return matrix @ vectors

    return product, asked


@pytest.mark.parametrize("d", [1, 5, 40])
@pytest.mark.parametrize("c", [1, 3])
def test_against_a_dense_solve(d, c, rng):
    A, right = spread(d, 100.0), rng.standard_normal((d, c))
    result = conjugate_gradient(times(A)[0], right, tol=1e-12, max_iter=200)
    assert result.converged
    expected = np.linalg.solve(A, right)
    # The residual is below 1e-12 |b|, and the inverse below 100.
    np.testing.assert_allclose(result.coef, expected, rtol=0, atol=1e-10 * np.linalg.norm(right))
    assert result.value == pytest.approx(np.sum(expected * (A @ expected)) - 2 * np.sum(right * expected), rel=1e-10)
    left = np.linalg.norm(right - A @ result.coef, axis=0) / np.linalg.norm(right, axis=0)
    assert result.violation == pytest.approx(left.max(), rel=1e-6)


@pytest.mark.parametrize("steps", [1, 3, 7])
def test_steps_are_those_of_scipy(steps, rng):
    """Stopped early, on the way down, also where the residual of the last step is larger than the one before."""
    A, right = spread(30, 1e4), rng.standard_normal(30)
    expected = cg(A, right, rtol=0, atol=0, maxiter=steps)[0]
    result = conjugate_gradient(times(A)[0], right[:, None], tol=0.0, max_iter=steps)
    np.testing.assert_allclose(result.coef[:, 0], expected, rtol=0, atol=1e-9 * np.max(np.abs(expected)))
    assert (result.n_iter, result.converged) == (steps, False)


def test_the_exact_inverse_takes_one_step(rng):
    A, right = spread(20, 1e6), rng.standard_normal((20, 4))
    factor = linalg.cho_factor(A)
    result = conjugate_gradient(times(A)[0], right, precondition=lambda r: linalg.cho_solve(factor, r), tol=1e-8)
    assert (result.n_iter, result.converged) == (1, True)


def test_a_good_preconditioner_saves_steps(rng):
    A, right = spread(60, 1e6), rng.standard_normal((60, 1))
    near = linalg.cho_factor(A + 0.3 * np.diag(np.diag(A)) * 1e-5)
    plain = conjugate_gradient(times(A)[0], right, tol=1e-6, max_iter=2000)
    better = conjugate_gradient(times(A)[0], right, precondition=lambda r: linalg.cho_solve(near, r), tol=1e-6)
    assert plain.converged
    assert better.converged
    assert better.n_iter < plain.n_iter / 4


def test_columns_converge_separately(rng):
    """An eigenvector needs one step, and is not multiplied again until the end; a right side of zero needs none."""
    A = spread(50, 1e3)
    easy = np.linalg.eigh(A)[1][:, 7]
    right = np.column_stack([easy, rng.standard_normal(50), np.zeros(50)])
    product, asked = times(A)
    result = conjugate_gradient(product, right, tol=1e-10, max_iter=500)
    assert result.converged
    np.testing.assert_allclose(A @ result.coef, right, rtol=0, atol=1e-9)
    assert asked[0] == 2
    assert set(asked[1:-1]) == {1}


def test_shifts_are_one_for_each_column(rng):
    A, right, shifts = spread(30, 1e3), rng.standard_normal((30, 3)), np.array([0.0, 0.1, 10.0])
    result = conjugate_gradient(times(A)[0], right, shifts=shifts, tol=1e-12, max_iter=300)
    for j, shift in enumerate(shifts):
        expected = np.linalg.solve(A + shift * np.eye(30), right[:, j])
        np.testing.assert_allclose(result.coef[:, j], expected, rtol=0, atol=1e-8)


def test_a_start_at_the_solution_takes_no_step(rng):
    A, right = spread(30, 1e3), rng.standard_normal((30, 2))
    start = np.linalg.solve(A, right)
    before = start.copy()
    result = conjugate_gradient(times(A)[0], right, start=start, tol=1e-9)
    assert (result.n_iter, result.converged) == (0, True)
    np.testing.assert_array_equal(start, before)
    near = conjugate_gradient(times(A)[0], right, start=start + 1e-6, tol=1e-6, max_iter=200)
    far = conjugate_gradient(times(A)[0], right, tol=1e-6, max_iter=200)
    assert near.converged
    assert near.n_iter < far.n_iter


def test_the_certificate_of_least_squares(rng):
    """With the exact inverse of a matrix close by, the violation is how far the objective is above its minimum."""
    F, y = rng.standard_normal((80, 20)), rng.standard_normal((80, 2))
    A, right, squares = F.T @ F, F.T @ y, np.sum(y**2, axis=0)
    factor = linalg.cho_factor(A + 5.0 * np.diag(rng.uniform(0, 1, 20)))
    lowest = np.linalg.lstsq(F, y, rcond=None)[0]
    for tol in (1e-1, 1e-3):
        result = conjugate_gradient(
            times(A)[0], right, precondition=lambda r: linalg.cho_solve(factor, r), squares=squares, tol=tol
        )
        objective = np.sum((F @ result.coef - y) ** 2, axis=0)
        assert result.value == pytest.approx(objective.sum(), rel=1e-10)
        excess = objective / np.sum((F @ lowest - y) ** 2, axis=0) - 1
        assert result.converged
        assert np.all(excess <= 2 * tol**2)  # the two matrices differ by less than a half


@pytest.mark.parametrize("condition", [1e14, 1e18])
def test_nearly_singular_matrices_end_without_an_error(condition, rng):
    """What rounding leaves unsolved is said, and the end is better than the start."""
    A, right = spread(40, condition), rng.standard_normal((40, 2))
    result = conjugate_gradient(times(A)[0], right, tol=1e-14, max_iter=400)
    left = np.linalg.norm(right - A @ result.coef, axis=0) / np.linalg.norm(right, axis=0)
    assert not result.converged
    assert result.violation == pytest.approx(left.max(), rel=1e-6)
    assert result.value < 0  # that of the start
    assert np.isfinite(result.coef).all()


def test_a_matrix_of_low_rank_with_a_right_side_in_its_range(rng):
    F = rng.standard_normal((30, 6))
    A, right = F @ F.T, F @ rng.standard_normal((6, 2))
    result = conjugate_gradient(times(A)[0], right, tol=1e-9)
    assert result.converged
    assert result.n_iter <= 8
    np.testing.assert_allclose(result.coef, np.linalg.pinv(A) @ right, rtol=0, atol=1e-8)


def test_an_indefinite_matrix_is_not_followed_upwards():
    A = np.diag([1.0, -1.0])
    result = conjugate_gradient(times(A)[0], np.array([[0.1], [1.0]]), tol=1e-9)
    assert not result.converged
    assert np.isfinite(result.coef).all()
    assert result.violation == pytest.approx(1.0)


def test_nan_is_no_convergence():
    result = conjugate_gradient(lambda v: v * np.nan, np.ones((3, 1)), tol=1e-9)
    assert not result.converged
    np.testing.assert_array_equal(result.coef, np.zeros((3, 1)))


def test_tensors_as_arrays(rng):
    A, right = spread(25, 1e3), rng.standard_normal((25, 3))
    matrix = torch.asarray(A)
    there = conjugate_gradient(lambda v: matrix @ v, torch.asarray(right), shifts=[0.0, 0.5, 1.0], tol=1e-10)
    here = conjugate_gradient(times(A)[0], right, shifts=[0.0, 0.5, 1.0], tol=1e-10)
    assert isinstance(there.coef, torch.Tensor)
    np.testing.assert_allclose(there.coef.numpy(), here.coef, rtol=0, atol=1e-6)
    assert there.converged
    assert here.converged
