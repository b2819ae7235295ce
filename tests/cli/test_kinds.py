"""Columns whose kind a reader of CSV may guess otherwise, targets in blocks, and files that must not be lost."""

import json

import numpy as np
import pytest

from bochner import cli
from bochner.estimators.metrics import FINISHES
from bochner.metric_learning import EFFORTS
from tests.cli.shell import shell

pytest.importorskip("pyarrow")
pytest.importorskip("typer")
pytest.importorskip("safetensors")
FIT = "bochner fit data.csv -t y --features 20 --kernel gaussian --json"


def lines(path, header, rows):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")


def rows_of_levels(levels, n=60):
    """The target is the place of the level, and a little noise."""
    noise = np.random.default_rng(0).standard_normal(n)
    return [(levels[i % len(levels)], 10 * (i % len(levels)) + 0.1 * noise[i]) for i in range(n)]


@pytest.mark.parametrize("levels", [("01", "02", "x"), ("true", "false", "maybe"), ("2024-01-01", "2024-01-02", "unknown")])
def test_levels_of_new_rows_are_those_of_the_fit(tmp_path, levels):
    """A file without the last level looks like numbers, truth values or dates; its levels are known all the same."""
    lines(tmp_path / "data.csv", "level,y", rows_of_levels(levels))
    lines(tmp_path / "new.csv", "level", [(levels[0],), (levels[1],)])
    done = shell(f"{FIT} -o m.safetensors > told.json && bochner predict m.safetensors new.csv -o -", tmp_path)
    assert done.returncode == 0, done.stderr
    predicted = [float(line) for line in done.stdout.split()[1:]]
    np.testing.assert_allclose(predicted, [0, 10], atol=1.5)


@pytest.mark.parametrize(("values", "expected"), [(("true", "false"), ["true", "false"]), ((3, 7), ["3", "7"])])
def test_classes_in_blocks_are_named_as_in_memory(tmp_path, values, expected):
    rng = np.random.default_rng(0)
    rows = [(x, values[int(x > 0)]) for x in rng.standard_normal(900)]
    lines(tmp_path / "data.csv", "x,y", rows)
    lines(tmp_path / "test.csv", "x,y", rows[:50])
    limited = f"{FIT} --test-file test.csv --max-memory 60kB -o m.safetensors"
    done = shell(f"{limited} > told.json && bochner predict m.safetensors test.csv -o out.csv", tmp_path)
    assert "read in blocks" in done.stderr
    assert done.returncode == 0, done.stderr
    assert set((tmp_path / "out.csv").read_text().split()[1:]) == set(expected)
    scores = json.loads((tmp_path / "told.json").read_text())["scores"]
    assert scores["KernelClassifier"]["accuracy"] > 0.9


def test_columns_that_are_dropped_are_dropped_of_test_rows_too(tmp_path):
    rows = [(i, x, 2 * x) for i, x in enumerate(np.random.default_rng(0).standard_normal(80))]
    lines(tmp_path / "data.csv", "id,x,y", rows)
    lines(tmp_path / "test.csv", "x,id,y", [(x, i, y) for i, x, y in rows[:20]])
    done = shell(f"{FIT} --drop id --test-file test.csv -o m.safetensors", tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tested"] == 20


@pytest.mark.parametrize(
    "typed",
    [
        "fit data.csv -t y -o data.csv",
        "fit data.csv -t y -o m.safetensors --report m.safetensors",
        "fit data.csv -t y --test-file test.csv --report ./test.csv",
        "predict m.safetensors data.csv -o data.csv",
        "report m.safetensors -o m.safetensors",
    ],
)
def test_nothing_that_is_read_is_written_over(tmp_path, typed):
    for name in ("data.csv", "test.csv", "m.safetensors"):
        (tmp_path / name).write_text("x,y\n1,2\n3,4\n")
    done = shell(f"bochner {typed}", tmp_path)
    assert done.returncode == 2
    assert "would be lost: give another" in done.stderr
    assert {(tmp_path / name).read_text() for name in ("data.csv", "test.csv", "m.safetensors")} == {"x,y\n1,2\n3,4\n"}


def test_a_first_text_that_comes_late_is_no_error(tmp_path, monkeypatch):
    from bochner.rows import batches

    monkeypatch.setattr(batches, "CSV_BYTES", 1000)
    lines(tmp_path / "late.csv", "a,b", [*((i, i) for i in range(2000)), (7, "x")])
    table = batches.read_table(tmp_path / "late.csv")
    assert table.num_rows == 2001
    assert table.column("b")[2000].as_py() == "x"
    assert table.column("a")[2000].as_py() == 7


@pytest.mark.parametrize(
    ("text", "typed", "told"),
    [
        ("1,2\n3,4\n5,6\n", "fit data.csv -t 2", "numbers in its first line (1, 2)"),
        ("x,y\n" + "".join(f"{i},{i} of 60\n" for i in range(60)), "fit data.csv -t y", "60 different ones in 60 rows"),
    ],
)
def test_targets_and_names_that_cannot_be_meant(tmp_path, text, typed, told):
    (tmp_path / "data.csv").write_text(text)
    done = shell(f"bochner {typed} -o m.safetensors", tmp_path)
    assert done.returncode in (1, 2)
    assert told in done.stderr
    assert not (tmp_path / "m.safetensors").exists()


def test_efforts_are_those_of_the_learners():
    from bochner.cli.app import Effort

    assert {effort.value for effort in Effort} == {"fast", *EFFORTS}


def test_finishes_are_those_of_the_learners():
    from bochner.cli.app import Finish

    assert {finish.value for finish in Finish} == set(FINISHES)


def test_a_simple_model_that_is_better_is_told_of(tmp_path):
    rng = np.random.default_rng(0)
    rows = [(*x, 100 * x.sum()) for x in rng.standard_normal((60, 12))]
    lines(tmp_path / "data.csv", ",".join([*(f"x{i}" for i in range(12)), "y"]), rows)
    done = shell("bochner fit data.csv -t y --features 2 --kernel laplacian -o m.safetensors", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Note: linear (ridge) is better than KernelRegressor here" in done.stderr


def test_sums_of_money_and_dates_of_any_calendar(tmp_path, monkeypatch, capfd):
    """A file as spreadsheets write it: the target has a currency, days come before months, a comma before the fraction."""
    rng = np.random.default_rng(0)
    sizes, days = rng.uniform(1000, 9000, 120), rng.integers(0, 300, 120)
    when = [(np.datetime64("2023-01-01") + day).item() for day in days.tolist()]
    money = [f"{s + 10 * d:,.2f} €".translate(str.maketrans(",.", ".,")) for s, d in zip(sizes, days, strict=True)]
    text = [f"{s:,.1f}".translate(str.maketrans(",.", ".,")) for s in sizes]
    rows = zip(text, [f"{day:%d/%m/%Y}" for day in when], money, strict=True)
    (tmp_path / "data.csv").write_text("\n".join(["size;day;y", *map(";".join, rows)]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    fit = "fit data.csv -t y --delimiter ; --features 40 --kernel gaussian --json -o m.safetensors"
    assert cli.main(fit.split()) == 0
    told = capfd.readouterr()
    assert told.err == "Note: 'y' is read as numbers, in €.\n"
    found = json.loads(told.out)
    assert found["task"] == "regression"
    assert set(found["relevance"]) == {"size", "day"}
    assert found["scores"]["KernelRegressor"]["R2"] > 0.98
    (tmp_path / "new.csv").write_text("size;day\n2.000;01/02/2023\n2.000,0;01/11/2023\n")
    assert cli.main(["predict", "m.safetensors", "new.csv", "--delimiter", ";"]) == 0  # 2.000 is no 2 here
    first, second = [float(line) for line in capfd.readouterr().out.split()[1:]]
    assert first == pytest.approx(2310, abs=200)
    assert second == pytest.approx(5040, abs=200)


def test_levels_that_the_fit_did_not_see_are_told_of(tmp_path, monkeypatch, capfd):
    """One line for each column, however many batches there are and whatever is asked for; nothing where all are known."""
    from bochner.rows import batches

    monkeypatch.setattr(batches, "CSV_BYTES", 500)
    monkeypatch.chdir(tmp_path)
    lines(tmp_path / "data.csv", "level,x,y", [(a, i, "bc"[i % 2]) for i, (a, _) in enumerate(rows_of_levels("uvw"))])
    assert cli.main([*FIT.split()[1:], "-o", "m.safetensors"]) == 0
    lines(tmp_path / "new.csv", "level,x", [*[("u", 1)] * 200, *[("Paris", 1)] * 100, ("Rome", 1), ("", 1)])
    capfd.readouterr()
    assert cli.main(["predict", "m.safetensors", "new.csv", "--proba", "-o", "out.csv"]) == 0
    told = "has levels that the fit did not see in 101 rows, such as 'Paris': they count as none of its levels."
    assert capfd.readouterr().err == f"Warning: column 'level' {told}\n302 rows to out.csv\n"
    assert cli.main(["predict", "m.safetensors", "data.csv", "-o", "out.csv"]) == 0
    assert capfd.readouterr().err == "60 rows to out.csv\n"
