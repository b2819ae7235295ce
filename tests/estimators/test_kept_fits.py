"""Fits by default settings predict what they did when they were kept, with any version of NumPy and on any machine."""

import json

import numpy as np
import pytest

from bochner import KernelRegressor
from tests.estimators import kept_fits
from tests.public import ESTIMATORS

KEPT = json.loads(kept_fits.KEPT.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", kept_fits.FITS)
def test_fits_predict_as_they_did(name):
    kept = np.array(KEPT["predictions"][f"{name}, table 0"])
    assert kept_fits.difference(kept, kept_fits.predicted(name)) < kept_fits.TOLERANCE


def test_every_public_estimator_is_among_them():
    assert set(ESTIMATORS) == {name.partition(",")[0] for name in kept_fits.FITS}
    assert set(KEPT["predictions"]) == {f"{name}, table 0" for name in kept_fits.FITS}
    assert set(KEPT["versions"]) == set(kept_fits.versions())


@pytest.mark.parametrize("options", [{"random_state": 1}, {"alpha": 1e-3}])
def test_the_tolerance_tells_other_fits_apart(monkeypatch, options):
    name = "KernelRegressor, few features"
    other = {"n_features": 64, "random_state": 0, **options}
    monkeypatch.setitem(kept_fits.FITS, name, lambda: KernelRegressor("gaussian", **other))
    kept = np.array(KEPT["predictions"][f"{name}, table 0"])
    assert kept_fits.difference(kept, kept_fits.predicted(name)) > 10 * kept_fits.TOLERANCE
