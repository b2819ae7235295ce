"""Base points: uniform, inside the open cube, directions on the sphere, orthonormal blocks."""

import numpy as np
import pytest

from bochner.sampling import MAX_SOBOL_COLUMNS, SAMPLINGS, directions_and_lengths, uniforms


@pytest.mark.parametrize("n", [1, 2, 5, 64, 100])
@pytest.mark.parametrize("m", [1, 3, 10])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_shapes_and_ranges(sampling, m, n, rng):
    u = uniforms(n, m, sampling=sampling, rng=rng)
    assert u.shape == (n, m)
    assert np.all((u > 0) & (u < 1))
    directions, lengths = directions_and_lengths(n, m, sampling=sampling, rng=rng)
    assert directions.shape == (n, m)
    assert lengths.shape == (n,)
    assert np.all((lengths > 0) & (lengths < 1))
    # A norm is a sum of m squares: m eps, and the division.
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1, rtol=0, atol=(m + 4) * np.finfo(float).eps)


@pytest.mark.parametrize("n", [1, 7, 10, 23, 40])
@pytest.mark.parametrize("m", [1, 3, 10])
def test_orthogonal_directions_are_orthonormal_within_blocks(m, n, rng):
    directions, _ = directions_and_lengths(n, m, sampling="orthogonal", rng=rng)
    for start in range(0, n, m):
        block = directions[start : start + m]
        # Householder QR: orthogonal to a small multiple of m^(3/2) eps (Higham, 19.3).
        np.testing.assert_allclose(block @ block.T, np.eye(len(block)), rtol=0, atol=16 * m**1.5 * np.finfo(float).eps)


@pytest.mark.parametrize("m", [1, 2, 5])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_every_single_point_is_uniform(sampling, m):
    """The last of five points, over replicates: its first two moments, to five standard errors."""
    replicates = 4_000
    points, directions, lengths = [], [], []
    for seed in range(replicates):
        rng = np.random.default_rng([seed, m])
        points.append(uniforms(5, m, sampling=sampling, rng=rng)[-1])
        d, u = directions_and_lengths(5, m, sampling=sampling, rng=rng)
        directions.append(d[-1])
        lengths.append(u[-1])
    five_sigma = 5 / replicates**0.5
    for u in (np.array(points), np.array(lengths)[:, None]):
        # Uniform: variance 1/12; (u - 1/2)^2 has mean 1/12 and variance 1/180.
        assert np.all(np.abs(u.mean(axis=0) - 0.5) <= five_sigma * (1 / 12) ** 0.5)
        assert np.all(np.abs(((u - 0.5) ** 2).mean(axis=0) - 1 / 12) <= five_sigma * (1 / 180) ** 0.5)
    directions = np.array(directions)
    # On the sphere: mean 0, second moment I / m; d_i d_j is within [-1, 1], of variance below 1 / m.
    assert np.all(np.abs(directions.mean(axis=0)) <= five_sigma * (1 / m) ** 0.5)
    assert np.all(np.abs(directions.T @ directions / replicates - np.eye(m) / m) <= five_sigma * (1 / m) ** 0.5)


def test_quasi_monte_carlo_points_are_spread_evenly(rng):
    """2^k scrambled Sobol points: exactly one in each of 2^k slices of every coordinate."""
    u = uniforms(64, 5, sampling="qmc", rng=rng)
    for column in u.T:
        np.testing.assert_array_equal(np.sort((column * 64).astype(int)), np.arange(64))


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_same_generator_same_points(sampling):
    first = directions_and_lengths(9, 4, sampling=sampling, rng=np.random.default_rng(3))
    again = directions_and_lengths(9, 4, sampling=sampling, rng=np.random.default_rng(3))
    other = directions_and_lengths(9, 4, sampling=sampling, rng=np.random.default_rng(4))
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert not np.array_equal(first[0], other[0])


def test_too_many_columns_for_quasi_monte_carlo(rng):
    with pytest.raises(ValueError, match=r"sampling='qmc' draws at most .* use sampling='iid'"):
        uniforms(2, MAX_SOBOL_COLUMNS + 1, sampling="qmc", rng=rng)
