"""Tables of categories, dates, truth values and gaps in all learners."""

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from bochner import FourierFeatures, KernelClassifier, KernelRegressor, MultipleKernelClassifier, MultipleKernelRegressor
from bochner.tables import TableEncoder, UnseenLevelsWarning
from tests.tables.tables import LIBRARIES, cells, make

N = 120
FAMILIES = {
    "KernelRegressor": lambda: KernelRegressor("gaussian", n_features=40, random_state=0),
    "KernelClassifier": lambda: KernelClassifier("gaussian", n_features=40, random_state=0),
    "MultipleKernelRegressor": lambda: MultipleKernelRegressor(
        [("house", "gaussian", ["age", "kind", "rooms"]), ("place", "gaussian", ["city"])], n_features=20, random_state=0
    ),
    "MultipleKernelClassifier": lambda: MultipleKernelClassifier(
        [("house", "gaussian", ["age", "kind", "rooms"]), ("place", "gaussian", ["city"])], n_features=20, random_state=0
    ),
}
each_learner = pytest.mark.parametrize("learner", sorted(FAMILIES))


def problem(learner="KernelRegressor", library="pandas"):
    columns = cells(N)
    rng = np.random.default_rng(1)
    age = np.nan_to_num(np.array(columns["age"], dtype=float))
    y = age + 2 * np.array([city == "Rome" for city in columns["city"]]) + 0.3 * rng.standard_normal(N)
    return make(library, columns), np.where(y > 0.5, "high", "low") if "Classifier" in learner else y


def outputs(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


@each_learner
def test_all_libraries_are_learned_from_alike(learner):
    models = {library: FAMILIES[learner]().fit(*problem(learner, library)) for library in LIBRARIES}
    X, y = problem(learner)
    expected = outputs(models["pandas"], X)
    for library, model in models.items():
        np.testing.assert_array_equal(outputs(model, problem(learner, library)[0]), expected)
        assert list(model.feature_names_in_) == list(X.columns)
        assert model.n_features_in_ == X.shape[1]
        assert model.score(X, y) > 0.5


@each_learner
def test_the_encoding_is_all_there_is_to_it(learner):
    """A learner of the encoded numbers has the same predictions."""
    X, y = problem(learner)
    model = FAMILIES[learner]().fit(X, y)
    numbers = pd.DataFrame(model.encoder_.transform(X), columns=model.encoder_.names_out)
    plain = FAMILIES[learner]()
    if learner.startswith("Multiple"):
        origins = {name: [n for n in numbers if n.split("=")[0] == name] for name in ("age", "kind", "rooms", "city")}
        house = [n for name in ("age", "kind", "rooms") for n in origins[name]]
        plain.set_params(kernels=[("house", "gaussian", house), ("place", "gaussian", origins["city"])])
    np.testing.assert_array_equal(outputs(plain.fit(numbers, y), numbers), outputs(model, X))
    assert not hasattr(plain, "encoder_")


def test_against_a_pipeline_of_scikit_learns_encoders():
    """Of numbers with gaps and categories without, the encoding is that of its encoders, and so is the model."""
    X, y = problem()
    X = X[["age", "rooms"]].assign(city=X["city"].fillna("none"), kind=X["kind"].fillna("none"))
    encoders = make_column_transformer(
        (SimpleImputer(strategy="median", add_indicator=True), ["age"]),
        (SimpleImputer(strategy="median", add_indicator=True), ["rooms"]),
        (OneHotEncoder(sparse_output=False), ["city", "kind"]),
    )
    X["city"], X["kind"] = X["city"].replace("none", "Nowhere"), X["kind"].replace("none", "Nothing")
    model = KernelRegressor("gaussian", n_features=40, random_state=0)
    expected = make_pipeline(encoders, clone(model)).fit(X, y).predict(X)
    np.testing.assert_array_equal(model.fit(X, y).predict(X), expected)


@each_learner
def test_numbers_stay_untouched(learner, monkeypatch):
    monkeypatch.setattr(TableEncoder, "fit", lambda *_: pytest.fail("nothing is to be encoded"))
    X, y = problem(learner)
    X = X[["rooms"]].fillna(0.0).assign(age=np.arange(N) / N, kind=1.0, city=np.arange(N) % 5)
    model = FAMILIES[learner]().fit(X, y)
    named = FAMILIES[learner]()
    if learner.startswith("Multiple"):
        at = list(X.columns).index
        house = [at("age"), at("kind"), at("rooms")]
        named.set_params(kernels=[("house", "gaussian", house), ("place", "gaussian", [at("city")])])
    np.testing.assert_array_equal(outputs(named.fit(X.to_numpy(dtype=float), y), X.to_numpy(dtype=float)), outputs(model, X))


@pytest.mark.filterwarnings("ignore::bochner.tables.UnseenLevelsWarning")
@each_learner
def test_new_tables(learner):
    X, y = problem(learner)
    model = FAMILIES[learner]().fit(X, y)
    expected = outputs(model, X)
    np.testing.assert_array_equal(outputs(model, X[X.columns[::-1]].assign(further=1)), expected)
    unseen = X.assign(city="Paris", kind=None)
    assert np.isfinite(outputs(model, unseen)).all()
    with pytest.raises(ValueError, match=r"lacks columns .*'age' \(is it 'Age'\?\)"):
        model.predict(X.rename(columns={"age": "Age"}))
    with pytest.raises(ValueError, match="A table of pandas, polars or pyarrow"):
        model.predict(np.ones((3, X.shape[1])))


def test_kernels_need_no_more_than_their_columns():
    X, y = problem()
    with_names = X.assign(id=[f"row {i}" for i in range(N)])  # which would be left out with a warning
    model = FAMILIES["MultipleKernelRegressor"]().fit(with_names, y)
    np.testing.assert_array_equal(model.predict(X[["city", "rooms", "kind", "age"]]), model.predict(with_names))


def test_automatic_kernels_leave_out_what_the_encoding_does():
    X, y = problem()
    X = X[["age", "city"]].assign(id=[f"row {i}" for i in range(N)])
    with pytest.warns(UserWarning, match="Column 'id' is left out"):
        model = MultipleKernelRegressor(n_features=10, random_state=0).fit(X, y)
    assert {"column age", "column city"} <= set(model.kernel_names_)
    assert "column id" not in model.kernel_names_
    named = MultipleKernelRegressor([("a", "gaussian", ["age"]), ("b", "gaussian", ["id"])], n_features=10)
    with pytest.warns(UserWarning, match="left out"), pytest.raises(ValueError, match="Kernel 'b' has no columns"):
        named.fit(X, y)


@pytest.mark.parametrize("library", LIBRARIES)
def test_views_are_encoded_each_by_itself(library):
    columns, y = cells(N), problem()[1]
    first = {name: columns[name] for name in ("age", "kind")}
    views = {"house": make(library, first), "place": make(library, {"city": columns["city"]})}
    model = MultipleKernelRegressor("gaussian", n_features=20, random_state=0).fit(views, y)
    table = pd.DataFrame(first).assign(city=columns["city"])
    kernels = [("house", "gaussian", ["age", "kind"]), ("place", "gaussian", ["city"])]
    one = MultipleKernelRegressor(kernels, n_features=20, random_state=0).fit(table, y)
    np.testing.assert_array_equal(model.predict(views), one.predict(table))


def test_relevance_by_encoded_and_by_original_columns():
    X, y = problem()
    model = FAMILIES["KernelRegressor"]().fit(X, y)
    encoded, whole = model.relevance_by_name(), model.relevance_by_name(by="column")
    assert set(encoded) == set(model.encoder_.names_out)
    assert set(whole) == set(X.columns)
    assert set(list(whole)[:2]) == {"age", "city"}
    assert max(whole.values()) == 1.0
    cities = sum(value for name, value in encoded.items() if name.startswith("city="))
    ages = sum(value for name, value in encoded.items() if name.split("=")[0] == "age")
    np.testing.assert_allclose(whole["city"] / whole["age"], cities / ages, rtol=1e-12)
    with pytest.raises(ValueError, match="by must be one of encoded, column, got 'row'"):
        model.relevance_by_name(by="row")
    assert model.leading_directions(1)[0]["weights"].keys() == encoded.keys()
    numbers = KernelRegressor("gaussian", n_features=40, random_state=0).fit(np.ones((N, 1)) * y[:, None], y)
    assert numbers.relevance_by_name(by="column") == numbers.relevance_by_name()


@pytest.mark.parametrize("learner", ["KernelRegressor", "KernelClassifier"])
def test_what_else_takes_rows(learner):
    """Weights, validation sets, more rows, searches and pipelines."""
    X, y = problem(learner)
    X = X[["age", "city", "kind"]]
    weights = np.repeat([1.0, 2.0], N // 2)
    twice = np.r_[np.arange(N), np.arange(N // 2, N)]
    model = FAMILIES[learner]().set_params(validation=(X[:40], y[:40]))
    weighted = clone(model).fit(X, y, sample_weight=weights)
    repeated = clone(model).fit(X.iloc[twice], y[twice])
    assert weighted.encoder_.names_out == repeated.encoder_.names_out  # medians know of no weights
    grown = FAMILIES[learner]().fit(X[:90], y[:90]).partial_fit(X[90:], y[90:])
    assert grown.score(X, y) > 0.5
    assert np.isfinite(cross_val_score(FAMILIES[learner](), X, y, cv=3)).all()
    search = GridSearchCV(make_pipeline(FAMILIES[learner]()), {f"{learner.lower()}__n_features": [20, 40]}, cv=2)
    assert search.fit(X, y).score(X, y) > 0.5
    assert not hasattr(clone(weighted), "encoder_")


def test_a_later_fit_of_numbers_forgets_the_encoding():
    X, y = problem()
    model = FAMILIES["KernelRegressor"]().fit(X, y)
    model.fit(X[["rooms"]].fillna(0.0), y)
    assert not hasattr(model, "encoder_")
    assert list(model.relevance_by_name()) == ["rooms"]
    with pytest.raises(ValueError, match="Column 'rooms' holds objects of type list"):
        FAMILIES["KernelRegressor"]().fit(X[["age"]].assign(rooms=[[1]] * N), y)


def test_infinity_is_refused_by_name():
    X, y = problem()
    with pytest.raises(ValueError, match=r"column 2 \('rooms'\), row 0 holds inf"):
        FAMILIES["KernelRegressor"]().fit(X.assign(rooms=np.inf), y)


def test_columns_whose_names_are_numbers():
    X, y = problem()
    X = X.set_axis(range(X.shape[1]), axis=1)
    model = FAMILIES["KernelRegressor"]().fit(X, y)
    assert not hasattr(model, "feature_names_in_")
    assert "2=Rome" in model.relevance_by_name()


def test_a_transformer_of_numbers_stays_one():
    with pytest.raises(ValueError, match=r"'city'\) holds text"):
        FourierFeatures().fit(problem()[0][["rooms", "city"]].dropna())


@pytest.mark.parametrize("library", LIBRARIES)
def test_text_classes_of_every_library(library):
    X, y = problem("KernelClassifier", library)
    y = {"pandas": pd.Categorical, "polars": pl.Series, "pyarrow": pa.array}[library](y)
    model = FAMILIES["KernelClassifier"]().fit(X, y)
    assert model.classes_.tolist() == ["high", "low"]


def test_a_census_with_text():
    """Named levels in place of the codes of a public data set say as much as one-hot columns of the codes."""
    path = Path(os.environ.get("BOCHNER_DATA", "")) / "pmlb" / "adult.tsv.gz"
    if not path.is_file():
        pytest.skip("BOCHNER_DATA names no folder with pmlb/adult.tsv.gz")
    with gzip.open(path, "rt") as file:
        table = pd.read_csv(file, sep="\t", nrows=1500)
    y = table.pop("target")
    names = ["workclass", "education", "marital-status", "occupation", "relationship", "race", "sex"]
    text = table.assign(**{name: "level " + table[name].astype(str) for name in names})
    model = KernelClassifier("gaussian", n_features=200, random_state=0).fit(text[:1000], y[:1000])
    assert model.score(text[1000:], y[1000:]) > y[1000:].value_counts(normalize=True).max()
    assert set(model.relevance_by_name(by="column")) == set(table.columns)


def test_levels_that_fit_did_not_see_are_told_of_once_for_each_call(recwarn):
    table = pd.DataFrame({"city": ["Bonn", "Oslo", "Rome"] * 10, "size": np.arange(30.0)})
    model = KernelRegressor("gaussian", n_features=8, tol=0.5, random_state=0).fit(table, np.arange(30.0) % 3)
    model.predict(table)
    assert not [each for each in recwarn if each.category is UnseenLevelsWarning]
    with pytest.warns(UnseenLevelsWarning, match=r"column 'city' in 2 of 30 rows, such as 'Paris'") as told:
        model.predict(table.assign(city=["Paris", "Lima", *table["city"][2:]]))
    assert len(told) == 1
