"""Whole commands through a real shell: files, pipes, scores, formats."""

import io
import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, log_loss, r2_score, root_mean_squared_error

import bochner
from bochner import cli
from bochner.cli import fitting
from bochner.cli.fitting import count_distinct
from bochner.cli.scoring import hold_out
from bochner.cli.showing import Bar, Outcome, Spaced
from bochner.cli.tasks import Asked, make_problem
from bochner.estimators import provenance
from bochner.estimators.provenance import fitted_on
from tests.cli.shell import ROOT, people, shell
from tests.tables.tables import cells_for_onnx

pa = pytest.importorskip("pyarrow")
pytest.importorskip("typer")
pytest.importorskip("safetensors")
READERS = {
    "csv": pd.read_csv,
    "tsv": lambda path: pd.read_csv(path, sep="\t"),
    "parquet": pd.read_parquet,
    "feather": pd.read_feather,
    "jsonl": lambda path: pd.read_json(path, lines=True),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """People in files, and models of their income and class."""
    place = tmp_path_factory.mktemp("cli")
    people().to_csv(place / "people.csv", index=False)
    people(60, seed=1).to_csv(place / "new.csv", index=False)
    income = "bochner fit people.csv -t income --drop id,class --weight w --kernel gaussian --features 40 --std --json"
    classes = "bochner fit people.csv --target class --drop id --drop income --drop w --kernel gaussian --features 40"
    done = shell(
        f"{income} -o income.safetensors > income.json; {classes} -o class.safetensors",
        place,
    )
    assert done.returncode == 0, done.stderr
    (place / "class.txt").write_text(done.stdout)
    return place


def problem(folder, target, dropped, **options):
    table = pa.Table.from_pandas(pd.read_csv(folder / "people.csv"), preserve_index=False)
    return make_problem(table, Asked(target, drop=dropped, **options), "people.csv")


def test_scores_are_of_rows_that_the_model_has_not_seen(folder):
    """The scores of the JSON, recomputed by scikit-learn from the saved model; the model itself, fitted in Python."""
    told = json.loads((folder / "income.json").read_text())
    train, test = hold_out(problem(folder, "income", ["id", "class"], weight="w"), 0.2, 0)
    assert (told["rows"], told["tested"], told["columns"]) == (192, 48, 4)
    model = bochner.load(folder / "income.safetensors")
    again = bochner.KernelRegressor("gaussian", n_features=40, random_state=0).fit(
        train.X, train.y, sample_weight=train.weight
    )
    new = pd.read_csv(folder / "new.csv")
    np.testing.assert_allclose(model.predict(new), again.predict(new), rtol=1e-6, atol=1e-6)
    predicted, weight = model.predict(test.X), test.weight
    found = told["scores"]["KernelRegressor"]
    np.testing.assert_allclose(found["R2"], r2_score(test.y, predicted, sample_weight=weight), rtol=1e-9)
    np.testing.assert_allclose(found["RMSE"], root_mean_squared_error(test.y, predicted, sample_weight=weight), rtol=1e-9)
    mean = np.full(len(test.y), np.average(train.y, weights=train.weight))
    np.testing.assert_allclose(
        told["scores"]["mean"]["R2"], r2_score(test.y, mean, sample_weight=weight), rtol=1e-9, atol=1e-12
    )
    assert found["R2"] > told["scores"]["linear (ridge)"]["R2"] > told["scores"]["mean"]["R2"]
    assert set(list(told["relevance"])[:2]) == {"age", "city"}
    assert told["model"] == "income.safetensors"


def test_tables_for_people(folder):
    text = (folder / "class.txt").read_text()
    assert "192 rows, 4 columns, classification of 'class'" in text
    _, test = hold_out(problem(folder, "class", ["id", "income", "w"]), 0.2, 0)
    model = bochner.load(folder / "class.safetensors")
    shares = model.predict_proba(test.X)
    told = re.search(r"KernelClassifier +([\d.]+) +([\d.]+)", text)
    assert float(told[1]) == pytest.approx(accuracy_score(test.y, model.predict(test.X)), abs=5e-5)
    assert float(told[2]) == pytest.approx(log_loss(test.y, shares, labels=model.classes_), abs=5e-5)
    share = max(np.mean(test.y == label) for label in ("high", "low"))
    assert float(re.search(r"most frequent class +([\d.]+)", text)[1]) == pytest.approx(share, abs=5e-5)
    assert "linear (logistic)" in text
    assert re.search(r"age +1.000|city +1.000", text)
    assert "class.safetensors (" in text


@pytest.mark.parametrize("suffix", sorted(READERS))
def test_predictions_in_every_format(suffix, folder):
    done = shell(f"bochner predict income.safetensors new.csv --keep id --std -o out.{suffix}", folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"60 rows to out.{suffix}\n"
    assert done.stdout == ""
    new = pd.read_csv(folder / "new.csv")
    found = READERS[suffix](folder / f"out.{suffix}")
    expected, deviations = bochner.load(folder / "income.safetensors").predict(new, return_std=True)
    assert list(found.columns) == ["id", "income", "income (std)"]
    assert found["id"].tolist() == new["id"].tolist()
    np.testing.assert_allclose(found["income"], expected, rtol=1e-9)
    np.testing.assert_allclose(found["income (std)"], deviations, rtol=1e-9)
    assert not list(folder.glob("*.part"))


@pytest.mark.parametrize("suffix", ["parquet", "feather", "tsv", "csv.gz", "jsonl"])
def test_rows_in_every_format(suffix, folder):
    new, path = pd.read_csv(folder / "new.csv"), folder / f"rows.{suffix}"
    if suffix == "parquet":
        new.to_parquet(path)
    elif suffix == "feather":
        new.to_feather(path)
    elif suffix == "jsonl":
        rows = new.astype(object).where(new.notna(), None).to_dict("records")
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        new.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    both = shell(
        f"bochner predict income.safetensors rows.{suffix} > a; bochner predict income.safetensors new.csv > b; cmp a b",
        folder,
    )
    assert both.returncode == 0, both.stderr


def test_pipes(folder):
    """From one command to the next; a reader that has seen enough is no error."""
    done = shell("cat new.csv | bochner predict class.safetensors - --proba --keep class | head -n 3", folder)
    assert done.returncode in (0, 141), done.stderr  # bochner may notice that head has gone
    lines = done.stdout.splitlines()
    assert lines[0] == "class,class (predicted),class (predicted)=high,class (predicted)=low"
    assert len(lines) == 3
    shares = [float(x) for x in lines[1].split(",")[2:]]
    assert sum(shares) == pytest.approx(1.0)
    command = "bochner fit - -t income --drop id,class --features 20 --kernel gaussian --test 0 --json -o piped.safetensors"
    fitted = shell(f"cat people.csv | {command}", folder)
    assert fitted.returncode == 0, fitted.stderr
    told = json.loads(fitted.stdout)
    assert (told["rows"], told["tested"], told["scores"]) == (240, 0, {})
    assert fitted.stderr == ""  # no bar where there is no terminal


def test_columns_may_come_in_another_order(folder):
    new = pd.read_csv(folder / "new.csv")
    new[new.columns[::-1]].assign(more=1).to_csv(folder / "turned.csv", index=False)
    done = shell("diff <(bochner predict class.safetensors turned.csv) <(bochner predict class.safetensors new.csv)", folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_views_refit_and_report(folder):
    (folder / "views.toml").write_text('who = ["age"]\n[where]\ncolumns = ["city", "noise"]\nkernel = "matern32"\n')
    done = shell(
        "bochner fit people.csv -t income --views views.toml --features 20 --refit --report views.html -o views.safetensors",
        folder,
    )
    assert done.returncode == 0, done.stderr
    assert "MultipleKernelRegressor" in done.stdout
    assert re.search(r"who +[\d.]+ +█", done.stdout)
    assert "fitted again on all 240 rows" in done.stdout
    model = bochner.load(folder / "views.safetensors")
    assert set(model.kernel_weights_by_name()) == {"who", "where"}
    table = pd.read_csv(folder / "people.csv").drop(columns="income")
    kernels = [("who", "gaussian", ["age"]), ("where", "matern32", ["city", "noise"])]
    again = bochner.MultipleKernelRegressor(kernels, n_features=20, random_state=0)
    again.fit(table, pd.read_csv(folder / "people.csv")["income"])
    np.testing.assert_allclose(model.predict(table), again.predict(table), rtol=1e-6, atol=1e-6)
    assert "<html" in (folder / "views.html").read_text(encoding="utf-8")


def test_report_inspect_and_export(folder):
    done = shell(
        "bochner report class.safetensors --data new.csv -o class.html && bochner inspect class.safetensors"
        " && bochner inspect class.safetensors --json > about.json && bochner export class.safetensors class.onnx --json",
        folder,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("class.html\n")
    assert json.loads(done.stdout[done.stdout.rindex("{") :]) == {"output": "class.onnx"}
    about = json.loads((folder / "about.json").read_text())
    assert about["estimator"] == "KernelClassifier"
    assert about["target"] == "class"
    assert about["columns"] == ["age", "city", "since", "noise"]
    assert about["classes"] == ["high", "low"]
    assert about["parameters"] == {"kernel": "gaussian", "n_features": 40, "random_state": 0}
    assert "class" in (folder / "class.html").read_text(encoding="utf-8")
    runtime = pytest.importorskip("onnxruntime")
    model, new = bochner.load(folder / "class.safetensors"), pd.read_csv(folder / "new.csv")
    session = runtime.InferenceSession(folder / "class.onnx")
    label = session.run(["label"], cells_for_onnx(new, model.encoder_))[0]
    np.testing.assert_array_equal(label, model.predict(new))


@pytest.fixture(scope="module")
def held(folder):
    """What is said of a model of rows of the data, which a fit comes to if nothing is said of features."""
    done = shell("bochner fit people.csv -t income --drop id,class,since,w --kernel gaussian -o held.safetensors", folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_fit_without_further_options(folder, held):
    train, _ = hold_out(problem(folder, "income", ["id", "class", "since", "w"]), 0.2, 0)
    again = bochner.KernelRegressor("gaussian", random_state=0).fit(train.X, train.y)
    new = pd.read_csv(folder / "new.csv")
    np.testing.assert_allclose(bochner.load(folder / "held.safetensors").predict(new), again.predict(new), rtol=1e-6)


def test_rows_that_a_model_holds_are_told_of(folder, held):
    """They are in its file, whoever looks: so the fit, the inspection, and the report say so, and how to do without."""
    model = bochner.load(folder / "held.safetensors")
    assert model.finish_ == "centres"
    assert len(model.feature_map_.centres) == 192
    assert "It holds 192 rows of the data; with --finish fourier it would hold none.\n" in held
    done = shell("bochner inspect held.safetensors && bochner report held.safetensors -o held.html", folder)
    assert re.search(r"finish +centres", done.stdout)
    assert re.search(r" centres +192", done.stdout)
    assert re.search(r"rows held +192", done.stdout)
    assert float(re.search(r"penalty +([\d.e-]+)", done.stdout)[1]) == pytest.approx(model.alpha_, rel=1e-3)
    assert "The model holds 192 rows of its fit" in (folder / "held.html").read_text(encoding="utf-8")
    fit = "bochner fit people.csv -t income --drop id,class,since,w --kernel gaussian --effort fast"
    done = shell(f"{fit} --finish fourier -o none.safetensors && bochner inspect none.safetensors --json", folder)
    assert done.returncode == 0, done.stderr
    assert "rows of the data" not in done.stdout
    about = json.loads(done.stdout[done.stdout.index("{") :])
    assert about["finish"] == "fourier"
    assert about["features"] == bochner.load(folder / "none.safetensors").feature_map_.n_features
    assert about["rows_held"] == 0


def test_what_the_fit_scored_stays_with_the_model(folder):
    """In its file, and so in what is said of it later."""
    told = json.loads((folder / "income.json").read_text())
    done = shell("bochner inspect income.safetensors --json && bochner report income.safetensors -o income.html", folder)
    about = json.loads(done.stdout[: done.stdout.rindex("income.html")])
    assert (about["scores"], about["tested"], about["scored_before_refit"]) == (told["scores"], 48, False)
    assert about["rows"] == 192
    assert about["arrays"]["coef_"] == [40, 1]
    page = (folder / "income.html").read_text(encoding="utf-8")
    assert "When it was fitted, on 48 rows that were held out" in page
    assert all(f"{found['RMSE']:.4f}" in page for found in told["scores"].values())
    text = shell("bochner inspect income.safetensors", folder).stdout
    assert "Score on 48 rows that were held out from the fit" in text
    assert f"{told['scores']['linear (ridge)']['R2']:.4f}" in text
    assert re.search(r"rows +192, and 48 more that were held out", text)
    assert re.search(r"validation error +0\.\d+ of the variance of the target: predictions are off by", text)
    assert re.search(r"numbers +[\d,]+, most of them sums over rows for predict --std \(40 x 40\)", text)


def test_a_model_that_is_fitted_again_forgets_what_it_scored(folder):
    model = bochner.load(folder / "class.safetensors")
    assert provenance.tested(model).n_rows == 48
    new = pd.read_csv(folder / "new.csv")
    model.fit(new[["age", "city", "since", "noise"]], new["class"])
    assert provenance.tested(model) is None
    assert not fitted_on(model, str(folder / "people.csv"))


@pytest.mark.parametrize(
    "found",
    [
        None,
        3,
        {},
        {"scores": 1},
        {"scores": {"a": {"R2": "x"}}, "n_rows": 3, "refitted": False},
        {"scores": {"a": {}}, "n_rows": 3, "refitted": False},
        {"scores": {"a": {"R2": 0.5}, "b": {}}, "n_rows": 3, "refitted": False},
        {"scores": {"a": {"R2": 0.5}}, "n_rows": float("inf"), "refitted": False},
    ],
)
def test_scores_that_make_no_sense_are_none(found):
    """Files may come from anywhere."""
    assert provenance.tested(SimpleNamespace(test_scores_=found)) is None


def test_models_of_earlier_versions_are_inspected(folder):
    old = sorted((ROOT / "tests" / "persistence" / "archive").glob("*-KernelRegressor*.safetensors"))[0]
    done = shell(f"bochner inspect {old} && bochner report {old} -o old.html", folder)
    assert done.returncode == 0, done.stderr
    assert "KernelRegressor" in done.stdout
    assert "held out from the fit" not in done.stdout


def test_scores_on_rows_of_the_fit_are_said_to_be_too_good(folder):
    """The file of the fit is known by its bytes; of others it is said what would be."""
    done = shell("cp people.csv copy.csv; bochner report income.safetensors --data copy.csv -o own.html", folder)
    assert done.stderr.startswith("Note: copy.csv is the file that the model was fitted on, ")
    told = json.loads((folder / "income.json").read_text())["scores"]["KernelRegressor"]["R2"]
    assert done.stderr.endswith(f"scores are too good; on the 48 rows that were held out R2 was {told:.4f}.\n")
    assert "copy.csv is the file that the model was fitted on" in (folder / "own.html").read_text(encoding="utf-8")
    done = shell("bochner report income.safetensors --data new.csv -o new.html", folder)
    assert done.stderr == ""
    assert "if some of these are among them, the scores are too good" in (folder / "new.html").read_text(encoding="utf-8")


def test_what_is_to_be_said_after_the_tables(tmp_path):
    """A simple model that is better, and what --std is for where it makes a file large."""
    x = np.random.default_rng(0).standard_normal((300, 2))
    pd.DataFrame(x, columns=["a", "b"]).assign(y=x @ [1, 2]).to_csv(tmp_path / "plain.csv", index=False)
    fit = "bochner fit plain.csv -t y --kernel laplacian --features 200 --std -o plain.safetensors"
    told = shell(f"{fit} 2>&1", tmp_path).stdout.splitlines()
    assert told[-1].startswith("Note: linear (ridge) is better than KernelRegressor here (1.0000 and")
    assert told[-2] == "0.3 MB of it are sums that predict --std needs; without --std they would not be there."
    done = shell(f"{fit} --json", tmp_path)
    assert f"Note: {json.loads(done.stdout)['notes'][0]}\n" == done.stderr
    assert "sums" not in shell(fit.replace("--std", ""), tmp_path).stdout


@pytest.mark.parametrize(("quiet", "own"), [(False, ""), (True, ""), (False, "--views plain.toml")])
def test_lines_of_progress_where_there_is_no_terminal(quiet, own, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    people(200).to_csv("people.csv", index=False)
    Path("plain.toml").write_text('who = ["age"]\nwhere = ["city", "noise"]\n')
    fit = ["fit", "people.csv", "-t", "income", "--drop", "id,class,since,w", *own.split(), "--features", "40", "--json"]
    fit += ["--quiet"] * quiet
    assert cli.main(fit) == 0
    assert "[" not in capfd.readouterr().err  # it was done soon
    monkeypatch.setattr("bochner.cli.showing.PATIENCE", 0.0)
    monkeypatch.setattr("bochner.cli.showing.APART", 0.0)
    assert cli.main(fit) == 0
    told = capfd.readouterr()
    assert json.loads(told.out)["rows"] == 160
    assert bool(re.search(r"^\[#+\.*\] .*held-out error", told.err, re.MULTILINE)) != quiet
    assert ("comparing with simple models\n" in told.err) != quiet


def test_lines_of_progress_are_spaced_and_others_pass(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("bochner.cli.showing.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    spaced = Spaced(stream)
    for seconds in (1.0, 4.9, 5.0, 6.0, 6.5, 7.0):
        now[0] = seconds
        spaced.write(f"[##..]  {seconds} s\n")
        spaced.write(f"Warning: {seconds}\n")
    assert [line for line in stream.getvalue().splitlines() if "[" in line] == ["[##..]  5.0 s", "[##..]  7.0 s"]
    assert stream.getvalue().count("Warning") == 6


def test_a_line_of_progress_comes_again_where_a_step_takes_long(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("bochner.cli.showing.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    spaced = Spaced(stream)
    spaced.remind()
    spaced.write("[##..]  1.0 s  step 6 of 6\n")  # too early for a line
    for seconds in (4.0, 6.0, 20.0, 35.0, 36.5):
        now[0] = seconds
        spaced.remind()
    assert stream.getvalue().splitlines() == [
        "[##..]  1.0 s  step 6 of 6 (still at it after 6 s)",
        "[##..]  1.0 s  step 6 of 6 (still at it after 36 s)",
    ]


def test_rows_that_differ_are_counted_where_they_can_be():
    table = pa.table({"a": [1.0, 1.0, None, None], "b": ["x", "x", "y", None]})
    assert count_distinct(table) == 3
    assert count_distinct(table.append_column("c", pa.array([[1], [2], [3], [4]]))) is None


@pytest.mark.parametrize(("finish", "copies", "distinct"), [("fourier", 2, None), ("centres", 1, None), ("centres", 2, 60)])
def test_rows_that_differ_are_counted_only_where_that_is_told(tmp_path, monkeypatch, finish, copies, distinct):
    """Where a model holds some rows of its fit, and not all."""
    asked = []
    monkeypatch.setattr(fitting, "count_distinct", lambda table: asked.append(table) or count_distinct(table))
    table = people(60)[["noise", "w", "income"]]
    pd.concat([table] * copies).to_csv(tmp_path / "some.csv", index=False)
    options = fitting.FitOptions(kernel="gaussian", effort="fast", finish=finish, test=0.0)
    model = str(tmp_path / "some.safetensors")
    outcome = fitting.fit(str(tmp_path / "some.csv"), model, Asked("income"), options, Bar(False))
    assert outcome.held_rows == (0 if finish == "fourier" else 60)
    assert outcome.distinct_rows == distinct
    assert len(asked) == (distinct is not None)


def test_rows_that_are_not_held_are_accounted_for(capsys):
    outcome = Outcome("regression", "y", "KernelRegressor", 824, 206, 8, held_rows=795, distinct_rows=795)
    for distinct, why in ((795, ", for the others are equal to some of these"), (800, "")):
        outcome.distinct_rows = distinct
        outcome.print()
        assert f"It holds 795 of the 824 rows that it was fitted on{why}; with" in capsys.readouterr().out


def test_lines_of_a_file_are_not_broken(capsys):
    """A long kernel, target and path, where standard output is no terminal."""
    outcome = Outcome("regression", "t" * 60, "KernelRegressor", 1000, 0, 10, kernel="matern32 with a metric")
    outcome.model, outcome.held_rows = "m" * 120, 1000
    outcome.print()
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.endswith(f"regression of '{'t' * 60}', 0.0 s")
    assert second == f"{'m' * 120} (0.0 kB)"
    assert third.startswith("It holds 1,000 rows of the data")


def test_the_demo_keeps_a_table_that_is_there(tmp_path):
    (tmp_path / "try").mkdir()
    (tmp_path / "try" / "houses.csv").write_text("a,b\n1,2\n")
    done = shell("bochner demo --folder try", tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "Error: try/houses.csv holds rows of another kind, which would be lost: name another folder by --folder.\n"
    )
    assert (tmp_path / "try" / "houses.csv").read_text() == "a,b\n1,2\n"


def test_demo(tmp_path):
    done = shell("bochner demo --folder try && bochner predict try/houses.safetensors try/houses.csv | wc -l", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].strip() == "601"
    assert "regression of 'price'" in done.stdout


def test_files_larger_than_memory_are_read_in_blocks(folder):
    people(4000, seed=2).to_csv(folder / "large.csv", index=False)
    command = "bochner fit large.csv -t income --drop id,class --kernel gaussian --features 20"
    done = shell(f"{command} --max-memory 1MB --test-file new.csv --json -o large.safetensors", folder)
    assert done.returncode == 0, done.stderr
    assert "is read in blocks" in done.stderr
    told = json.loads(done.stdout)
    assert (told["rows"], told["tested"]) == (4000, 60)
    assert told["scores"]["KernelRegressor"]["R2"] > told["scores"]["linear (ridge)"]["R2"]


@pytest.mark.filterwarnings("ignore:max_memory has")  # of few rows to try kernels on
@pytest.mark.parametrize("in_blocks", [False, True])
def test_a_large_file_that_is_read_once_more_is_said_to_be(folder, monkeypatch, in_blocks):
    """By which a report knows it again."""
    told = []
    monkeypatch.setattr(Bar, "say", lambda _bar, text, *_: told.append(text))
    people(1000, seed=2).to_csv(folder / "again.csv", index=False)
    options = fitting.FitOptions(kernel="gaussian", features=10, test=0.0, max_memory="300kB" if in_blocks else None)
    data, model = str(folder / "again.csv"), str(folder / "again.safetensors")
    fitting.fit(data, model, Asked("income", drop=("id", "class")), options, Bar(False))
    assert (told[-1] == f"reading {data} once more, to know it again") == in_blocks
    assert fitted_on(bochner.load(model), data)


def test_the_index_of_pandas_is_no_column(folder):
    table = people(100).set_index("id", drop=True).rename_axis(None)
    table.to_csv(folder / "indexed.csv")
    table.to_parquet(folder / "indexed.parquet")
    for suffix in ("csv", "parquet"):
        options = "--drop class,since --kernel gaussian --features 10 --test 0 --json -o indexed.safetensors"
        done = shell(f"bochner fit indexed.{suffix} -t income {options}", folder)
        assert done.returncode == 0, done.stderr
        assert set(json.loads(done.stdout)["relevance"]) == {"age", "city", "noise", "w"}
        assert done.stderr == ""


def test_columns_that_are_left_out_are_named_once(folder):
    done = shell("bochner fit people.csv -t income --drop class --kernel gaussian --features 10 -o left.safetensors", folder)
    assert done.returncode == 0
    assert done.stderr.count("Warning: Column 'id' is left out") == 1
