"""A device that runs out of memory: blocks are halved until they fit, a warning says so, and results stay."""

import numpy as np
import pytest

from bochner import KernelClassifier, KernelRegressor, uncertainty
from bochner.engines.devices import DeviceFolds, DeviceStream, on_device
from bochner.engines.smaller_blocks import SmallerBlocksWarning, each_block
from bochner.errors import NotEnoughMemoryError
from bochner.features import centres
from bochner.features.centres import CentreKernels
from bochner.features.fourier import FourierMap
from bochner.folds import Folds, Rows
from bochner.full_ridge import FullRidge
from bochner.metric_learning import MetricPlan, Steps, Teacher, contest, finish, room, search
from bochner.metric_learning.stages import Stage
from bochner.statistics import MomentSum

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


# -- data centres, and what does not depend on the size of a block --------------------------------------------------------


def on_centres(**options):
    """A learner on data centres, on a device."""
    return KernelRegressor(
        "gaussian", **{"finish": "centres", "metric": "diagonal", "device": "cpu", "tol": 0.9, "random_state": 0, **options}
    )


def problem(n=150):
    X = np.random.default_rng(0).standard_normal((n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1]


def test_products_with_centres_come_in_smaller_blocks(monkeypatch):
    """In sums and in predictions alike: as many rows as fit, and the same model but for rounding."""
    X, y = problem()
    whole = on_centres(n_centres=40).fit(X, y)
    expected, forward, seen = whole.predict(X, return_std=True), CentreKernels.forward, []

    def limited(self, X, *args, **options):
        if isinstance(X, torch.Tensor):
            if X.shape[0] > 20:
                raise full()
            seen.append(X.shape[0])
        return forward(self, X, *args, **options)

    monkeypatch.setattr(CentreKernels, "forward", limited)
    monkeypatch.setattr(CentreKernels, "square", lambda self: self.kernel.exact(self.centres, self.centres))  # has room
    with pytest.warns(SmallerBlocksWarning, match=SEEN):
        model = on_centres(n_centres=40).fit(X, y)
    assert 0 < max(seen) <= 20
    seen.clear()
    with pytest.warns(SmallerBlocksWarning, match=SEEN):
        found = model.predict(X, return_std=True)
    assert 0 < max(seen) <= 20
    for some, others in zip(found, expected, strict=True):
        np.testing.assert_allclose(some, others, rtol=1e-6, atol=1e-6)


def room_for(monkeypatch, n_centres):
    """A device on which the last regression has room for the pairs of so many centres."""

    class Small(finish.CentreSpace):
        def evaluate(self, *args, **options):
            if len(self.centres) > n_centres:
                raise full()
            return super().evaluate(*args, **options)

    monkeypatch.setattr(finish, "CentreSpace", Small)


FEWER = "no room for all pairs of so many data centres: going on with {} of them at most"
NO_ROOM = "no room for matrices of all pairs .* give fewer n_features or n_centres, or leave out device="


def test_centres_whose_pairs_do_not_fit_are_fewer(monkeypatch):
    monkeypatch.setattr(finish, "LEAST_CENTRES", 20)
    room_for(monkeypatch, 40)
    with pytest.warns(SmallerBlocksWarning) as told:
        model = on_centres().fit(*problem())
    assert [FEWER.format(n) in str(each.message) for n, each in zip((75, 37), told, strict=True)] == [True, True]
    assert len(model.feature_map_.centres) == 37


@pytest.mark.parametrize("options", [{"n_centres": 120}, {}])
def test_centres_that_somebody_gave_and_too_few_of_them_are_refused(monkeypatch, options):
    room_for(monkeypatch, 40)
    with pytest.raises(NotEnoughMemoryError, match=NO_ROOM):
        on_centres(**options).fit(*problem())


def test_every_row_a_centre_becomes_some_of_them(monkeypatch):
    """Where the factor of the whole kernel matrix has no room, sums of products with centres may have it."""
    X, y = problem(200)
    solve, sizes = FullRidge.solve, []

    def limited(self, log_alpha):
        sizes.append(self.rows.shape[0])
        if sizes[-1] == len(X):  # the last of all factors, of all rows to fit
            raise full()
        return solve(self, log_alpha)

    monkeypatch.setattr(MetricPlan, "every_row", lambda self, folds: folds.n >= len(X))
    monkeypatch.setattr(FullRidge, "solve", limited)
    with pytest.warns(SmallerBlocksWarning, match=FEWER.format(200)):
        model = on_centres().fit(X, y)
    assert sizes[-1] == len(X)
    assert model.finish_ == "centres"
    assert model.score(X, y) > 0.9


def test_sums_of_all_pairs_of_features_that_do_not_fit(monkeypatch):
    begin = MomentSum.__init__

    def no_room(self, n_features, n_targets, like=None):
        if isinstance(like, torch.Tensor):
            raise full()
        begin(self, n_features, n_targets, like=like)

    monkeypatch.setattr(MomentSum, "__init__", no_room)
    with pytest.raises(NotEnoughMemoryError, match=NO_ROOM):
        KernelRegressor("gaussian", n_features=16, device="cpu").fit(*problem())


def test_factors_of_all_pairs_of_centres_that_do_not_fit(monkeypatch):
    """Which are made before any block, so that none is halved for them."""
    cholesky = centres.cholesky

    def no_room(matrix, *args, **options):
        if isinstance(matrix, torch.Tensor):
            raise full()
        return cholesky(matrix, *args, **options)

    monkeypatch.setattr(centres, "cholesky", no_room)
    with pytest.warns(SmallerBlocksWarning, match=ON_HOST), pytest.raises(NotEnoughMemoryError, match=NO_ROOM):
        on_centres().fit(*problem())  # kernels are compared on the host, and the last regression has no room


# -- while kernels are compared --------------------------------------------------------------------------------------------

ON_HOST = "no room to learn kernels: they are learned on the host"
COMPARED = "no room to compare kernels on so many rows and data centres: going on with {} and {} at most"


def room_to_compare(monkeypatch, module, n_centres):
    """A device on which kernels are compared on so many centres; the number of centres of every time that they were."""
    seen = []

    class Small(module.CentreSpace):
        def evaluate(self, *args, **options):
            if isinstance(self.folds, DeviceFolds) and len(self.centres) > n_centres:
                raise full()
            seen.append((type(self.folds), len(self.centres)))
            return super().evaluate(*args, **options)

    monkeypatch.setattr(module, "CentreSpace", Small)
    return seen


@pytest.mark.parametrize("module", [search, contest])
@pytest.mark.parametrize("learner", [KernelRegressor, KernelClassifier])
def test_kernels_are_compared_on_fewer_centres(monkeypatch, module, learner):
    monkeypatch.setattr(room, "LEAST_CENTRES", 10)
    seen = room_to_compare(monkeypatch, module, 45)
    X, y = problem()
    y = y > np.median(y) if learner is KernelClassifier else y
    options = {"tol": 0.9, "random_state": 0}
    with pytest.warns(SmallerBlocksWarning) as told:
        model = learner("gaussian", device="cpu", **options).fit(X, y)
    assert COMPARED.format(60, 60) in str(told[0].message)
    assert {kind for kind, _ in seen} == {DeviceFolds}
    assert 10 < max(n for _, n in seen) <= 45
    assert model.score(X, y) > 0.9
    unseen = [row["kernel"] + row["start"] + row["metric"] + row["finish"] for row in model.selection_ if row["chosen"]]
    assert len(set(unseen)) == 1
    assert len(unseen) <= 3  # a record of each part that was set aside, and none of those that were given up


def test_steps_that_are_taken_again_are_no_more_than_there_are():
    told = []
    steps = Steps(lambda *step: told.append(step[:2]))
    steps.n_steps = 3
    for what in ("scales", "metrics", "metrics on fewer centres", "metrics on the host"):
        steps.enter(what)
    steps.enter_last("the best")
    assert told == [(1, 3), (2, 3), (3, 3), (3, 3), (3, 3)]


@pytest.mark.parametrize("module", [search, contest])
def test_kernels_are_compared_on_the_host(monkeypatch, module):
    """Where a device has no room for few centres either; the last regression is fitted there all the same."""
    seen = room_to_compare(monkeypatch, module, 0)
    X, y = problem()
    with pytest.warns(SmallerBlocksWarning, match=ON_HOST):
        model = on_centres().fit(X, y)
    assert {kind for kind, _ in seen} == {Folds}
    np.testing.assert_allclose(model.predict(X), on_centres(device=None).fit(X, y).predict(X), rtol=0, atol=0.05)


def test_what_was_compared_before_the_host_is_not_told_twice(monkeypatch):
    """On a device that has room for the first stage of a search, and none for the second."""
    stages = Stage(60, 30, steps=1, keep=3), Stage(120, 60, steps=1, keep=2)
    monkeypatch.setattr(MetricPlan, "stages", lambda *_: stages)
    X, y = problem()
    whole = on_centres(device=None).fit(X, y)
    seen = room_to_compare(monkeypatch, search, 30)
    with pytest.warns(SmallerBlocksWarning, match=ON_HOST):
        model = on_centres().fit(X, y)
    assert {(DeviceFolds, 30), (Folds, 30), (Folds, 60)} == set(seen)
    ours, others = ([row for row in each.selection_ if row["stage"] == "search 1"] for each in (model, whole))
    assert 0 < len(ours) == len(others)


@pytest.mark.parametrize("step", ["descend", "starts"])
def test_scales_are_learned_on_the_host(monkeypatch, step):
    learn, seen = getattr(Teacher, step), []

    def limited(self, folds, *args):
        seen.append(type(folds))
        if isinstance(folds, DeviceFolds):
            raise full()
        return learn(self, folds, *args)

    monkeypatch.setattr(Teacher, step, limited)
    X, y = problem()
    with pytest.warns(SmallerBlocksWarning, match=ON_HOST):
        model = on_centres().fit(X, y)
    assert seen == [DeviceFolds, Folds] * (len(seen) // 2)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("module", [search, contest])
def test_the_host_has_no_other_host(monkeypatch, module):
    """Errors of rows that are on the host already pass, whatever they say."""

    class Small(module.CentreSpace):
        def evaluate(self, *args, **options):
            raise full()

    monkeypatch.setattr(module, "CentreSpace", Small)
    with pytest.raises(NotEnoughMemoryError, match=NO_ROOM):
        on_centres(device=None).fit(*problem())


def test_deviations_whose_factor_does_not_fit(monkeypatch):
    model = on_centres(n_centres=20).fit(*problem())

    def no_room(*args):
        raise full()

    monkeypatch.setattr(uncertainty, "quadratic_form", no_room)
    with pytest.raises(NotEnoughMemoryError, match=NO_ROOM):
        model.predict(problem()[0], return_std=True)


def test_other_errors_of_a_fit_pass(monkeypatch):
    def wrong(*args):
        raise RuntimeError("expected scalar type Float")

    monkeypatch.setattr(FullRidge, "solve", wrong)
    monkeypatch.setattr(MetricPlan, "every_row", lambda self, folds: folds.n >= 150)
    with pytest.raises(RuntimeError, match="expected scalar type"):
        on_centres().fit(*problem())
