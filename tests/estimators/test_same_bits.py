"""The same seed gives the same bits, for any number of threads; no seed draws fresh."""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.estimators import same_bits
from tests.public import ESTIMATORS

ROOT = Path(__file__).parents[2]
THREADS = (1, 2, 4)


@pytest.fixture(scope="module")
def digests():
    """What each number of threads gives, in processes of their own."""
    processes = []
    for n in THREADS:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(n), "OPENBLAS_NUM_THREADS": str(n)}
        command = [sys.executable, "-m", "tests.estimators.same_bits", str(n)]
        processes.append(subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True))
    told = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(THREADS)
    return [json.loads(text) for text in told]


@pytest.mark.parametrize("name", same_bits.ESTIMATORS)
def test_any_number_of_threads_gives_the_same_bits(name, digests):
    assert len({each[name] for each in digests}) == 1


def test_every_public_estimator_is_among_them():
    assert set(ESTIMATORS) == {name.partition(",")[0] for name in same_bits.ESTIMATORS}


RANDOM = {
    "FourierFeatures": {"n_features": 8},
    "KernelRegressor": {"n_features": 8, "tol": 0.9},
    "KernelClassifier": {"n_features": 8, "tol": 0.9},
    "MultipleKernelRegressor": {"n_features": 8, "alpha": 1e-4},
    "MultipleKernelClassifier": {"n_features": 8, "alpha": 1e-4},
    "KernelRidgeGD": {"tol": 0.9},
}
"""Options with which no draw can end in a constant: of few features, a chosen penalty may take all out."""


def test_every_public_estimator_that_draws_is_among_them():
    assert set(RANDOM) == {
        name for name, learner in ESTIMATORS.items() if "random_state" in inspect.signature(learner).parameters
    }


def outputs(name, seed, n, **options):
    """What a model that is fitted with a seed says of its rows, and the model."""
    X, Y, classes = same_bits.table(n)
    np.random.seed(0)  # noqa: NPY002, which must not matter
    model = ESTIMATORS[name]("gaussian", random_state=seed, **options).fit(X, classes if "Classifier" in name else Y[:, 0])
    methods = ("transform", "decision_function", "predict")
    return next(getattr(model, method) for method in methods if hasattr(model, method))(X), model


@pytest.mark.parametrize("name", RANDOM)
def test_no_seed_draws_fresh_and_a_seed_does_not(name):
    (one, _), (two, _) = (outputs(name, None, 60, **RANDOM[name]) for _ in range(2))
    assert np.any(one != two)
    (one, _), (two, _) = (outputs(name, 3, 60, **RANDOM[name]) for _ in range(2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", ["KernelRegressor", "KernelClassifier"])
def test_default_settings_draw_fresh_without_a_seed(name):
    (one, first), (two, second) = (outputs(name, None, 120) for _ in range(2))
    assert first.finish_ == second.finish_ == "centres"
    assert np.any(one != two)
