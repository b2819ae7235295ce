"""Parameters of kernels: two views of them, immutability, equality, pickling."""

import copy
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from bochner.kernels import Chi2, Exponentiated, Gaussian, Intersection, Kernel, Matern, SkewedChi2
from tests.cases import ALL, each, rows, with_scales

EPS = np.finfo(float).eps


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "per column"])
@each(ALL)
def test_theta_round_trip(kernel, shared):
    kernel = with_scales(kernel, 3, shared=shared)
    theta = kernel.theta
    assert theta.shape == (sum(np.size(v) for v in kernel.parameters.values()),)
    again = kernel.with_theta(theta)
    assert type(again) is type(kernel)
    for name in kernel.learnable:
        # exp(log v): log is off by eps |log v|, and |log v| < 1 here.
        np.testing.assert_allclose(getattr(again, name), getattr(kernel, name), rtol=2 * EPS)
        assert np.ndim(getattr(again, name)) == np.ndim(getattr(kernel, name))
    moved = kernel.with_theta(theta + 0.5)
    np.testing.assert_allclose(moved.theta, theta + 0.5, rtol=0, atol=4 * EPS)
    assert moved != kernel


@each(ALL)
def test_theta_keeps_what_is_not_learned(kernel):
    moved = kernel.with_theta(kernel.theta + 1)
    for name in ("nu", "additive"):
        assert getattr(moved, name, None) == getattr(kernel, name, None)


@each(ALL)
def test_theta_of_the_wrong_size(kernel):
    with pytest.raises(ValueError, match="theta has shape"):
        kernel.with_theta(np.zeros(kernel.theta.size + 1))


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "per column"])
@each(ALL)
def test_unconstrain_is_the_chain_rule(kernel, shared, rng):
    kernel = with_scales(kernel, 3, shared=shared)
    gradient = {name: rng.standard_normal(3) if name == "scale" else rng.standard_normal() for name in kernel.learnable}
    expected = []
    for name in kernel.learnable:
        value = getattr(kernel, name)
        if np.ndim(value):
            expected += [gradient[name][i] * value[i] for i in range(3)]
        else:
            expected.append(np.sum(gradient[name]) * value)
    np.testing.assert_allclose(kernel.unconstrain(gradient), expected, rtol=4 * EPS)


@each(ALL)
def test_replace_changes_one_parameter_and_returns_a_new_kernel(kernel):
    other = kernel.replace(scale=3.0)
    assert other.scale == 3.0
    assert kernel.scale == 1.0
    assert other.replace(scale=1.0) == kernel


@each(ALL)
def test_kernels_are_immutable(kernel):
    with pytest.raises(FrozenInstanceError):
        kernel.scale = 2.0
    scales = np.ones(3)
    held = kernel.replace(scale=scales)
    scales[0] = 5
    assert held.scale[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        held.scale[0] = 5


@each(ALL)
def test_equality_and_hash(kernel):
    again = pickle.loads(pickle.dumps(kernel))
    assert again == kernel
    assert hash(again) == hash(kernel)
    assert kernel != kernel.replace(scale=2.0)
    assert kernel != "gaussian"
    assert kernel.replace(scale=[1.0, 2.0]) == kernel.replace(scale=np.array([1.0, 2.0]))
    assert kernel.replace(scale=[1.0, 2.0]) != kernel.replace(scale=1.0)


def test_equality_looks_at_everything():
    assert Matern(nu=1.5) != Matern(nu=2.5)
    assert SkewedChi2(c=1.0) != SkewedChi2(c=2.0)
    assert Exponentiated(additive=Chi2()) == Exponentiated(additive=Chi2())
    assert Exponentiated(additive=Chi2()) != Exponentiated(additive=Intersection())
    assert Gaussian() != Matern()


@each(ALL)
def test_copies_give_the_same_matrix(kernel):
    kernel = with_scales(kernel, 3, shared=False)
    X = rows(kernel, 5, 3)
    for again in (pickle.loads(pickle.dumps(kernel)), copy.deepcopy(kernel), copy.copy(kernel)):
        np.testing.assert_array_equal(again(X), kernel(X))


@each(ALL)
def test_the_text_of_a_kernel_makes_it_again(kernel):
    from bochner import kernels

    assert eval(repr(kernel), {**vars(kernels), "inf": np.inf}) == kernel


@each(ALL)
def test_scales_one_per_column(kernel):
    np.testing.assert_array_equal(kernel.replace(scale=2).scales(3), [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(kernel.replace(scale=[1, 2, 3]).scales(3), [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="scale has 3 entries and the rows have 2 columns"):
        kernel.replace(scale=[1, 2, 3]).scales(2)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (0, "positive"),
        (-1.0, "positive"),
        (np.nan, "positive"),
        (np.inf, "positive"),
        ([1.0, -2.0], "entry 1"),
        ([1.0, np.nan], "entry 1"),
        ("wide", "positive number"),
        (None, "positive"),
        (1j, "positive number"),
        (np.array([1j]), "positive number"),
        ([[1.0]], "shape"),
        ([], "shape"),
    ],
)
@each(ALL)
def test_scale_must_be_positive(kernel, value, complaint):
    with pytest.raises(ValueError, match=complaint) as info:
        kernel.replace(scale=value)
    assert "scale" in str(info.value)


@pytest.mark.parametrize("value", [0, -1.0, np.nan, "x", [1.0, 2.0]])
def test_c_must_be_one_positive_number(value):
    with pytest.raises(ValueError, match=r"SkewedChi2\.c must be"):
        SkewedChi2(c=value)


@pytest.mark.parametrize("value", [0, -0.5, np.nan])
def test_nu_must_be_positive(value):
    with pytest.raises(ValueError, match=r"Matern\.nu must be positive"):
        Matern(nu=value)


def test_parameters_go_by_name_only():
    with pytest.raises(TypeError):
        Gaussian(2.0)


def test_a_kernel_without_a_formula_cannot_be_made():
    with pytest.raises(TypeError, match="abstract"):
        Kernel()
