"""Bad input: every refusal names the argument or the column, and says what to do."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse

from bochner import FourierFeatures
from bochner.estimators.validation import refuse_text
from bochner.kernels import KERNELS, Gaussian, ProductKernel, get_kernel
from tests.cases import ADDITIVE, BUILT_IN, rows

each_name = pytest.mark.parametrize("name", KERNELS)
BOUNDED = [name for name, kernel in BUILT_IN.items() if kernel.lower > -np.inf]


def pandas_frame(X):
    return pd.DataFrame(X, columns=["height", "age", "weight"])


def polars_frame(X):
    return pl.DataFrame(X, schema=["height", "age", "weight"])


CONTAINERS = {
    "numpy": np.asarray,
    "csr": sparse.csr_array,
    "torch": torch.tensor,
    "pandas": pandas_frame,
    "polars": polars_frame,
}
each_container = pytest.mark.parametrize("container", CONTAINERS)


def label(container):
    """How the second column is called in a message."""
    return r"column 1 \('age'\)" if container in ("pandas", "polars") else "column 1"


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")])
@each_container
@each_name
def test_not_finite(name, container, value, word):
    X = rows(BUILT_IN[name], 6, 3)
    convert = CONTAINERS[container]
    transformer = FourierFeatures(name).fit(convert(X))
    X[4, 1] = value
    for method in (transformer.transform, transformer.fit, transformer.fit_transform):
        remedy = "SimpleImputer" if word == "NaN" else "nan_to_num"
        with pytest.raises(ValueError, match=f"X, {label(container)}, row 4 holds {word}, .*{remedy}"):
            method(convert(X))


@each_container
@pytest.mark.parametrize("name", BOUNDED)
def test_outside_the_domain(name, container):
    X = rows(BUILT_IN[name], 6, 3)
    convert = CONTAINERS[container]
    transformer = FourierFeatures(name).fit(convert(X))
    X[4, 1] = -2.5
    for method in (transformer.transform, transformer.fit, transformer.fit_transform):
        with pytest.raises(ValueError, match=f"Negative values .* X, {label(container)}, row 4 holds -2.5"):
            method(convert(X))


@pytest.mark.parametrize("name", ["skewed_chi2", "skewed_intersection"])
def test_at_minus_c(name):
    with pytest.raises(ValueError, match="X, column 0, row 1 holds -1, and the kernel needs values > -1"):
        FourierFeatures(name).fit([[0.0], [-1.0]])


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, torch.tensor, pd.DataFrame])
@each_name
def test_wrong_number_of_columns(name, convert):
    X = rows(BUILT_IN[name], 6, 3)
    transformer = FourierFeatures(name).fit(convert(X))
    with pytest.raises(ValueError, match="X has 4 features, but FourierFeatures is expecting 3 features"):
        transformer.transform(convert(np.concatenate([X, X[:, :1]], axis=1)))


@pytest.mark.parametrize("value", [0, -2, 1.5, "many", True])
def test_n_features(value):
    with pytest.raises(ValueError, match="n_features must be a positive whole number or None, got"):
        FourierFeatures(n_features=value).fit(np.ones((3, 2)))


def test_odd_n_features():
    with pytest.raises(ValueError, match=r"n_features must be even.*use 8, or form='phase'"):
        FourierFeatures(n_features=7).fit(np.ones((3, 2)))


@pytest.mark.parametrize("name", [name for name in KERNELS if name in ADDITIVE])
def test_n_features_against_an_additive_kernel(name):
    with pytest.raises(ValueError, match=r"n_features=12, but .* 10 in all: leave n_features out and set order"):
        FourierFeatures(name, n_features=12).fit(np.ones((3, 2)))
    assert FourierFeatures(name, n_features=10).fit_transform(np.ones((3, 2))).shape == (3, 10)
    assert FourierFeatures(name, n_features=15).fit_transform(np.ones((3, 3))).shape == (3, 15)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"kernel": "gausian"}, "Unknown kernel 'gausian': did you mean 'gaussian'"),
        ({"kernel": Gaussian}, r"kernel is the class Gaussian: give an object of it, Gaussian\(\)"),
        ({"kernel": 3}, "kernel must be a name or a Kernel object, got 3"),
        ({"kernel": None}, "kernel must be a name or a Kernel object, got None"),
        ({"scale": 0}, "scale must be positive and finite, got 0"),
        ({"scale": -1.0}, "scale must be positive and finite, got -1"),
        ({"scale": np.nan}, "scale must be positive and finite, got nan"),
        ({"scale": [1.0, 0.0]}, "scale must be positive and finite, got entry 1 is 0"),
        ({"scale": [1.0, 2.0, 3.0]}, "scale has 3 entries and the rows have 2 columns"),
        ({"scale": [[1.0, 2.0]]}, r"scale must be one number or one per column, got an array of shape \(1, 2\)"),
        ({"scale": "mean"}, "scale must be a positive number, one per column, or 'median', got 'mean'"),
        ({"scale": ["a", "b"]}, "scale must be a positive number"),
        ({"sampling": "sobol"}, "sampling must be one of .*, got 'sobol'"),
        ({"sampling": None}, "sampling must be one of .*, got None"),
        ({"kernel": "laplacian", "sampling": "orthogonal"}, "sampling='orthogonal' needs a radial law, .* Laplacian"),
        ({"kernel": "chi2", "sampling": "qmc"}, "sampling='qmc', but the features of Chi2 are not random"),
        ({"form": "pairs"}, "form must be 'paired' or 'phase', got 'pairs'"),
        ({"order": -1}, "order must be a whole number, zero or more, or None, got -1"),
        ({"order": 1.5}, "order must be a whole number, zero or more, or None, got 1.5"),
    ],
    ids=str,
)
def test_parameters(choices, message):
    with pytest.raises(ValueError, match=message):
        FourierFeatures(**choices).fit(np.ones((3, 2)))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((0, 3)), "0 sample"),
        (np.ones((3, 0)), "0 feature"),
        (np.ones(3), "Expected 2D array, got 1D array"),
        (pd.Series([1.0, 2.0]), "Expected a 2-dimensional container|Expected 2D array"),
        (pl.Series([1.0, 2.0]), "Expected a 2-dimensional container|Expected 2D array"),
        (3.0, "Expected 2D array, got scalar"),
        (np.ones((2, 2, 2)), "dim 3"),
        (np.ones((2, 2)) * 1j, "Complex data not supported"),
        (pd.DataFrame({"a": [1j]}), "Complex data not supported"),
        (sparse.csr_array(np.ones((2, 2)) * 1j), "Complex data not supported"),
        ([[1.0, 2.0], [3.0]], "inhomogeneous"),
    ],
    ids=[
        "no rows",
        "no columns",
        "one dimension",
        "series",
        "polars series",
        "number",
        "three dimensions",
        "complex",
        "frame",
        "sparse",
        "ragged",
    ],
)
@each_name
def test_tables_that_are_none(name, X, message):
    with pytest.raises(ValueError, match=message):
        FourierFeatures(name).fit(X)


@pytest.mark.parametrize(
    "X",
    [
        np.array([["1", "a"], ["2", "b"]]),
        np.array([["1", "a"], ["2", "b"]], dtype=object),
        np.array([[1, "a"], [2, "b"]], dtype=object),
        np.array([[b"1", b"a"], [b"2", b"b"]]),
        [[1, "a"], [2, "b"]],
        np.array([["1", "a"], ["2", "b"]], dtype=np.dtypes.StringDType()),
    ],
    ids=["U", "O", "mixed", "S", "list", "StringDType"],
)
def test_text_in_arrays(X):
    with pytest.raises(ValueError, match=r"X, column 1 holds text, could not convert string to float: .*OneHotEncoder"):
        FourierFeatures().fit(X)


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"age": [1.0, 2.0], "city": ["Rome", "Oslo"]}),
        pd.DataFrame({"age": [1.0, 2.0], "city": pd.Categorical(["Rome", "Oslo"])}),
        pd.DataFrame({"age": [1.0, 2.0], "city": np.array(["Rome", None], dtype=object)}),
        pl.DataFrame({"age": [1.0, 2.0], "city": ["Rome", "Oslo"]}),
        pl.DataFrame({"age": [1.0, 2.0], "city": pl.Series(["Rome", "Oslo"], dtype=pl.Categorical)}),
    ],
    ids=["pandas", "categorical", "object", "polars", "polars categorical"],
)
def test_text_in_frames(X):
    with pytest.raises(ValueError, match=r"X, column 1 \('city'\) holds text, .*'Rome'.*OneHotEncoder"):
        FourierFeatures().fit(X)


def test_a_column_name_twice():
    with pytest.raises(ValueError, match=r"unique column names.*\n.*'age' 2 times"):
        FourierFeatures().fit(pd.DataFrame(np.ones((2, 2)), columns=["age", "age"]))


def test_masked_arrays():
    X = np.ma.array(np.ones((4, 2)), mask=np.zeros((4, 2), dtype=bool))
    transformer = FourierFeatures().fit(X)  # nothing is masked
    X[1, 0] = X[2, 1] = np.ma.masked
    for method in (transformer.transform, transformer.fit, transformer.fit_transform):
        with pytest.raises(ValueError, match=r"X is a masked array with 2 masked entries, .*SimpleImputer"):
            method(X)


def test_numbers_as_text_are_read():
    np.testing.assert_array_equal(
        FourierFeatures(n_features=4, random_state=0).fit_transform(np.array([["1", "2"], ["3", "4"]], dtype=object)),
        FourierFeatures(n_features=4, random_state=0).fit_transform([[1.0, 2.0], [3.0, 4.0]]),
    )


def test_numeric_frames_are_not_searched_for_text_value_by_value():
    """Looking at each value of a large frame in Python takes seconds; the dtype of a column says enough."""
    calls = []
    for n in (10, 1_000):
        frame = pd.DataFrame(np.ones((n, 3)), columns=list("abc"))
        events = []
        sys.setprofile(lambda *event, events=events: events.append(event[1]))
        try:
            refuse_text(frame)
        finally:
            sys.setprofile(None)
        calls.append(len(events))
    assert calls[0] == calls[1]


@each_name
def test_the_refusal_comes_before_any_change(name):
    transformer = FourierFeatures(name)
    with pytest.raises(ValueError, match="NaN"):
        transformer.fit(np.full((3, 2), np.nan))
    assert not hasattr(transformer, "feature_map_")
    assert get_kernel(name) == BUILT_IN[name]


def test_a_column_of_dates_is_named():
    frame = pd.DataFrame({"a": [1.0, 2.0], "when": pd.to_datetime(["2020-01-01", "2021-01-01"])})
    with pytest.raises(ValueError, match=r"column 1 \('when'\) holds dates or times"):
        FourierFeatures().fit(frame)


def test_a_lazy_frame_must_be_collected():
    with pytest.raises(ValueError, match=r"give X.collect\(\)"):
        FourierFeatures().fit(pl.DataFrame({"a": [1.0, 2.0]}).lazy())


def test_rows_too_large_for_distances():
    with pytest.raises(ValueError, match="overflow them: standardise the columns first"):
        FourierFeatures().fit(np.array([[1e200], [-1e200], [3e200]]))


class WrongQuantile(ProductKernel):
    def quantile(self, u):
        return u[0]

    def profile(self, t):
        return np.exp(-(t**2))


def test_a_quantile_of_the_wrong_shape():
    with pytest.raises(ValueError, match=r"WrongQuantile.quantile must turn numbers in \(0, 1\) of shape"):
        FourierFeatures(WrongQuantile()).fit(np.ones((3, 2)))


class NoDerivative(Gaussian):
    learnable = ("scale", "width")
    width = 1.0


def test_a_learnable_parameter_without_a_derivative():
    kernel = NoDerivative()
    with pytest.raises(ValueError, match="names 'width' in `learnable`, but has no derivative in it"):
        kernel.unconstrain({"scale": 1.0})
