"""What kernels see of views: exact learners and those on features have the same kernels of the same columns."""

from dataclasses import replace

import numpy as np
import pytest

from bochner.reproduce import kernel_inputs
from bochner.reproduce.kernel_inputs import (
    Columns,
    chi2_distance,
    cross_gram,
    distance_of,
    kernels_of,
    roots_of,
    squared_distance,
    training_gram,
    widths_of,
)
from bochner.reproduce.protocol import Problem, Protocol, Views

N = 60


def problem(*, histograms):
    rng = np.random.default_rng(0)
    draw = (
        (lambda q: rng.dirichlet(np.ones(q), size=N))
        if histograms
        else (lambda q: rng.normal(0, np.arange(1, q + 1), (N, q)))
    )
    views = Views({"wide": draw(12), "narrow": draw(3)}, rng.random((N, 2)), np.arange(N))
    return Problem("some", "key", ("a", "b"), views, views, np.arange(N), histograms, Protocol(test_per_class=3), 0)


@pytest.mark.parametrize("histograms", [True, False])
def test_features_and_matrices_are_of_the_same_kernels(histograms, monkeypatch):
    monkeypatch.setattr(kernel_inputs, "BLOCK", 16)  # which does not divide the rows
    rows = problem(histograms=histograms).train
    distance = distance_of(problem(histograms=histograms))
    assert distance is (chi2_distance if histograms else squared_distance)
    widths = widths_of(rows, distance)
    for name, kernel, view in kernels_of(widths, distance):
        table = rows.tables[view]
        gram = training_gram(distance, table, widths[name])
        np.testing.assert_allclose(gram, kernel.exact(table, table), rtol=0, atol=1e-10)
        np.testing.assert_array_equal(gram, gram.T)
        np.testing.assert_allclose(cross_gram(distance, table[:7], table, widths[name]), gram[:7], rtol=0, atol=1e-10)


def test_distances_and_widths_are_those_of_the_formulas():
    rows = problem(histograms=True).train
    x, z = rows.tables["wide"][:2]
    assert chi2_distance(x[None], z[None])[0, 0] == pytest.approx(np.sum((x - z) ** 2 / (x + z)))
    assert squared_distance(x[None], z[None])[0, 0] == pytest.approx(np.sum((x - z) ** 2))
    pairs = [(i, j) for i in range(N) for j in range(N) if i != j]
    for name, table in roots_of(rows).tables.items():
        mean = np.mean([np.sum((table[i] - table[j]) ** 2) for i, j in pairs])
        assert widths_of(roots_of(rows), squared_distance)[name] == pytest.approx(mean)
    constant = Views({"flat": np.ones((5, 2))}, np.ones((5, 1)), np.arange(5))
    assert widths_of(constant, squared_distance) == {"flat": 1.0}


@pytest.mark.parametrize("histograms", [True, False])
def test_columns_are_roots_or_of_unit_spread(histograms):
    some = problem(histograms=histograms)
    found = Columns.of(some, None)
    expected = np.hstack([np.sqrt(t) if histograms else t / t.std(axis=0) for t in some.train.tables.values()])
    np.testing.assert_allclose(found(some.train), expected, rtol=1e-5)
    assert found.names(some.train).tolist() == ["wide"] * 12 + ["narrow"] * 3


def test_columns_of_the_same_units_stay_as_they_are():
    some = replace(problem(histograms=False), same_units=True)
    np.testing.assert_allclose(Columns.of(some, None)(some.train), np.hstack(list(some.train.tables.values())), rtol=1e-6)


@pytest.mark.parametrize("histograms", [True, False])
def test_principal_components_lose_what_they_leave_out_and_nothing_else(histograms):
    some = problem(histograms=histograms)
    whole, few, nearly_all = (Columns.of(some, k)(some.train) for k in (None, 4, 11))
    names = Columns.of(some, 4).names(some.train)
    assert names.tolist() == ["wide"] * 4 + ["narrow"] * 3
    assert few.shape == (N, 7)
    np.testing.assert_array_equal(few[:, 4:], whole[:, 12:])
    left_out = np.linalg.eigvalsh(np.cov(whole[:, :12], rowvar=False))
    assert few[:, :4].var(axis=0, ddof=1).sum() == pytest.approx(left_out[-4:].sum(), rel=1e-4)
    assert nearly_all[:, :11].var(axis=0, ddof=1).sum() == pytest.approx(left_out[1:].sum(), rel=1e-4)
