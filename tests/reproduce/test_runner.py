"""Runs that would take too long are left out, and say so; all others are made once."""

from dataclasses import replace

import pytest

from bochner.reproduce import runner
from bochner.reproduce.learners import Measured, expected_seconds
from bochner.reproduce.options import GMKL, KRR_GD, RFF_SKL, ExactMultiple, ExactSingleKernel, SingleKernel
from bochner.reproduce.rows import Results, Run, Setting
from bochner.reproduce.runner import Runner, told

SETTING = Setting(data="some", data_key="key", size="smoke", seed=0)
GMKL_SECONDS = {"kernels": 1.0, "classes": [10.0, 20.0], "total": 31.0}


def row(learner, n, options, seconds, **more):
    run = Run(learner=learner, n=n, options=options)
    return {"run": SETTING.configuration(run), "seconds": seconds, **(more or {"result": {}})}


def test_seconds_are_expected_from_the_largest_smaller_run():
    options = ExactSingleKernel()
    rows = [row(KRR_GD, n, options, {"total": float(n)}) for n in (10, 30, 20, 100)]
    assert expected_seconds(Run(learner=KRR_GD, n=60, options=options), rows) == pytest.approx(30 * 2**3)
    assert expected_seconds(Run(learner=KRR_GD, n=10, options=options), rows) is None
    assert expected_seconds(Run(learner=KRR_GD, n=60, options=ExactSingleKernel(max_iter=3)), rows) is None
    assert expected_seconds(Run(learner=KRR_GD, n=60, options=replace(options, limit=1.0)), rows) is not None
    skipped = [row(KRR_GD, 10, options, {"expected": 1.0}, skipped="too long")]
    assert expected_seconds(Run(learner=KRR_GD, n=60, options=options), skipped) is None
    assert expected_seconds(Run(learner=RFF_SKL, n=60, options=SingleKernel()), rows) is None


def test_one_class_is_expected_from_all_but_not_the_other_way():
    every, one = ExactMultiple(), ExactMultiple(one_class=True)
    rows = [row(GMKL, 10, every, GMKL_SECONDS)]
    assert expected_seconds(Run(learner=GMKL, n=40, options=every), rows) == pytest.approx(31 * 4**2.5)
    assert expected_seconds(Run(learner=GMKL, n=40, options=one), rows) == pytest.approx((1 + 15) * 4**2.5)
    rows = [row(GMKL, 10, one, {"kernels": 1.0, "classes": [10.0], "total": 11.0})]
    assert expected_seconds(Run(learner=GMKL, n=40, options=every), rows) is None


@pytest.fixture
def results(tmp_path):
    found = Results(tmp_path)
    yield found
    found.close()


def test_runs_that_would_take_too_long_are_left_out(results, monkeypatch):
    made = []
    learn = {KRR_GD: lambda bench: made.append(bench.run.n) or Measured({"accuracy": 0.5}, {"total": float(bench.run.n)})}
    monkeypatch.setattr(runner, "LEARNERS", learn)
    runs = [Run(learner=KRR_GD, n=n, options=ExactSingleKernel(limit=100.0)) for n in (10, 20, 40, 20)]
    rows = Runner(None, SETTING, results).all(runs, quiet=True)
    assert made == [10, 20]
    assert [told(one) for one in rows] == [
        "KRR-GD, 10 rows: 10.0 s, accuracy 0.500",
        "KRR-GD, 20 rows: 20.0 s, accuracy 0.500",
        "KRR-GD, 40 rows: left out, expected to take longer than 100 s",
    ]
    # those of another seed are others, and seconds of these say nothing about them
    other = Runner(None, replace(SETTING, seed=1), results)
    assert "result" in other.row(runs[2])
    assert made == [10, 20, 40]
    assert [SETTING.covers(one) for one in results.rows] == [True, True, True, False]
