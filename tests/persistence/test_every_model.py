"""Every estimator with every kernel predicts the same, bit for bit, after it was saved and loaded in another process."""

import subprocess
import sys

import numpy as np
import pytest

import bochner
from bochner.persistence import registry
from tests.persistence.models import BY_DEFAULT, ESTIMATORS, PAIRS, answers, fitted, rows

pytest.importorskip("safetensors")

PROGRAM = """
import sys
from pathlib import Path
import numpy as np
import bochner
folder = Path(sys.argv[1])
X = np.load(folder / "X.npy")
for path in sorted(folder.glob("*.safetensors")):
    model = bochner.load(path)
    methods = ("transform", "predict", "decision_function", "predict_proba")
    found = {method: getattr(model, method)(X) for method in methods if hasattr(model, method)}
    np.savez(path.with_suffix(".npz"), **found)
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A folder with every model and what another process predicts by it."""
    folder = tmp_path_factory.mktemp("models")
    np.save(folder / "X.npy", rows(25, seed=1))
    for name, kernel in PAIRS:
        fitted(name, kernel).save(folder / f"{name}-{kernel}.safetensors")
    subprocess.run([sys.executable, "-c", PROGRAM, str(folder)], check=True, timeout=300)
    return folder


@pytest.mark.parametrize(("name", "kernel"), PAIRS)
def test_predictions_are_equal_bit_for_bit_in_another_process(elsewhere, name, kernel):
    expected = answers(fitted(name, kernel), rows(25, seed=1))
    with np.load(elsewhere / f"{name}-{kernel}.npz") as found:
        assert set(found) == set(expected)
        for method, values in expected.items():
            assert found[method].dtype == values.dtype
            assert np.array_equal(found[method], values), method


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_every_public_estimator_is_in_the_registry(name):
    assert registry.estimators()[name] is ESTIMATORS[name]


@pytest.mark.parametrize(("name", "kernel"), [pair for pair in PAIRS if pair[1] in ("gaussian", BY_DEFAULT)])
def test_parameters_and_attributes_come_back(elsewhere, name, kernel):
    model = fitted(name, kernel)
    again = bochner.load(elsewhere / f"{name}-{kernel}.safetensors")
    of_a_run = ("callback", "checkpoint", "device", "max_memory", "verbose")
    for parameter, value in model.get_params().items():
        if parameter not in of_a_run:
            assert again.get_params()[parameter] == value, parameter
    assert set(vars(model)) - {"_learned_on"} == set(vars(again)) - {"_learned_on"}
    assert again.n_features_in_ == 3
    for attribute in ("history_", "trials_", "families_", "alpha_", "kernel_", "kernels_", "selection_"):
        if hasattr(model, attribute):
            assert getattr(again, attribute) == getattr(model, attribute)
