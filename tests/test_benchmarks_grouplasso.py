"""The parts of benchmarks/grouplasso.py that need neither data nor peers: objective and bound, verdicts, files, tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("resource", reason="benchmarks/grouplasso.py measures memory by POSIX means")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import grouplasso
import grouplasso_growth
import grouplasso_problem
import grouplasso_races
import grouplasso_solvers

from tests.cases import ABOUT

GROUPS = np.array([0, 0, 1, 1, 1, 2])


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((40, len(GROUPS))) + 0.3
    targets = np.where(features[:, [0, 2]] + rng.standard_normal((40, 2)) > 0, 1.0, -1.0)
    return grouplasso_problem.Problem.of(features, targets, GROUPS)


def minimise(problem, column, steps=3000):
    """Proximal gradient steps on centred rows, all penalties at once: the path (L, D), (L,) of one class."""
    n, mean = len(problem.features), problem.features.mean(axis=0)
    X, y = problem.features - mean, problem.targets[:, column]
    gram, slope = 2 / n * X.T @ X, 2 / n * X.T @ (y - y.mean())
    step = 1 / np.linalg.norm(gram, 2)
    members = [np.flatnonzero(group == GROUPS) for group in range(3)]
    coef = np.zeros((len(problem.alphas), len(GROUPS)))
    for _ in range(steps):
        coef += step * (slope - coef @ gram)
        for group in members:
            lengths = np.linalg.norm(coef[:, group], axis=1)
            coef[:, group] *= np.maximum(0, 1 - step * problem.alphas / np.maximum(lengths, 1e-300))[:, None]
    return coef, y.mean() - coef @ mean


def entry(**seconds):
    """The entry of a race whose solvers took so many seconds."""
    runs = [
        {
            "solver": solver,
            "tol": 1e-6,
            "threads": 2,
            "classes": 1,
            "median_s": s,
            "excess": 1e-7,
            "gap": 1e-6,
            "version": "9",
        }
        | {"objective": [[0.5, 0.25]], "default": solver != "bochner"}
        for solver, s in seconds.items()
    ]
    about = {"rows": 5000, "kernels": 8, "per_kernel": 100, "classes": 1, "alphas": [1.0, 0.1], "skipped": {}}
    return about | {"runs": runs}


def test_objective_is_that_of_plain_loops(problem):
    rng = np.random.default_rng(1)
    coef, intercept = rng.standard_normal((20, 6)), rng.standard_normal(20)
    found, bound = problem.objective(coef, intercept, column=1)
    for i, alpha in enumerate(problem.alphas):
        errors = [y - x @ coef[i] - intercept[i] for x, y in zip(problem.features, problem.targets[:, 1], strict=True)]
        lengths = sum(np.sqrt(sum(coef[i][j] ** 2 for j in range(6) if GROUPS[j] == group)) for group in range(3))
        assert found[i] == pytest.approx(sum(error**2 for error in errors) / 40 + alpha * lengths)
    assert np.all(bound <= found)


@pytest.mark.parametrize("column", [0, 1])
def test_the_bound_meets_the_objective_at_the_minimum_and_stays_below_it_elsewhere(problem, column):
    coef, intercept = minimise(problem, column)
    least, bound = problem.objective(coef, intercept, column)
    np.testing.assert_allclose(bound, least, rtol=1e-9)
    away, lower = problem.objective(1.1 * coef + 0.01, intercept, column)
    assert np.all(away > least)
    assert np.all(lower < least)


def test_no_class_has_a_group_at_the_largest_penalty_and_one_has_below_it(problem):
    assert problem.alphas[-1] == pytest.approx(0.003 * problem.alphas[0])
    paths = [minimise(problem, column)[0] for column in range(2)]
    np.testing.assert_allclose([path[0] for path in paths], 0, atol=1e-12)
    assert max(np.abs(path[1]).max() for path in paths) > 1e-3


def test_group_sums_are_those_of_each_group():
    values = np.arange(12.0).reshape(6, 2)
    expected = [values[group == GROUPS].sum(axis=0) for group in range(3)]
    np.testing.assert_array_equal(grouplasso_problem.group_sums(values, GROUPS), expected)


def test_a_process_solves_times_and_stores_its_path(problem, tmp_path, capsys, monkeypatch):
    def zero(F, Y, sizes, alphas, tol, threads):
        assert (sizes.tolist(), tol, threads) == ([2, 3, 1], 1e-3, 1)
        return np.zeros((Y.shape[1], len(alphas), F.shape[1])), np.tile(Y.mean(axis=0)[:, None], len(alphas))

    monkeypatch.setitem(grouplasso_solvers.SOLVERS, "numpy", zero)
    grouplasso_races.store(problem, tmp_path)
    job = {"solver": "numpy", "tol": 1e-3, "threads": 1, "classes": 1, "repeats": 3, "again_s": 60.0}
    grouplasso_solvers.child(str(tmp_path), job)
    told = json.loads(capsys.readouterr().out)
    assert len(told["seconds"]) == 3
    assert told["version"] == np.__version__
    coef, intercept = np.load(tmp_path / "coef.npy"), np.load(tmp_path / "intercept.npy")
    assert coef.shape == (1, 20, 6)
    y = problem.targets[:, 0]
    assert problem.objective(coef[0], intercept[0], 0)[0] == pytest.approx(np.full(20, y.var()))


def test_a_solver_that_is_not_installed_is_named_with_what_to_install(problem, tmp_path, capsys, monkeypatch):
    def absent(*arguments):
        raise ImportError("No module named 'celer'")

    monkeypatch.setitem(grouplasso_solvers.SOLVERS, "celer", absent)
    grouplasso_races.store(problem, tmp_path)
    job = {"solver": "celer", "tol": 1e-3, "threads": 1, "classes": 1, "repeats": 1, "again_s": 1.0}
    with pytest.raises(SystemExit) as stop:
        grouplasso_solvers.child(str(tmp_path), job)
    assert stop.value.code == grouplasso_solvers.ABSENT
    answer = type("Answer", (), {"returncode": stop.value.code, "stdout": capsys.readouterr().out, "stderr": ""})
    monkeypatch.setattr(grouplasso_races.subprocess, "run", lambda *arguments, **options: answer)
    found = grouplasso_races.run_all(problem, grouplasso_races.Peers(names=("celer",)))
    assert found["runs"] == []
    assert "No module named 'celer'; to have it run:" in found["skipped"]["celer"]
    assert "pip install celer" in found["skipped"]["celer"]


def test_tolerances_fall_until_a_run_is_close_to_the_bound(problem, monkeypatch):
    least = minimise(problem, 0), minimise(problem, 1)
    asked = []

    def run_one(problem, job, peers, folder):
        asked.append((job["tol"], job["threads"]))
        pairs = [problem.objective(coef * (1 + 1e4 * job["tol"]), intercept, i) for i, (coef, intercept) in enumerate(least)]
        objective, bound = (np.array(values) for values in zip(*pairs, strict=True))
        return {**job, "median_s": float(job["threads"]), "objective": objective.tolist(), "bound": bound, "gap": 0.0}

    monkeypatch.setattr(grouplasso_races, "run_one", run_one)
    monkeypatch.setattr(grouplasso_races.os, "cpu_count", lambda: 2)
    monkeypatch.setitem(grouplasso_races.TOLERANCES, "adelie", (1e-5, 1e-11, 1e-12))
    found = grouplasso_races.run_all(problem, grouplasso_races.Peers(names=("adelie",)))
    assert asked == [(1e-5, 2), (1e-5, 1), (1e-11, 2), (1e-11, 1)]
    loose, tight = found["runs"]
    assert (loose["threads"], tight["threads"]) == (1, 1)
    assert loose["excess"] > grouplasso_races.CLOSE > tight["excess"] >= 0
    assert (loose["default"], tight["default"]) == (True, False)
    json.dumps(found)


def test_table_of_a_race_compares_times_at_close_objectives():
    results = entry(bochner=0.5, adelie=2.0)
    results["runs"][1]["excess"] = 1e-3
    results["runs"].append(results["runs"][1] | {"tol": 1e-9, "median_s": 3.0, "excess": 1e-6, "default": False})
    results["runs"].append({"solver": "celer", "tol": 1e-4, "threads": 2, "classes": 1, "default": True, "stopped_s": 300.0})
    table = grouplasso_races.race_table(results | {"skipped": {"skglm": "No module named 'skglm'"}})
    assert "1e-06 (default)" in table
    assert "- adelie: 6.00 times our time" in table
    assert "> 300" in table
    assert "- celer: no run came within 1e-05" in table
    assert "skglm was left out: No module named 'skglm'." in table


def test_time_of_some_classes_is_scaled_to_all():
    results = entry(bochner=1.0, celer=4.0) | {"classes": 10}
    results["runs"][0]["classes"], results["runs"][1]["classes"] = 10, 2
    table = grouplasso_races.race_table(results)
    assert "20 (2 classes x 5)" in table
    assert "20.00 times our time" in table


def test_parts_measured_apart_share_one_file_and_one_table(tmp_path, monkeypatch):
    curve = [{"rows": n, "median_s": 1e-4 * n, "peak_bytes": 1e4 * n} for n in (1_000, 10_000)]
    growth = {"per_kernel": 50, "curves": {"ours": curve, "gmkl": curve[:1]}, "gmkl_stopped": "10,000 rows take too long"}
    grouplasso.merge("D", growth, ABOUT, tmp_path)
    race = entry(bochner=0.5, adelie=2.0)
    grouplasso.merge("A", race, grouplasso.with_versions(ABOUT, race), tmp_path)
    document = tmp_path / "page.md"
    document.write_text("before\n<!-- grouplasso-table -->\nold\n<!-- /grouplasso-table -->\nafter\n", encoding="utf-8")
    monkeypatch.setattr(grouplasso, "DOCUMENT", document)
    monkeypatch.setattr(sys, "argv", ["grouplasso.py", "--table", "--results", str(tmp_path)])
    grouplasso.main()
    text = document.read_text(encoding="utf-8")
    assert "old" not in text
    assert text.index("**A.** 5,000 rows, 8 kernels of 100 features, one class") < text.index("**D.** Growth")
    assert "adelie 9" in text
    assert "GMKLRegressor stops there: 10,000 rows take too long." in text
    assert "| exponent, all sizes |" in text
    assert "1.00 |" in text


def test_growth_of_ours_in_a_fresh_process_gives_seconds_and_memory():
    measured = grouplasso_growth.in_process("ours", 80, 4)
    assert measured["seconds"] > 0
    assert measured["peak_bytes"] >= 0


def test_absent_data_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no file .*mnist_uint8\.npz.*--data DIR"):
        grouplasso_problem.mnist_problem(tmp_path, 10, 2, (3,))
