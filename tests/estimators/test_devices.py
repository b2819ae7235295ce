"""Learners on a device of PyTorch's: the same model as NumPy's, in NumPy arrays; results beside rows on a GPU."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from bochner import KernelClassifier, KernelRegressor
from bochner.arrays import gpu_of
from bochner.estimators import blocks, machine, validation
from bochner.rows import from_arrays
from bochner.rows import source as row_source
from tests.estimators.learners import each_learner, output, small, table, targets

HAS_GPU = torch.cuda.is_available()
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not HAS_GPU, reason="PyTorch sees no GPU")]),
]
each_device = pytest.mark.parametrize("device", DEVICES)
ROUNDING = 1e-6
"""Descents on two libraries part by their rounding, about 1e-13, times the condition of penalties of 1e-6."""


def learned(model):
    """What a fit leaves, in one dictionary of arrays."""
    names = ("scale_", "coef_", "intercept_", "relevance_", "alpha_", "validation_error_")
    return {name: np.asarray(getattr(model, name)) for name in names}


def assert_same(one, two, tolerance=ROUNDING):
    for name, expected in learned(two).items():
        bound = tolerance * np.abs(expected).max()
        np.testing.assert_allclose(learned(one)[name], expected, rtol=0, atol=bound, err_msg=name)


def only_numpy(value):
    """Whether nothing of PyTorch's is in the pickle of a model."""
    return b"torch" not in pickle.dumps(value)


@each_device
@each_learner
def test_a_device_learns_the_same_model(learner, device):
    X, y = table(n=200)
    y = targets(learner, y, n_classes=3)
    options = {"alpha": 1e-2, "validation": 3}
    here, there = (small(learner, **options, device=where).fit(X, y) for where in (None, device))
    assert_same(there, here)
    np.testing.assert_allclose(output(there, X), output(here, X), rtol=0, atol=ROUNDING * np.abs(output(here, X)).max())
    assert isinstance(output(there, X), np.ndarray)
    assert only_numpy(there)
    assert [record["kernel"] for record in there.history_] == [record["kernel"] for record in here.history_]


@each_device
def test_rows_in_blocks_on_a_device(device, monkeypatch):
    monkeypatch.setattr(machine, "FEWEST_SAMPLED", 150)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)
    monkeypatch.setattr(row_source, "FEWEST_BLOCK_ROWS", 256)
    X, y = table(n=900)
    source = from_arrays(X, y)
    here, there = (small(KernelRegressor, alpha=1e-2, device=where).fit(source) for where in (None, device))
    assert_same(there, here)
    np.testing.assert_allclose(there.predict(source), here.predict(X), rtol=0, atol=ROUNDING)
    assert there.score(source) == pytest.approx(here.score(X, y), abs=ROUNDING)


@each_device
def test_sparse_rows_and_float32_on_a_device(device):
    X, y = table(n=200)
    for rows, tolerance in ((sparse.csr_array(np.where(X > 0, X, 0)), ROUNDING), (X.astype(np.float32), 1e-2)):
        here, there = (small(KernelRegressor, alpha=1e-2, device=where).fit(rows, y) for where in (None, device))
        assert_same(there, here, tolerance)
        np.testing.assert_allclose(there.predict(rows), here.predict(rows), rtol=0, atol=tolerance)


@each_device
def test_partial_fit_and_deviations_after_a_device(device):
    X, y = table(n=200)
    here, there = (
        small(KernelRegressor, alpha=1e-2, device=where).fit(X[:150], y[:150]).partial_fit(X[150:], y[150:])
        for where in (None, device)
    )
    assert_same(there, here)
    for found, expected in zip(there.predict(X, return_std=True), here.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING)


@each_learner
def test_clone_and_pickle_on_a_device(learner):
    X, y = table()
    y = targets(learner, y)
    model = small(learner, device="cpu").fit(X, y)
    assert clone(model).get_params()["device"] == "cpu"
    np.testing.assert_array_equal(output(pickle.loads(pickle.dumps(model)), X), output(model, X))
    moved = pickle.loads(pickle.dumps(model)).set_params(device=None)
    np.testing.assert_allclose(output(moved, X), output(model, X), rtol=0, atol=ROUNDING)


@pytest.fixture(params=DEVICES)
def gpu(request, monkeypatch):
    """A GPU; also the host, where tensors stand for tensors on a GPU."""
    if request.param == "cpu":
        for module in (machine, validation):
            monkeypatch.setattr(module, "gpu_of", lambda X: "cpu" if isinstance(X, torch.Tensor) else None)
    return request.param


@each_learner
def test_tensors_on_a_gpu_are_learned_from_and_predicted_there(learner, gpu):
    X, y = table(n=150)
    y = targets(learner, y, n_classes=3)
    there = torch.asarray(X.copy(), device=gpu)
    host = small(learner, alpha=1e-2).fit(X, y)
    model = small(learner, alpha=1e-2).fit(there, torch.asarray(y.copy(), device=gpu))
    assert model._learned_on is not None
    assert_same(model, host)
    assert only_numpy(model)
    methods = ["predict"] if learner is KernelRegressor else ["predict_proba", "predict_log_proba", "decision_function"]
    for name in methods:
        found, expected = getattr(model, name)(there), getattr(host, name)(X)
        assert isinstance(found, torch.Tensor)
        assert found.device == there.device
        np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=0, atol=ROUNDING * np.abs(expected).max())
    assert model.score(there, torch.asarray(y.copy(), device=gpu)) == pytest.approx(host.score(X, y), abs=ROUNDING)


def test_deviations_of_tensors_and_labels_that_are_text(gpu):
    X, y = table(n=150)
    there = torch.asarray(X.copy(), device=gpu)
    model = small(KernelRegressor).fit(X, y)
    for found, expected in zip(model.predict(there, return_std=True), model.predict(X, return_std=True), strict=True):
        assert isinstance(found, torch.Tensor)
        np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=0, atol=ROUNDING)
    words = small(KernelClassifier).fit(X, np.where(y > 0, "up", "down"))
    assert words.predict(there).tolist() == words.predict(X).tolist()
    numbers = small(KernelClassifier).fit(X, (y > 0).astype(int)).predict(there)
    assert isinstance(numbers, torch.Tensor)


def test_a_tensor_on_a_gpu_to_a_model_that_is_not_fitted(gpu):
    with pytest.raises(NotFittedError):
        small(KernelRegressor).predict(torch.zeros((3, 2), device=gpu))


@pytest.mark.parametrize("options", [{"criterion": "loo"}, {"loss": "logistic"}])
def test_what_knows_no_device_refuses_one_and_takes_tensors_of_a_gpu_on_the_host(options, gpu):
    X, y = table(n=80)
    y = targets(KernelClassifier, y)
    with pytest.raises(ValueError, match=r"is computed on the host, and device is 'cpu': use device=None, or"):
        small(KernelClassifier, device="cpu", **options).fit(X, y)
    host = small(KernelClassifier, **options).fit(X, y)
    model = small(KernelClassifier, **options).fit(torch.asarray(X.copy(), device=gpu), y)
    np.testing.assert_array_equal(model.coef_, host.coef_)


def test_tensors_on_the_host_stay_with_numpy():
    X, y = table()
    assert gpu_of(torch.zeros(1)) is None
    assert gpu_of(X) is None
    model = small(KernelRegressor).fit(torch.asarray(X.copy()), y)
    assert isinstance(model.predict(torch.asarray(X.copy())), np.ndarray)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("gpu", r"device must be 'cuda', 'cuda:' and the number of a GPU, or 'cpu', got 'gpu'"),
        (0.5, r"device must be 'cuda'"),
        ("cuda:99", r"device='cuda:99' was asked for and this machine has"),
    ],
)
@each_learner
def test_devices_that_do_not_exist(learner, device, message):
    X, y = table()
    with pytest.raises(ValueError, match=message):
        small(learner, device=device).fit(X, targets(learner, y))
    model = small(learner).fit(X, targets(learner, y)).set_params(device=device)
    with pytest.raises(ValueError, match=message):
        model.predict(X)


def test_without_pytorch_there_are_no_devices_but_models_load(tmp_path):
    X, y = table()
    model = small(KernelRegressor, device="cpu").fit(X, y)
    path = tmp_path / "model.pickle"
    path.write_bytes(pickle.dumps((model, X)))
    code = f"""
import builtins, pickle
real = builtins.__import__
def without(name, *rest, **options):
    if name.partition(".")[0] == "torch":
        raise ImportError(name)
    return real(name, *rest, **options)
builtins.__import__ = without
model, X = pickle.loads(open({str(path)!r}, "rb").read())
try:
    model.predict(X)
except ImportError as error:
    assert "pip install torch" in str(error), error
else:
    raise AssertionError("no error")
print(len(model.set_params(device=None).predict(X)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(len(X))
