"""Every public estimator agrees with itself, however it is given its rows, or refuses to be given them so."""

import pytest

from bochner.kernels import MetricKernel
from tests.agreement import default_settings
from tests.agreement.matrix import AGREEMENTS, FAST, Case
from tests.public import ESTIMATORS


def test_every_public_estimator_has_a_line():
    assert set(FAST) == set(ESTIMATORS), "give a new estimator a line in FAST of tests/agreement/matrix.py"


@pytest.mark.parametrize("agreement", AGREEMENTS.values(), ids=lambda agreement: agreement.name)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_agreement(name, agreement):
    case = Case(name)
    if name in agreement.refused:
        with pytest.raises((ValueError, TypeError), match=agreement.refused[name]):
            agreement.both(case)
        return
    bound = agreement.bound(case)
    assert bound < (1e-2 if "float32" in agreement.name else 1e-4)  # which would tell nothing
    assert agreement.difference(case) <= bound


@pytest.mark.parametrize("agreement", default_settings.AGREEMENTS.values(), ids=lambda agreement: agreement.name)
@pytest.mark.parametrize("name", default_settings.NAMES)
def test_agreement_of_default_settings(name, agreement):
    case = default_settings.DefaultCase(name)
    bound = agreement.bound(case)
    assert bound < (1e-2 if "float32" in agreement.name else 1e-4)
    assert agreement.difference(case) <= bound


@pytest.mark.parametrize("name", default_settings.NAMES)
def test_default_settings_learn_a_metric_on_centres(name):
    model = default_settings.DefaultCase(name).fit()
    assert isinstance(model.kernel_, MetricKernel)
    assert model.finish_ == "centres"
