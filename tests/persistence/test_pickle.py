"""Models go through pickle and skops too; for joblib see tests/agreement."""

import pickle

import pytest

from tests.default_models import default_classifier, default_regressor
from tests.persistence.models import ESTIMATORS, answers, fitted, rows, same

X = rows(25, seed=1)
DEFAULTS = {"regressor": default_regressor, "classifier": default_classifier}


@pytest.mark.parametrize("kernel", ["gaussian", "exponentiated_chi2"])
@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_pickle(name, kernel):
    model = fitted(name, kernel)
    assert same(answers(pickle.loads(pickle.dumps(model)), X), answers(model, X))


@pytest.mark.parametrize("kernel", ["gaussian", "chi2"])
@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_skops(name, kernel):
    skops = pytest.importorskip("skops.io")
    model = fitted(name, kernel)
    data = skops.dumps(model)
    unknown = skops.get_untrusted_types(data=data)
    assert all(each.startswith("bochner.") for each in unknown), unknown
    assert same(answers(skops.loads(data, trusted=unknown), X), answers(model, X))


@pytest.mark.parametrize("name", DEFAULTS)
def test_default_settings(name):
    model = DEFAULTS[name]()
    again = pickle.loads(pickle.dumps(model))
    assert same(answers(again, X), answers(model, X))
    assert again.selection_ == model.selection_
    skops = pytest.importorskip("skops.io")
    data = skops.dumps(model)
    unknown = skops.get_untrusted_types(data=data)
    assert all(each.startswith("bochner.") for each in unknown), unknown
    assert same(answers(skops.loads(data, trusted=unknown), X), answers(model, X))
