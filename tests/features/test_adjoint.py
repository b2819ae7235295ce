"""The adjoint of the forward map: gradients in parameters, frequencies and a full metric."""

from dataclasses import replace

import array_api_strict
import numpy as np
import pytest
import torch
from scipy import sparse

from bochner import engines
from bochner.features import FeatureGradient
from bochner.features.build import FORMS
from tests.cases import (
    ALL,
    RANDOM,
    each,
    moved,
    numerical_gradient,
    relative_error,
    rows,
    slope_along,
    small_map,
    with_scales,
)

LIMIT = 1e-6


def step(feature_map, X):
    """A step for relative changes of the frequencies: angles reach a, and (step a)^4 / 30 truncates, eps a / step rounds.

    With step = 2e-3 / a the first is 5e-13 and the second 1e-13 a^2: both below 1e-8 for the angles here, under 300.
    """
    if not hasattr(feature_map, "points"):
        return 1e-3  # linear in the scales
    angles = np.abs(feature_map.inputs(X) @ feature_map.frequencies).max()
    assert angles < 300
    return 2e-3 / max(1.0, angles)


def case(kernel, form, m=3, *, shared=False, n=6):
    """A kernel, rows, a map of five frequencies, the smallest of forty (differences dislike heavy tails), and weights."""
    kernel = with_scales(kernel, m, shared=shared)
    X = rows(kernel, n, m)
    feature_map = small_map(kernel, m, form=form, frequencies=40)
    if hasattr(feature_map, "points"):
        few = np.argsort(np.abs(feature_map.points).max(axis=0))[:5]
        phases = None if feature_map.phases is None else feature_map.phases[few]
        feature_map = replace(feature_map, points=feature_map.points[:, few], phases=phases)
    G = np.random.default_rng(1).standard_normal((n, feature_map.n_features))
    return kernel, X, feature_map, G


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "per column"])
@pytest.mark.parametrize("form", FORMS)
@each(ALL)
def test_every_parameter_against_differences(kernel, form, shared, m):
    kernel, X, feature_map, G = case(kernel, form, m, shared=shared)
    gradient = feature_map.adjoint(X, G)
    assert set(gradient.parameters) == set(kernel.learnable)
    assert gradient.parameters["scale"].shape == (m,)

    def value(theta):
        return float(np.sum(feature_map.with_kernel(kernel.with_theta(theta)).forward(X) * G))

    expected = numerical_gradient(value, kernel.theta, step(feature_map, X))
    assert relative_error(kernel.unconstrain(gradient.parameters), expected) < LIMIT


@pytest.mark.parametrize("form", FORMS)
@each(RANDOM)
def test_every_frequency_against_differences(kernel, form):
    _, X, feature_map, G = case(kernel, form)
    gradient = feature_map.adjoint(X, G).frequencies
    assert gradient.shape == feature_map.points.shape
    reach = np.abs(feature_map.inputs(X)).max()

    def value(frequencies):
        return float(np.sum(moved(feature_map, frequencies).forward(X) * G))

    assert relative_error(gradient, numerical_gradient(value, feature_map.frequencies, 2e-3 / reach)) < LIMIT


@pytest.mark.parametrize("form", FORMS)
@each(ALL)
def test_dot_product(kernel, form, rng):
    """<J v, G> = <v, J' G> for the Jacobian J of the features in theta, J v by a difference of the forward map."""
    kernel, X, feature_map, G = case(kernel, form)
    direction = rng.standard_normal(kernel.theta.size)
    change = slope_along(
        lambda theta: feature_map.with_kernel(kernel.with_theta(theta)).forward(X),
        kernel.theta,
        direction,
        step(feature_map, X) / 3,
    )
    left = float(np.sum(change * G))
    right = float(direction @ kernel.unconstrain(feature_map.adjoint(X, G).parameters))
    assert abs(left - right) < LIMIT * np.sum(np.abs(change * G))


@pytest.mark.parametrize("form", FORMS)
@each(RANDOM)
def test_against_torch_autograd(kernel, form):
    kernel, X, feature_map, G = case(kernel, form)
    width = feature_map.inputs.width
    parameters = {
        name: torch.tensor(getattr(kernel, name), dtype=torch.float64, requires_grad=True) for name in kernel.learnable
    }
    mapped = torch.tensor(feature_map.inputs(X))
    if "c" in parameters:
        mapped = torch.log1p(torch.tensor(X) / parameters["c"])
    frequencies = parameters["scale"].repeat(width)[:, None] * torch.tensor(feature_map.points)
    frequencies.retain_grad()
    angles = mapped @ frequencies
    f = feature_map.points.shape[1]
    if form == "paired":
        features = torch.cat([torch.cos(angles), torch.sin(angles)], dim=1) * (1 / f) ** 0.5
    else:
        features = torch.cos(angles + torch.tensor(feature_map.phases)) * (2 / f) ** 0.5
    (features * torch.tensor(G)).sum().backward()
    gradient = feature_map.adjoint(X, G)
    # Sums of n (or n f) products of angles below 300: their rounding is 300 eps in each cosine.
    bound = 1e3 * np.finfo(float).eps * X.shape[0] * f
    assert relative_error(gradient.frequencies, frequencies.grad.numpy()) < bound
    for name, parameter in parameters.items():
        assert relative_error(gradient.parameters[name], parameter.grad.numpy()) < bound


@pytest.mark.parametrize("form", FORMS)
@each(RANDOM)
def test_torch_differentiates_through_the_forward_map(kernel, form):
    kernel, X, feature_map, G = case(kernel, form, n=3)
    X = X + 0.1  # away from zero, where the square root of a histogram has no slope
    there = torch.tensor(X, requires_grad=True)
    (engines.forward(feature_map, there) * torch.tensor(G)).sum().backward()
    gaps = np.abs(feature_map.frequencies).sum(axis=0).max() * 20
    expected = numerical_gradient(lambda A: float(np.sum(feature_map.forward(A) * G)), X, 2e-3 / max(gaps, 10))
    assert relative_error(there.grad.numpy(), expected) < LIMIT


@pytest.mark.parametrize("form", FORMS)
@each(ALL)
def test_features_at_hand_change_nothing(kernel, form):
    _, X, feature_map, G = case(kernel, form)
    without, given = feature_map.adjoint(X, G), feature_map.adjoint(X, G, features=feature_map.forward(X))
    for name in without.parameters:
        np.testing.assert_array_equal(without.parameters[name], given.parameters[name])
    if without.frequencies is not None:
        np.testing.assert_array_equal(without.frequencies, given.frequencies)


@pytest.mark.parametrize("form", FORMS)
@each(ALL)
def test_sparse_rows_and_other_arrays(kernel, form):
    _, X, feature_map, G = case(kernel, form)
    expected = feature_map.adjoint(X, G)
    answers = [
        feature_map.adjoint(sparse.csr_array(X), G),
        feature_map.adjoint(sparse.csr_matrix(X), G),
        *(
            feature_map.place(convert(X)).adjoint(convert(X), convert(G))
            for convert in (torch.tensor, array_api_strict.asarray)
        ),
    ]
    bound = 1e3 * np.finfo(float).eps * X.shape[0] * 5  # as in the comparison with autograd
    for answer in answers:
        for name, value in expected.parameters.items():
            assert isinstance(answer.parameters[name], np.ndarray | float)
            assert relative_error(answer.parameters[name], value) < bound
        if expected.frequencies is not None:
            assert relative_error(answer.frequencies, expected.frequencies) < bound


@pytest.mark.parametrize("form", FORMS)
@each(ALL)
def test_float32_rows_give_gradients_in_float64(kernel, form):
    _, X, feature_map, G = case(kernel, form)
    X, G = X.astype(np.float32), G.astype(np.float32)
    gradient = feature_map.place(X).adjoint(X, G)
    expected = feature_map.adjoint(X.astype(float), G.astype(float))
    if hasattr(feature_map, "points"):
        angles = np.abs(feature_map.inputs(X)).max() * np.abs(feature_map.frequencies).sum(axis=0).max()
        assert gradient.frequencies.dtype == np.float64
    else:
        angles = 10.0
    for name, value in expected.parameters.items():
        assert np.asarray(gradient.parameters[name]).dtype == np.float64
        # Each of n f terms |x| |G| |slope| is off by the rounding of its angle; G and x are below five.
        bound = np.finfo(np.float32).eps * (angles + 10) * 10 * X.shape[0] * 5 * 25
        np.testing.assert_allclose(gradient.parameters[name], value, rtol=0, atol=bound)


def test_gradients_of_blocks_add_up():
    first = FeatureGradient({"scale": np.array([1.0, 2.0]), "c": 3.0}, np.ones((2, 2)))
    total = first + first
    np.testing.assert_array_equal(total.parameters["scale"], [2.0, 4.0])
    assert total.parameters["c"] == 6.0
    np.testing.assert_array_equal(total.frequencies, 2 * np.ones((2, 2)))
    assert (FeatureGradient({"scale": np.ones(2)}) + FeatureGradient({"scale": np.ones(2)})).frequencies is None
