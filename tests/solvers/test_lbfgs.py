"""minimise: against scipy.optimize, in a box, with a memory from elsewhere, and on functions that break."""

import numpy as np
import pytest
from scipy import optimize

from bochner.solvers.lbfgs import Memory, minimise

FREE = 100.0


def box(n, low=-FREE, high=FREE):
    return np.full(n, low), np.full(n, high)


def quadratic(n, *, seed=0, condition=100.0):
    """1 + (x - c)' H (x - c) / 2 with eigenvalues from 1/condition to one; returns the function, c and H."""
    rng = np.random.default_rng([seed, n])
    turn = np.linalg.qr(rng.standard_normal((n, n)))[0]
    H = turn @ np.diag(np.geomspace(1 / condition, 1, n)) @ turn.T
    centre = rng.uniform(-2, 2, n)

    def function(x):
        return 1 + 0.5 * float((x - centre) @ H @ (x - centre)), H @ (x - centre)

    return function, centre, H


def rosenbrock(x):
    return float(optimize.rosen(x)), optimize.rosen_der(x)


def counted(function):
    calls = []

    def counting(x):
        calls.append(x.copy())
        return function(x)

    return counting, calls


@pytest.mark.parametrize("n", [1, 2, 10, 30])
def test_quadratic(n):
    function, _centre, _H = quadratic(n)
    result = minimise(function, np.zeros(n), bounds=box(n), max_iter=200, tol=1e-14)
    assert result.converged
    # The value is one plus at most condition * n * |gradient|^2 / 2: below 1e-12 for both.
    assert result.value == pytest.approx(
        optimize.minimize(function, np.zeros(n), jac=True, options={"gtol": 1e-8}).fun, abs=1e-9
    )
    assert result.violation == pytest.approx(np.max(np.abs(function(result.coef)[1])), rel=1e-12)
    assert result.violation <= 1e-5


@pytest.mark.parametrize("n", [2, 4])
def test_rosenbrock(n):
    start = np.full(n, -0.5)
    result = minimise(rosenbrock, start, bounds=box(n), max_iter=300, tol=1e-10)
    expected = optimize.minimize(rosenbrock, start, jac=True, method="L-BFGS-B")
    np.testing.assert_allclose(expected.x, 1, atol=1e-3)
    np.testing.assert_allclose(result.coef, expected.x, rtol=0, atol=1e-3)
    assert result.n_iter <= 3 * expected.nit


@pytest.mark.parametrize("n", [2, 5, 20])
@pytest.mark.parametrize("seed", range(5))
def test_bounds(n, seed):
    """A box that cuts off the free minimum: never left, and the best point of it is found."""
    function, centre, _H = quadratic(n, seed=seed)
    bounds = (np.minimum(centre - 0.5, -0.1), centre - 0.2)  # every parameter would rather be above
    bounds = (bounds[0], np.where(np.arange(n) % 2, bounds[1], 3.0))
    counting, calls = counted(function)
    result = minimise(counting, np.zeros(n), bounds=bounds, max_iter=500, tol=1e-13)
    assert all(((bounds[0] <= x) & (x <= bounds[1])).all() for x in calls)
    expected = optimize.minimize(
        function, np.clip(0, *bounds), jac=True, bounds=optimize.Bounds(*bounds), options={"ftol": 1e-15, "gtol": 1e-9}
    )
    assert result.converged
    assert result.value == pytest.approx(expected.fun, abs=1e-7)
    assert result.violation <= 1e-3


def test_start_outside_the_box():
    function, centre, _H = quadratic(3)
    bounds = (centre - 1, centre + 1)
    counting, calls = counted(function)
    result = minimise(counting, np.full(3, 50.0), bounds=bounds, max_iter=100, tol=1e-12)
    np.testing.assert_array_equal(calls[0], centre + 1)
    assert result.value == pytest.approx(1, abs=1e-9)


def test_a_point_of_no_freedom():
    function, _centre, _H = quadratic(3)
    here = np.ones(3)
    result = minimise(function, here, bounds=(here, here), max_iter=10)
    np.testing.assert_array_equal(result.coef, here)
    assert result.converged
    assert result.violation == 0


def test_memory_saves_steps():
    """Curvature of one quadratic serves another with the same Hessian and a centre elsewhere."""
    function, centre, H = quadratic(12, condition=1000.0)

    def elsewhere(x):
        return 1 + 0.5 * float((x - 1 + centre) @ H @ (x - 1 + centre)), H @ (x - 1 + centre)

    options = {"bounds": box(12), "max_iter": 300, "tol": 1e-8}
    memory = Memory()
    minimise(function, np.zeros(12), memory=memory, **options)
    assert 0 < len(memory.pairs) <= memory.size
    cold, warm = (minimise(elsewhere, np.zeros(12), memory=m, **options) for m in (None, memory))
    assert warm.converged
    assert cold.converged
    assert warm.n_iter < cold.n_iter


def test_misleading_memory_does_no_harm():
    function, _centre, _H = quadratic(5)
    rng = np.random.default_rng(0)
    memory = Memory()
    for _ in range(12):
        step = rng.standard_normal(5)
        memory.add(step, 1e8 * step + rng.standard_normal(5))
    result = minimise(function, np.zeros(5), bounds=box(5), max_iter=200, tol=1e-12, memory=memory)
    assert result.value <= function(np.zeros(5))[0]
    assert np.isfinite(result.coef).all()


def test_memory_keeps_the_latest_pairs_of_positive_curvature():
    memory = Memory(size=3)
    unit = np.array([1.0, 0.0])
    for change in (-unit, 0 * unit, np.array([0.0, 1.0])):
        memory.add(unit, change)
    assert memory.pairs == []
    for k in range(1, 6):
        memory.add(k * unit, unit)
    assert [float(step[0]) for step, _ in memory.pairs] == [3, 4, 5]


def test_direction_is_that_of_newton_once_the_curvature_is_known():
    _function, _centre, H = quadratic(4)
    memory = Memory()
    turn = np.linalg.eigh(H)[1]
    for step in turn.T:  # conjugate steps: the estimate is exact
        memory.add(step, H @ step)
    gradient = np.arange(1.0, 5.0)
    np.testing.assert_allclose(memory.direction(gradient), -np.linalg.solve(H, gradient), rtol=1e-10)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["value", "gradient", "both"])
def test_a_wall_of_bad_values(where, bad):
    """Beyond x = 1 the function breaks, and its minimum is at 0.9."""

    def function(x):
        value, gradient = 1 + float((x[0] - 0.9) ** 2 + x[1] ** 2), 2 * np.array([x[0] - 0.9, x[1]])
        if x[0] > 1:
            value = value if where == "gradient" else bad
            gradient = gradient if where == "value" else np.full(2, bad)
        return value, gradient

    counting, calls = counted(function)
    result = minimise(counting, np.array([-3.0, 1.0]), bounds=box(2), max_iter=100, tol=1e-12)
    assert np.isfinite(np.array(calls)).all()
    np.testing.assert_allclose(result.coef, [0.9, 0], atol=1e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_start_ends_at_once(bad):
    counting, calls = counted(lambda x: (bad, np.full(2, np.nan)))
    result = minimise(counting, np.ones(2), bounds=box(2), max_iter=50)
    assert not result.converged
    np.testing.assert_array_equal(result.coef, 1)
    assert len(calls) == 1
    counting, calls = counted(lambda x: (bad, np.ones(2)))
    assert not minimise(counting, np.ones(2), bounds=box(2), max_iter=50).converged


@pytest.mark.parametrize("seed", range(10))
def test_never_worse_than_the_start(seed):
    """A function with a gradient that lies: steps fail, and the start is what is left."""
    rng = np.random.default_rng(seed)
    turn = rng.standard_normal((3, 3))

    def function(x):
        return float(np.sum(np.sin(3 * x) + 0.1 * x**2)), turn @ x + 1

    start = rng.uniform(-2, 2, 3)
    result = minimise(function, start, bounds=box(3, -2, 2), max_iter=30)
    assert result.value <= function(start)[0]
    assert result.value == function(result.coef)[0]


def test_flat_function():
    result = minimise(lambda x: (0.0, np.zeros(3)), np.ones(3), bounds=box(3), max_iter=10)
    assert result.converged
    assert (result.value, result.violation) == (0, 0)


def test_more_steps_never_lose_ground():
    results = [minimise(rosenbrock, np.full(2, -0.5), bounds=box(2), max_iter=steps) for steps in range(6)]
    assert [result.n_iter for result in results] == [0, 1, 2, 3, 4, 5]
    assert not any(result.converged for result in results)
    values = [result.value for result in results]
    assert values == sorted(values, reverse=True)


def test_finding_that_all_is_well_is_no_step():
    result = minimise(rosenbrock, np.ones(2), bounds=box(2), max_iter=5)
    assert (result.n_iter, result.converged) == (0, True)
