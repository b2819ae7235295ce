"""Options that are given wrongly, by themselves or together: exit code 2, and a message that names them."""

import shlex

import pytest

from bochner import cli
from tests.cli.shell import people

pytest.importorskip("pyarrow")
pytest.importorskip("typer")
pytest.importorskip("safetensors")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("options")
    people().drop(columns="id").to_csv(place / "people.csv", index=False)
    (place / "bytes.parquet").write_bytes(b"PAR1 nothing of the kind")
    (place / "kernels.toml").write_text('who = { columns = ["age"], kernel = "rbf" }\n')
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
            "no kernel 'rbf' (view 'who' of kernels.toml). Did you mean",
        ),
        ("fit people.csv --target income --views kernels.toml --effort best", 2, "--effort is for one kernel"),
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
    assert said in " ".join(line.strip("│╭╮╰╯─ ") for line in told.err.splitlines())
    assert told.out == ""
    assert not (folder / "new.safetensors").exists()
