"""The same seed gives the same bits, for any number of threads; no seed draws fresh."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bochner
from bochner import (
    FourierFeatures,
    KernelClassifier,
    KernelRegressor,
    MultipleKernelClassifier,
    MultipleKernelRegressor,
    exact,
)
from tests.estimators import same_bits

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
    public = {name for name in (*bochner.__all__, *exact.__all__) if hasattr(_public(name), "fit")}
    assert public == {name.partition(",")[0] for name in same_bits.ESTIMATORS}


def _public(name):
    return getattr(bochner if name in bochner.__all__ else exact, name)


RANDOM = (
    (FourierFeatures, {"n_features": 8}),
    (KernelRegressor, {"n_features": 8, "tol": 0.9}),
    (KernelClassifier, {"n_features": 8, "tol": 0.9}),
    (MultipleKernelRegressor, {"n_features": 8, "alpha": 1e-4}),
    (MultipleKernelClassifier, {"n_features": 8, "alpha": 1e-4}),
)
"""Learners by options with which no draw can end in a constant: of few features, a chosen penalty may take all out."""


@pytest.mark.parametrize(("learner", "options"), RANDOM, ids=[learner.__name__ for learner, _ in RANDOM])
def test_no_seed_draws_fresh_and_a_seed_does_not(learner, options):
    X, Y, classes = same_bits.table(60)
    y = classes if "Classifier" in learner.__name__ else Y[:, 0]
    method = "transform" if learner is FourierFeatures else "decision_function" if "Class" in learner.__name__ else "predict"

    def outputs(seed):
        np.random.seed(0)  # noqa: NPY002, which must not matter
        return getattr(learner("gaussian", random_state=seed, **options).fit(X, y), method)(X)

    assert np.any(outputs(None) != outputs(None))
    np.testing.assert_array_equal(outputs(3), outputs(3))
