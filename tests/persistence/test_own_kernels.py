"""Kernels of one's own in files of models."""

from dataclasses import dataclass

import numpy as np
import pytest

import bochner
from bochner import FourierFeatures, KernelRegressor, ModelFileError
from bochner.kernels import Gaussian, RadialKernel
from tests.persistence.models import rows

safetensors = pytest.importorskip("safetensors")


@dataclass(frozen=True, kw_only=True, eq=False)
class Rational(RadialKernel):
    """A radial kernel with a field of its own; its law is not that of the profile, which does not matter here."""

    power: float = 2.0

    def quantile(self, u, n_columns):
        return np.sqrt(n_columns) * u * self.power

    def profile(self, t):
        return (1 + t * t) ** -self.power


def test_kernels_of_ones_own_are_stored_where_they_are_named(path):
    X = rows()
    model = FourierFeatures(Rational(power=3.0), n_features=16, random_state=0).fit(X)
    with pytest.raises(ModelFileError, match=r"classes=\[Rational\]") as told:
        model.save(path)
    assert "pickle" in str(told.value)
    assert not path.exists()
    model.save(path, classes=[Rational])
    with pytest.raises(ModelFileError, match=r"classes=\[Rational\]"):
        bochner.load(path)
    again = bochner.load(path, classes=[Rational])
    assert again.kernel_ == model.kernel_
    assert np.array_equal(again.transform(X), model.transform(X))
    with pytest.raises(ModelFileError, match="classes of kernels"):
        bochner.load(path, classes=[KernelRegressor])


class Opaque(Gaussian):
    """A kernel whose fields do not make it again."""

    def __init__(self, width):
        super().__init__(scale=1 / width)
        object.__setattr__(self, "width", width)


def test_kernels_that_are_not_made_of_their_fields_are_refused(path):
    model = FourierFeatures(Opaque(2.0), scale=None, n_features=16, random_state=0)
    model.kernel_, model.n_features_in_ = Opaque(2.0), 3
    with pytest.raises(ModelFileError, match="frozen dataclass"):
        model.save(path, classes=[Opaque])
