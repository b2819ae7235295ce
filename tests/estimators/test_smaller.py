"""A model with fewer of its features is the ridge regression on them."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from bochner import KernelClassifier, KernelRegressor
from bochner.estimators.smaller import with_features
from tests.estimators.learners import each_learner, output, small, table, targets


def test_coefficients_are_those_of_scikit_learn_on_the_first_pairs():
    X, y = table(n=200)
    model = KernelRegressor("gaussian", n_features=64, random_state=0).fit(X, y)
    few = with_features(model, 20)
    angles = model.standardiser_(X) @ model.feature_map_.frequencies[:, :10]
    features = np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(10)
    scaled = (y - y.mean()) / y.std()
    ridge = Ridge(alpha=len(y) * model.alpha_).fit(features, scaled)
    np.testing.assert_allclose(few.predict(X), ridge.predict(features) * y.std() + y.mean(), rtol=1e-6, atol=1e-8)
    assert few.feature_map_.n_features == 20
    assert model.feature_map_.n_features == 64  # which stays as it was


@each_learner
def test_all_features_are_the_model_itself(learner):
    X, y = table()
    model = small(learner).fit(X, targets(learner, y))
    np.testing.assert_allclose(output(with_features(model, 32), X), output(model, X), rtol=1e-6, atol=1e-9)


def test_fewer_centres_are_those_of_a_model_that_has_no_others():
    X, y = table(n=120)
    options = {"metric": "diagonal", "finish": "centres", "n_centres": 60, "random_state": 0}
    model = KernelRegressor("matern12", **options).fit(X, y)  # whose kernel matrix is well conditioned
    few = with_features(model, 20)
    rows, centres = model.standardiser_(X), model.feature_map_.centres[:20]
    kernel = model.feature_map_.kernel
    factor = np.linalg.cholesky(kernel(centres))
    features = np.linalg.solve(factor, kernel(centres, rows)).T
    ridge = Ridge(alpha=len(y) * model.alpha_).fit(features, (y - y.mean()) / y.std())
    np.testing.assert_allclose(few.predict(X), ridge.predict(features) * y.std() + y.mean(), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("n", [0, 7, 66, 2.0, "8"])
def test_numbers_that_are_refused(n):
    model = KernelRegressor("gaussian", n_features=64, random_state=0).fit(*table())
    with pytest.raises(ValueError, match="n_features must be an even number from 2 to 64, got"):
        with_features(model, n)


def test_models_without_sums():
    X, y = table()
    model = KernelClassifier("gaussian", loss="logistic", n_features=32, random_state=0).fit(X, y > 0)
    with pytest.raises(ValueError, match=r"KernelClassifier cannot do with fewer features: .*loss='squared'"):
        with_features(model, 8)
