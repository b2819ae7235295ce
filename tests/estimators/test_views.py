"""Kernels on columns or views of their own: what they are called, which rows they see, and what is refused."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator

from bochner.estimators.parts import needs_positive
from bochner.estimators.views import is_views, resolve
from bochner.kernels import Chi2, Gaussian

COLUMNS = ["age", "height", "weight", "pulse"]


class Holder(BaseEstimator):
    """An estimator that does nothing but know its columns."""


@pytest.fixture(name="X")
def four_columns(rng):
    return rng.random((6, 4))


def rows_of(X, kernels):
    return resolve(Holder(), X, kernels)[1]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (1, [1]),
        (-1, [3]),
        ([2, 0], [2, 0]),
        (np.array([0, 3]), [0, 3]),
        (slice(1, 3), [1, 2]),
        (slice(None), [0, 1, 2, 3]),
        (slice(None, None, 2), [0, 2]),
        (slice(2, None), [2, 3]),
        ([True, False, False, True], [0, 3]),
        (np.array([False, True, False, False]), [1]),
        (lambda X: [X.shape[1] - 1], [3]),
    ],
)
@pytest.mark.parametrize(
    "kind", [np.asarray, sparse.csr_array, lambda X: pd.DataFrame(X, columns=COLUMNS), list, sparse.dok_array]
)
def test_columns_of_a_table(X, key, expected, kind):
    table = [list(row) for row in X] if kind is list else kind(X)
    if kind is list and callable(key):
        key = expected
    (rows,) = rows_of(table, [("a", "gaussian", key)])
    assert sparse.issparse(rows) == sparse.issparse(table)
    np.testing.assert_array_equal(rows.toarray() if sparse.issparse(rows) else rows, X[:, expected])


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_columns_by_name(X, kind):
    table = kind(dict(zip(COLUMNS, X.T, strict=True)))
    estimator = Holder()
    kernels = [("a", "gaussian", "weight"), ("b", "chi2", ["pulse", "age"]), ("c", "gaussian", slice("height", "pulse"))]
    views, rows = resolve(estimator, table, kernels)
    assert views.names == ("a", "b", "c")
    for part, expected in zip(rows, ([2], [3, 0], [1, 2, 3]), strict=True):
        np.testing.assert_array_equal(part, X[:, expected])
    assert list(estimator.feature_names_in_) == COLUMNS
    for part, again in zip(rows, views.take(estimator, table), strict=True):
        np.testing.assert_array_equal(part, again)
    with pytest.raises(ValueError, match="feature names"):
        views.take(estimator, table[COLUMNS[::-1]])


def test_kernels_without_columns(X):
    views, rows = resolve(Holder(), X, ["gaussian", "chi2", "gaussian", Gaussian(scale=2.0)])
    assert views.names == ("gaussian", "chi2", "gaussian-2", "gaussian-3")
    assert [part.given for part in views.parts] == [False, False, False, True]
    assert views.kernels[3] == Gaussian(scale=2.0)
    assert all(part.shape == (6, 4) for part in rows)
    assert resolve(Holder(), X, "gaussian")[0].names == ("gaussian",)
    assert resolve(Holder(), X, Chi2())[0].names == ("chi2",)


def test_precision_is_kept(X):
    assert rows_of(X.astype(np.float32), [("a", "gaussian", [0])])[0].dtype == np.float32
    assert rows_of((10 * X).astype(int), "gaussian")[0].dtype == np.float64


def test_torch_tables(X):
    torch = pytest.importorskip("torch")
    (rows,) = rows_of(torch.asarray(X), [("a", "gaussian", [2, 0])])
    np.testing.assert_array_equal(rows.numpy(), X[:, [2, 0]])


def test_views_in_a_list(X):
    pair = [X[:, :1], X[:, 1:]]
    views, rows = resolve(Holder(), pair, "gaussian")
    assert views.names == ("view0", "view1")
    np.testing.assert_array_equal(rows[1], X[:, 1:])
    assert resolve(Holder(), tuple(pair), ["gaussian", Chi2()])[0].kernels == (Gaussian(), Chi2())
    views, rows = resolve(Holder(), pair, [("a", "gaussian", 1), ("b", "chi2", 1)])
    assert views.names == ("a", "b")
    assert [part.shape for part in rows] == [(6, 3), (6, 3)]
    nested = [view.tolist() for view in pair]
    np.testing.assert_array_equal(rows_of(nested, "gaussian")[1], X[:, 1:])


def test_views_in_a_dictionary(X):
    pair = {"colour": X[:, :1], "shape": sparse.csr_array(X[:, 1:])}
    views, rows = resolve(Holder(), pair, {"shape": "chi2", "colour": "gaussian"})
    assert views.names == ("colour", "shape")
    assert views.kernels == (Gaussian(), Chi2())
    assert sparse.issparse(rows[1])
    turned = views.take(Holder(), dict(reversed(pair.items())))
    np.testing.assert_array_equal(turned[0], X[:, :1])
    views, rows = resolve(Holder(), pair, [("a", "gaussian", "shape"), ("b", "laplacian", "shape"), ("c", "chi2", "colour")])
    assert [part.shape for part in rows] == [(6, 3), (6, 3), (6, 1)]
    again = pickle.loads(pickle.dumps(views))
    assert [part.shape for part in again.take(Holder(), pair)] == [(6, 3), (6, 3), (6, 1)]


def test_views_leave_no_number_of_columns(X):
    estimator = Holder()
    resolve(estimator, X, "gaussian")
    assert estimator.n_features_in_ == 4
    resolve(estimator, [X, X], "gaussian")
    assert not hasattr(estimator, "n_features_in_")


def test_what_views_are(X):
    assert is_views([X, X])
    assert is_views({"a": X})
    assert is_views([X.tolist(), X.tolist()])
    assert not is_views(X)
    assert not is_views(X.tolist())
    assert not is_views(list(X))
    assert not is_views(sparse.dok_array(X))


def test_domains():
    assert needs_positive("chi2")
    assert needs_positive([("a", "gaussian", 0), ("b", Chi2(), 1)])
    assert needs_positive({"a": "chi2"})
    assert not needs_positive(["gaussian", "laplacian"])
    assert not needs_positive(["no such kernel"])


@pytest.mark.parametrize(
    ("kernels", "message"),
    [
        ([], "kernels is empty: give a kernel"),
        (3, "kernels must be a kernel, a list of kernels or of triples"),
        ({"a": "gaussian"}, "kernels is a dict, which is for views"),
        (("a", "gaussian", [0, 1]), r"one triple by itself, that of 'a': put it in a list"),
        ([("a", "gaussian")], "must be a list of triples"),
        ([("a", "gausian", [0])], "Kernel 'a': Unknown kernel 'gausian': did you mean 'gaussian'"),
        (["gaussian", "gausian"], "Kernel number 1: Unknown kernel 'gausian'"),
        ([("a", "gaussian", [0]), ("a", "chi2", [1])], "2 kernels have the name 'a'"),
        ([("a", "gaussian", [4])], "Kernel 'a': X has no column 4: its 4 columns are 0 to 3"),
        ([("a", "gaussian", "age")], "Kernel 'a': its columns must be .* got 'age'"),
        ([("a", "gaussian", [True, False])], "Kernel 'a': its mask has 2 entries, and X has 4 columns"),
        ([("a", "gaussian", [0, "age"])], "Kernel 'a': its columns must be"),
        ([("a", "gaussian", 1.5)], "Kernel 'a': its columns must be"),
        ([("a", "gaussian", None)], "Kernel 'a': its columns must be"),
        ([("a", "gaussian", [])], "Kernel 'a' has no columns"),
        ([("a", "gaussian", slice(2, 2))], "Kernel 'a' has no columns"),
        ([("a", Gaussian(scale=[1.0, 2.0]), [0, 1, 2])], "Kernel 'a': scale has 2 entries and the rows have 3 columns"),
    ],
)
def test_bad_kernels_of_a_table(X, kernels, message):
    with pytest.raises(ValueError, match=message):
        resolve(Holder(), X, kernels)


@pytest.mark.parametrize(
    ("kernels", "message"),
    [
        (["gaussian"], "kernels has 1 entries and X has 2 views"),
        ({"colour": "gaussian"}, "'shape' is in one of the two only"),
        ({"colour": "gaussian", "shape": "chi2", "size": "chi2"}, "'size' is in one of the two only"),
        ([("a", "gaussian", "size")], "Kernel 'a': its view must be one of \\['colour', 'shape'\\], got 'size'"),
        ([("a", "gaussian", 2)], "Kernel 'a': its view must be one of"),
        ([("a", "gaussian", [0])], "Kernel 'a': its view must be one of"),
        ([("a", "gaussian", 0), ("a", "gaussian", 1)], "2 kernels have the name 'a'"),
        (["gaussian", "gausian"], "Kernel of view 'shape': Unknown kernel"),
    ],
)
def test_bad_kernels_of_views(X, kernels, message):
    with pytest.raises(ValueError, match=message):
        resolve(Holder(), {"colour": X, "shape": X}, kernels)


def test_unknown_names_of_columns(X):
    with pytest.raises(ValueError, match=r"Kernel 'a': X has no column 'size': give one of \['age', "):
        resolve(Holder(), pd.DataFrame(X, columns=COLUMNS), [("a", "gaussian", ["size"])])
    with pytest.raises(ValueError, match=r"Kernel 'a': X has no column 'hieght': did you mean 'height'\?"):
        resolve(Holder(), pl.DataFrame(X, schema=COLUMNS), [("a", "gaussian", ["age", "hieght"])])


def test_values_that_a_kernel_cannot_take(X):
    kernels = [("a", "gaussian", [0, 1]), ("b", "chi2", [3])]
    for value, message in ((np.nan, "holds NaN"), (np.inf, "holds inf"), (-1.0, "Negative values")):
        bad = X.copy()
        bad[2, 3] = value
        with pytest.raises(ValueError, match=rf"Kernel 'b': (?=.*{message}).*column 3, row 2 "):
            resolve(Holder(), bad, kernels)
        with pytest.raises(ValueError, match=r"Kernel 'b': .*column 3 \('pulse'\)"):
            resolve(Holder(), pd.DataFrame(bad, columns=COLUMNS), kernels)
        with pytest.raises(ValueError, match="View 'shape': Kernel 'shape': "):
            resolve(Holder(), {"colour": X, "shape": bad}, ["gaussian", "chi2"])
        bad[:, [2, 3]] = bad[:, [3, 2]]  # a column that no kernel looks at
        assert len(rows_of(bad, kernels)) == 2


def test_text(X):
    table = pd.DataFrame(X, columns=COLUMNS).astype({"pulse": object})
    table.loc[1, "pulse"] = "fast"
    with pytest.raises(ValueError, match=r"Kernel 'b': X, column 3 \('pulse'\) holds text.*'fast'"):
        resolve(Holder(), table, [("a", "gaussian", [0]), ("b", "gaussian", [1, 3])])
    with pytest.raises(ValueError, match="View 'v': Kernel 'v': X, column 3 holds text"):
        resolve(Holder(), {"v": table.to_numpy()}, "gaussian")


@pytest.mark.parametrize("kind", ["pandas", "polars", "objects", "list"])
@pytest.mark.parametrize("value", ["fast", pd.Timestamp("2020-01-01")])
def test_text_that_no_kernel_uses_is_let_be(X, kind, value):
    table = pd.DataFrame(X, columns=COLUMNS).assign(pulse=value)
    if kind == "polars":
        table = pl.DataFrame({name: table[name].tolist() for name in COLUMNS})
    elif kind != "pandas":
        table = table.to_numpy() if kind == "objects" else table.to_numpy().tolist()
    estimator, kernels = Holder(), [("a", "gaussian", [2, 0]), ("b", "gaussian", [1])]
    views, rows = resolve(estimator, table, kernels)
    np.testing.assert_allclose(rows[0], X[:, [2, 0]])
    np.testing.assert_allclose(views.take(estimator, table)[1], X[:, [1]])
    assert estimator.n_features_in_ == 4


def test_views_that_do_not_fit_together(X):
    with pytest.raises(ValueError, match="view 0 has 6 of them, view 1 has 5"):
        resolve(Holder(), [X, X[:5]], "gaussian")
    told = r"must be a table \(rows, columns\), got"
    with pytest.raises(ValueError, match=rf"^View 1 {told} ndarray of 1 dimensions: give one\.$"):
        resolve(Holder(), [X, X[:, 0]], "gaussian")
    with pytest.raises(ValueError, match=rf"^View 'b' {told} None: give one\.$"):
        resolve(Holder(), {"a": X, "b": None}, "gaussian")
    with pytest.raises(ValueError, match="empty dict of views"):
        resolve(Holder(), {}, "gaussian")
    with pytest.raises(ValueError, match="its keys must be names"):
        resolve(Holder(), {0: X}, "gaussian")


def test_new_rows_unlike_those_of_fit(X):
    estimator = Holder()
    views, _ = resolve(estimator, X, [("a", "gaussian", [0, 3])])
    with pytest.raises(ValueError, match="X has 3 features, but Holder is expecting 4"):
        views.take(estimator, X[:, :3])
    with pytest.raises(ValueError, match="a list of 2 views, and Holder was fitted on one table"):
        views.take(estimator, [X, X])
    views, _ = resolve(estimator, [X, X], "gaussian")
    for wrong, message in ((X, "one table"), ([X], "got 1 of them"), ({"a": X, "b": X}, "got a dict of the views")):
        with pytest.raises(ValueError, match=f"X must be a list of 2 views, as in fit, .*{message}"):
            views.take(estimator, wrong)
    with pytest.raises(ValueError, match="View 1 has 3 columns, and it had 4 in fit"):
        views.take(estimator, [X, X[:, :3]])
    views, _ = resolve(estimator, {"a": X, "b": X}, "gaussian")
    with pytest.raises(ValueError, match=r"X must be a dict of the views .* got one without 'b'"):
        views.take(estimator, {"a": X})
    with pytest.raises(ValueError, match="got one with an unknown view 'c'"):
        views.take(estimator, {"a": X, "b": X, "c": X})
