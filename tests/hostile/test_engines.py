"""Which engines the suite asks, that rows in blocks are answered there, and what devices say of other losses."""

import re

import pytest

from tests.hostile.cases import IN_BLOCKS, SIZES_IN_BLOCKS, Case, sizes_of
from tests.hostile.estimators import ESTIMATORS, attempt, engines_of, is_classifier, learners, losses_of, parameters

LINE = "estimator={} loss={} engine={} variant={} columns={} target={} weights=none layout=C dtype=float64 n={} m=3 seed=0"
IN_PARTS = (
    "FourierFeatures squared blocks plain units plain",
    "KernelRegressor squared blocks default-effort cauchy outlier",
    "KernelRegressor squared dask centres one-hot log-normal",
    "KernelClassifier logistic blocks given-alpha duplicated two",
    "KernelClassifier squared dask default-effort 1e-30 three",
    "MultipleKernelRegressor epsilon-logistic dask given-alpha collinear plain",
    "MultipleKernelClassifier multinomial blocks plain units three",
)
ON_DEVICES = [
    (name, loss) for name in ESTIMATORS if "device" in parameters(name) for loss in losses_of(name) if loss != "squared"
]


def test_engines_are_found_unasked():
    found = {name: {engine for loss in losses_of(name) for engine in engines_of(name, loss)} for name in ESTIMATORS}
    assert found["FourierFeatures"] == {"threads", "blocks"}
    assert found["KernelRegressor"] == found["MultipleKernelClassifier"] == {"threads", "torch", "blocks", "dask"}
    assert found["GMKLRegressor"] == found["KernelRidgeGD"] == {"threads"}


def test_every_engine_in_blocks_meets_several_variants():
    for name in ("KernelRegressor", "KernelClassifier"):
        for engine in IN_BLOCKS:
            found = {each[3] for each in learners() if each[0] == name and each[2] == engine}
            assert found == {"plain", "default-effort", "centres", "given-alpha"}
            assert sizes_of(engine, "plain") == SIZES_IN_BLOCKS


@pytest.mark.parametrize("text", IN_PARTS)
def test_rows_in_blocks_are_answered(text):
    *learner, columns, target = text.split()
    n = max(sizes_of(learner[2], learner[3]))
    outcome = attempt(Case.parse(LINE.format(*learner, columns, target, n)))
    assert outcome.result == "finite", outcome.message


@pytest.mark.parametrize(("name", "loss"), ON_DEVICES)
def test_devices_refuse_other_losses(name, loss):
    """Whatever the data: which is why the suite does not ask for them there."""
    pytest.importorskip("torch")
    assert "torch" not in engines_of(name, loss)
    case = Case.parse(LINE.format(name, loss, "torch", "plain", "plain", "two" if is_classifier(name) else "plain", 60))
    outcome = attempt(case)
    said = f"loss={loss!r} is computed on the host, and device is 'cpu': use device=None, or loss='squared'."
    assert outcome.result == "error"
    assert re.fullmatch(f"InputError: {re.escape(said)}", outcome.message)


def test_the_losses_that_devices_refuse():
    assert {loss for _, loss in ON_DEVICES} == {"logistic", "multinomial", "epsilon-logistic"}
