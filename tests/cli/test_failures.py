"""What goes wrong, through a real shell: messages, exit codes, nothing half-written, no traceback."""

import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest

import bochner
from bochner import cli
from bochner.cli.fitting import FitOptions, resumable
from bochner.cli.running import CommandError, Interrupted
from bochner.cli.tasks import Asked, make_problem, read_views
from tests.cli.shell import PROGRAM, environment, people, shell

pa = pytest.importorskip("pyarrow")
pytest.importorskip("typer")
pytest.importorskip("safetensors")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("failures")
    people().to_csv(place / "people.csv", index=False)
    (place / "empty.csv").write_text("")
    (place / "names.csv").write_text("a,b\n")
    (place / "ragged.csv").write_text("a,b\n1,2\n3,4,5\n")
    (place / "twice.csv").write_text("a,a,b\n1,2,3\n")
    (place / "one.csv").write_text("a,b\n1,x\n2,x\n3,x\n")
    (place / "gaps.csv").write_text("a,b\n1,\n2,\n3,\n")
    (place / "bytes.parquet").write_bytes(b"PAR1 nothing of the kind")
    (place / "people.xlsx").write_bytes(b"PK")
    (place / "views.toml").write_text('who = ["aeg"]\n')
    (place / "wrong.toml").write_text("who = [\n")
    done = shell("bochner fit people.csv -t income --drop id,class --features 20 --kernel gaussian -o m.safetensors", place)
    assert done.returncode == 0, done.stderr
    lines = (place / "people.csv").read_text().splitlines(keepends=True)
    (place / "rows.csv").write_text("".join(lines[2:]))
    (place / "xyz.csv").write_text("x,y,z\n1,2,3\n4,5,6\n")
    (place / "words.csv").write_text("1,2,3\n4,two,6\n")
    X = np.random.default_rng(0).standard_normal((40, 3))
    for name, table in {"places": pd.DataFrame(X, columns=["f0", "f1", "f2"]), "array": X}.items():
        model = bochner.KernelRegressor("gaussian", n_features=10, random_state=0).fit(table, X[:, 0])
        model.save(place / f"{name}.safetensors")
    return place


CASES = [
    # what is typed, exit code, what is said
    ("fit people.csv --target income --kernel gauss", 2, "Did you mean 'gaussian'?"),
    ("fit people.csv --target incme", 2, "has no column 'incme' (--target). Did you mean 'income'"),
    ("fit people.csv --target Income", 2, "Did you mean 'income'?"),
    ("fit peple.csv --target income", 1, "There is no file peple.csv. Is it people.csv?"),
    ("fit far/away.csv --target income", 1, "There is no file far/away.csv. There is no folder far."),
    ("fit . --target income", 1, "is a folder: give the name of a file"),
    ("fit people.xlsx --target income", 1, "people.xlsx has none of the suffixes .parquet"),
    ("fit empty.csv --target a", 1, "empty.csv is empty"),
    ("fit names.csv --target a", 1, "names.csv has no rows"),
    ("fit ragged.csv --target a", 1, "rows of different lengths (Row #3: Expected 2 columns, got 3: 3,4,5)"),
    ("fit twice.csv --target b", 1, "two columns named 'a'"),
    ("fit bytes.parquet --target b", 1, "bytes.parquet could not be read as parquet"),
    ("fit one.csv --target b", 1, "holds one class only, 'x'"),
    ("fit gaps.csv --target b", 1, "all 3 cells are missing"),
    ("fit people.csv", 2, "bochner fit needs --target, the name of a column. people.csv has 'id', 'age', 'city', 'since', "),
    ("fit one.csv --delimiter ';'", 2, "bochner fit needs --target, the name of a column. one.csv"),
    ("fit", 2, "bochner fit needs DATA, the file of rows; - for CSV from a pipe: see bochner fit --help."),
    ("fit people.csv --target income --efort high", 2, "has no option --efort. Did you mean --effort? See"),
    ("fit people.csv --target income --effort huge", 2, "--effort must be one of fast, default, best, got 'huge'."),
    ("fit people.csv --target income --task=sums", 2, "--task must be one of auto, regression, classification, got 'sums'."),
    ("fit people.csv --target income --test 1.5", 2, "--test must be a share between 0 and 0.9, such as 0.2, got '1.5'."),
    ("fit people.csv --target income --seed x", 2, "--seed must be a whole number from 0 to 4294967295, got 'x'."),
    (
        "fit people.csv --target income --effort=fast --effort zzz",
        2,
        "--effort must be one of fast, default, best, got 'zzz'.",
    ),
    (
        "fit people.csv --target income --effort zzz --effort=yyy",
        2,
        "--effort must be one of fast, default, best, got 'yyy'.",
    ),
    ("fit people.csv --target income --features 1", 2, "--features must be an even whole number of two or more"),
    ("inspect m.safetensors --json=yes", 2, "Option '--json' does not take a value: see bochner inspect --help."),
    ("fit some.csv --target income", 1, "There is no file some.csv. Check the name."),
    ("fit people.csv --target lincoln", 2, "has no column 'lincoln' (--target). Its columns are 'id', 'age'"),
    (
        "fit people.csv --target income --kernel gausian",
        2,
        "There is no kernel 'gausian' (--kernel). Did you mean 'gaussian'?",
    ),
    ("fit people.csv --target income --features 7", 2, "--features must be an even whole number, or left out (four"),
    ("fit people.csv --target income --drop idd", 2, "has no column 'idd' (--drop). Did you mean 'id'?"),
    ("fit people.csv --target income --drop income", 2, "is both --target and among --drop"),
    ("fit people.csv --target income --weight noise --drop id,class", 1, "weights must be zero or more"),
    ("fit people.csv --target class --task regression", 2, "holds text, such as"),
    ("fit people.csv --target since", 2, "holds dates"),
    ("fit people.csv --target income --max-memory lots", 2, "--max-memory must be a positive number of bytes"),
    (
        "fit people.csv --target income --views views.toml",
        2,
        "has no column 'aeg' (view 'who' of --views). Did you mean 'age'?",
    ),
    ("fit people.csv --target income --views wrong.toml", 1, "wrong.toml (--views) is no TOML"),
    ("fit people.csv --target income --views none.toml", 1, "There is no file none.toml (--views)"),
    ("predict none.safetensors people.csv", 1, "There is no file none.safetensors"),
    ("predict people.csv people.csv", 1, "people.csv cannot be loaded"),
    ("predict m.safetensors names.csv", 1, "no rows to predict"),
    (
        "predict m.safetensors one.csv",
        1,
        "one.csv lacks columns that the model was fitted on, 'age', 'city', 'since', 'noise', 'w'. It has 'a', 'b': rename",
    ),
    ("predict m.safetensors rows.csv", 1, "if it has no line of names, say --no-header, else rename or add them."),
    (
        "predict m.safetensors rows.csv --no-header",
        1,
        "so give these 5 in their order, 'age', 'city', 'since', 'noise', 'w'; or",
    ),
    (
        "predict m.safetensors people.csv --no-header",
        1,
        "first line, such as 'age': leave --no-header out.",
    ),
    ("predict places.safetensors xyz.csv", 1, "so take the line of names out and say --no-header."),
    (
        "predict places.safetensors xyz.csv --no-header",
        1,
        "names in its first line, such as 'x' above numbers",
    ),
    ("predict places.safetensors words.csv --no-header", 1, "column 'f1' held numbers in the fit, and now it holds 'two'"),
    ("predict array.safetensors words.csv --no-header", 1, "column 'f1' held numbers in the fit, and now it holds 'two'"),
    ("predict m.safetensors people.csv --proba", 2, "--proba is for classifiers"),
    ("predict m.safetensors people.csv --std", 1, "fit it with bochner fit --std"),
    ("predict m.safetensors people.csv --keep ID", 2, "has no column 'ID' (--keep). Did you mean 'id'?"),
    ("predict m.safetensors people.csv --json", 2, "would share standard output"),
    ("report m.safetensors --data one.csv -o r.html", 2, "has no column 'income'"),
    ("inspect none.safetensors", 1, "There is no file none.safetensors"),
    ("demo --folder people.csv", 1, "people.csv"),
]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("--seed", "--seed must be a whole number from 0 to 4294967295, got nothing."),
        ("--seed 3 --seed", "--seed must be a whole number from 0 to 4294967295, got nothing."),
        ("--kernel", "Option '--kernel' requires an argument: see bochner fit --help."),
    ],
)
def test_options_at_the_end_of_a_line_that_need_more(typed, said, capfd):
    assert cli.main(["fit", "people.csv", "--target", "income", *typed.split()]) == 2
    assert capfd.readouterr().err == f"Error: {said}\n"


def test_rows_that_hold_names_of_columns_are_rows(tmp_path):
    """Numbers that are names of columns too, some names as cells, and a level that is called like its column."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 4, (60, 3))
    words = np.array(["red", "blue", "green", "0"])[rows]
    pd.DataFrame(rows, columns=list("012")).assign(y=rows.sum(axis=1)).to_csv(tmp_path / "numbers.csv", index=False)
    pd.DataFrame(words[:, :2], columns=["red", "what"]).assign(y=rows[:, 0]).to_csv(tmp_path / "words.csv", index=False)
    (tmp_path / "new_numbers.csv").write_text("3,2,2\n0,1,2\n")
    (tmp_path / "new_words.csv").write_text("red,blue\ngreen,red\n")
    for name in ("numbers", "words"):
        done = shell(
            f"bochner fit {name}.csv -t y --features 10 --kernel gaussian --task regression -o {name}.safetensors && "
            f"bochner predict {name}.safetensors new_{name}.csv --no-header -o {name}.out.csv",
            tmp_path,
        )
        assert done.returncode == 0, done.stderr
        assert len((tmp_path / f"{name}.out.csv").read_text().splitlines()) == 3
    (tmp_path / "new_words.csv").write_text("red,what\ngreen,red\n")
    done = shell("bochner predict words.safetensors new_words.csv --no-header", tmp_path)
    assert done.returncode == 1
    assert "new_words.csv has names in its first line, such as 'what': leave --no-header out." in done.stderr


@pytest.mark.parametrize(("typed", "code", "said"), CASES, ids=[case[0] for case in CASES])
def test_wrong_input(typed, code, said, folder):
    before = sorted(os.listdir(folder))
    done = shell(f"bochner {typed}" + " -o new.safetensors" * typed.startswith("fit "), folder)
    assert said in done.stderr
    assert re.fullmatch(r"((Note|Warning): .*\n)*Error: .*\n", done.stderr)  # one line
    assert done.returncode == code
    assert done.stdout == ""
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (["a", "b"], "must hold numbers without missing cells, got text: give another column, or fill it."),
        (pd.to_datetime(["2020-01-01", "2021-01-01"]), "got dates"),
        ([1.0, None], "got missing cells"),
        ([None, None], "got missing cells"),
        ([1.0, -0.5], "has a negative number, -0.5: weights must be zero or more"),
    ],
)
def test_weights_that_are_refused(weights, said):
    table = pa.Table.from_pandas(pd.DataFrame({"a": [1.0, 2.0], "y": [0.5, 1.5], "w": weights}), preserve_index=False)
    with pytest.raises(CommandError, match=r"^some\.csv, column 'w' \(--weight\) ") as caught:
        make_problem(table, Asked("y", weight="w"), "some.csv")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", 'is empty: write groups of columns, such as place = ["city", "latitude"].'),
        ("who = [", "write groups of columns, such as"),
        ("who = []", """view 'who' needs names of columns, got []: write who = ["column", "column"]."""),
        ("[who]", "needs names of columns, got None"),
        (
            '[who]\ncolumns = ["a"]\nkernal = "linear"',
            "has 'kernal', and a view has columns and a kernel only: take it out.",
        ),
    ],
)
def test_views_that_are_refused(text, said, tmp_path):
    (tmp_path / "views.toml").write_text(text)
    with pytest.raises(CommandError) as caught:
        read_views(str(tmp_path / "views.toml"), ["a", "b"], "gaussian")
    assert said in str(caught.value)


@pytest.mark.parametrize("where", ["missing/m.safetensors", "/proc/m.safetensors", "people.csv/m.safetensors", "."])
def test_places_where_nothing_can_be_written(where, folder):
    """They are found before a fit; /proc takes no files, whoever asks."""
    done = shell(f"bochner fit people.csv -t income --drop id,class -o {where}", folder)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert done.stdout == ""


OVERRIDES = "-dac_override,-dac_read_search"
AS_ANYONE = f"setpriv --bounding-set={OVERRIDES} --inh-caps={OVERRIDES}"
"""Before a command of root's: it may then write no more than permissions say."""


def test_a_read_only_folder(folder, tmp_path):
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    if is_root and not shutil.which("setpriv"):
        pytest.skip("root writes to read-only folders, and setpriv, which keeps it from that, is not here")
    tmp_path.chmod(0o500)
    before = AS_ANYONE if is_root else ""
    done = shell(f"{before} {PROGRAM} fit people.csv -t income --drop id,class -o {tmp_path}/m.safetensors", folder)
    tmp_path.chmod(0o700)
    assert done.returncode == 1
    assert "takes no new files (Permission denied)" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_full_disk(folder):
    """/dev/full is one; a limit on the size of files is another, which leaves what was there as it was."""
    for output in ("> /dev/full", "-o /dev/full"):
        done = shell(f"bochner predict m.safetensors people.csv {output}", folder)
        assert done.returncode == 1
        assert done.stderr == "Error: the disk is full, and nothing was written. Make room, or write elsewhere.\n"
    done = shell("bochner inspect m.safetensors > /dev/full", folder)
    assert done.returncode == 1
    assert done.stderr == "Error: the disk is full, and nothing was written. Make room, or write elsewhere.\n"
    before = (folder / "m.safetensors").read_bytes()
    done = shell(
        "ulimit -f 1; bochner fit people.csv -t income --drop id,class --features 40 --test 0 -o m.safetensors", folder
    )
    assert done.returncode == 1
    assert "larger than it may be" in done.stderr
    assert (folder / "m.safetensors").read_bytes() == before
    done = shell("ulimit -f 1; bochner predict m.safetensors people.csv --keep id,city,since -o out.csv", folder)
    assert done.returncode == 1
    assert not (folder / "out.csv").exists()
    assert not list(folder.glob("*.part"))


def test_ctrl_c(folder):
    """A fit that is interrupted ends at once and writes nothing; the files of its checkpoint say that it had begun."""
    people(3000, seed=3).to_csv(folder / "many.csv", index=False)
    command = "fit many.csv -t income --drop id,class --effort default --checkpoint kept -o never.safetensors"
    fit = subprocess.Popen(
        ["bash", "-c", f"exec {PROGRAM} {command}"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 120
    while not list(folder.glob("kept/*")) and time.monotonic() < until and fit.poll() is None:
        time.sleep(0.1)
    fit.send_signal(signal.SIGINT)
    try:
        out, err = fit.communicate(timeout=60)
    finally:
        fit.kill()
    assert fit.returncode == 130, err
    assert err.endswith("Interrupted. The same command goes on from what is in kept.\n")
    assert "Traceback" not in err
    assert out == ""
    assert not list(folder.glob("never*"))


def test_ctrl_c_without_a_checkpoint_says_how_to_have_one():
    with pytest.raises(Interrupted, match="with --checkpoint FOLDER the same command could go on"), resumable(FitOptions()):
        raise Interrupted


def test_ctrl_c_while_predictions_are_written(folder):
    """Rows of a pipe that does not end before its reader does."""
    endless = '(cat people.csv; yes "$(tail -n 1 people.csv)")'
    predict = subprocess.Popen(
        ["bash", "-c", f"{endless} | {PROGRAM} predict m.safetensors - -o never.csv"],
        cwd=folder,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 120
    while not list(folder.glob("never.csv.*.part")) and time.monotonic() < until and predict.poll() is None:
        time.sleep(0.1)
    os.killpg(predict.pid, signal.SIGINT)  # as a terminal does
    try:
        _, err = predict.communicate(timeout=60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(predict.pid, signal.SIGKILL)
    assert "Traceback" not in err
    assert "Interrupted." in err
    assert not list(folder.glob("never*"))
