"""A device that runs out of memory: blocks are halved until they fit, a warning says so, and results stay."""

import numpy as np
import pytest

from bochner import KernelClassifier, KernelRegressor
from bochner.engines.devices import DeviceStream, on_device
from bochner.engines.smaller_blocks import SmallerBlocksWarning, each_block
from bochner.features.fourier import FourierMap
from bochner.folds import Folds, Rows

torch = pytest.importorskip("torch")
SEEN = "ran out of memory: going on with blocks of fewer rows"


def full():
    return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")


@pytest.mark.parametrize("fits", [1, 3, 7, 100])
def test_every_row_comes_once_and_in_order(fits):
    asked = []

    def work(block):
        asked.append(block.stop - block.start)
        if asked[-1] > fits:
            raise full()
        return list(range(block.start, block.stop))

    if fits < 40:
        with pytest.warns(SmallerBlocksWarning, match=SEEN):
            found = [part for _, part in each_block(100, 40, work)]
    else:
        found = [part for _, part in each_block(100, 40, work)]
    assert [row for part in found for row in part] == list(range(100))
    assert max(map(len, found)) <= fits


def test_one_row_that_does_not_fit():
    def work(_block):
        raise full()

    with (
        pytest.warns(SmallerBlocksWarning),
        pytest.raises(MemoryError, match="no room for the features of a single row: let go of other arrays there"),
    ):
        list(each_block(8, 8, work))


def test_other_errors_pass():
    def work(_block):
        raise RuntimeError("expected scalar type Float")

    with pytest.raises(RuntimeError, match="expected scalar type"):
        list(each_block(8, 8, work))


@pytest.fixture
def small_device(monkeypatch):
    """A device on which features of 100 rows fit."""
    forward, largest = FourierMap.forward, []

    def limited(self, X, **options):
        if isinstance(X, torch.Tensor):
            if X.shape[0] > 100:
                raise full()
            largest.append(X.shape[0])
        return forward(self, X, **options)

    monkeypatch.setattr(FourierMap, "forward", limited)
    return largest


@pytest.mark.parametrize("learner", [KernelRegressor, KernelClassifier])
@pytest.mark.filterwarnings("ignore::bochner.engines.smaller_blocks.SmallerBlocksWarning")
def test_learners_go_on_with_smaller_blocks(learner, small_device):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    y = y > 0 if learner is KernelClassifier else y
    options = {"n_features": 32, "tol": 0.3, "random_state": 0}
    whole = learner("gaussian", **options).fit(X, y)
    model = learner("gaussian", device="cpu", **options).fit(X, y)
    assert small_device
    assert max(small_device) <= 100
    method = "decision_function" if learner is KernelClassifier else "predict"
    np.testing.assert_allclose(getattr(model, method)(X), getattr(whole, method)(X), rtol=1e-6, atol=1e-6)
    if learner is KernelRegressor:
        deviations = model.predict(X, return_std=True)[1], whole.predict(X, return_std=True)[1]
        np.testing.assert_allclose(*deviations, rtol=1e-6)


def test_a_warning_says_so(small_device):
    X = np.random.default_rng(0).standard_normal((300, 3))
    model = KernelRegressor("gaussian", n_features=16, tol=0.9, random_state=0, device="cpu")
    with pytest.warns(SmallerBlocksWarning, match=SEEN):
        model.fit(X, X[:, 0])


def test_rows_that_do_not_fit_at_once_come_in_blocks(monkeypatch):
    X = np.random.default_rng(0).standard_normal((50, 3))
    folds = Folds((Rows(X, X[:, :1], np.ones(50)),), (0,))

    def no_room(self):
        raise full()

    monkeypatch.setattr(DeviceStream, "at_once", no_room)
    with pytest.warns(SmallerBlocksWarning, match="they come to it block by block in every pass"):
        there = on_device(folds, "cpu")
    assert isinstance(there, DeviceStream)
    np.testing.assert_array_equal(np.concatenate([rows.X.numpy() for _, rows in there.chunks()]), X)
