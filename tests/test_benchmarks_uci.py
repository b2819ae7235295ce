"""The parts of benchmarks/uci.py that need no data: files of results, the plan of a run, the grid, tables and figure."""

import argparse
import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import efforts
import spectra
import uci
import uci_data
import uci_methods
import uci_report

from tests.cases import ABOUT

MANIFESTS = {"here": ABOUT, "there": ABOUT | {"cpu": "b"}}


def row(name, split, method, score, **others):
    """A row of a regression, or of a classification where others say so."""
    row = {"task": "regression", "set": name, "split": split, "method": method, "n": 90, "n_test": 10, "m": 3, "d": 4000}
    row |= {"rmse": score, "seconds": 2.0, "settings": {}, "date": "2030-01-01T00:00:00+00:00", "manifest": "here"}
    return row | others


def data_set(name, n=1000, task="regression"):
    return uci_data.DataSet(task, name, n, 3, Path("."))


def method(name, fit=None, **others):
    return uci_methods.Method(**({"name": name, "task": "regression", "fit": fit, "cost": lambda data: data.n} | others))


class Mean:
    """A model that predicts zero."""

    def predict(self, X):
        return np.zeros(len(X))


def test_merge_keeps_the_later_row_of_each_key():
    old = [row("a", 0, "grid", 1.0), row("b", 0, "grid", 2.0, date="2030-01-03")]
    new = [
        row("a", 0, "grid", 3.0, date="2030-01-02"),
        row("b", 0, "grid", 4.0, date="2030-01-02"),
        row("a", 1, "grid", 5.0),
    ]
    assert [r["rmse"] for r in uci.merge(old, new)] == [3.0, 5.0, 2.0]
    assert uci.merge(new, old) == uci.merge(old, new)


def test_store_keeps_each_row_with_its_manifest_and_drops_manifests_of_no_row(tmp_path):
    store = uci.Store(tmp_path / "new" / "uci.json")
    assert store.read() == ([], {})
    store.add([row("a", 0, "grid", 1.0), row("b", 0, "grid", 1.0)], MANIFESTS)
    store.add([row("b", 0, "grid", 2.0, manifest="there")], {"there": MANIFESTS["there"]})
    rows, manifests = store.read()
    assert [(r["set"], r["manifest"]) for r in rows] == [("a", "here"), ("b", "there")]
    assert manifests == MANIFESTS
    store.add([row("a", 0, "grid", 1.0, manifest="there")], MANIFESTS)
    assert list(store.read()[1]) == ["there"]


def test_plan_is_cheapest_first_and_leaves_out_what_a_method_does_not_take():
    small = method("small", takes=lambda data: data.n < 50)
    jobs = uci.plan([data_set("b", 100), data_set("a", 10)], [method("any"), small, method("once", one_split=True)], [0, 1])
    assert [job.key[1:] for job in jobs] == [
        *[("a", 0, "any"), ("a", 0, "once"), ("a", 0, "small"), ("a", 1, "any"), ("a", 1, "small")],
        *[("b", 0, "any"), ("b", 0, "once"), ("b", 1, "any")],
    ]
    assert uci.plan([data_set("mnist", task="classification")], [method("any", task="classification")], [0, 1])[0].split == 0


@pytest.fixture
def no_data(monkeypatch):
    """Every set is the same few rows."""
    split = uci_data.Split(np.ones((8, 2)), np.ones((2, 2)), np.ones(8), np.array([3.0, -3.0]))
    monkeypatch.setattr(uci_data.DataSet, "load", lambda data, k: split)


def test_a_rerun_skips_rows_that_exist_and_a_failure_is_a_row(tmp_path, capsys, no_data):
    fits = []

    def fit(X, y, run):
        fits.append(run.seed)
        if run.seed == 1:
            raise MemoryError("too large")
        return Mean(), {"seed": run.seed}

    store = uci.Store(tmp_path / "uci.json")
    todo = uci.plan([data_set("a")], [method("any", fit)], [0, 1])
    options = argparse.Namespace(fresh=False, budget=None, jobs=1, commit=None, part=(0, 1))
    uci.run(todo[:1], store, options)
    uci.run(todo, store, options)
    assert fits == [0, 1]
    rows, manifests = store.read()
    assert [r.get("rmse") for r in rows] == [3.0, None]
    assert rows[1]["error"] == "MemoryError: too large"
    assert {r["manifest"] for r in rows} == set(manifests)
    assert "a split 1 any: failed: MemoryError" in capsys.readouterr().out
    options.fresh = True
    uci.run(todo, store, options)
    assert fits == [0, 1, 0, 1]
    options.budget = -1.0
    uci.run(todo, store, options)
    assert fits == [0, 1, 0, 1]
    assert "2 fits to do; run again" in capsys.readouterr().out


def test_class_scores_are_error_rate_and_log_loss():
    class Halves(Mean):
        def predict_proba(self, X):
            return np.full((len(X), 2), 0.5)

    split = uci_data.Split(np.ones((2, 1)), np.ones((4, 1)), np.arange(2), np.array([0, 0, 0, 1]))
    assert uci.scores(Halves(), split, "classification") == pytest.approx({"error_rate": 0.25, "log_loss": np.log(2)})
    assert list(uci.scores(Mean(), split, "classification")) == ["error_rate"]


@pytest.mark.parametrize("n_components", [10, 200])
def test_grid_chooses_and_predicts_as_a_plain_search_does(rng, n_components):
    X = rng.standard_normal((60, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(60)
    model, settings = uci_methods.fit_grid(X, y, uci_methods.Run(seed=5), n_components=n_components)
    steps = [("f", RBFSampler(n_components=n_components, random_state=5)), ("r", Ridge(solver="cholesky"))]
    search = GridSearchCV(
        Pipeline(steps),
        {"f__gamma": uci_methods.gammas(X), "r__alpha": uci_methods.ALPHAS},
        scoring="neg_mean_squared_error",
        cv=KFold(uci_methods.FOLDS, shuffle=True, random_state=5),
    ).fit(X, y)
    assert (settings["gamma"], settings["alpha"]) == (search.best_params_["f__gamma"], search.best_params_["r__alpha"])
    np.testing.assert_allclose(settings["validation_error"], -search.best_score_, rtol=1e-6)
    np.testing.assert_allclose(model.predict(X), search.predict(X), rtol=1e-6)


def test_the_folder_of_data_is_the_one_named_then_that_of_the_environment_then_the_one_beside(tmp_path, monkeypatch):
    monkeypatch.setattr(uci_data, "BESIDE", tmp_path)
    monkeypatch.setenv(uci_data.VARIABLE, "variable")
    assert uci_data.data_folder(Path("named")) == Path("named")
    assert uci_data.data_folder() == Path("variable")
    monkeypatch.delenv(uci_data.VARIABLE)
    assert uci_data.data_folder() == tmp_path
    monkeypatch.setattr(uci_data, "BESIDE", tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match=r"--data DIR.*BOCHNER_DATA(.|\n)*uci/NAME\.data\.csv\.gz"):
        uci_data.data_folder()


def test_absent_data_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no data sets in .*--data DIR"):
        uci_data.find_sets(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no file .*some\.data\.csv\.gz.*--data DIR"):
        uci_data.regression_split(tmp_path, "some", 0)


def test_a_split_holds_the_rows_that_its_mask_says(tmp_path):
    (tmp_path / "uci").mkdir()
    for part, text in (("data", "1,10\n3,30\n5,50\n"), ("test_mask", "0,1\n0,0\n1,0\n")):
        with gzip.open(tmp_path / "uci" / f"some.{part}.csv.gz", "wt", encoding="utf-8") as file:
            file.write(text)
    split = uci_data.regression_split(tmp_path, "some", 0)
    np.testing.assert_allclose(split.X, [[-1], [1]])
    np.testing.assert_allclose(split.y, [-1, 1])
    np.testing.assert_allclose(split.X_test, [[3]])
    np.testing.assert_allclose(split.y_test, [3])
    with pytest.raises(ValueError, match="splits 0 to 1, not 2"):
        uci_data.regression_split(tmp_path, "some", 2)


def test_constant_columns_become_zero():
    train, test = uci_data.standardise(np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([[2.0, 6.0]]))
    np.testing.assert_allclose(train, [[-1, 0], [1, 0]])
    np.testing.assert_allclose(test, [[0, 1]])


@pytest.fixture
def rows():
    """Two regressions, on one of which ours loses to a peer that has one split and another machine; a failure; classes."""
    classes = {"task": "classification", "log_loss": 0.25, "error_rate": 0.05}
    return [
        *[row("bike", k, "bochner", score, seconds=4.0) for k, score in enumerate((0.02, 0.04))],
        *[row("bike", k, "grid", 0.06) for k in range(2)],
        row("bike", 0, "xrfm", 0.01, manifest="there"),
        row("wine", 0, "bochner", 0.5, n=40),
        row("wine", 0, "grid", 0.4, n=40),
        row("wine", 0, "gp gaussian", None, error="MemoryError: too large"),
        row("magic", 0, "bochner", None, **classes),
        row("magic", 0, "svc", None, **classes | {"error_rate": 0.04}),
    ]


def test_methods_are_compared_on_shared_splits_and_times_on_one_machine(rows):
    scores = uci_report.Scores(rows, MANIFESTS, "regression")
    assert scores.sets == ["wine", "bike"]
    assert scores.ratio("bike", "bochner", "grid", "rmse") == pytest.approx(0.5)
    assert scores.ratio("bike", "bochner", "xrfm", "rmse") == pytest.approx(2.0)
    assert scores.ratio("bike", "bochner", "grid", "seconds") == pytest.approx(2.0)
    assert scores.ratio("bike", "bochner", "xrfm", "seconds") is None
    assert scores.ratio("wine", "bochner", "gp gaussian", "rmse") is None
    assert scores.best("bike", "rmse") == "xrfm"


def test_tables_come_from_rows_alone(rows, tmp_path):
    pytest.importorskip("matplotlib")
    document, figure = tmp_path / "page.md", tmp_path / "figures" / "uci.png"
    document.write_text("before\n<!-- uci-table -->\nwhat was there\n<!-- /uci-table -->\nafter\n", encoding="utf-8")
    uci_report.write_report(json.loads(json.dumps(rows)), MANIFESTS, document, figure)
    text = document.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "what was there" not in text
    assert "**0.0100** (1)" in text
    assert "Better than the grid on 1 of 2 sets" in text
    assert "worst 1.250 (wine). Goals: better on 80 %, missed; never above 1.02, missed." in text
    assert "- rmse, xrfm: 1 of 1 sets lost: bike (2.00)." in text
    assert "Failed: gp gaussian on wine, split 0 (MemoryError: too large)." in text
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["bochner", "bike", "0.001", "0.0200", "not reached"] in lines
    assert ["bochner fast", "bike", "0.025", "", "not measured"] in lines
    assert ["grid", "3.00", "0.79", "1", "0", "1"] in lines  # third of three on bike; ours has 0.5 and 1.25 times its error
    assert "error rate, svc: 1 of 1 sets lost: magic (1.25)." in text
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_small_sets_are_split_ten_times():
    jobs = uci.plan([data_set("small", 1999), data_set("large", 2000)], [method("any"), method("once", one_split=True)])
    splits = {
        key: sorted(job.split for job in jobs if (job.data.name, job.method.name) == key)
        for key in (("small", "any"), ("large", "any"), ("small", "once"))
    }
    assert splits == {("small", "any"): list(range(10)), ("large", "any"): [0, 1, 2], ("small", "once"): [0]}


def test_the_table_of_efforts_has_means_over_splits_and_no_failures():
    rows = [
        *[row("bike", k, "default", score, core_seconds=4.0 + k) for k, score in enumerate((0.02, 0.04))],
        row("bike", 0, "fast", 0.06, core_seconds=1.0),
        row("bike", 0, "xrfm", None, error="MemoryError: too large"),
        row("magic", 0, "fast", None, task="classification", error_rate=0.05, core_seconds=2.0),
    ]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in efforts.table(rows, {}).splitlines()]
    assert ["2", "0.0600", "0.0300", "", "", "1.0", "4.5", "", ""] in [line[2:] for line in lines]
    assert ["0", "0.0500", "", "", "", "2.0", "", "", ""] in [line[2:] for line in lines]


def test_efforts_leave_the_search_of_all_rows_to_gpus():
    large, small = data_set("large", efforts.BEST_ROWS + 1), data_set("small", efforts.BEST_ROWS)
    assert {job.method.name for job in uci.plan([large], efforts.methods(), [0])} - {"xrfm"} == {"fast", "default"}
    assert {job.method.name for job in uci.plan([small], efforts.methods(), [0])} - {"xrfm"} == set(efforts.EFFORTS)


def test_the_table_of_spectra_compares_splits_that_all_have():
    rows = [
        *[row("bike", k, "prior", score) for k, score in enumerate((0.1, 0.3, 0.9))],
        *[row("bike", k, "mixture", score) for k, score in enumerate((0.1, 0.1))],
        *[row("bike", k, "free", score) for k, score in enumerate((0.2, 0.3))],
        row("wine", 0, "prior", 0.5, n=40),
    ]
    text = spectra.table(rows, {})
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["2", "0.2000", "0.500", "1.250"] in [line[2:] for line in lines]
    assert (
        "- mixture: better on 1 of 1 sets, 0.500 of the error as drawn at worst (bike), goal at most 1.01: reached." in text
    )
    assert "- free: better on 0 of 1 sets, 1.250 of the error as drawn at worst (bike), goal at most 1.01: missed." in text
