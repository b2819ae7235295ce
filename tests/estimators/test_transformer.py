"""FourierFeatures in use: dtypes, frames, seeds, scales, pipelines."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bochner import FourierFeatures
from bochner.estimators.transformer import SAMPLE_ROWS
from bochner.features.inputs import best_interval
from bochner.kernels import KERNELS, Gaussian, Kernel, Matern, get_kernel
from tests.cases import ADDITIVE, BUILT_IN, RANDOM, each, feature_tolerance, rows
from tests.features.test_homogeneous import worst_error

each_name = pytest.mark.parametrize("name", KERNELS)


def make(name, **choices):
    """Few features and a seed."""
    if get_kernel(name).geometry != "additive":
        choices = {"n_features": 20, **choices}
    else:
        choices.pop("form", None)  # additive kernels have one form
    return FourierFeatures(name, **{"random_state": 0, **choices})


def assert_same_features(features, transformer, X):
    """Equal up to rounding: frames store columns, and NumPy may take other routes through those."""
    expected, feature_map = transformer.transform(X), transformer.feature_map_
    if hasattr(feature_map, "points"):
        bound = np.tile(feature_tolerance(feature_map, X), 2)
    else:
        bound = 64 * np.finfo(float).eps * np.abs(expected).max()
    assert np.all(np.abs(features - expected) <= bound)


@each_name
def test_inner_products_approximate_the_kernel(name):
    X = rows(BUILT_IN[name], 30, 3)
    transformer = make(name, **({} if BUILT_IN[name].geometry == "additive" else {"n_features": 4000}))
    features = transformer.fit_transform(X)
    error = np.max(np.abs(features @ features.T - transformer.kernel_(X)))
    bound = 0 if BUILT_IN[name].geometry == "additive" else 6 / 2000**0.5  # cosines have a variance of at most one
    if BUILT_IN[name].geometry in ("additive", "exponentiated"):
        additive = getattr(BUILT_IN[name], "additive", BUILT_IN[name])
        # Each column errs by at most the worst error of the map times its largest value; a distance by four times that, and
        # exp(-distance / 2) by half of the distance's error.
        worst = worst_error(additive, 2, best_interval(additive, 2)) * 3 * X.max()
        bound += worst if BUILT_IN[name].geometry == "additive" else 2 * transformer.kernel_.scale**2 * worst
    assert error <= bound


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@each_name
def test_dtype_is_kept(name, dtype):
    X = rows(BUILT_IN[name], 12, 3, dtype=dtype)
    transformer = make(name)
    assert transformer.fit_transform(X).dtype == dtype
    assert transformer.transform(X.astype(np.float64)).dtype == np.float64
    assert transformer.transform(sparse.csr_array(X)).dtype == dtype


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, np.float16, bool])
def test_other_numbers_become_float64(dtype):
    X = (np.arange(12).reshape(4, 3) % 5).astype(dtype)
    assert make("gaussian").fit_transform(X).dtype == np.float64


@each_name
def test_read_only_rows_are_left_alone(name):
    X = rows(BUILT_IN[name], 12, 3)
    before = X.copy()
    X.flags.writeable = False
    transformer = make(name).fit(X)
    transformer.transform(X)
    np.testing.assert_array_equal(X, before)
    S = sparse.csr_array(X)
    S.data.flags.writeable = False
    assert transformer.fit(S).transform(S).shape[0] == 12


# -- frames -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@each_name
def test_frames_give_the_features_of_their_values(name, frame):
    X = rows(BUILT_IN[name], 12, 3)
    table = frame(dict(zip("abc", X.T, strict=True)))
    transformer = make(name).fit(table)
    np.testing.assert_array_equal(transformer.feature_names_in_, ["a", "b", "c"])
    assert_same_features(transformer.transform(table), make(name).fit(X), X)


@pytest.mark.parametrize(("container", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
@each_name
def test_set_output(name, container, kind):
    X = rows(BUILT_IN[name], 12, 3)
    transformer = make(name).set_output(transform=container)
    features = transformer.fit_transform(pd.DataFrame(X, columns=list("abc"), index=range(5, 17)))
    assert isinstance(features, kind)
    assert list(features.columns) == list(transformer.get_feature_names_out())
    assert_same_features(np.asarray(features), make(name).fit(X), X)
    if container == "pandas":
        assert list(features.index) == list(range(5, 17))


@each_name
def test_names_of_features_are_unique_and_as_many(name):
    X = rows(BUILT_IN[name], 12, 3)
    transformer = make(name).fit(X)
    names = transformer.get_feature_names_out()
    assert len(set(names)) == len(names) == transformer.transform(X).shape[1]


def test_frames_with_other_columns_are_refused():
    transformer = make("gaussian").fit(pd.DataFrame(np.ones((3, 2)), columns=["a", "b"]))
    with pytest.raises(ValueError, match="feature names should match"):
        transformer.transform(pd.DataFrame(np.ones((3, 2)), columns=["a", "c"]))


def test_gaps_of_a_nullable_column_are_named():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": pd.array([1, None], dtype="Int64")})
    with pytest.raises(ValueError, match=r"column 1 \('b'\), row 1 holds NaN"):
        make("gaussian").fit(frame)
    with pytest.raises(ValueError, match=r"column 1 \('b'\), row 1 holds NaN"):
        make("gaussian").fit(pl.DataFrame({"a": [1.0, 2.0], "b": [1, None]}))


def test_numeric_frames_with_odd_columns():
    X = rows(Gaussian(), 12, 3)
    expected = make("gaussian").fit_transform(X)
    whole = pd.DataFrame(X)
    np.testing.assert_array_equal(make("gaussian").fit_transform(whole), expected)
    categories = pd.DataFrame({"a": pd.Categorical([1.0, 2.0, 1.0]), "b": [1.0, 2.0, 3.0]})
    np.testing.assert_array_equal(
        make("gaussian").fit_transform(categories), make("gaussian").fit_transform([[1.0, 1.0], [2.0, 2.0], [1.0, 3.0]])
    )


# -- copies, pipelines, searches ----------------------------------------------------------------------------------------


@each_name
def test_clone_and_pickle(name):
    X = rows(BUILT_IN[name], 12, 3)
    transformer = make(name, scale=[0.5, 1.0, 2.0]).fit(X)
    again = pickle.loads(pickle.dumps(transformer))
    np.testing.assert_array_equal(again.transform(X), transformer.transform(X))
    copy = clone(transformer)
    assert not hasattr(copy, "feature_map_")
    np.testing.assert_array_equal(copy.fit_transform(X), transformer.transform(X))


@each(BUILT_IN)
def test_clone_of_a_transformer_with_a_kernel_object(kernel):
    X = rows(kernel, 12, 3)
    transformer = FourierFeatures(
        kernel.replace(scale=[0.5, 1.0, 2.0]), n_features=None if kernel.geometry == "additive" else 10, random_state=0
    )
    np.testing.assert_array_equal(clone(transformer).fit_transform(X), transformer.fit_transform(X))
    assert "kernel=" in repr(transformer)


def test_pipeline_and_search_over_the_scale(rng):
    X = rng.uniform(-3, 3, (200, 1))
    y = np.sin(2 * X[:, 0])
    model = make_pipeline(StandardScaler(), FourierFeatures(n_features=100, random_state=0), Ridge(alpha=1e-3))
    scales = [1e-3, 2.0, 1e3]
    search = GridSearchCV(model, {"fourierfeatures__scale": scales, "fourierfeatures__kernel": ["gaussian", Matern()]}, cv=3)
    search.fit(X, y)
    assert search.best_params_["fourierfeatures__scale"] == 2.0  # one in 1000 columns is flat, 1000 sees no neighbours
    assert search.best_score_ > 0.5


def test_set_params():
    transformer = FourierFeatures().set_params(kernel=Matern(), n_features=10, scale=2.0)
    transformer.fit(np.ones((2, 2)))
    assert transformer.kernel_ == Matern(scale=2.0)


def test_transform_before_fit():
    with pytest.raises(NotFittedError):
        FourierFeatures().transform(np.ones((2, 2)))
    with pytest.raises(NotFittedError):
        FourierFeatures().get_feature_names_out()


def test_fit_leaves_the_parameters_alone():
    scale = np.array([1.0, 2.0])
    kernel = Gaussian()
    transformer = FourierFeatures(kernel, scale=scale, n_features=10, random_state=0)
    before = transformer.get_params()
    transformer.fit(np.ones((3, 2)))
    assert all(transformer.get_params()[name] is value for name, value in before.items())
    np.testing.assert_array_equal(scale, [1.0, 2.0])


# -- seeds --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, np.int64(3)], ids=["int", "numpy int"])
def test_same_seed_same_features(seed):
    X = rows(Gaussian(), 12, 3)
    first, again = (FourierFeatures(n_features=20, random_state=seed).fit_transform(X) for _ in range(2))
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("generator", [np.random.default_rng, np.random.RandomState])
def test_generators(generator):
    X = rows(Gaussian(), 12, 3)
    first, again = (FourierFeatures(n_features=20, random_state=generator(7)).fit_transform(X) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    shared = generator(7)
    one, two = (FourierFeatures(n_features=20, random_state=shared).fit_transform(X) for _ in range(2))
    np.testing.assert_array_equal(one, first)
    assert not np.array_equal(one, two)


def test_no_seed_draws_anew():
    X = rows(Gaussian(), 12, 3)
    one, two = (FourierFeatures(n_features=20).fit_transform(X) for _ in range(2))
    assert not np.array_equal(one, two)


@pytest.mark.parametrize("seed", ["zero", 1.5, -1])
def test_bad_seeds(seed):
    with pytest.raises(ValueError, match="random_state must be None, a whole number or a numpy"):
        FourierFeatures(random_state=seed).fit(np.ones((2, 2)))


# -- scales -------------------------------------------------------------------------------------------------------------


@each_name
def test_scale_as_a_number_or_one_per_column(name):
    X = rows(BUILT_IN[name], 12, 3)
    assert make(name, scale=0.5).fit(X).kernel_.scale == 0.5
    np.testing.assert_array_equal(make(name, scale=[1, 2, 3]).fit(X).kernel_.scale, [1.0, 2.0, 3.0])
    shared, repeated = (make(name, scale=s).fit_transform(X) for s in (0.5, [0.5, 0.5, 0.5]))
    np.testing.assert_array_equal(shared, repeated)


@each({name: kernel for name, kernel in RANDOM.items() if name in KERNELS})
def test_no_scale_means_median_for_a_name_and_its_own_for_an_object(kernel):
    name = next(n for n, k in BUILT_IN.items() if k is kernel)
    X = rows(kernel, 12, 3)
    assert make(name).fit(X).kernel_ == make(name, scale="median").fit(X).kernel_
    own = kernel.replace(scale=0.3)
    assert FourierFeatures(own, n_features=10).fit(X).kernel_ == own
    assert FourierFeatures(own, n_features=10, scale=2.0).fit(X).kernel_.scale == 2.0
    median = FourierFeatures(own, n_features=10, scale="median").fit(X).kernel_
    assert median == make(name, scale="median").fit(X).kernel_


@each(ADDITIVE)
def test_no_scale_means_one_for_an_additive_kernel(kernel):
    name = next(n for n, k in BUILT_IN.items() if k is kernel)
    X = rows(kernel, 12, 3)
    assert make(name).fit(X).kernel_.scale == 1.0
    with pytest.raises(ValueError, match="scale='median' asks for a bandwidth"):
        make(name, scale="median").fit(X)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, pd.DataFrame])
def test_median_of_few_rows_is_one_over_their_median_distance(container):
    X = rows(Gaussian(), 15, 3)
    assert SAMPLE_ROWS >= 15
    scale = make("gaussian").fit(container(X)).kernel_.scale
    assert scale == pytest.approx(1 / np.median(pdist(X)), rel=2e-6)  # found to 1e-6 in log scale


def test_median_of_many_rows_looks_at_a_sample():
    X = rows(Gaussian(), 5 * SAMPLE_ROWS, 3)
    scales = [make("gaussian", random_state=seed).fit(X).kernel_.scale for seed in (0, 0, 1)]
    assert scales[0] == scales[1] != scales[2]
    distances = pdist(X)
    # A sample of r rows: a share of its pairs is off by less than 5 * sqrt(1 / r) / 2 from that of all (Hoeffding, 1963,
    # for U-statistics: as r/2 independent pairs, sigma <= 1/2 / sqrt(r/2)).
    share = 5 * 0.5 / (SAMPLE_ROWS / 2) ** 0.5
    low, high = np.quantile(distances, [0.5 - share, 0.5 + share])
    assert 1 / high <= scales[0] <= 1 / low


# -- small tables -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "table",
    [
        np.ones((1, 3)),
        np.ones((5, 3)),
        np.zeros((4, 2)),
        np.array([[1.0], [2.0], [2.0]]),
        np.ones((1, 1)),
        np.array([[1.0], [5.0]]),
    ],
    ids=["one row", "equal rows", "zeros", "one column", "one value", "two rows"],
)
@pytest.mark.parametrize("form", ["paired", "phase"])
@each_name
def test_degenerate_tables_give_finite_features(name, form, table):
    features = make(name, form=form).fit_transform(table)
    assert features.shape[0] == len(table)
    assert np.isfinite(features).all()


@each_name
def test_constant_columns_and_duplicated_rows(name):
    X = rows(BUILT_IN[name], 6, 3)
    X[:, 1] = 2.0
    X = np.concatenate([X, X[:2]])
    features = make(name).fit_transform(X)
    assert np.isfinite(features).all()
    np.testing.assert_array_equal(features[:2], features[-2:])


def test_every_kernel_takes_part():
    assert all(isinstance(make(name).fit(np.ones((2, 2))).kernel_, Kernel) for name in KERNELS)
