"""Cosine and sine from one tangent, against mpmath and NumPy.

With t = tan(z/2) off by a relative e (NumPy promises 4 units in the last place, e = 4 eps): the cosine 2 / (1 + t^2) - 1
moves by 4 t^2 / (1 + t^2)^2 e <= e, its four operations round by eps/2 each on values up to 2, which is at most 4 eps more.
The sine 2 t / (1 + t^2) moves by at most |sin z| e, and rounds by as much. Eight eps bound both.
"""

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bochner.features.trigonometry import cos_sin, write_cos_sin

BOUND = 8


def arguments(dtype):
    rng = np.random.default_rng(0)
    z = np.concatenate(
        [
            [0.0, -0.0, 1e-30, 1e8, -1e8, 1e30, -1e30],
            rng.uniform(-10, 10, 300),
            rng.uniform(-1e8, 1e8, 100),
            10.0 ** rng.uniform(0, 30, 100),
            (2 * rng.integers(-1000, 1000, 100) + 1) * np.pi,
            np.array([-3, -1, 1, 3, 101, 99_999]) * np.pi,
            np.array([-2, -1, 1, 2, 3]) * np.pi / 2,
        ]
    ).astype(dtype)
    return np.concatenate([z, np.nextafter(z, dtype(np.inf)), np.nextafter(z, dtype(-np.inf))])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_against_mpmath(dtype):
    z = arguments(dtype)
    cosine, sine = cos_sin(z)
    assert cosine.dtype == sine.dtype == dtype
    with mpmath.workdps(60):
        expected = [[float(f(mpmath.mpf(float(v)))) for v in z] for f in (mpmath.cos, mpmath.sin)]
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(cosine, expected[0], rtol=0, atol=BOUND * eps)
    np.testing.assert_allclose(sine, expected[1], rtol=0, atol=BOUND * eps)
    np.testing.assert_allclose(cosine.astype(float) ** 2 + sine.astype(float) ** 2, 1, rtol=0, atol=4 * BOUND * eps)


def test_exact_at_zero():
    for dtype in (np.float32, np.float64):
        cosine, sine = cos_sin(np.zeros(3, dtype=dtype))
        np.testing.assert_array_equal(cosine, 1)
        np.testing.assert_array_equal(sine, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(z=st.floats(-1e6, 1e6, width=32))
def test_against_numpy(dtype, z):
    cosine, sine = cos_sin(np.array([z], dtype=dtype))
    eps = np.finfo(dtype).eps  # NumPy's cosine is right to 4 units in the last place, 4 eps
    assert abs(cosine[0] - np.cos(np.float64(z))) <= (BOUND + 4) * eps
    assert abs(sine[0] - np.sin(np.float64(z))) <= (BOUND + 4) * eps


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_and_outputs(dtype, rng):
    z = rng.uniform(-5, 5, (7, 3)).astype(dtype)
    out = np.full((7, 8), 9.0, dtype=dtype)
    write_cos_sin(0.5 * z, 0.25, cosine=out[:, 1:4], sine=out[:, 4:7])
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(out[:, 1:4], 0.25 * np.cos(z.astype(float)), rtol=0, atol=0.25 * BOUND * eps)
    np.testing.assert_allclose(out[:, 4:7], 0.25 * np.sin(z.astype(float)), rtol=0, atol=0.25 * BOUND * eps)
    np.testing.assert_array_equal(out[:, [0, 7]], 9.0)
    only = np.empty_like(z)
    write_cos_sin(0.5 * z, 0.25, sine=only)
    np.testing.assert_array_equal(only, out[:, 4:7])


def test_the_argument_is_kept(rng):
    z = rng.uniform(-5, 5, 9)
    z.flags.writeable = False
    assert np.isfinite(cos_sin(z)[0]).all()


def test_other_arrays(rng):
    z = rng.uniform(-5, 5, 9)
    cosine, sine = cos_sin(torch.tensor(z))
    eps = np.finfo(float).eps
    np.testing.assert_allclose(cosine.numpy(), np.cos(z), rtol=0, atol=4 * eps)
    np.testing.assert_allclose(sine.numpy(), np.sin(z), rtol=0, atol=4 * eps)
