"""What models say of themselves: summaries, times, and what notebooks show."""

import re

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn import config_context

from bochner import (
    FourierFeatures,
    KernelClassifier,
    KernelRegressor,
    MultipleKernelClassifier,
    MultipleKernelRegressor,
)
from bochner.estimators.summary import held_out_rows, held_rows, kernel_in_words
from bochner.exact import KernelRidgeGD
from bochner.kernels import Gaussian, MetricKernel
from bochner.losses import LOSSES
from bochner.rows import from_arrays
from tests.default_models import default_regressor
from tests.estimators.learners import regressor, table


def lines(model):
    """The sentences of a summary by their words."""
    head, *rest = model.summary().splitlines()
    assert head == type(model).__name__
    return dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in rest)


def test_a_summary_has_the_numbers_of_the_model():
    X, y = table()
    model = regressor().fit(X, y)
    said = lines(model)
    assert said["kernel"] == "Gaussian, a scale for each of 3 columns"
    assert said["fitted on"] == "32 features, random frequencies"
    assert float(said["penalty"]) == pytest.approx(model.alpha_, rel=5e-3)
    assert said["held-out error"].startswith(f"{model.validation_error_:.4g} of the variance")
    assert said["relies on"].startswith("x0 1.00")
    assert f"{len(model.history_)} evaluations of kernels" in said["fit"]
    assert said["held-out error"].endswith("it chose the model, and new rows do somewhat worse")


def test_summaries_of_other_models():
    X, y = table(n=120)
    many = MultipleKernelRegressor([("first", "gaussian", [0]), ("rest", "gaussian", [1, 2])], n_features=20, random_state=0)
    said = lines(many.fit(X, y))
    inside = int(np.sum(many.kernel_weights_ > 0))
    assert said["kernels"].startswith(f"{inside} of 2 {'is' if inside == 1 else 'are'} in: first")
    said = lines(KernelClassifier("gaussian", loss="logistic", n_features=32, random_state=0).fit(X, y > 0))
    assert said["held-out error"].startswith("mean logistic loss")
    assert lines(regressor("matern32").fit(X, y))["kernel"] == "matern32, a scale for each of 3 columns"
    exact = lines(KernelRidgeGD("gaussian", max_iter=2, random_state=0).fit(X, y))
    assert exact["fitted on"] == "the exact kernel of 120 rows of the fit, which a file of the model holds"
    assert lines(FourierFeatures("chi2").fit(np.abs(X)))["fitted on"] == "15 features"
    centres = KernelRegressor("gaussian", metric="diagonal", finish="centres", n_centres=30, random_state=0).fit(X, y)
    assert lines(centres)["fitted on"] == "30 data centres, rows of the fit, which a file of the model holds"
    every_one = default_regressor()
    assert lines(every_one)["fitted on"] == "120 data centres, all rows of the fit, which a file of the model holds"
    assert [held_rows(each) for each in (every_one, centres, many)] == [120, 30, 0]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("loss", ["squared", *LOSSES])
@pytest.mark.parametrize("learner", [KernelClassifier, MultipleKernelClassifier])
def test_errors_of_classifiers_are_beside_that_of_a_constant(learner, loss, n_classes):
    """The least loss of scores that are the same for all rows, by the weights of rows and classes."""
    X, y = table()
    labels = np.searchsorted(np.quantile(y, [0.7, 0.9]), y) % n_classes
    weights, of_class = np.linspace(0.5, 2, len(y)), np.array([1.0, 3.0, 2.0])[:n_classes]
    options = {"loss": loss, "n_features": 10, "alpha": 1e-2, "class_weight": dict(enumerate(of_class)), "random_state": 0}
    targets = np.eye(n_classes)[labels]
    targets = targets if loss == "multinomial" else 2 * targets - 1
    targets = targets[:, 1:] if n_classes == 2 and loss != "multinomial" else targets
    total = weights * of_class[labels] / np.sum(weights * of_class[labels])
    if loss != "squared":
        least = minimize(lambda f: total @ LOSSES[loss].values(np.tile(f, (len(y), 1)), targets), targets[0] * 0).fun
    elif learner is KernelClassifier:  # which standardises its targets
        least = 1.0
    else:
        least = np.mean(total @ (targets - total @ targets) ** 2)
    for given in ((X, labels, weights), (from_arrays(X, labels, weights),)):
        model = learner("gaussian", **options).fit(*given)
        told = lines(model)["held-out error"]
        assert told.startswith(f"mean {loss} loss {model.validation_error_:.4g}, where ")
        found = re.search(r"where ([\d.]+) is what predicting the shares of the classes scores; it chose", told)
        assert float(found[1]) == pytest.approx(least, rel=6e-4)


def test_one_thing_is_not_told_as_many():
    x, y = table(n=40, m=1)
    one = KernelRegressor("gaussian", metric="diagonal", finish="centres", n_centres=1, random_state=0).fit(x, y)
    assert lines(one)["fitted on"].startswith("1 data centre, rows")
    alone = MultipleKernelRegressor([("one", "gaussian", [0])], n_features=10, random_state=0).fit(x, y)
    assert lines(alone)["kernels"].startswith("1 of 1 is in: one")
    assert kernel_in_words(MetricKernel(Gaussian(), np.eye(1)), 1) == "Gaussian, a metric of 1 column in 1 direction"
    assert held_out_rows(1) == "1 row that was held out"
    assert held_out_rows(2000) == "2,000 rows that were held out"


def test_a_fit_says_how_long_it_took_and_further_rows_add_to_it(monkeypatch):
    from bochner.estimators import validation

    clock = iter([100.0, 103.5, 200.0, 200.25])
    monkeypatch.setattr(validation, "perf_counter", lambda: next(clock))
    X, y = table()
    model = regressor().fit(X, y)
    assert model.fit_seconds_ == 3.5
    model.partial_fit(X, y)
    assert model.fit_seconds_ == 3.75


def test_a_fit_that_fails_leaves_the_time_of_the_one_before():
    X, y = table()
    model = regressor().fit(X, y)
    before = model.fit_seconds_
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full_like(X, np.nan), y)
    assert model.fit_seconds_ == before


def test_notebooks_show_the_diagram_and_the_summary():
    X, y = table()
    model = regressor()
    assert "Gaussian" not in model._repr_mimebundle_()["text/plain"]  # not fitted: scikit-learn's alone
    model.fit(X, y)
    bundle = model._repr_mimebundle_()
    assert bundle["text/plain"].endswith(model.summary())
    assert "sk-container" in bundle["text/html"]
    assert "relies on" in bundle["text/html"].rpartition("<pre")[2]
    assert "sk-container" in model._repr_html_()
    with config_context(display="text"):
        assert list(model._repr_mimebundle_()) == ["text/plain"]
