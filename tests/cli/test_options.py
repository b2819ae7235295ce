"""Options that are given wrongly, by themselves or together: exit code 2, and a message that names them."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import bochner
from bochner import cli
from bochner.cli.columns import refuse_headings
from bochner.cli.data import read_table, style_of, write_batches
from bochner.cli.fitting import FitOptions, make_model
from bochner.estimators.encoding import table_columns
from tests.cli.shell import people

pa = pytest.importorskip("pyarrow")
pytest.importorskip("typer")
pytest.importorskip("safetensors")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("options")
    people().drop(columns="id").to_csv(place / "people.csv", index=False)
    (place / "bytes.parquet").write_bytes(b"PAR1 nothing of the kind")
    (place / "kernels.toml").write_text('who = { columns = ["age"], kernel = "gausian" }\n')
    (place / "numbers.csv").write_text("1,2,3\n4,5,6\n7,8,9\n")
    return place


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        ("fit people.csv --target income --device gpu", 2, "--device must be 'cuda', "),
        ("fit people.csv --target income --seed -1", 2, "--seed"),
        ("fit people.csv --target income --checkpoint people.csv", 2, "--checkpoint must be a folder"),
        ("fit people.csv --target income --delimiter ';;'", 2, "--delimiter must be one character"),
        ("fit people.csv --target income --delimiter ';'", 1, "Say --delimiter ','."),
        (
            "fit people.csv --target income --views kernels.toml",
            2,
            "no kernel 'gausian' (view 'who' of kernels.toml). Did you mean",
        ),
        ("fit people.csv --target income --views kernels.toml --effort best", 2, "--effort is for one kernel"),
        ("fit people.csv --target income --views kernels.toml --finish fourier", 2, "--finish is for one kernel"),
        (
            "fit people.csv --target class --std",
            2,
            "--std is for regression, and the target is one of classes: leave it out",
        ),
        ("fit people.csv --target income --finish centres --features 20", 2, "--features 20 belongs to --finish 'fourier'"),
        ("fit numbers.csv --target 7", 1, "names of the columns should be: if it has no line of names, say --no-header"),
        ("fit numbers.csv --target 7 --no-header", 2, "has no column '7' (--target). Its columns are 'f0', 'f1', 'f2'"),
        (
            "fit bytes.parquet --target b --no-header",
            2,
            "--no-header is for CSV, and bytes.parquet is parquet: leave it out",
        ),
    ],
)
def test_wrong_options(typed, code, said, folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    assert cli.main([*shlex.split(typed), "-o", "new.safetensors"]) == code
    told = capfd.readouterr()
    assert said in told.err
    assert told.out == ""
    assert not (folder / "new.safetensors").exists()


TABLES = ".parquet, .pq, .arrow, .feather, .ipc, .csv, .tsv, .jsonl or .ndjson"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("fit none.csv -t y -o m.onnx", "-o must end in .safetensors, got 'm.onnx': give a name such as model.safetensors."),
        ("fit none.csv -t y -o -", "-o must end in .safetensors, got '-': give a name such as model.safetensors."),
        (
            "fit none.csv -t y --report r.pdf",
            "--report must end in .html or .htm, got 'r.pdf': give a name such as report.html.",
        ),
        ("predict none none.csv -o o.xlsx", f"-o must end in {TABLES}, got 'o.xlsx': give a name such as predictions.csv."),
        (
            "predict none none.csv -o o.csv.gz",
            f"-o must end in {TABLES}, got 'o.csv.gz': give a name such as predictions.csv.",
        ),
        (
            "predict none none.csv -o .csv",
            f"-o must end in {TABLES}, got '.csv': give a name such as predictions.csv.",
        ),
        ("report none -o r.pdf", "-o must end in .html or .htm, got 'r.pdf': give a name such as report.html."),
        ("export none m.pmml", "OUTPUT must end in .onnx, got 'm.pmml': give a name such as model.onnx."),
    ],
)
def test_outputs_end_as_what_is_written_there(typed, said, tmp_path, monkeypatch, capfd):
    """Which is seen before anything is read."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(shlex.split(typed)) == 2
    assert capfd.readouterr().err == f"Error: {said}\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", TABLES.replace(" or", ",").split(", "))
def test_every_ending_that_is_named_is_written(ending, tmp_path):
    rows = pa.record_batch({"a": [1.0, 2.0]})
    write_batches(str(tmp_path / f"out{ending}"), [rows])
    assert read_table(str(tmp_path / f"out{ending}")).column("a").to_pylist() == [1.0, 2.0]


def run(typed, capfd):
    assert cli.main(shlex.split(typed)) == 0
    return capfd.readouterr().out


@pytest.fixture
def nameless(tmp_path, monkeypatch):
    """CSV without names whose target stands first, and a column of levels that look like numbers."""
    rng = np.random.default_rng(0)
    rows = [(10 * i + 0.1 * x, ("01", "02", "3x")[i], f"{x:.3f}") for x in rng.standard_normal(30) for i in range(3)]
    (tmp_path / "data.csv").write_text("\n".join(",".join(map(str, row)) for row in rows))
    (tmp_path / "new.csv").write_text("01,0.5\n02,0.5\n")
    (tmp_path / "whole.csv").write_text("0,01,0.5\n0,02,0.5\n")
    monkeypatch.chdir(tmp_path)
    return "fit data.csv --no-header --features 20 --kernel gaussian --json"


@pytest.mark.parametrize(("target", "name"), [("0", "f0"), ("f0", "f0"), ("-3", "f0"), ("-1", "f2")])
def test_columns_of_files_without_names_have_numbers(nameless, capfd, target, name):
    told = json.loads(run(f"{nameless} -t {target} -o m.safetensors", capfd))
    assert (told["target"], told["columns"]) == (name, 2)
    assert bochner.load("m.safetensors").target_name_ == name


def test_new_rows_without_names_are_found_by_their_places(nameless, capfd, monkeypatch):
    """With the target's column or without it; levels such as 01 stay what they were."""
    run(f"{nameless} -t 0 -o m.safetensors", capfd)
    short = run("predict m.safetensors new.csv --no-header", capfd)
    assert short == run("predict m.safetensors whole.csv --no-header", capfd)
    np.testing.assert_allclose([float(line) for line in short.split()[1:]], [0, 10], atol=1.5)
    kept = run("predict m.safetensors whole.csv --no-header --keep -1", capfd)
    assert [line.split(",")[0] for line in kept.split()] == ["f2", "0.5", "0.5"]
    assert run("report m.safetensors --data data.csv --no-header -o r.html", capfd) == "r.html\n"


@pytest.mark.parametrize("own", ["", "--views views.toml"])
def test_models_of_files_without_names_take_arrays(tmp_path, monkeypatch, capfd, own):
    """They have no names of columns, which scikit-learn would warn about; commands and pages call columns as before."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((90, 2))
    np.savetxt("data.csv", np.column_stack([X[:, 0] + X[:, 1] ** 2, X]), delimiter=",")
    np.savetxt("new.csv", X[:5], delimiter=",")
    Path("views.toml").write_text('first = ["f1"]\nsecond = ["f2"]\n')
    run(f"fit data.csv --no-header -t 0 --features 20 --kernel gaussian {own} --report r.html -o m.safetensors", capfd)
    model = bochner.load("m.safetensors")
    assert not hasattr(model, "feature_names_in_")
    predicted = model.predict(X[:5])
    for data, n in (("new.csv", 5), ("data.csv", 90)):
        told = run(f"predict m.safetensors {data} --no-header", capfd).split()
        assert (told[0], len(told)) == ("f0", n + 1)
        np.testing.assert_allclose(np.array(told[1:6], dtype=float), predicted, rtol=1e-12)
    about = json.loads(run("inspect m.safetensors --json", capfd))
    assert about["columns"] == ["f1", "f2"]
    assert own or set(about["relevance"]) == {"f1", "f2"}
    assert run("report m.safetensors --data data.csv --no-header -o s.html", capfd) == "s.html\n"
    assert all(own or "<td>f2</td>" in Path(name).read_text() for name in ("r.html", "s.html"))
    assert "bochner predict m.safetensors new.csv --no-header -o predictions.csv" in Path("s.html").read_text()
    model.save("again.safetensors")
    assert table_columns(bochner.load("again.safetensors")) == ["f1", "f2"]
    assert own or table_columns(model.fit(X, X[:, 0])) == []  # views name columns


@pytest.mark.filterwarnings("ignore:max_memory has")  # of few rows to try kernels on
def test_files_without_names_in_blocks(nameless, capfd):
    data = Path("data.csv").read_text()
    Path("data.csv").write_text("\n".join([data] * 10))
    Path("test.csv").write_text(data)
    told = json.loads(run(f"{nameless} -t 0 --max-memory 60kB --test-file test.csv -o m.safetensors", capfd))
    assert (told["target"], told["rows"], told["tested"]) == ("f0", 900, 90)
    predicted = run("predict m.safetensors new.csv --no-header", capfd)
    np.testing.assert_allclose([float(line) for line in predicted.split()[1:]], [0, 10], atol=2)


@pytest.mark.parametrize(
    ("n", "test", "told"),
    [
        (2, "", "2 rows are too few to hold out a share of 0.2"),
        (20, "--test 0.01", "20 rows are too few to hold out a share of 0.01"),
        (20, "--test 0", None),
        (20, "--test-file few.csv", None),
        (20, "", None),
    ],
)
def test_rows_too_few_for_a_table_of_scores_are_said_to_be(tmp_path, monkeypatch, capfd, n, test, told):
    monkeypatch.chdir(tmp_path)
    Path("few.csv").write_text("x,y\n" + "".join(f"{i},{i * i + 0.5}\n" for i in range(n)))
    assert cli.main(["fit", "few.csv", "-t", "y", "--features", "10", "--kernel", "gaussian", *test.split()]) == 0
    found = capfd.readouterr()
    advice = "give more rows, or others to score by as --test-file."
    noted = f"Note: there is no table of scores, for {told}: {advice}\n"
    assert (noted in found.err) == (told is not None) == ("no table" in found.err)
    assert ("Score on" in found.out) == (told is None and test != "--test 0")


def test_one_row_and_one_column_are_told_as_one(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("few.csv").write_text("x,y\n1,2\n2,4.5\n3,6\n4,\n")
    told = run("fit few.csv -t y --features 10 --kernel gaussian -o m.safetensors", capfd)
    assert "2 rows, 1 column, regression of 'y'" in told
    assert "Score on 1 row that was held out\n" in told
    Path("one.csv").write_text("x\n1\n")
    assert cli.main(["fit", "few.csv", "-t", "y", "--features", "10", "--kernel", "gaussian", "--json"]) == 0
    assert "Note: 1 of 4 rows has no 'y' and is left out.\n" in capfd.readouterr().err
    assert cli.main(["predict", "m.safetensors", "one.csv", "-o", "out.csv"]) == 0
    assert capfd.readouterr().err == "1 row to out.csv\n"
    told = run("inspect m.safetensors", capfd)
    assert "2, and 1 more that was held out to score it" in told
    assert "Score on 1 row that was held out from the fit" in told


@pytest.mark.parametrize("kernel", ["rbf", "RBF", "gaussian, rbf"])
def test_kernels_are_named_as_in_python(kernel):
    model = make_model("regression", FitOptions(kernel=kernel), ["a", "b"])
    assert model.kernel == ("gaussian" if "," not in kernel else ["gaussian", "gaussian"])


SCORES = [f"{14.73 + i / 7:.4f}" for i in range(80)]


@pytest.mark.parametrize(
    ("cells", "options", "said"),
    [
        (
            [*SCORES, "unknown"],
            "",
            "80 of 81 cells are numbers, and 'unknown' is not: leave its row out, or make it a number.",
        ),
        (
            [*SCORES, "unknown", "", "none yet"],
            "",
            "80 of 82 cells are numbers, and 2 are not, such as 'unknown': leave these rows out, or make them numbers.",
        ),
        (
            ["1", "2", "3", "x"] * 10,
            "--task regression",
            "30 of 40 cells are numbers, and 10 are not, such as 'x': leave these rows out, or make them numbers.",
        ),
        (
            ["1e-3", *(score.replace(".", ",") for score in SCORES)],
            "",
            "all 81 cells are numbers, but some have a comma before the fraction, such as '14,7300': write numbers with "
            "a point, such as 14.7300.",
        ),
    ],
)
def test_a_target_of_mostly_numbers_names_the_cells_that_are_none(tmp_path, monkeypatch, capfd, cells, options, said):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("x;score\n" + "".join(f"{i};{cell}\n" for i, cell in enumerate(cells)))
    assert cli.main(["fit", "t.csv", "-t", "score", "--delimiter", ";", "-o", "m.safetensors", *options.split()]) == 2
    assert capfd.readouterr().err.endswith(f"Error: Column 'score' (--target) holds text: {said}\n")


def test_a_target_of_text_keeps_its_words(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("x,score\n" + "".join(f"{i},grade {i}\n" for i in range(40)))
    assert cli.main(["fit", "t.csv", "-t", "score", "-o", "m.safetensors"]) == 2
    assert "holds text, 40 different ones in 40 rows, such as 'grade 0': classes need" in capfd.readouterr().err


ROWS = [f"{i / 8},{'red' if i % 2 else 'blue'},{i * i / 4}" for i in range(60)]


@pytest.mark.parametrize(
    ("lines", "options", "name"),
    [
        (["size,colour,price", *ROWS], "-t -1", "size"),
        (["size,colour,price", *ROWS], "-t price", "size"),
        (["size,colour,price", *ROWS], "-t -1 --max-memory 1kB", "size"),
        ([",size,colour,price", *(f"{i},{row}" for i, row in enumerate(ROWS))], "-t -1", "size"),  # pandas' index
        (["size,colour,price", *(row.replace(",", ",?", 1) for row in ROWS)], "-t -1", "size"),
        (["size;price", *(f"{i},5;{i}" for i in range(60))], "-t -1 --delimiter ;", "size"),
    ],
)
def test_a_fit_without_names_refuses_a_line_of_names(tmp_path, monkeypatch, capfd, lines, options, name):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("\n".join(lines) + "\n")
    assert cli.main(["fit", "t.csv", "--no-header", "-o", "m.safetensors", *options.split()]) == 1
    found = capfd.readouterr().err
    assert found == f"Error: t.csv has names in its first line, such as {name!r}: leave --no-header out.\n"
    assert not Path("m.safetensors").exists()


def test_a_test_file_without_names_has_no_line_of_names(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("\n".join(ROWS) + "\n")
    Path("new.csv").write_text("\n".join(["size,colour,price", *ROWS]) + "\n")
    typed = "fit t.csv --no-header -t -1 --test-file new.csv -o m.safetensors"
    assert cli.main(typed.split()) == 1
    assert "new.csv has names in its first line, such as 'size': leave --no-header out." in capfd.readouterr().err


@pytest.mark.parametrize(
    "lines",
    [
        [row.replace(",red,", ",1,").replace(",blue,", ",2,") for row in ROWS],
        ROWS,
        ["unknown,red,7.5", *ROWS],  # one number that is missing
        ["unknown,red,unknown", *ROWS],  # and all of them, in words that are alike
        ["size,red,price", *ROWS],  # red is there again
        ["?,colour,price", *ROWS],
        ["-,colour,--", *ROWS],
        ["size,colour,price", *(f"a{i},red,b{i}" for i in range(60))],  # text alone
        ["size,colour,price", *ROWS, "large,red,dear"],
        ["2020,colour,price", *ROWS],
        ["size,colour,price,2024-05-01", *(f"{row},2024-05-{2 + i % 9:02d}" for i, row in enumerate(ROWS))],
        ["size,colour,price"],
        ["size,,price", *ROWS],
        ["\u221212,5 €;low", *(f"{i},5 €;b{i}" for i in range(60))],
    ],
)
def test_rows_are_no_line_of_names(tmp_path, lines):
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    delimiter = ";" if ";" in lines[0] else ","
    refuse_headings(read_table(str(tmp_path / "t.csv"), style_of(delimiter, True)), "t.csv")
