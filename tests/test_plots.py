"""Pictures of learned models: what is drawn are the numbers of the model."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import Ridge

from bochner import KernelClassifier, KernelRegressor
from bochner.descent import typed_name
from bochner.exact import KernelRidgeGD
from bochner.features import FeatureChoices, build_map
from bochner.kernels import Chi2, Gaussian, Matern

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")

from matplotlib.figure import Figure  # noqa: E402

from bochner.plots import plot_calibration, plot_history, plot_kernel, plot_predictions, plot_relevance  # noqa: E402

NAMES = ["a", "b", "c", "d"]


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="module")
def rows():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(rng.standard_normal((80, 4)), columns=NAMES)
    return X, np.sin(2 * X["c"].to_numpy()) + 0.3 * X["a"].to_numpy() + 0.1 * rng.standard_normal(80)


@pytest.fixture(scope="module")
def regressor(rows):
    return KernelRegressor(n_features=64, random_state=0).fit(*rows)


class Oracle:
    """A classifier that says what it is told."""

    def __init__(self, probabilities, classes):
        self.probabilities = np.asarray(probabilities)
        self.classes_ = np.asarray(classes)

    def predict_proba(self, X):
        return self.probabilities


def texts(ax):
    return [text.get_text() for text in ax.texts]


def bars_of(ax):
    return [collection for collection in ax.collections if isinstance(collection, mpl.collections.LineCollection)]


def dots_of(ax):
    return [collection.get_offsets() for collection in ax.collections if collection not in bars_of(ax)]


# -- relevance ------------------------------------------------------------------------------------------------------------


def test_relevance_bars_are_the_relevances_by_name(regressor, ax):
    assert plot_relevance(regressor, ax) is ax
    expected = regressor.relevance_by_name()
    assert [label.get_text() for label in ax.get_yticklabels()] == list(expected)
    assert [bar.get_width() for bar in ax.patches] == list(expected.values())
    low, high = ax.get_ylim()
    assert low > high  # the first bar is on top
    assert ax.get_title() == ""


def test_relevance_shows_the_first_columns_and_says_so(regressor, ax):
    plot_relevance(regressor, ax, top=2)
    assert len(ax.patches) == 2
    assert ax.get_title() == "the first 2 of 4 columns"
    with pytest.raises(ValueError, match="at least 1, got 0"):
        plot_relevance(regressor, ax, top=0)


# -- kernels --------------------------------------------------------------------------------------------------------------


def test_a_kernel_of_several_scales_is_drawn_at_a_scale_of_one(regressor, ax):
    plot_kernel(regressor.kernel_, ax=ax)
    plain = plot_kernel(regressor.kernel_.replace(scale=1.0), ax=Figure().subplots())
    np.testing.assert_array_equal(ax.get_lines()[0].get_xydata(), plain.get_lines()[0].get_xydata())
    assert (ax.get_xlabel(), plain.get_xlabel()) == ("x times its scale", "x")
    assert plot_kernel(Chi2(scale=[1.0, 2.0]), ax=Figure().subplots()).get_xlabel() == "x, at a scale of one"
    assert plot_kernel(Matern(scale=[0.5]), ax=Figure().subplots()).get_xlabel() == "x"


def test_several_scales_against_a_map_of_one_column(ax):
    one = build_map(Gaussian(), 1, FeatureChoices(n_features=8), np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"kernel has 2 scales, .*: give the map's own kernel, feature_map\.kernel"):
        plot_kernel(Gaussian(scale=[1.0, 2.0]), one, ax)
    assert len(plot_kernel(one.kernel, one, ax).get_lines()) == 2


# -- history --------------------------------------------------------------------------------------------------------------


def test_history_has_a_dot_for_every_evaluation(regressor, ax):
    plot_history(regressor, ax)
    dots = np.concatenate([line.get_xydata() for line in ax.get_lines() if line.get_marker() == "."])
    expected = [(record["seconds"], record["criterion"]) for record in regressor.history_]
    np.testing.assert_array_equal(dots, expected)


def test_levels_that_are_too_narrow_for_a_label_have_none(regressor, ax):
    model = copy(regressor)
    begins = {1: 0.1, 2: 0.3, 3: 40.0, 4: 42.0, 5: 98.0}
    common = {"kernel": "Gaussian", "n_rows": 9, "criterion": 0.5}
    model.history_ = [
        {**common, "level": level, "n_features": 10 * level, "seconds": seconds + i}
        for level, seconds in begins.items()
        for i in ((0.0, 2.0) if level == 5 else (0.0,))
    ]
    plot_history(model, ax)
    labels = {text.get_text(): text for text in ax.texts}
    assert list(labels) == [f"{10 * level} features\n9 rows" for level in (2, 4, 5)]
    assert [text.get_horizontalalignment() for text in labels.values()] == ["left", "left", "right"]


def test_history_tells_families_and_levels_apart(rows, ax):
    model = KernelRegressor(n_features=512, random_state=0).fit(*rows)
    plot_history(model, ax)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {record["kernel"] for record in model.history_} == set(model.families_)
    assert sorted(labels) == sorted(map(typed_name, model.families_))
    named = [line for line in ax.get_lines() if line.get_label() in labels]
    assert len({line.get_color() for line in named}) == len(labels) == 3
    sizes = list(dict.fromkeys(f"{r['n_features']} features\n{r['n_rows']} rows" for r in model.history_))
    assert [size for size in sizes if size in texts(ax)] == texts(ax)
    assert texts(ax)[-1] == sizes[-1]
    starts = [line.get_xdata()[0] for line in ax.get_lines() if line.get_linestyle() == ":"]
    levels = sorted({record["level"] for record in model.history_})
    assert starts == [min(r["seconds"] for r in model.history_ if r["level"] == level) for level in levels]
    assert len(levels) > 1


def test_history_lines_never_rise(regressor, ax):
    plot_history(regressor, ax)
    lines = [line for line in ax.get_lines() if line.get_linestyle() == "-"]
    assert lines
    assert all(np.all(np.diff(line.get_ydata()) <= 0) for line in lines)


def test_history_of_the_exact_counterpart_has_rows_only(rows, ax):
    X, y = rows
    plot_history(KernelRidgeGD("gaussian", max_iter=3, random_state=0).fit(X[:40], y[:40]), ax)
    assert texts(ax) == ["40 rows"]


# -- calibration ----------------------------------------------------------------------------------------------------------


def test_calibration_of_two_classes(ax):
    p = np.repeat([0.05, 0.45, 1.0], [10, 20, 5])
    y = np.array(["no", "yes"])[np.r_[np.arange(10) < 2, np.arange(20) < 9, np.ones(5, dtype=bool)].astype(int)]
    plot_calibration(Oracle(np.stack([1 - p, p], axis=1), ["no", "yes"]), np.zeros((35, 1)), y, ax)
    diagonal, curve = ax.get_lines()
    np.testing.assert_array_equal(diagonal.get_xydata(), [[0, 0], [1, 1]])
    np.testing.assert_allclose(curve.get_xydata(), [[0.05, 0.2], [0.45, 0.45], [1.0, 1.0]])
    assert texts(ax) == ["10", "20", "5"]
    heights = np.array([bar.get_height() for bar in ax.patches])
    np.testing.assert_allclose(heights[[0, 4, 9]] / heights.max(), [0.5, 1.0, 0.25])
    assert heights.sum() == pytest.approx(1.75 * heights.max())
    assert ax.get_xlabel() == "probability of yes"
    (bars,) = bars_of(ax)
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    chance = np.sqrt([0.05 * 0.95 / 10, 0.45 * 0.55 / 20, 0])
    np.testing.assert_allclose(ends, np.array([[0.2], [0.45], [1.0]]) + np.outer(chance, [-1, 1]))


def test_calibration_without_probabilities(regressor, ax):
    with pytest.raises(ValueError, match="KernelRegressor has no predict_proba: for a regressor, use plot_predictions"):
        plot_calibration(regressor, np.zeros((3, 4)), np.zeros(3), ax)


def test_calibration_bars_and_numbers_do_not_meet(ax):
    p = np.array([0.35, 0.35, 0.95])
    plot_calibration(Oracle(np.stack([1 - p, p], axis=1), [0, 1]), np.zeros((3, 1)), [0, 0, 1], ax)
    (bars,) = bars_of(ax)
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends, [[0, np.sqrt(0.35 * 0.65 / 2)], [1 - np.sqrt(0.95 * 0.05), 1]])
    assert all(text.get_position()[1] < 0 and text.get_va() == "top" for text in ax.texts)


def test_calibration_of_three_classes_is_that_of_the_predicted_one(ax):
    probabilities = [[0.72, 0.2, 0.08], [0.1, 0.78, 0.12], [0.3, 0.25, 0.45], [0.3, 0.25, 0.45]]
    plot_calibration(Oracle(probabilities, [3, 5, 7]), np.zeros((4, 1)), [3, 7, 7, 7], ax)
    np.testing.assert_allclose(ax.get_lines()[1].get_xydata(), [[0.45, 1.0], [0.75, 0.5]])
    assert texts(ax) == ["2", "2"]


def test_calibration_counts_every_row_of_a_fitted_classifier(ax):
    X, y = load_wine(return_X_y=True)
    model = KernelClassifier("gaussian", n_features=64, random_state=0).fit(X[::2], y[::2])
    plot_calibration(model, X[1::2], y[1::2], ax)
    assert sum(map(int, texts(ax))) == len(X[1::2])
    with pytest.raises(ValueError, match="one label for each of the 89 rows"):
        plot_calibration(model, X[1::2], y, ax)


# -- predictions ----------------------------------------------------------------------------------------------------------


def test_predictions_with_bars_of_two_deviations(regressor, rows, ax):
    X, y = rows
    plot_predictions(regressor, X, y, ax)
    predicted, deviation = regressor.predict(X, return_std=True)
    (dots,), (bars,) = dots_of(ax), bars_of(ax)
    np.testing.assert_allclose(dots, np.stack([y, predicted], axis=1))
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends, np.stack([predicted - 2 * deviation, predicted + 2 * deviation], axis=1))
    rms = float(np.sqrt(np.mean((y - predicted) ** 2)))
    assert ax.get_title() == f"RMS error {rms:.3g}"


def test_predictions_without_deviations_have_no_bars(rows, ax):
    X, y = rows
    model = KernelRegressor("gaussian", n_features=64, keep_moments=False, random_state=0).fit(X, y)
    plot_predictions(model, X, y, ax)
    assert not bars_of(ax)
    assert len(dots_of(ax)[0]) == len(y)


def test_predictions_of_another_library_have_no_bars(rows, ax):
    X, y = rows
    model = Ridge().fit(X, y)
    plot_predictions(model, X, y, ax)
    assert not bars_of(ax)
    np.testing.assert_allclose(dots_of(ax)[0], np.stack([y, model.predict(X)], axis=1))


def test_predictions_of_a_classifier_are_refused(rows, ax):
    X, y = rows
    model = KernelClassifier("gaussian", n_features=64, random_state=0).fit(X, y > 0)
    with pytest.raises(ValueError, match="KernelClassifier has classes: use plot_calibration"):
        plot_predictions(model, X, y > 0, ax)


def test_predictions_of_two_targets_have_two_colours(rows, ax):
    X, y = rows
    targets = np.stack([y, -2 * y], axis=1)
    plot_predictions(KernelRidgeGD("gaussian", max_iter=3, random_state=0).fit(X, targets), X, targets, ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["target 0", "target 1"]
    assert len(dots_of(ax)) == 2
    assert not bars_of(ax)


def test_predictions_draw_some_of_many_rows(regressor, rows, ax):
    X, y = rows
    many = np.tile(np.arange(80), 10)
    plot_predictions(regressor, X.iloc[many], y[many], ax)
    assert len(dots_of(ax)[0]) == len(bars_of(ax)[0].get_segments()) == 200


def test_predictions_of_another_shape_are_refused(regressor, rows, ax):
    X, y = rows
    with pytest.raises(ValueError, match=r"y has shape \(79,\)"):
        plot_predictions(regressor, X, y[:-1], ax)


# -- all ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plot", [plot_relevance, plot_history])
def test_a_model_that_is_not_fitted_is_refused(plot):
    with pytest.raises(
        ValueError, match=r"KernelRegressor has no .*KernelRegressor, KernelClassifier or KernelRidgeGD after fit"
    ):
        plot(KernelRegressor())


def test_a_new_figure_where_no_axes_are_given(regressor):
    from matplotlib import pyplot

    ax = plot_relevance(regressor)
    assert ax.figure.number in pyplot.get_fignums()
    pyplot.close(ax.figure)
