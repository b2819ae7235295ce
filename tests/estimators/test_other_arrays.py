"""FourierFeatures on arrays of other libraries, without any setting of scikit-learn."""

import array_api_strict
import numpy as np
import pandas as pd
import pytest
import sklearn
import torch

from bochner import FourierFeatures
from bochner.kernels import KERNELS, Gaussian, get_kernel
from tests.cases import BUILT_IN, feature_tolerance, rows

each_name = pytest.mark.parametrize("name", KERNELS)
LIBRARIES = {"torch": torch.tensor, "strict": array_api_strict.asarray}
each_library = pytest.mark.parametrize("convert", LIBRARIES.values(), ids=LIBRARIES)


def make(name, **choices):
    if get_kernel(name).geometry != "additive":
        choices = {"n_features": 20, **choices}
    else:
        choices.pop("form", None)  # additive kernels have one form
    return FourierFeatures(name, **{"random_state": 0, **choices})


def close(features, transformer, X, dtype):
    """Whether features equal those of NumPy rows to the precision of the dtype."""
    expected = transformer.transform(X)
    feature_map = transformer.feature_map_
    if hasattr(feature_map, "points"):
        one = feature_tolerance(feature_map, X, dtype)
        bound = one if feature_map.phases is not None else np.tile(one, 2)
    else:
        bound = 64 * np.finfo(dtype).eps * np.abs(expected).max()
    return bool(np.all(np.abs(features - expected) <= bound))


@pytest.mark.parametrize("form", ["paired", "phase"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@each_library
@each_name
def test_arrays_stay_in_their_library(name, convert, dtype, form):
    X = rows(BUILT_IN[name], 15, 3, dtype=dtype)
    there = convert(X)
    transformer = make(name, form=form).fit(there)
    features = transformer.transform(there)
    assert type(features) is type(there)
    assert features.dtype == there.dtype
    plain = make(name, form=form).fit(X)
    assert plain.kernel_ == transformer.kernel_
    assert close(np.from_dlpack(features), plain, X, dtype)
    assert close(np.from_dlpack(plain.transform(there)), plain, X, dtype)
    assert transformer.n_features_in_ == 3


@each_name
def test_tensors_that_record_gradients(name):
    X = rows(BUILT_IN[name], 15, 3) + 0.01
    there = torch.tensor(X, requires_grad=True)
    transformer = make(name).fit(there)
    features = transformer.transform(there)
    assert features.requires_grad
    features.sum().backward()
    assert torch.isfinite(there.grad).all()
    assert close(features.detach().numpy(), transformer, X, np.float64)


@each_library
def test_whole_numbers_become_float64(convert):
    there = convert(np.arange(12).reshape(4, 3))
    features = make("gaussian").fit(there).transform(there)
    assert "float64" in str(features.dtype)


@each_library
def test_median_of_a_sample_of_many_rows(convert):
    X = rows(Gaussian(), 500, 3)
    assert make("gaussian").fit(convert(X)).kernel_ == make("gaussian").fit(X).kernel_


def test_with_scikit_learns_dispatch_too():
    X = rows(Gaussian(), 15, 3)
    with sklearn.config_context(array_api_dispatch=True):
        features = make("gaussian").fit(torch.tensor(X)).transform(torch.tensor(X))
    assert isinstance(features, torch.Tensor)
    assert close(features.numpy(), make("gaussian").fit(X), X, np.float64)


def test_names_of_an_earlier_fit_are_forgotten():
    transformer = make("gaussian").fit(pd.DataFrame(np.ones((3, 3)), columns=list("abc")))
    transformer.fit(torch.ones((3, 2)))
    assert not hasattr(transformer, "feature_names_in_")
    assert len(transformer.get_feature_names_out()) == 20


@each_library
def test_bad_rows(convert):
    X = rows(Gaussian(), 5, 3)
    transformer = make("gaussian").fit(X)
    with pytest.raises(ValueError, match="X has 2 features, but FourierFeatures is expecting 3 features"):
        transformer.transform(convert(X[:, :2].copy()))
    with pytest.raises(ValueError, match="got an array of 1 dimensions: reshape"):
        transformer.fit(convert(X[0].copy()))
    with pytest.raises(ValueError, match="at least one row and one column"):
        transformer.fit(convert(np.empty((0, 3))))
    with pytest.raises(ValueError, match="at least one row and one column"):
        transformer.fit(convert(np.empty((3, 0))))
    with pytest.raises(ValueError, match="X must hold real numbers"):
        transformer.fit(convert(X * 1j))
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="X, column 1, row 3 holds NaN"):
        transformer.fit(convert(X))
    with pytest.raises(ValueError, match="X, column 1, row 3 holds NaN"):
        transformer.transform(convert(X))
