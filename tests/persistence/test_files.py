"""What a file of a model holds, what it does not, and how large it is."""

import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold

import bochner
from bochner import KernelRegressor, ModelFileError, MultipleKernelRegressor
from bochner.exact import GMKLRegressor
from bochner.kernels import Gaussian
from bochner.persistence import files
from tests.persistence.models import answers, fitted, rows, same, target
from tests.persistence.stored import header_of, rewritten

safetensors = pytest.importorskip("safetensors")


def test_the_header_says_where_a_model_comes_from(saved):
    header = header_of(saved)
    assert header["format"] == files.FORMAT
    assert header["bochner"] == bochner.__version__
    assert header["class"] == "KernelRegressor"
    assert header["columns"] == {"number": 3, "names": None}
    assert header["provenance"]["n_rows"] == 40
    assert header["provenance"]["seed"] == 0
    assert header["provenance"]["versions"]["numpy"] == np.__version__
    assert header["provenance"]["date"][:2] == "20"
    assert header["encoder"] is None


def test_a_model_of_4000_features_takes_less_than_4_mb(path):
    """Base points (100, 2000) and coefficients (4000, 1) are all that is large."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 100)).astype(np.float32)
    model = KernelRegressor("gaussian", n_features=4000, alpha=0.1, scale="shared", tol=0.5, random_state=0)
    model.fit(X, X[:, 0])
    assert model.moments_.gram.nbytes > 4e6
    model.save(path, dtype="float32")
    single = path.stat().st_size
    numbers = 100 * 2000 + 4000
    assert 4 * numbers < single < 4 * numbers + 100_000 < 4e6
    again = bochner.load(path)
    assert again.coef_.dtype == np.float64
    X = X.astype(np.float64)
    angles = (np.abs(model.standardiser_(X)) @ np.abs(model.feature_map_.frequencies)).max()
    bound = np.finfo(np.float32).eps * (angles + 1) * np.abs(model.coef_).sum() / 2000**0.5  # of base points, coefficients
    assert 0 < np.abs(again.predict(X) - model.predict(X)).max() < bound
    model.save(path)
    assert single < 0.55 * path.stat().st_size < path.stat().st_size < 4e6


def test_diagonal_matrices_are_stored_by_their_diagonals(path):
    X = np.random.default_rng(0).standard_normal((60, 40))
    model = KernelRegressor("gaussian", n_features=200, tol=0.5, random_state=0).fit(X, X[:, 0])
    model.save(path)
    with safetensors.safe_open(path, framework="np") as file:
        assert file.get_slice("metric_").get_shape() == [40]
    assert np.array_equal(bochner.load(path).metric_, model.metric_)
    rewritten(path, lambda header, arrays: header["attributes"].update(a_=[header["attributes"]["metric_"]] * 49))
    with pytest.raises(ModelFileError, match="too large for its size"):
        bochner.load(path)


def test_functions_that_choose_columns_are_left_out(path):
    X = rows()
    kernels = [("a", "gaussian", lambda table: [0, 1]), ("b", "gaussian", [2])]
    model = MultipleKernelRegressor(kernels, n_features=8, alpha=0.1, random_state=0).fit(X, target(X))
    with pytest.warns(UserWarning, match="kernels of MultipleKernelRegressor cannot be stored"):
        model.save(path)
    assert np.array_equal(bochner.load(path).predict(X), model.predict(X))


def test_an_array_is_stored_once(path):
    X = rows(200)
    model = GMKLRegressor([Gaussian(scale=s) for s in range(1, 6)]).fit(X, target(X))
    model.save(path)
    assert path.stat().st_size < 2 * X.nbytes + 10_000


def test_parameters_of_a_run_and_rows_are_not_stored(path):
    X = rows()
    model = KernelRegressor(
        "gaussian",
        n_features=16,
        tol=0.1,
        callback=print_nothing,
        max_memory="1GB",
        validation=KFold(3),
        random_state=np.random.default_rng(0),
    ).fit(X, target(X))
    with pytest.warns(UserWarning, match="validation of KernelRegressor cannot be stored"):
        model.save(path)
    again = bochner.load(path)
    assert again.callback is None
    assert again.max_memory is None
    assert again.validation is None
    assert set(header_of(path)["left_out"]) == {
        "callback", "checkpoint", "device", "max_memory", "random_state", "validation", "verbose",
    }  # fmt: skip
    assert same(answers(again, X), answers(model, X))


def print_nothing(record):
    pass


def test_a_file_is_there_as_a_whole_or_not_at_all(saved, monkeypatch):
    before = saved.read_bytes()

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        fitted("KernelRegressor", "cauchy").save(saved)
    assert saved.read_bytes() == before
    assert [each.name for each in saved.parent.iterdir()] == [saved.name]


def test_models_that_are_not_fitted_and_wrong_options_are_refused(path):
    with pytest.raises(NotFittedError):
        KernelRegressor().save(path)
    with pytest.raises(ModelFileError, match="dtype must be None"):
        fitted("KernelRegressor", "gaussian").save(path, dtype="float16")


def test_the_package_does_without_safetensors():
    code = """
import sys
sys.modules["safetensors"] = None
import bochner
try:
    bochner.load(sys.executable)
except ImportError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert 'pip install "bochner[save]"' in run.stdout
