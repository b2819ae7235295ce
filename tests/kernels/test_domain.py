"""What an exact kernel refuses, and that the refusal names the argument, the column and the row."""

import array_api_strict
import numpy as np
import pytest
import torch
from scipy import sparse

from bochner.kernels import Gaussian, SkewedChi2
from tests.cases import ALL, each, rows

CONTAINERS = {"numpy": np.asarray, "csr": sparse.csr_array, "torch": torch.tensor, "strict": array_api_strict.asarray}


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")])
@each(ALL)
def test_not_finite(kernel, value, word, container):
    X = rows(kernel, 5, 3)
    Z = X.copy()
    Z[3, 1] = value
    with pytest.raises(ValueError, match=f"Z, column 1, row 3 holds {word}") as info:
        kernel(container(X), container(Z))
    assert ("SimpleImputer" if word == "NaN" else "nan_to_num") in str(info.value)
    with pytest.raises(ValueError, match=f"X, column 1, row 3 holds {word}"):
        kernel(container(Z))


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
@each({name: kernel for name, kernel in ALL.items() if kernel.lower > -np.inf})
def test_outside_the_domain(kernel, container):
    X = rows(kernel, 5, 3)
    X[2, 1] = kernel.lower - 0.5
    with pytest.raises(ValueError, match="X, column 1, row 2 holds"):
        kernel(container(X))


@pytest.mark.parametrize("c", [0.03, 1.0])
def test_skewed_kernels_take_values_above_minus_c_only(c):
    kernel = SkewedChi2(c=c)
    assert np.isfinite(kernel(np.array([[-c * 0.99], [1.0]]))).all()
    with pytest.raises(ValueError, match=f"X, column 0, row 0 holds .* needs values > -{c:g}"):
        kernel(np.array([[-c], [1.0]]))


def test_names_of_columns_are_used():
    X = np.zeros((2, 2))
    X[1, 1] = np.nan
    with pytest.raises(ValueError, match=r"X, column 1 \('age'\), row 1 holds NaN"):
        Gaussian().check_rows(X, names=np.array(["height", "age"], dtype=object))


def test_large_values_whose_sum_overflows_are_sound():
    X = np.full((4, 2), 1e308)
    assert Gaussian().check_rows(X) is None
    assert Gaussian().check_rows(X.astype(np.float64) * -1) is None


@each(ALL)
def test_shapes(kernel):
    X = rows(kernel, 4, 3)
    with pytest.raises(ValueError, match="X has 3 columns and Z has 2"):
        kernel(X, X[:, :2])
    with pytest.raises(ValueError, match=r"X must be a table .* got shape \(3,\)"):
        kernel(X[0])
    with pytest.raises(ValueError, match=r"Z must be a table .* got shape \(0, 3\)"):
        kernel(X, X[:0])
    with pytest.raises(ValueError, match=r"X must be a table .* got shape \(4, 0\)"):
        kernel(X[:, :0])
    with pytest.raises(ValueError, match=r"X must be a table .* got shape \(3,\)"):
        kernel(torch.tensor(X[0]))
    with pytest.raises(ValueError, match="scale has 2 entries and the rows have 3 columns"):
        kernel.replace(scale=[1.0, 2.0])(X)


@each(ALL)
def test_text_and_complex_numbers(kernel):
    with pytest.raises(ValueError, match="X must hold numbers"):
        kernel(np.array([["a", "b"]]))
    with pytest.raises(ValueError, match="X must hold real numbers"):
        kernel(np.ones((2, 2)) * (1 + 1j))
    with pytest.raises(ValueError, match="X must hold real numbers"):
        kernel(torch.ones((2, 2), dtype=torch.complex128))


@each(ALL)
def test_small_and_degenerate_tables(kernel):
    assert kernel(np.ones((1, 1))).shape == (1, 1)
    constant = np.ones((4, 3))
    expected = 3.0 if kernel.geometry == "additive" else 1.0
    np.testing.assert_allclose(kernel(constant), expected, rtol=16 * np.finfo(float).eps)
    assert np.isfinite(kernel(np.zeros((3, 2)))).all()
