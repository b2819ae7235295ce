"""Pictures of learned kernels and of their frequencies: what is drawn are the numbers of the model."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy import stats

from bochner import FourierFeatures, KernelClassifier, KernelRegressor, MultipleKernelRegressor
from bochner.estimators.smaller import with_features
from bochner.kernels import Cauchy, ExponentiatedChi2, Gaussian, Laplacian, Matern, MetricKernel, SkewedChi2
from tests.default_models import default_classifier, default_regressor, default_rows

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")

from matplotlib.figure import Figure  # noqa: E402

from bochner.plots import (  # noqa: E402
    plot_directions,
    plot_feature_error,
    plot_frequencies,
    plot_learned_kernel,
    plot_model,
    plot_selection,
    sizes,
)
from bochner.plots.overview import pictures  # noqa: E402
from bochner.plots.spectrum import frequency_density  # noqa: E402

NAMES = ["a", "b", "c", "d"]


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="module")
def rows():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(rng.standard_normal((160, 4)) * [1.0, 10.0, 0.1, 1.0] + 3.0, columns=NAMES)
    y = np.sin(20 * X["c"].to_numpy()) + 0.3 * X["a"].to_numpy() + 0.1 * rng.standard_normal(160)
    return X, y


@pytest.fixture(scope="module")
def regressor(rows):
    X, y = rows
    return KernelRegressor("gaussian", n_features=64, scale="per-column", random_state=0).fit(X[::2], y[::2])


@pytest.fixture(scope="module")
def turned(rows):
    """A model with a metric in which columns work together."""
    X, y = rows
    return KernelRegressor("gaussian", metric="full", finish="fourier", n_features=64, random_state=0).fit(X, y)


# -- the kernel of one and two columns --------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["c", 2, -2])
def test_the_kernel_of_one_column_is_its_formula(regressor, ax, column):
    assert plot_learned_kernel(regressor, ax, column) is ax
    t, k = ax.get_lines()[0].get_xydata().T
    np.testing.assert_allclose(k, np.exp(-0.5 * (regressor.scale_[2] * t) ** 2), rtol=1e-12)
    np.testing.assert_allclose([t[0], t[-1]], 3 * regressor.standardiser_.spread[2] * np.array([-1, 1]))
    assert ax.get_xlabel() == "change of c"


def test_the_most_relevant_column_unless_told_which(regressor, ax):
    plot_learned_kernel(regressor, ax)
    assert ax.get_xlabel() == f"change of {next(iter(regressor.relevance_by_name()))}"


def test_the_kernel_of_two_columns(turned, ax):
    plot_learned_kernel(turned, ax, ("b", "c"))
    mesh = ax.collections[0]
    x, z = np.linspace(*np.array([-3, 3]) * turned.standardiser_.spread[1], 101), ax.get_ylim()
    metric = turned.metric_[1:3, 1:3] / np.outer(turned.standardiser_.spread[1:3], turned.standardiser_.spread[1:3])
    z = np.linspace(-3, 3, 101) * turned.standardiser_.spread[2]
    steps = np.stack(np.meshgrid(x, z), axis=-1)
    expected = np.exp(-0.5 * np.einsum("ijk,kl,ijl->ij", steps, metric, steps))
    np.testing.assert_allclose(np.asarray(mesh.get_array()).reshape(101, 101), expected, rtol=1e-9)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("change of b", "change of c")


def test_a_kernel_of_histograms_is_drawn_around_a_centre(ax):
    X = np.random.default_rng(0).uniform(size=(60, 2))
    model = FourierFeatures("chi2").fit(X)
    plot_learned_kernel(model, ax, 1, centre=0.5, reach=0.75)
    x, k = ax.get_lines()[0].get_xydata().T
    assert (x[0], x[-1]) == (0, 1.25)
    np.testing.assert_allclose(k, 2 * 0.5 * x / (0.5 + x))
    assert ax.get_xlabel() == "x1"


def test_columns_that_are_not_there(regressor, ax):
    with pytest.raises(ValueError, match=r"no column 'e': give a number, or a name such as 'a', 'b', 'c', 'd'"):
        plot_learned_kernel(regressor, ax, "e")
    with pytest.raises(ValueError, match="no column 4: the model has 4, from 0 to 3"):
        plot_frequencies(regressor, ax, 4)
    with pytest.raises(ValueError, match="one column or two, got 3"):
        plot_learned_kernel(regressor, ax, (0, 1, 2))
    with pytest.raises(ValueError, match="KernelRegressor has no kernel_"):
        plot_learned_kernel(KernelRegressor(), ax)


def test_a_flat_kernel_looks_flat(ax):
    """Axes and colours begin at zero: a kernel between 0.998 and one is a line near one, not a bump."""
    X = np.random.default_rng(0).standard_normal((50, 2))
    model = FourierFeatures(Gaussian(scale=0.01), n_features=16, random_state=0).fit(X)
    plot_learned_kernel(model, ax, 0, reach=3.0)
    low, high = ax.get_ylim()
    assert low <= 0
    assert high == pytest.approx(1.05)
    mesh = plot_learned_kernel(model, Figure().subplots(), (0, 1), reach=3.0).collections[0]
    assert mesh.get_clim()[0] == 0


# -- frequencies ----------------------------------------------------------------------------------------------------------

LAWS = {
    "gaussian": (Gaussian(scale=2.0), stats.norm(scale=2.0)),
    "matern12": (Matern(nu=0.5, scale=2.0), stats.cauchy(scale=2.0)),
    "matern32": (Matern(nu=1.5, scale=0.5), stats.t(3, scale=0.5)),
    "laplacian": (Laplacian(scale=2.0), stats.cauchy(scale=2.0)),
    "cauchy": (Cauchy(scale=3.0), stats.laplace(scale=3.0)),
    "skewed_chi2": (SkewedChi2(scale=2.0), stats.hypsecant(scale=2.0 * 2 / np.pi)),
    "exponentiated_chi2": (ExponentiatedChi2(scale=2.0), stats.norm(scale=2.0)),
    "a metric": (MetricKernel(Gaussian(), np.array([[3.0, 4.0], [1.0, 0.0], [0.0, 1.0]])), stats.norm(scale=5.0)),
}


@pytest.mark.parametrize("name", LAWS)
def test_the_density_of_a_frequency_is_that_of_its_law(name):
    """The laws of one column, in SciPy's words; the density is a difference quotient of 2000 quantiles."""
    kernel, law = LAWS[name]
    x, density = frequency_density(kernel, 3, 0)
    inner = np.abs(x) < np.abs(x).max()
    np.testing.assert_allclose(density[inner], law.pdf(x[inner]), rtol=2e-3)


def test_the_density_under_a_metric_with_a_product_as_base_is_that_of_a_sum():
    """The sum of independent Cauchy variables is a Cauchy variable, its scale the sum of theirs: draws are close to it."""
    kernel = MetricKernel(Laplacian(), np.array([[1.0, -2.0], [0.5, 0.5]]))
    x, density = frequency_density(kernel, 2, 0)
    expected = stats.cauchy(scale=3.0).pdf(x)
    n_in_bin = expected * (x[-1] - x[-2]) * 2 * 100_000  # draws have both signs
    assert np.all(np.abs(density / expected - 1) < 5 / np.sqrt(n_in_bin) + 0.01)  # five standard deviations, and the bin


def test_bars_are_the_frequencies_of_the_column(regressor, ax):
    plot_frequencies(regressor, ax, "c")
    frequencies = regressor.feature_map_.frequencies[2] / regressor.standardiser_.spread[2]
    ends = np.array([bar.get_x() for bar in ax.patches] + [ax.patches[-1].get_x() + ax.patches[-1].get_width()])
    areas = np.array([bar.get_height() * bar.get_width() for bar in ax.patches])
    expected = np.histogram(frequencies, ends)[0]
    np.testing.assert_allclose(areas * len(frequencies), expected, atol=1e-9)
    assert areas.sum() > 0.9
    x, density = ax.get_lines()[0].get_xydata().T
    np.testing.assert_allclose(density[1:-1], stats.norm(scale=regressor.scale_[2]).pdf(x[1:-1]), rtol=2e-3)


def test_models_without_random_frequencies(rows, ax):
    X, y = rows
    model = KernelRegressor("gaussian", finish="centres", metric="diagonal", random_state=0).fit(X[:60], y[:60])
    with pytest.raises(ValueError, match="CentreMap has no random frequencies: fit with finish='fourier'"):
        plot_frequencies(model, ax)


# -- directions -----------------------------------------------------------------------------------------------------------


def test_directions_are_the_leading_ones(turned, ax):
    plot_directions(turned, ax, k=2)
    values, vectors = np.linalg.eigh(turned.metric_)
    drawn = np.asarray(ax.get_images()[0].get_array())
    for j in range(2):
        expected = vectors[:, -1 - j]
        np.testing.assert_allclose(drawn[:, j], expected * np.sign(expected @ drawn[:, j]), atol=1e-9)
    shares = [label.get_text() for label in ax.get_xticklabels()]
    assert shares == [f"{values[-1 - j] / values.sum():.0%}" for j in range(2)]
    assert [label.get_text() for label in ax.get_yticklabels()] == NAMES
    with pytest.raises(ValueError, match="top must be at least 1, got 0"):
        plot_directions(turned, ax, top=0)


def test_directions_of_next_to_no_share_are_not_drawn(turned, ax):
    model = copy.copy(turned)
    model.metric_ = np.diag([0.0, 4.0, 1e-3, 1.0])
    plot_directions(model, ax)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["80%", "20%"]
    model.metric_ = np.zeros((4, 4))
    assert len(plot_directions(model, Figure().subplots()).get_xticklabels()) == 1


# -- the error with fewer features ----------------------------------------------------------------------------------------


def test_errors_with_fewer_features(regressor, rows, ax):
    X, y = rows
    plot_feature_error(regressor, X[1::2], y[1::2], ax, sizes=[8, 64])
    (size, error) = ax.get_lines()[0].get_xydata()[-1]
    assert size == 64
    assert error == pytest.approx(np.sqrt(np.mean((regressor.predict(X[1::2]) - y[1::2]) ** 2)), rel=1e-6)
    small = KernelRegressor("gaussian", n_features=64, scale="per-column", keep_moments=False, random_state=0)
    with pytest.raises(ValueError, match="keep_moments=True"):
        plot_feature_error(small.fit(X[::2], y[::2]), X, y, ax)


def test_errors_of_a_classifier_are_shares_of_rows(rows, ax):
    X, y = rows
    model = KernelClassifier("gaussian", n_features=32, random_state=0).fit(X[::2], y[::2] > 1)
    plot_feature_error(model, X[1::2], y[1::2] > 1, ax)
    assert ax.get_ylabel() == "share of wrong rows"
    assert ax.get_lines()[0].get_ydata()[-1] == pytest.approx(1 - model.score(X[1::2], y[1::2] > 1))


def test_errors_with_fewer_centres(ax):
    """Of all centres it is the error of the model; they are called by their name, and counted once for any scheme."""
    model, (X, y) = default_classifier(), default_rows(seed=1)
    labels = np.where(y > 1, "high", "low")
    plot_feature_error(model, X, labels, ax)
    assert ax.get_xlabel() == "centres"
    size, error = ax.get_lines()[0].get_xydata()[-1]
    assert size == model.feature_map_.n_features
    assert error == pytest.approx(1 - model.score(X, labels))


def test_errors_with_fewer_features_are_computed_once(regressor, rows, monkeypatch):
    X, y = rows
    asked = []
    monkeypatch.setattr(sizes, "with_features", lambda model, n: asked.append(n) or with_features(model, n))
    (picture,) = [each for each in pictures(regressor, X, y) if each.title == "error with fewer features"]
    for _ in range(2):
        picture.draw(Figure().subplots())
    assert len(asked) == 1 + len(set(asked))  # the most of them twice: once to see whether there are sums


def test_a_kernel_of_directions_is_not_drawn_as_one_of_differences():
    model = copy.copy(default_regressor())
    assert "kernel of one column" in [each.title for each in pictures(model)]
    metric = np.eye(model.n_features_in_)
    model.kernel_ = MetricKernel(Gaussian(), metric, origin=np.zeros(len(metric)))
    titles = [each.title for each in pictures(model)]
    assert "relevance of the columns" in titles
    assert not {"kernel of one column", "kernel of two columns"} & set(titles)
    with pytest.raises(ValueError, match="use plot_metric"):
        plot_learned_kernel(model)


# -- candidates -----------------------------------------------------------------------------------------------------------


def entry(start, error, *, chosen=False, stage="unseen rows"):
    recipe = {"kernel": "Gaussian", "start": start, "metric": "given", "finish": "centres"}
    return {"stage": stage, **recipe, "error": error, "chosen": chosen}


def test_candidates_are_ranked_as_they_were_chosen(ax):
    """By their means, and only those that were judged on every part; a lucky one on a single part comes last."""
    model = copy.copy(default_regressor())
    model.selection_ = [
        entry("scales", 1e-9, stage="search 1"),
        entry("lucky", 0.01),
        entry("isotropic", 0.16, chosen=True),
        entry("evidence", 0.09),
        entry("isotropic", 0.04, chosen=True),
        entry("evidence", 0.25),
    ]
    plot_selection(model, ax)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert [name.split(", ")[1] for name in names] == ["isotropic", "evidence", "lucky"]
    dots = [line for line in ax.get_lines() if line.get_marker() == "o"]
    assert [line.get_fillstyle() for line in dots] == ["full", "none", "none"]
    np.testing.assert_allclose(dots[0].get_xdata(), [0.4, 0.2])
    means = [line.get_xdata()[0] for line in ax.get_lines() if line.get_marker() == "|"]
    np.testing.assert_allclose(means, [0.1**0.5, 0.17**0.5, 0.1])


def test_the_first_candidate_is_the_chosen_one():
    for model in (default_regressor(), default_classifier()):
        ax = plot_selection(model, Figure().subplots())
        assert ax.get_lines()[0].get_fillstyle() == "full"
        assert sum(line.get_fillstyle() == "full" and line.get_marker() == "o" for line in ax.get_lines()) == 1


def test_pictures_of_default_settings():
    """Centres in place of features, no frequencies, and captions that say what the history is of."""
    X, y = default_rows(seed=1)
    model = default_regressor()
    found = {each.title: each for each in pictures(model, X, y)}
    assert {"candidates", "error with fewer centres", "history"} <= set(found)
    assert not {"frequencies", "error with fewer features"} & set(found)
    assert "metrics then grow from" in found["history"].caption
    ax = found["history"].draw(Figure().subplots())
    seconds = [record["seconds"] for record in model.history_]
    assert seconds == sorted(seconds)  # of one descent after the other
    assert ax.get_xlim()[1] >= seconds[-1]


# -- all in one figure ----------------------------------------------------------------------------------------------------


def titles(model, *rows):
    return {picture.title for picture in pictures(model, *rows)}


def test_the_pictures_that_suit_a_model(regressor, turned, rows):
    X, y = rows
    kernel = {"relevance of the columns", "kernel of one column", "kernel of two columns", "history"}
    assert titles(regressor) == {*kernel, "frequencies"}
    assert titles(regressor, X, y) - titles(regressor) == {"predicted against true", "error with fewer features"}
    assert titles(turned) >= {"metric", "leading directions", "frequencies"}
    classifier = KernelClassifier("gaussian", n_features=32, random_state=0).fit(X, y > 1)
    assert titles(classifier, X, y > 1) - titles(classifier) == {"calibration", "error with fewer features"}
    many = MultipleKernelRegressor(
        [("first", "gaussian", ["a"]), ("second", "gaussian", ["b"])], n_features=20, l1_ratio=1.0
    )
    assert titles(many.fit(X, y)) >= {"weights of the kernels", "path of penalties"}


@pytest.mark.filterwarnings("ignore:.*constrained_layout.*")
def test_every_estimator_plots_itself(regressor, rows):
    from matplotlib import pyplot

    X, y = rows
    figure = regressor.plot(X[1::2], y[1::2])
    shown = [ax.get_title() for ax in figure.axes if ax.get_label() != "<colorbar>"]
    assert len(shown) == len(pictures(regressor, X, y)) == 7
    assert all(shown)
    assert len(FourierFeatures(random_state=0).fit(X).plot().axes) >= 3
    pyplot.close("all")


def test_rows_come_with_targets_and_models_fitted(regressor, rows):
    with pytest.raises(ValueError, match="X and y come together"):
        plot_model(regressor, rows[0])
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_model(KernelRegressor())
