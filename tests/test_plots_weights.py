"""Pictures of models of many kernels show what the models hold."""

from itertools import pairwise

import numpy as np
import pytest

from bochner import KernelRegressor, MultipleKernelClassifier, MultipleKernelRegressor
from bochner.exact import GMKLClassifier, GMKLRegressor

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from bochner.plots import plot_kernel_weights, plot_path  # noqa: E402

KERNELS = [("first", "gaussian", [0]), ("second", "gaussian", [1]), ("noise", "gaussian", [2, 3])]


@pytest.fixture
def ax():
    return Figure().subplots()


def fitted(kind, targets, **options):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 4))
    model = kind(KERNELS, n_features=20, n_alphas=6, random_state=0, **options)
    return model.fit(X, targets(X))


def test_bars_are_the_weights(ax):
    model = fitted(MultipleKernelRegressor, lambda X: np.sin(2 * X[:, 0]) + X[:, 1])
    assert plot_kernel_weights(model, ax) is ax
    assert [bar.get_width() for bar in ax.patches] == model.kernel_weights_[:, 0].tolist()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["first", "second", "noise"]


def test_weights_of_the_exact_counterparts(ax):
    X = np.random.default_rng(0).standard_normal((60, 4))
    model = GMKLRegressor(KERNELS).fit(X, np.sin(2 * X[:, 0]) + X[:, 1])
    plot_kernel_weights(model, ax)
    assert [bar.get_width() for bar in ax.patches] == model.kernel_weights_.tolist()
    model = GMKLClassifier(KERNELS).fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    image = plot_kernel_weights(model, Figure().subplots()).get_images()[0]
    np.testing.assert_array_equal(image.get_array(), model.kernel_weights_)


def test_weights_of_classes_are_a_map(ax):
    model = fitted(MultipleKernelClassifier, lambda X: np.digitize(X[:, 0], [-0.5, 0.5]), shared_weights=False, l1_ratio=1.0)
    plot_kernel_weights(model, ax)
    np.testing.assert_array_equal(ax.get_images()[0].get_array(), model.kernel_weights_)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "1", "2"]


def test_a_path_has_a_line_for_each_kernel_and_one_at_the_choice(ax):
    model = fitted(MultipleKernelRegressor, lambda X: np.sin(2 * X[:, 0]) + X[:, 1], l1_ratio=1.0)
    plot_path(model, ax)
    *kernels, chosen = ax.get_lines()
    assert len(kernels) == 3
    named = {line.get_label(): line.get_ydata() for line in kernels}
    np.testing.assert_allclose(named["first"], model.path_.norms[:, 0, 0] / np.sqrt(2))
    assert chosen.get_xdata()[0] == model.alpha_
    low, high = ax.get_xlim()
    assert low > high  # the path begins at the largest penalty


def test_a_path_of_one_penalty_has_marks(ax):
    model = fitted(MultipleKernelRegressor, lambda X: np.sin(2 * X[:, 0]) + X[:, 1], l1_ratio=1.0, alpha=0.1)
    plot_path(model, ax)
    assert all(line.get_marker() == "o" for line in ax.get_lines()[:3])
    assert ax.get_xticks().tolist() == [0.1]


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 40))
    kernels = [(f"a rather long name of the kernel that is on column {i}", "gaussian", [i]) for i in range(40)]
    options = {"n_features": 4, "n_alphas": 6, "l1_ratio": 1.0, "refit": None, "random_state": 0}
    return MultipleKernelRegressor(kernels, **options).fit(X, np.sin(2 * X[:, 7]) + X[:, 31])


def test_a_path_names_the_ten_largest_kernels_beside_it(many):
    ax = plot_path(many)
    entries = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(entries) == 11
    assert {entry[-2:] for entry in entries[:2]} == {" 7", "31"}
    assert entries[-1] == "and 30 more"
    ax.figure.canvas.draw()
    assert ax.get_legend().get_window_extent().x0 >= ax.get_window_extent().x1  # it covers nothing
    labels = [label.get_window_extent() for label in ax.get_xticklabels() if label.get_text()]
    assert len(labels) >= 2
    assert not any(one.overlaps(two) for one, two in pairwise(labels))
    matplotlib.pyplot.close(ax.figure)


def test_many_bars_have_names_that_can_be_read(many):
    ax = plot_kernel_weights(many)
    ax.figure.canvas.draw()
    labels = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert len(labels) == 40
    assert not any(one.overlaps(two) for one, two in pairwise(labels))
    box = ax.get_window_extent()
    assert box.width > 0.4 * ax.figure.get_window_extent().width
    assert ax.get_yticklabels()[39].get_text().endswith("column 39")
    matplotlib.pyplot.close(ax.figure)


def test_what_cannot_be_drawn_is_told(ax):
    average = fitted(MultipleKernelRegressor, lambda X: X[:, 0], l1_ratio=0.0)
    with pytest.raises(ValueError, match="no path"):
        plot_path(average, ax)
    model = fitted(MultipleKernelRegressor, lambda X: X[:, 0], l1_ratio=1.0)
    with pytest.raises(ValueError, match="target must be from 0 to 0, got 1"):
        plot_path(model, ax, target=1)
    with pytest.raises(ValueError, match="kernel_weights_"):
        plot_kernel_weights(KernelRegressor(), ax)
