"""Ctrl-C, callbacks, the progress line, and going on from an earlier fit."""

import copy
import io
import time

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

from bochner import KernelClassifier, KernelRegressor, progress
from bochner.descent import Level, Plan, family_name
from bochner.exact import KernelRidgeGD
from bochner.kernels import Cauchy, Gaussian, get_kernel
from bochner.kernels.ties import SharedScales
from bochner.metric_learning.contest import Contest
from bochner.progress import (
    TOO_EARLY,
    WIDTH,
    CountLine,
    DescentLine,
    Follower,
    PassLine,
    PathLine,
    StepLine,
    Work,
    left_in_words,
)
from tests.estimators.learners import each_learner, fixed, output, regressor, small, table, targets


class CtrlC:
    """A callback that raises KeyboardInterrupt, or another error, at one evaluation, and counts how often it was called."""

    def __init__(self, at, error=KeyboardInterrupt):
        self.at = at
        self.error = error
        self.calls = 0

    def __call__(self, record):
        self.calls += 1
        if self.calls == self.at:
            raise self.error


# -- Ctrl-C --------------------------------------------------------------------------------------------------------------


@each_learner
@pytest.mark.parametrize("at", [1, 2, 7])
def test_the_best_kernel_so_far_is_kept(learner, at):
    X, y = table()
    y = targets(learner, y)
    model = small(learner, callback=CtrlC(at), alpha=1e-2)
    with pytest.warns(ConvergenceWarning, match=f"Interrupted after {at} evaluations: the best kernel so far is kept"):
        model.fit(X, y)
    assert model.callback.calls == at == len(model.history_)
    assert not model.converged_
    # One size, one penalty: what is kept is the lowest of all errors seen.
    assert model.validation_error_ == min(record["criterion"] for record in model.history_)
    assert np.isfinite(output(model, X)).all()
    np.testing.assert_array_equal(model.history_[0]["alpha"], model.history_[-1]["alpha"])


@each_learner
def test_a_warning_made_an_error_leaves_the_model_whole(learner):
    X, y = table()
    model = small(learner, callback=CtrlC(2), alpha=1e-2)
    with pytest.raises(ConvergenceWarning, match="Interrupted"):  # warnings are errors in these tests
        model.fit(X, targets(learner, y))
    assert np.isfinite(output(model, X)).all()


@pytest.mark.parametrize("at", [1, 5])
def test_an_exact_fit_keeps_it_too(at):
    X, y = table()
    model = KernelRidgeGD("gaussian", alpha=1e-2, random_state=0, callback=CtrlC(at))
    with pytest.warns(ConvergenceWarning, match=f"Interrupted after {at} evaluations"):
        model.fit(X, y)
    # The kernel's scales went to units of the data and back, and the matrix was made anew.
    assert model.validation_error_ == pytest.approx(min(r["criterion"] for r in model.history_), rel=1e-10)
    assert not model.converged_
    assert np.isfinite(model.predict(X)).all()


def test_on_the_way_to_full_size_the_last_level_is_made_up_for():
    X, y = table(160)
    model = regressor(n_features=512, validation=2, tol=1e-1)
    levels = {r["level"] for r in clone(model).fit(X, y).history_}
    assert len(levels) > 1
    model.set_params(callback=CtrlC(2))
    with pytest.warns(ConvergenceWarning, match="Interrupted after 2 evaluations"):
        model.fit(X, y)
    assert {r["level"] for r in model.history_} == {1}
    assert model.feature_map_.n_features == 512
    assert model.coef_.shape == (512, 1)


@each_learner
def test_a_model_goes_on_from_where_it_was_interrupted(learner):
    X, y = table()
    y = targets(learner, y)
    model = small(learner, callback=CtrlC(4), warm_start=True)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    kept = model.kernel_
    model.set_params(tol=1e9).fit(X, y)  # the callback's moment is over
    assert len(model.history_) == 1
    np.testing.assert_allclose(model.kernel_.scale, kept.scale, rtol=1e-12)  # through logarithms and units, and back


@each_learner
def test_other_errors_of_a_callback_are_the_users(learner):
    X, y = table()

    def fail(record):
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        small(learner, callback=fail).fit(X, targets(learner, y))


def any_learner(learner, kernel="gaussian", **options):
    """A small learner on features, or an exact one of a few steps."""
    if learner is KernelRidgeGD:
        return KernelRidgeGD(kernel, **{"random_state": 0, "max_iter": 3, **options})
    return small(learner, kernel, **options)


def predictions_of(model, X):
    return model.predict(X) if isinstance(model, KernelRidgeGD) else output(model, X)


every_learner = pytest.mark.parametrize("learner", [KernelRegressor, KernelClassifier, KernelRidgeGD])
each_failure = pytest.mark.parametrize(
    "failure",
    [
        {"callback": CtrlC(1, ValueError)},
        {"callback": CtrlC(3, ValueError)},
        {"validation": "half"},
        {"validation": (np.ones((3, 7)), np.ones(3))},
        {"tol": "small"},
        {"kernel": "gausian"},
    ],
    ids=["first callback", "callback", "fraction", "set", "choice", "kernel"],
)


@every_learner
@each_failure
@pytest.mark.parametrize("warm_start", [False, True])
def test_a_fit_that_fails_leaves_the_model_as_it_was(learner, failure, warm_start):
    X, y = table()
    y = y if learner is KernelRidgeGD else targets(learner, y)
    model = any_learner(learner, warm_start=warm_start).fit(X, y)
    before, fitted = predictions_of(model, X), dict(vars(model))
    options = copy.deepcopy(failure)
    with pytest.raises(ValueError):  # noqa: PT011, any of them
        model.set_params(**options).fit(np.exp(X[:40]), y[:40])
    np.testing.assert_array_equal(predictions_of(model, X), before)
    kept = {name: value for name, value in vars(model).items() if name not in options}
    assert kept.keys() == fitted.keys() - options.keys()
    assert all(value is fitted[name] for name, value in kept.items())


@every_learner
@each_failure
def test_a_first_fit_that_fails_leaves_no_model(learner, failure):
    X, y = table()
    model = any_learner(learner, **copy.deepcopy(failure))
    with pytest.raises(ValueError):  # noqa: PT011, any of them
        model.fit(X, y if learner is KernelRidgeGD else targets(learner, y))
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    assert vars(model) == model.get_params()


@each_learner
def test_rows_that_cannot_be_added_leave_the_model_as_it_was(learner):
    X, y = table()
    y = targets(learner, y)
    model = small(learner).fit(X, y)
    before = output(model, X)
    for rows, labels in ((X, y[:-1]), (np.full_like(X, np.nan), y), (X[:, :2], y)):
        with pytest.raises(ValueError, match=r"inconsistent|NaN|2 features"):
            model.partial_fit(rows, labels)
        np.testing.assert_array_equal(output(model, X), before)
    failing = small(learner, callback=CtrlC(3, ValueError("my own")))
    with pytest.raises(ValueError, match="my own"):
        failing.partial_fit(X, y)
    with pytest.raises(NotFittedError):
        check_is_fitted(failing)


@each_learner
def test_an_interrupted_fit_still_adds_rows_and_probabilities(learner):
    X, y = table()
    y = targets(learner, y)
    model = small(learner, callback=CtrlC(3))
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert np.isfinite(output(model.partial_fit(X, y), X)).all()


# -- going on ------------------------------------------------------------------------------------------------------------


@each_learner
def test_warm_start_begins_at_the_learned_kernel(learner):
    X, y = table()
    y = targets(learner, y)
    model = small(learner, "auto", warm_start=True).fit(X, y)
    assert len(model.families_) > 1
    learned = model.kernel_
    model.set_params(tol=1e9).fit(X, y)
    assert type(model.kernel_) is type(learned)
    assert len(model.families_) == 1
    np.testing.assert_allclose(model.kernel_.scale, learned.scale, rtol=1e-12)


@every_learner
@pytest.mark.parametrize("kernel", ["matern32", get_kernel("matern52"), Cauchy(scale=0.5)], ids=str)
def test_warm_start_with_another_kernel_starts_anew(learner, kernel):
    X, y = table()
    y = y if learner is KernelRidgeGD else targets(learner, y)
    model = any_learner(learner, "matern12", warm_start=True).fit(X, y)
    model.set_params(kernel=kernel).fit(X, y)
    assert family_name(model.kernel_) == family_name(get_kernel(kernel))
    anew = any_learner(learner, kernel).fit(X, y)
    np.testing.assert_array_equal(predictions_of(model, X), predictions_of(anew, X))


@every_learner
@pytest.mark.parametrize("kernel", ["auto", "matern32", get_kernel("matern32"), ["gaussian", "matern32"]], ids=str)
def test_warm_start_with_the_same_family_goes_on(learner, kernel):
    X, y = table()
    y = y if learner is KernelRidgeGD else targets(learner, y)
    model = any_learner(learner, "matern32", warm_start=True).fit(X, y)
    learned = model.kernel_
    model.set_params(kernel=kernel, tol=1e9).fit(X, y)
    assert set(model.families_) == {family_name(learned)}
    np.testing.assert_allclose(model.kernel_.scale, learned.scale, rtol=1e-12)


@each_learner
def test_without_warm_start_a_second_fit_is_the_first(learner):
    X, y = table()
    y = targets(learner, y)
    model = small(learner).fit(X, y)
    before = output(model, X)
    np.testing.assert_array_equal(output(model.fit(X, y), X), before)


def test_warm_start_keeps_the_kernel_of_the_data_in_other_rows():
    """The kernel of the data stays, though the rows are standardised by other means and spreads."""
    X, y = table()
    model = fixed(KernelRegressor, warm_start=True).fit(X, y)
    model.fit(5 * X[:30] + 1, y[:30])
    np.testing.assert_allclose(model.kernel_.scale, np.full(3, 0.7), rtol=1e-12)


@each_learner
def test_warm_start_on_other_columns(learner):
    X, y = table()
    y = targets(learner, y)
    model = small(learner, warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match=r"a kernel of 3 columns, and X has 2: fit a clone of the model, or set warm_start"):
        model.fit(X[:, :2], y)


# -- the progress line ---------------------------------------------------------------------------------------------------


@each_learner
def test_nothing_is_written_unless_asked_for(learner, capsys):
    X, y = table()
    fixed(learner).fit(X, targets(learner, y))
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


@each_learner
def test_a_line_for_each_level(learner, capsys):
    X, y = table()
    records = []
    model = fixed(learner, verbose=1, callback=records.append).fit(X, targets(learner, y))
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert "level 1 of 1 (32 features, 60 rows)" in line
    assert f"Gaussian: held-out error {model.history_[-1]['criterion']:.4g}" in line
    assert records == model.history_


def test_verbose_changes_no_result(capsys):
    X, y = table()
    np.testing.assert_array_equal(regressor(verbose=1).fit(X, y).predict(X), regressor().fit(X, y).predict(X))
    assert capsys.readouterr().err.endswith("\n")


@each_learner
def test_the_line_ends_when_a_fit_does_not(learner, capsys):
    X, y = table()
    with pytest.warns(ConvergenceWarning):
        small(learner, verbose=1, callback=CtrlC(2)).fit(X, targets(learner, y))
    assert capsys.readouterr().err.endswith("\n")


def test_an_exact_fit_has_rows_only(capsys):
    X, y = table()
    KernelRidgeGD(Gaussian(scale=0.7), tol=1e9, verbose=1).fit(X, y)
    (line,) = capsys.readouterr().err.splitlines()
    assert "level 1 of 1 (60 rows)  Gaussian: held-out error" in line


class Terminal(io.StringIO):
    def isatty(self):
        return True


def record(level, criterion):
    return {"level": level, "n_features": 8, "n_rows": 5, "kernel": "K", "criterion": criterion, "seconds": 0.25}


def test_a_terminal_has_one_line_that_is_rewritten():
    stream = Terminal()
    line = DescentLine((Level(8, 5, 1),) * 4, stream=stream)
    for level in (1, 2, 4):
        line(record(level, 0.5))
    line.close()
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.endswith("\n")
    shown = [part.rstrip("\n").removesuffix("\x1b[K") for part in text.split("\r")[1:]]
    assert [part.count("#") for part in shown] == [WIDTH // 4, WIDTH // 2, WIDTH]
    assert all(len(part.split("]")[0]) == WIDTH + 1 for part in shown)


def test_a_file_has_a_line_for_each_level():
    stream, seen = io.StringIO(), []
    line = DescentLine((Level(8, 5, 1),) * 2, then=seen.append, stream=stream)
    for level, criterion in ((1, 0.5), (1, 0.25), (2, 0.125)):
        line(record(level, criterion))
    line.close()
    first, last = stream.getvalue().splitlines()
    assert first.endswith("level 1 of 2 (8 features, 5 rows)  K: held-out error 0.25")
    assert last.endswith("level 2 of 2 (8 features, 5 rows)  K: held-out error 0.125")
    assert len(seen) == 3


def test_a_line_without_records_is_empty():
    for stream in (io.StringIO(), Terminal()):
        DescentLine((Level(8, 5, 1),), stream=stream).close()
        assert stream.getvalue() == ""


# -- how much is left ----------------------------------------------------------------------------------------------------


ONE_SCALE = SharedScales(np.zeros(1, dtype=int))


class Told(Follower):
    """What a bar would show after each record."""

    def __init__(self):
        self.works, self.shares, self.left, self.steps = [], [], [], []

    def begins(self, work):
        self.works.append(work)

    def enters(self, step, n_steps, what):
        self.steps.append((step, n_steps, what))

    def __call__(self, record):
        if self.steps:
            return
        self.works[-1].add(record)
        self.shares.append(self.works[-1].share)
        self.left.append(self.works[-1].seconds_left)


def test_the_share_that_is_behind_only_grows():
    """The schedule of two families has several levels."""
    told = Told()
    X, y = table()
    KernelRegressor(["gaussian", "laplacian"], n_features=64, random_state=0, callback=told).fit(X, y)
    assert len(told.works) == 1
    assert len(told.shares) > 5
    assert told.shares == sorted(told.shares)
    assert 0 < told.shares[0] < 0.5 < told.shares[-1] <= 1
    assert all(left is None if share < TOO_EARLY else left >= 0 for left, share in zip(told.left, told.shares, strict=True))


def test_steps_are_told_where_a_fit_is_more_than_one_descent():
    told = Told()
    X, y = table(n=120)
    KernelRegressor("gaussian", n_centres=20, random_state=0, callback=told).fit(X, y)
    numbers, totals, texts = zip(*told.steps, strict=True)
    assert numbers == tuple(range(1, totals[0] + 1))  # three parts set aside in turn, all rows, and the last fit
    assert set(totals) == {3 * 3 + 2 + 1}
    assert [text.split(" on ")[0] for text in texts[:2]] == ["scales", "metrics"]
    assert "unseen rows" in texts[2]
    assert texts[-1] == "the best, on centres, of all rows"


def test_a_line_of_steps():
    stream, told = io.StringIO(), Told()
    line = StepLine(told, stream)
    line.enters(1, 3, "scales on 80 rows")
    assert stream.getvalue().endswith("step 1 of 3: scales on 80 rows\n")
    line(record(1, 0.5))
    line.enters(2, 3, "metrics on 80 rows, 20 centres")
    line.enters(3, 3, "the best 4 on 20 unseen rows")
    line.close()
    assert told.steps == [
        (1, 3, "scales on 80 rows"),
        (2, 3, "metrics on 80 rows, 20 centres"),
        (3, 3, "the best 4 on 20 unseen rows"),
    ]
    shown = stream.getvalue().splitlines()
    assert [part.count("#") for part in shown] == [0, 0, WIDTH // 3, 2 * WIDTH // 3]  # of what is behind
    assert shown[1].endswith("step 1 of 3: scales on 80 rows  K: held-out error 0.5")
    assert shown[2].endswith("step 2 of 3: metrics on 80 rows, 20 centres")
    assert shown[3].endswith("step 3 of 3: the best 4 on 20 unseen rows")


def test_the_line_of_a_descent_goes_on_from_the_steps_before_it():
    stream = io.StringIO()
    levels = (Level(4, 10, 5), Level(8, 20, 5))
    line = DescentLine(levels, stream=stream, n_before=3, began=time.monotonic() - 100)
    line({**record(1, 0.5), "n_rows": 10})
    line({**record(2, 0.4), "n_rows": 20})
    line.close()
    shown = stream.getvalue().splitlines()
    assert [part.count("#") for part in shown] == [int(WIDTH * 3.5 / 4), WIDTH]
    assert all("] 100." in part or "]  100." in part for part in shown)
    assert "step 4 of 4, level 1 of 2" in shown[0]


def test_a_fit_of_scales_after_a_choice_has_one_bar(capsys, monkeypatch):
    search = Contest.winner
    monkeypatch.setattr(Contest, "winner", lambda self: (search(self), (self.scales_alone(), "fourier"))[1])
    X, y = table(n=120)
    KernelRegressor("gaussian", verbose=1, random_state=0).fit(X, y)
    told = [part for part in capsys.readouterr().err.splitlines() if part.startswith("[")]
    assert any("step 12 of 12, level 1 of" in part for part in told)
    shares = [part.count("#") for part in told]
    assert shares == sorted(shares)
    seconds = [float(part.split("]")[1].split(" s ")[0]) for part in told]
    assert seconds == sorted(seconds)


def test_steps_are_counted_by_the_rows_that_are_learned_from(monkeypatch):
    """120 rows are many here, and the 96 of them that are not set aside are few: they have one stage."""
    monkeypatch.setattr("bochner.metric_learning.sizes.FEW_ROWS", 100)
    told = Told()
    X, y = table(n=120)
    KernelRegressor("gaussian", n_centres=20, random_state=0, callback=told).fit(X, y)
    numbers, totals, _ = zip(*told.steps, strict=True)
    assert numbers == (1, 2, 3, 4)
    assert set(totals) == {4}


def test_a_line_of_steps_on_a_terminal_ends_full():
    stream = Terminal()
    line = StepLine(stream=stream)
    line.enters(1, 2, "scales on 80 rows")
    line.close()
    first, last = stream.getvalue().split("\r")[1:]
    assert first.count("#") == 0
    assert last.count("#") == WIDTH
    assert last.endswith("\n")


def test_work_is_counted_by_evaluations_times_their_cost():
    plan = Plan(families=(Gaussian(),), levels=(Level(2, 10, 1), Level(4, 20, 3)), ties=ONE_SCALE, n_starts=2)
    first, second = 10 * 2**2 + 2**3, 20 * 4**2 + 4**3
    total = 2 * 2 * first + 4 * second
    work = Work(plan)
    assert (work.share, work.seconds_left) == (0.0, None)
    work.add({"level": 1, "seconds": 1.0})
    assert work.share == pytest.approx(first / total)
    assert work.seconds_left == pytest.approx((total - first) / first)
    work.add({"level": 2, "seconds": 2.0})  # the first level has ended early
    assert work.share == pytest.approx((4 * first + second) / total)
    shares = [(work.add({"level": 2, "seconds": 3.0}), work.share)[1] for _ in range(6)]
    assert shares[2:] == [1.0] * 4  # more than was thought
    work = Work(plan)
    for level in (1, 2):
        work.add({"level": level, "seconds": float(level)})
    assert work.seconds_left == pytest.approx(2.0 * 3 * second / (first + second))
    assert [left_in_words(s) for s in (None, 0.3, 12.3, 150)] == ["", "", ", about 12 s left", ", about 2 min left"]


def test_a_terminal_is_told_how_much_time_is_left():
    plan = Plan(families=(Gaussian(),), levels=(Level(8, 5, 3),), ties=ONE_SCALE, n_starts=1)
    stream = Terminal()
    line = DescentLine(plan.levels, stream=stream, work=Work(plan))
    line({**record(1, 0.5), "seconds": 4.0})
    line.close()
    assert "held-out error 0.5, about 12 s left" in stream.getvalue()
    paths = PathLine(4, stream=(stream := Terminal()))
    paths({"done": 1.0, "error": 0.5, "seconds": 2.0})
    assert "path 2 of 4: held-out error 0.5 so far, about 6 s left" in stream.getvalue()


# -- passes over rows in blocks --------------------------------------------------------------------------------------------


def pass_record(number, done, seconds):
    return {"pass": number, "done": done, "n_rows": 4_000_000, "seconds": seconds}


def test_the_line_of_a_pass():
    stream = io.StringIO()
    line = PassLine(stream)
    for number in (1, 2):
        for done in (1_000_000, 2_000_000, 4_000_000):
            line(pass_record(number, done, done / 1e6))
    line.close()
    assert stream.getvalue().splitlines() == [
        f"[{'#' * WIDTH}]    4.0 s  pass {number}: 4,000,000 of 4,000,000 rows, 1,000,000 rows/s, 0 s left"
        for number in (1, 2)
    ]


def test_long_passes_print_a_line_now_and_then(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    line = PassLine(stream)
    for minute, done in enumerate((1_000_000, 2_000_000, 3_000_000, 4_000_000)):
        now[0] = 20.0 * minute  # half a minute has gone by at the third of them
        line(pass_record(1, done, now[0]))
        assert len(stream.getvalue().splitlines()) == (0, 0, 1, 2)[minute]
    line.close()
    told = [text.split("pass 1: ")[1].split(" of")[0] for text in stream.getvalue().splitlines()]
    assert told == ["3,000,000", "4,000,000"]


def test_the_line_of_a_pass_on_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    line = PassLine(stream)
    line(pass_record(2, 1_000_000, 0.5))
    line.close()
    half = "#" * (WIDTH // 4) + "." * (WIDTH - WIDTH // 4)
    assert (
        stream.getvalue() == f"\r[{half}]    0.5 s  pass 2: 1,000,000 of 4,000,000 rows, 2,000,000 rows/s, 2 s left\x1b[K\n"
    )


def test_a_pass_that_takes_no_time():
    stream = io.StringIO()
    line = PassLine(stream)
    line(pass_record(1, 10, 0.0))
    line.close()
    assert "10 of 4,000,000 rows" in stream.getvalue()


@pytest.mark.parametrize(("seconds", "then"), [(0.1, [100]), (4.0, [18, 26, 34, 42, 50, 58, 66, 74, 82, 90, 98, 100])])
def test_many_passes_print_a_line_now_and_then(seconds, then, monkeypatch):
    """As with schedule="full": each of the first ten, then one every half minute, and the last."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    line = PassLine(stream)
    for number in range(1, 101):
        now[0] += seconds
        line(pass_record(number, 4_000_000, seconds))
    line.close()
    told = [int(text.split("pass ")[1].split(":")[0]) for text in stream.getvalue().splitlines()]
    assert told == [*range(1, 11), *then]


def test_the_line_of_counting():
    stream = io.StringIO()
    line = CountLine(stream)
    for share in (0.25, 0.5):
        line({"done": int(4e6 * share), "share": share, "seconds": 8 * share})
    line.close()
    half = "#" * (WIDTH // 2) + "." * (WIDTH - WIDTH // 2)
    assert stream.getvalue() == f"[{half}]    4.0 s  counting: 2,000,000 rows, 500,000 rows/s, 4 s left\n"
    stream = io.StringIO()
    line = CountLine(stream)
    line({"done": 10, "share": None, "seconds": 2.0})
    line.close()
    assert stream.getvalue() == f"[{'.' * WIDTH}]    2.0 s  counting: 10 rows, 5 rows/s\n"
