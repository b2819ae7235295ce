"""Pictures of models of many kernels show what the models hold."""

import numpy as np
import pytest

from bochner import KernelRegressor, MultipleKernelClassifier, MultipleKernelRegressor
from bochner.exact import GMKLClassifier, GMKLRegressor

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

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


def test_what_cannot_be_drawn_is_told(ax):
    average = fitted(MultipleKernelRegressor, lambda X: X[:, 0], l1_ratio=0.0)
    with pytest.raises(ValueError, match="no path"):
        plot_path(average, ax)
    model = fitted(MultipleKernelRegressor, lambda X: X[:, 0], l1_ratio=1.0)
    with pytest.raises(ValueError, match="target must be from 0 to 0, got 1"):
        plot_path(model, ax, target=1)
    with pytest.raises(ValueError, match="kernel_weights_"):
        plot_kernel_weights(KernelRegressor(), ax)
