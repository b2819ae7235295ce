"""The parts of benchmarks/mkl.py that need no data and no peers: splits with noise, the plan of a run, rows, verdicts."""

import argparse
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import mkl
import mkl_data
import mkl_methods
import mkl_process
import mkl_report
from peers import Unavailable

from tests.cases import ABOUT


def problem(n=60, factors=(1.0,)):
    """Two classes, told apart by the first of two views."""
    rng = np.random.default_rng(0)
    y = np.arange(2 * n) % 2
    views = [rng.standard_normal((2 * n, 3)) + 3 * y[:, None], rng.standard_normal((2 * n, 5))]
    tables, tables_test = [view[:n] for view in views], [view[n:] for view in views]
    return mkl_data.Problem(
        name="a", split=0, tables=tables, tables_test=tables_test, y=y[:n], y_test=y[n:], factors=factors
    )


def view_set(name="a", n=60):
    return mkl_data.ViewSet(name=name, n=n, kernels=2, classes=2, path=Path("."), load=lambda path, split: problem())


def method(name, fit=None, cost=1.0, **others):
    return mkl_methods.Method(name=name, fit=fit, cost=lambda data: cost * data.n, **others)


def row(method, accuracy, name="Mfeat", split=0, task=mkl_report.CLEAN, **settings):
    found = {"task": task, "set": name, "split": split, "method": method, "accuracy": accuracy, "seconds": 1.0}
    return found | {"n": 70, "n_test": 30, "columns": [3, 5], "classes": 2, "settings": settings, "manifest": "here"}


def test_noise_views_are_last_and_as_wide_as_the_median_view():
    noisy = problem().with_noise()
    assert [table.shape for table in noisy.tables] == [(60, 3), (60, 5), (60, 4), (60, 4), (60, 4)]
    assert noisy.noise == 3
    np.testing.assert_array_equal(noisy.tables[4], problem().with_noise().tables[4])


def test_kernel_matrices_follow_tables_and_multiples_of_the_scale():
    several = problem(factors=(0.5, 2.0))
    grams = several.grams()
    assert several.views == [0, 0, 1, 1]
    assert grams.shape == (4, 60, 60)
    assert several.grams_test().shape == (4, 60, 60)
    np.testing.assert_allclose(grams[0] ** 16, grams[1], atol=1e-12)


def test_plan_runs_cheap_fits_first_and_spares_mnist_the_noise():
    jobs = mkl.plan([view_set(), view_set(mkl_data.MNIST)], [method("x", cost=9, noise=True), method("y")], [0])
    keys = [job.key for job in jobs]
    assert keys[0][3] == "y"
    assert len(keys) == 5
    assert ("noise", mkl_data.MNIST, 0, "x") not in keys
    assert ("noise", "a", 0, "x") in keys


@pytest.mark.parametrize("name", ["average", "best single", "stacked", "bochner", "gmkl"])
def test_methods_tell_classes_apart(name, monkeypatch):
    monkeypatch.setattr(mkl_data, "default_features", lambda *_: 40)
    found = next(each for each in mkl_methods.METHODS if each.name == name)
    fitted = found.fit(problem().with_noise(), mkl_process.Environment())
    assert np.mean(fitted.predicted == problem().y_test) > 0.9
    assert fitted.seconds > 0


def test_run_writes_rows_keeps_errors_and_leaves_out_peers_that_cannot_be_had(tmp_path, capsys):
    def fail(problem, environment):
        raise ValueError("too few rows")

    def absent(problem, environment):
        raise Unavailable("not installed")

    def fit(problem, environment):
        return mkl_methods.Fitted(problem.y_test, 1.0, {})

    store = mkl.Store(tmp_path / "mkl.json")
    options = argparse.Namespace(fresh=False, budget=None, python=None, limit=1.0, commit=None)
    todo = mkl.plan([view_set()], [method("good", fit), method("bad", fail), method("gone", absent)], [0, 1])
    mkl.run(todo, store, options)
    rows = store.read()[0]
    assert [(r["method"], r["split"]) for r in rows] == [("bad", 0), ("good", 0), ("bad", 1), ("good", 1)]
    assert rows[0]["error"] == "ValueError: too few rows"
    assert rows[1]["accuracy"] == 1.0
    assert capsys.readouterr().out.count("gone is left out: not installed") == 1


def test_an_empty_folder_of_data_is_refused_in_words(tmp_path):
    with pytest.raises(FileNotFoundError, match="--data DIR"):
        mkl_data.find_sets(tmp_path)


def test_verdicts_say_what_is_reached_and_what_is_missed(tmp_path):
    rows = [row("bochner", 0.90 + 0.01 * s, split=s) for s in (0, 1)]
    rows += [row("average", 0.95 + 0.01 * s, split=s) for s in (0, 1)]
    rows += [row("bochner", 0.88 + 0.01 * s, split=s, task=mkl_report.NOISY, noise_out=s == 0) for s in (0, 1)]
    rows += [row("average", 0.80, split=s, task=mkl_report.NOISY) for s in (0, 1)]
    document, figure = tmp_path / "doc.md", tmp_path / "mkl.png"
    document.write_text("<!-- mkl-table -->\n<!-- /mkl-table -->\n", encoding="utf-8")
    mkl_report.write_report(rows, {"here": ABOUT}, document, figure)
    text = document.read_text(encoding="utf-8")
    assert "**95.50 ± 0.50**" in text
    assert figure.exists()
    assert "missed, Mfeat by 5.00 ± 0.00 from split to split (to average, its standard error 0.50)" in text
    assert "missed, Mfeat loses 2.21 %" in text
    assert "missed, 4 short; above on 1 of 1 (Mfeat +8.50)" in text
    assert "missed, 1 of 2 (50 %); some are kept in Mfeat" in text
    assert "Not measured" not in text


def test_gaps_are_told():
    rows = [row("bochner", 0.9, name="MSRC_v1"), row("bochner", 0.9), row("gmkl", 0.9), row("bochner", 0.9, name="MNIST")]
    assert mkl_report.not_measured(mkl_report.Scores(rows, mkl_report.CLEAN)) == "Not measured: gmkl on MSRC_v1, MNIST."
