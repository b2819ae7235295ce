"""KernelRegressor and KernelClassifier keep scikit-learn's contract and work with its tools."""

import inspect
import pickle
from itertools import combinations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from bochner import KernelClassifier, KernelRegressor
from bochner.exact import KernelRidgeGD
from bochner.kernels import Gaussian
from tests.estimators.learners import classifier, each_learner, output, regressor, small, table, targets

FOLDS_ARE_ROWS = "folds are drawn from row numbers, so that the copies of a repeated row may land in different folds"


@parametrize_with_checks(
    [regressor(), classifier()],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": FOLDS_ARE_ROWS,
        "check_sample_weight_equivalence_on_sparse_data": FOLDS_ARE_ROWS,
    },
)
def test_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("one", "two"), list(combinations([KernelRegressor, KernelClassifier, KernelRidgeGD], 2)))
def test_learners_agree_on_the_defaults_of_shared_parameters(one, two):
    defaults, others = (
        {p.name: (p.default, p.kind) for p in inspect.signature(learner).parameters.values()} for learner in (one, two)
    )
    shared = [name for name in defaults if name in others]
    assert len(shared) >= 13  # all but the size of the problem
    assert {name: defaults[name] for name in shared} == {name: others[name] for name in shared}
    assert [name for name in others if name in defaults] == shared  # in the same order


@each_learner
def test_clone_and_pickle(learner):
    X, y = table()
    y = targets(learner, y)
    model = small(learner, Gaussian(scale=0.5), scale=[0, 0, 1], validation=3).fit(X, y)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    np.testing.assert_array_equal(output(copy.fit(X, y), X), output(model, X))
    np.testing.assert_array_equal(output(pickle.loads(pickle.dumps(model)), X), output(model, X))


@each_learner
def test_pipeline_grid_search_and_cross_validation(learner):
    X, y = table()
    y = targets(learner, y)
    pipeline = make_pipeline(MinMaxScaler(), small(learner))
    name = learner.__name__.lower()
    search = GridSearchCV(pipeline, {f"{name}__scale": ["shared", "per-column"]}, cv=2, error_score="raise").fit(X, y)
    assert search.best_params_[f"{name}__scale"] in ("shared", "per-column")
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    predictions = cross_val_predict(pipeline, X, y, cv=3)
    assert predictions.shape == y.shape


@each_learner
def test_the_same_seed_gives_the_same_model(learner):
    X, y = table()
    y = targets(learner, y)
    one, two = (small(learner).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(output(one, X), output(two, X))
    other = small(learner, random_state=1).fit(X, y)
    assert (output(one, X) != output(other, X)).any()
