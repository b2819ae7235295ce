"""Fits that are killed and started again, and errors of their folders."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from bochner import (
    KernelClassifier,
    KernelRegressor,
    MultipleKernelRegressor,
    checkpoint,
    durable,
    open_rows,
    single_kernel,
)
from bochner.checkpoint import FIT, LOG, PASS, SavedPasses
from bochner.estimators import blocks, dictionary, machine, multiple_machine, multiple_parts
from bochner.estimators.fingerprint import describe
from bochner.kernels import Gaussian
from bochner.rows import from_arrays
from bochner.rows import source as row_source
from tests.estimators import learners
from tests.estimators.learners import each_learner, table, targets

ROOT = Path(__file__).parents[2]


def small(learner, kernel="gaussian", **options):
    """A learner of few steps."""
    return learners.small(learner, kernel, **{"validation": 2, "tol": 3e-2, **options})


def regressor(kernel="gaussian", **options):
    return small(KernelRegressor, kernel, **options)


class StoppedError(Exception):
    """As a killed process would be, but for what it leaves to itself."""


class Stop:
    """A callback that ends a fit at an evaluation."""

    def __init__(self, at, error=StoppedError):
        self.at, self.error, self.calls = at, error, 0

    def __call__(self, record):
        self.calls += 1
        if self.calls == self.at:
            raise self.error


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "kept"


@pytest.fixture
def streaming(monkeypatch):
    """Samples of 150 rows, blocks of 256, and sums that are saved after each."""
    monkeypatch.setattr(machine, "FEWEST_SAMPLED", 150)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)
    monkeypatch.setattr(row_source, "FEWEST_BLOCK_ROWS", 256)
    monkeypatch.setattr(checkpoint, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "SAVING_SHARE", 1e9)


def stopped(model, at, *data):
    with pytest.raises(StoppedError):
        model.set_params(callback=Stop(at)).fit(*data)
    return model.set_params(callback=None)


def history(model):
    return [{name: value for name, value in record.items() if name != "seconds"} for record in model.history_]


def assert_same(model, other):
    for name in ("coef_", "intercept_", "scale_", "alpha_", "relevance_", "validation_error_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(other, name), err_msg=name)
    if other.moments_ is not None:
        np.testing.assert_array_equal(model.moments_.gram, other.moments_.gram)
    assert history(model) == history(other)
    assert model.families_ == other.families_
    assert (model.n_iter_, model.converged_, model.n_scales_) == (other.n_iter_, other.converged_, other.n_scales_)


# -- killed --------------------------------------------------------------------------------------------------------------


def rows_on_disk(path, n, classes=False):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)
    rows = np.column_stack([X, np.round(np.clip(y, -1, 1)) if classes else y])
    if path.suffix == ".parquet":
        pd.DataFrame(rows, columns=list("abcdy")).to_parquet(path, row_group_size=500)
    else:
        np.save(path, rows)
    return str(path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked, which Windows does not do")
@pytest.mark.parametrize(
    ("name", "n", "job"),
    [
        (
            "rows.npy",
            500,
            {"learner": "KernelRegressor", "streamed": False, "options": {"n_features": 64, "validation": 3, "tol": 1e-2}},
        ),
        (
            "rows.npy",
            150,
            {"learner": "KernelRegressor", "streamed": False, "finish": "centres", "options": {"kernel": "gaussian"}},
        ),
        (
            "rows.parquet",
            1500,
            {
                "learner": "KernelRegressor",
                "streamed": True,
                "target": "y",
                "options": {"kernel": "gaussian", "n_features": 32, "schedule": "full", "tol": 1e-2},
            },
        ),
        (
            "rows.npy",
            20_000,
            {
                "learner": "KernelClassifier",
                "streamed": True,
                "target": -1,
                "options": {"kernel": "cauchy", "n_features": 64},
            },
        ),
        (
            "rows.npy",
            2000,
            {
                "learner": "KernelRegressor",
                "streamed": True,
                "target": -1,
                "options": {"kernel": "gaussian", "n_features": 32, "schedule": "full", "tol": 1e-2, "device": "cpu"},
            },
        ),
        (
            "rows.npy",
            20_000,
            {
                "learner": "MultipleKernelRegressor",
                "streamed": True,
                "target": -1,
                "options": {"kernels": [["two", "gaussian", [0, 1]], ["rest", "matern32", [2, 3]]], "n_features": 40},
            },
        ),
    ],
    ids=["array", "array by default", "parquet at full size", "npy", "npy on a device", "many kernels"],
)
def test_killed_ten_times(tmp_path, name, n, job):
    if "device" in job["options"]:
        pytest.importorskip("torch")
    rows = rows_on_disk(tmp_path / name, n, classes=job["learner"] == "KernelClassifier")
    options = {**job["options"], "random_state": 0, "max_memory": "1GB"}
    (tmp_path / "job.json").write_text(json.dumps({**job, "rows": rows, "options": options, "seed": n}))
    arguments = [sys.executable, "-m", "tests.estimators.killed_fits", tmp_path / "job.json", tmp_path / "resumed.npz"]
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(arguments, cwd=ROOT, env=one_thread, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert told["killed"] == 10
    assert not told["left"]
    assert "goes on from" in run.stderr
    with np.load(tmp_path / "whole.npz") as whole, np.load(tmp_path / "resumed.npz") as resumed:
        assert set(whole) == set(resumed)
        for key in whole:
            np.testing.assert_array_equal(resumed[key], whole[key], err_msg=key)


# -- stopped -------------------------------------------------------------------------------------------------------------


@each_learner
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"criterion": "loo", "validation": None},
        {"alpha": "per-target", "validation": 3},
        {"scale_penalty": "sparse", "keep_moments": False},
        {"kernel": ["gaussian", "matern32"], "n_features": 64},
    ],
    ids=str,
)
def test_the_same_result(learner, options, folder):
    X, y = table(50)  # few rows for three columns: whether they share a scale is chosen first
    y = targets(learner, y, 3)
    whole = small(learner, **options).fit(X, y)
    model = small(learner, checkpoint=folder, **options)
    for at in (2, len(whole.history_)):
        stopped(model, at, X, y)
    assert_same(model.fit(X, y), whole)
    assert not folder.exists()


def test_float32_that_becomes_float64(folder):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2)).astype(np.float32)
    y = np.sin(X[:, 0].astype(float))
    whole = regressor(n_features=64).fit(X, y)
    assert {record["precision"] for record in whole.history_} == {"float32", "float64"}
    model = regressor(n_features=64, checkpoint=folder)
    for at in (3, len(whole.history_) // 2, len(whole.history_)):
        stopped(model, at, X, y)
    assert_same(model.fit(X, y), whole)


@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
def test_other_losses_go_on_from_the_levels_of_the_squared_error(loss, folder):
    X, y = table(40)
    y = targets(KernelClassifier, y, 3)
    whole = small(KernelClassifier, loss=loss).fit(X, y)
    model = small(KernelClassifier, loss=loss, checkpoint=folder)
    for at in (3, len(whole.history_)):
        stopped(model, at, X, y)
    model.fit(X, y)
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    np.testing.assert_array_equal(model.scale_, whole.scale_)
    assert history(model) == history(whole)
    with pytest.raises(ValueError, match="use schedule='small-to-large', or checkpoint=None"):
        model.set_params(schedule="full").fit(X, y)


class Stops:
    """In the place of ``SavedPasses.keep``: saves, and stops the fit after every third block."""

    def __init__(self, monkeypatch):
        self.seen = []
        keep = SavedPasses.keep

        def stop(passes, sums, done):
            keep(passes, sums, done)
            self.seen.append((sums.name, done))
            if len(self.seen) % 3 == 0:
                raise StoppedError

        monkeypatch.setattr(SavedPasses, "keep", stop)

    def fit(self, model, source):
        """Fit until it ends."""
        for _ in range(100):
            try:
                return model.fit(source)
            except StoppedError:
                continue
        raise AssertionError("no end")


@pytest.mark.parametrize("schedule", ["small-to-large", "full"])
def test_a_pass_goes_on_where_it_was(schedule, folder, streaming, monkeypatch):
    monkeypatch.setattr(single_kernel, "SCOUT_ROWS", 100)
    X, y = table(900)
    options = {"schedule": schedule, "tol": 1e-1}
    whole = regressor(**options).fit(from_arrays(X, y))
    stops = Stops(monkeypatch)
    assert_same(stops.fit(regressor(checkpoint=folder, **options), from_arrays(X, y)), whole)
    assert not folder.exists()
    # A pass has four blocks. Those that had been summed when a fit was stopped are not gone over again.
    if schedule == "small-to-large":
        assert stops.seen == [(name, done) for name in ("first", "moments") for done in (256, 512, 768, 900)]
    else:
        assert {name for name, _ in stops.seen} == {"first", "moments", "gradient"}


def test_rounds_of_many_kernels_go_on_where_they_were(folder, streaming, monkeypatch):
    """The kernel of noise is out after a first round, and the others get more features in a second one."""
    monkeypatch.setattr(multiple_machine, "FEWEST_SAMPLED", 150)
    monkeypatch.setattr(multiple_parts, "MOST_FEATURES", 300)
    for name, size in (("FEWEST_IN_ALL", 300), ("SMALL_PROBLEM", 0)):
        monkeypatch.setattr(dictionary, name, size)
    X = np.random.default_rng(3).standard_normal((900, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    kernels = [("signal", "gaussian", [0, 1]), ("noise", "gaussian", [2])]
    options = {"l1_ratio": 1.0, "n_alphas": 6, "random_state": 0, "selection": "one-standard-error"}
    whole = MultipleKernelRegressor(kernels, **options).fit(from_arrays(X, y))
    stops = Stops(monkeypatch)
    model = stops.fit(MultipleKernelRegressor(kernels, checkpoint=folder, **options), from_arrays(X, y))
    for name in ("coef_", "intercept_", "kernel_weights_", "alpha_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(whole, name), err_msg=name)
    assert not folder.exists()
    expected = [(name, done) for name in ("first", "moments", "moments") for done in (256, 512, 768, 900)]
    assert stops.seen == [*expected, ("moments", 900)]  # it was stopped after the last block, which is not summed again


def test_many_kernels_of_rows_in_memory_begin_anew_with_the_same_seed(folder, monkeypatch):
    X, y = table(60)
    kernels = [Gaussian(scale=0.5), "matern32"]
    model = MultipleKernelRegressor(kernels, checkpoint=folder, n_features=20, n_alphas=4)
    kept = {}

    def stop(self, learned, kernels):
        kept.update(json.loads((folder / FIT).read_text()))
        raise StoppedError

    with monkeypatch.context() as patched:
        patched.setattr(multiple_machine.MultipleKernelMachine, "_keep", stop)
        with pytest.raises(StoppedError):
            model.fit([X, X], y)
    seed = kept["constants"]["seed"]
    whole = clone(model).set_params(checkpoint=None, random_state=np.random.default_rng(seed)).fit([X, X], y)
    folder.mkdir()
    (folder / FIT).write_text(json.dumps(kept))
    np.testing.assert_array_equal(model.fit([X, X], y).coef_, whole.coef_)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("one", "two"), [(slice(0, 2), slice(1, 3)), (lambda table: [0, 1], lambda table: [0, 2]), ({"a": 1}, {"a": 2})]
)
def test_kernels_on_other_columns_are_another_fit(one, two):
    assert describe([("k", "gaussian", one)]) == describe([("k", "gaussian", one)])
    assert describe([("k", "gaussian", one)]) != describe([("k", "gaussian", two)])


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("schedule", ["small-to-large", "full"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_pass_on_a_device_goes_on_where_it_was(device, schedule, dtype, folder, streaming, monkeypatch):
    torch = pytest.importorskip("torch")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    monkeypatch.setattr(single_kernel, "SCOUT_ROWS", 100)
    X, y = table(900)
    source = from_arrays(X.astype(dtype), y)
    options = {"schedule": schedule, "tol": 1e-1, "device": device}
    whole = regressor(**options).fit(source)
    stops = Stops(monkeypatch)
    assert_same(stops.fit(regressor(checkpoint=folder, **options), source), whole)
    assert not folder.exists()
    if schedule == "small-to-large":  # four blocks a pass, and none of them twice
        assert stops.seen == [(name, done) for name in ("first", "moments") for done in (256, 512, 768, 900)]
    else:
        assert {name for name, _ in stops.seen} == {"first", "moments", "gradient"}


@each_learner
def test_rows_in_memory_on_a_device(learner, folder):
    pytest.importorskip("torch")
    X, y = table(80)
    y = targets(learner, y, 3)
    whole = small(learner, device="cpu").fit(X, y)
    model = small(learner, device="cpu", checkpoint=folder)
    for at in (2, len(whole.history_)):
        stopped(model, at, X, y)
    with pytest.raises(ValueError, match="device was 'cpu' and is None"):
        clone(model).set_params(device=None).fit(X, y)
    assert_same(model.fit(X, y), whole)
    assert not folder.exists()


@pytest.mark.parametrize("text", [False, True])
def test_sparse_rows_and_names_of_classes(text, folder, streaming, monkeypatch):
    X, y = table(900)
    y = targets(KernelClassifier, y, 3)
    source = from_arrays(
        sparse.csr_array(np.where(X > 0, X, 0)), np.array(["a", "bcd", "e"], dtype=object)[y] if text else y
    )
    whole = small(KernelClassifier, tol=1e-1).fit(source)
    model = Stops(monkeypatch).fit(small(KernelClassifier, tol=1e-1, checkpoint=folder), source)
    assert_same(model, whole)
    assert model.classes_.tolist() == whole.classes_.tolist()


def test_what_was_drawn_stays(folder):
    X, y = table()
    model = regressor(random_state=None, checkpoint=folder)
    stopped(model, 3, X, y)
    seed = json.loads((folder / FIT).read_text())["constants"]["seed"]
    assert_same(model.fit(X, y), regressor(random_state=seed).fit(X, y))
    first, second = (clone(model).fit(X, y) for _ in range(2))
    assert (first.coef_ != second.coef_).any()


def test_callbacks_hear_of_all_evaluations(folder):
    X, y = table()
    model, records = regressor(checkpoint=folder), []
    stopped(model, 4, X, y)
    model.set_params(callback=records.append).fit(X, y)
    assert records == model.history_
    assert len(records) > 4


def test_after_ctrl_c_a_fit_goes_on(folder):
    X, y = table()
    model = regressor(checkpoint=folder, callback=Stop(3, KeyboardInterrupt))
    with pytest.warns(ConvergenceWarning, match="Interrupted after 3 evaluations"):
        model.fit(X, y)
    assert (folder / LOG).exists()
    assert_same(model.set_params(callback=None).fit(X, y), regressor().fit(X, y))
    assert not folder.exists()


def test_verbose_says_from_where(folder, capsys):
    X, y = table()
    model = regressor(checkpoint=folder, verbose=1)
    stopped(model, 3, X, y)
    assert "goes on" not in capsys.readouterr().err
    model.fit(X, y)
    assert f"KernelRegressor goes on from {str(folder)!r}: " in capsys.readouterr().err


# -- another fit -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"n_features": 64}, "n_features was 32 and is 64"),
        ({"kernel": "cauchy"}, "kernel was 'gaussian' and is 'cauchy'"),
        ({"random_state": 1}, "random_state was 0 and is 1"),
        ({"random_state": np.random.default_rng(0)}, "random_state was 0 and is Generator"),
        ({"validation": 3, "tol": 1e-3}, "tol was 0.03 and is 0.001; validation was 2 and is 3"),
    ],
    ids=["n_features", "kernel", "seed", "generator", "two"],
)
def test_other_parameters(folder, changed, told):
    X, y = table()
    model = stopped(regressor(checkpoint=folder), 3, X, y)
    with pytest.raises(ValueError, match="is of another fit") as raised:
        clone(model).set_params(**changed).fit(X, y)
    assert told in str(raised.value)
    assert f"use another folder, as checkpoint='{folder}-2', or delete that one" in str(raised.value)
    assert_same(model.fit(X, y), regressor().fit(X, y))  # nothing was lost


def test_parameters_without_effect(folder):
    X, y = table()
    model = stopped(regressor(checkpoint=folder), 3, X, y)
    clone(model).set_params(verbose=0, callback=lambda record: None).fit(X, y)
    assert not folder.exists()


@pytest.mark.parametrize("which", ["X", "y", "sample_weight"])
def test_other_rows(folder, which):
    X, y = table()
    weights = np.ones(len(y))
    data = {"X": X, "y": y, "sample_weight": weights}
    model = regressor(checkpoint=folder, callback=Stop(3))
    with pytest.raises(StoppedError):
        model.fit(**data)
    other = data[which].copy()
    other[..., -1] += 1e-9
    with pytest.raises(ValueError, match=rf"is of another fit: {which} was array \(60,.*\) float64 \w+ and is array"):
        model.fit(**{**data, which: other})


def test_another_file(folder, streaming, tmp_path):
    rows = Path(rows_on_disk(tmp_path / "rows.npy", 900))
    model = stopped(regressor(checkpoint=folder, tol=1e-1), 1, open_rows(rows, target=-1))
    os.utime(rows, (1, 1))
    told = (
        r"X was 900 rows of 4 columns in a file of \d+ bytes, '.*rows\.npy' written last, at 20\d\d-.* and is 900 rows of "
    )
    with pytest.raises(ValueError, match=rf"is of another fit: {told}.* written last, at (1970|1969)-"):
        model.fit(open_rows(rows, target=-1))


def test_a_folder_in_which_nothing_was_learned_is_no_obstacle(folder):
    X, y = table()
    with pytest.raises(ValueError, match="validation"):
        regressor(checkpoint=folder, validation="half").fit(X, y)
    assert not folder.exists()
    assert_same(regressor(checkpoint=folder).fit(X, y), regressor().fit(X, y))


# -- files ---------------------------------------------------------------------------------------------------------------


def test_a_torn_log(folder):
    X, y = table()
    whole = regressor().fit(X, y)
    model = stopped(regressor(checkpoint=folder), len(whole.history_), X, y)
    log = (folder / LOG).read_bytes()
    for size in (len(log) - 1, len(log) - 40, 3):
        (folder / LOG).write_bytes(log[:size])
        stopped(model, len(whole.history_), X, y)
        assert (folder / LOG).read_bytes() == log  # what was torn off was computed again, and to the same bits
    (folder / LOG).write_bytes(log[: len(log) // 2] + b"\0" * 100)  # after a power cut
    assert_same(model.fit(X, y), whole)


def test_a_folder_of_the_users_stays(folder):
    X, y = table()
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    model = stopped(regressor(checkpoint=str(folder)), 3, X, y)
    model.fit(X, y)
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


def test_what_is_no_folder(tmp_path):
    X, y = table()
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"checkpoint must be a folder, and '.*file' is a file"):
        regressor(checkpoint=tmp_path / "file").fit(X, y)
    for wrong in (3, ""):
        with pytest.raises(ValueError, match=f"checkpoint must be the path of a folder or None, got {wrong!r}"):
            regressor(checkpoint=wrong).fit(X, y)


def test_an_unwritable_folder(tmp_path, monkeypatch):
    X, y = table()

    def refuse(self, *args, **options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(
        OSError, match=r"Cannot write to checkpoint='.*': Permission denied. Choose another folder, or make it"
    ):
        regressor(checkpoint=tmp_path / "kept").fit(X, y)


@pytest.mark.parametrize("at", [1, 2, 3, 9])
def test_a_full_disk(folder, at, monkeypatch):
    X, y = table()
    writes, write_all = [], durable.write_all

    def full(file, data):
        writes.append(data)
        if len(writes) == at:
            write_all(file, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        write_all(file, data)

    for module in (checkpoint, durable):
        monkeypatch.setattr(module, "write_all", full)
    model = regressor(checkpoint=folder)
    with pytest.raises(OSError, match=r"No space left on device. Choose another folder, or make room on the disk and fit"):
        model.fit(X, y)
    assert len(writes) == at
    if at <= 2:  # nothing was learned
        assert not folder.exists()
    else:
        assert sorted(path.name for path in folder.iterdir()) == [LOG, FIT]
        assert (folder / LOG).read_bytes().endswith(b"\n")
    assert not hasattr(model, "coef_")
    assert_same(model.fit(X, y), regressor().fit(X, y))  # the disk has room again


def test_a_full_disk_while_sums_are_saved(folder, streaming, monkeypatch):
    X, y = table(900)
    savez = np.savez

    def full(file, **arrays):
        savez(file, **arrays)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    model = regressor(checkpoint=folder, tol=1e-1)
    with pytest.raises(OSError, match="No space left on device"):
        model.fit(from_arrays(X, y))
    assert not folder.exists()  # nothing had been learned
    monkeypatch.setattr(np, "savez", savez)
    whole = regressor(tol=1e-1).fit(from_arrays(X, y))
    assert_same(model.fit(from_arrays(X, y)), whole)


def test_sums_that_cannot_be_read_are_made_again(folder, streaming, monkeypatch):
    X, y = table(900)
    whole, keep = regressor(tol=1e-1).fit(from_arrays(X, y)), SavedPasses.keep

    def stop(self, sums, done):
        keep(self, sums, done)
        raise StoppedError

    monkeypatch.setattr(SavedPasses, "keep", stop)
    model = regressor(checkpoint=folder, tol=1e-1)
    with pytest.raises(StoppedError):
        model.fit(from_arrays(X, y))
    (path,) = folder.glob(PASS.format("*"))
    path.write_bytes(path.read_bytes()[:500])
    (folder / (path.name + durable.PARTIAL)).write_bytes(b"half")
    monkeypatch.setattr(SavedPasses, "keep", keep)
    assert_same(model.fit(from_arrays(X, y)), whole)
    assert not folder.exists()


def test_two_fits_in_one_folder(folder):
    pytest.importorskip("fcntl")
    X, y = table()
    inner = []

    def fit_too(record):
        if not inner:
            with pytest.raises(
                OSError, match=r"Another fit is using checkpoint=.* now: give every fit a folder of its own"
            ) as e:
                regressor(checkpoint=folder).fit(X, y)
            inner.append(e)

    regressor(checkpoint=folder, callback=fit_too).fit(X, y)
    assert inner


@each_learner
def test_partial_fit_and_a_warm_start(learner, folder):
    X, y = table()
    y = targets(learner, y)
    model = small(learner, checkpoint=folder, warm_start=True).partial_fit(X, y)
    np.testing.assert_array_equal(model.coef_, small(learner).fit(X, y).coef_)
    whole = clone(model).set_params(checkpoint=None).fit(X, y).fit(X, y)
    stopped(model, 1, X, y)
    assert_same(model.fit(X, y), whole)


def test_the_estimator_of_the_other_kind(folder):
    X, y = table()
    y = targets(KernelClassifier, y)
    stopped(small(KernelClassifier, checkpoint=folder), 2, X, y)
    with pytest.raises(ValueError, match="estimator was KernelClassifier and is KernelRegressor"):
        small(KernelRegressor, checkpoint=folder).fit(X, y)
