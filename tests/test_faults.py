"""Processes that are killed, disks that are full, files that are cut short, clocks that go back."""

import ast
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bochner
from bochner import KernelRegressor, open_rows
from bochner.errors import FileAccessError, MissingFileError
from tests.estimators.learners import small, table

ROOT = Path(__file__).parents[1]
pytest.importorskip("safetensors")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked, which Windows does not do")
def test_six_kills():
    """The long run is benchmarks/faults.py."""
    pytest.importorskip("pyarrow")
    command = [sys.executable, ROOT / "benchmarks" / "faults.py", "--quick"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "6 of 6"
    assert run.stderr.count("same=True") == 6


@pytest.fixture(scope="module")
def model():
    return small(KernelRegressor).fit(*table())


def test_a_model_file_cut_anywhere_is_refused(model, tmp_path):
    path = tmp_path / "model.safetensors"
    model.save(path)
    data = path.read_bytes()
    for size in [*range(20), *np.linspace(20, len(data) - 1, 60).astype(int).tolist()]:
        path.write_bytes(data[:size])
        with pytest.raises(bochner.ModelFileError):
            bochner.load(path)


def in_a_small_disk(work, most):
    """The exit code and last words of a forked process that may write files of ``most`` bytes."""
    code = f"""
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))
{work}
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="files have no largest size here")
def test_a_full_disk_leaves_the_old_model(model, tmp_path):
    path = tmp_path / "model.safetensors"
    model.save(path)
    before = path.read_bytes()
    most = len(before) // 2
    run = in_a_small_disk(f"import bochner\nbochner.load({str(path)!r}).save({str(path)!r})", most)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1] == (
        f"bochner.errors.FileAccessError: {path} cannot be written: the file is larger than it may be here, and nothing was "
        "written. Raise the limit, or write elsewhere."
    )
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.safetensors"]


@pytest.mark.parametrize("method", ["save", "to_onnx", "report"])
def test_what_a_model_cannot_write_is_told_by_the_name_that_was_given(method, model, tmp_path):
    pytest.importorskip({"save": "safetensors", "to_onnx": "onnx", "report": "matplotlib"}[method])
    (tmp_path / "file").write_bytes(b"")
    path = tmp_path / "file" / "model"
    with pytest.raises(FileAccessError) as caught:
        getattr(model, method)(path)
    why = "a part of this path is a file, not a folder. Give another path."
    assert str(caught.value) == f"{path} cannot be written: {why}"
    if method != "report":  # which makes its folder
        with pytest.raises(MissingFileError, match=r"model cannot be written: there is no folder .*/no. Make it first."):
            getattr(model, method)(tmp_path / "no" / "model")
    assert os.listdir(tmp_path) == ["file"]


def test_a_model_that_is_not_there_is_told(tmp_path):
    with pytest.raises(MissingFileError) as caught:
        bochner.load(tmp_path / "model.safetensors")
    told = "there is no such file or folder. Check the path."
    assert str(caught.value) == f"{tmp_path}/model.safetensors cannot be read: {told}"
    with pytest.raises(FileAccessError, match=r"cannot be read: this is a folder. Give the name of a file."):
        bochner.load(tmp_path)


def test_a_full_disk_leaves_the_old_predictions(model, tmp_path):
    pytest.importorskip("typer")
    pytest.importorskip("pyarrow")
    model.save(tmp_path / "model.safetensors")
    pd.DataFrame(np.tile(table()[0], (50, 1)), columns=list("abcd")[: table()[0].shape[1]]).to_csv(
        tmp_path / "rows.csv", index=False
    )
    (tmp_path / "out.csv").write_text("old")
    names = [str(tmp_path / name) for name in ("model.safetensors", "rows.csv", "out.csv")]
    work = f"from bochner.cli import main\nsys.exit(main(['predict', {names[0]!r}, {names[1]!r}, '-o', {names[2]!r}]))"
    run = in_a_small_disk(work, 4096)
    assert run.returncode == 1
    assert "the file is larger than it may be here, and nothing was written" in run.stderr
    assert (tmp_path / "out.csv").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["model.safetensors", "out.csv", "rows.csv"]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("where", ["before", "while"])
def test_a_file_that_is_cut_short_is_told_by_its_name(suffix, where, tmp_path):
    """Before it is opened, and while its rows are read."""
    pytest.importorskip("pyarrow")
    path = tmp_path / f"rows{suffix}"
    frame = pd.DataFrame(np.random.default_rng(0).standard_normal((60_000, 4)), columns=list("abcd"))
    frame.to_parquet(path, row_group_size=1000) if suffix == ".parquet" else frame.to_csv(path, index=False)
    data = path.read_bytes()
    blocks = None
    if where == "while":
        blocks = open_rows(path, target="d").blocks(256)
        assert next(blocks).n_rows > 0
    with open(path, "r+b") as file:
        file.truncate(int(0.8 * len(data)) + 1)
        file.seek(0)
        if suffix == ".csv":  # text that ends within its last number looks whole: it ends within a row here
            file.truncate(file.read().rindex(b",") + 1 - 10)

    def rest():
        for _ in open_rows(path, target="d").blocks(256) if blocks is None else blocks:
            pass

    with pytest.raises((OSError, RuntimeError, ValueError), match=str(path)):
        rest()


def test_a_clock_that_goes_back_changes_nothing(monkeypatch, capsys):
    X, y = table()
    whole = small(KernelRegressor).fit(X, y)
    now = iter(range(10**6, 0, -1000))
    monkeypatch.setattr(time, "time", lambda: float(next(now)))
    model = small(KernelRegressor, verbose=1).fit(X, y)
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    seconds = [record["seconds"] for record in model.history_]
    assert seconds == sorted(seconds)
    assert 0 <= seconds[0] <= model.fit_seconds_
    assert "-" not in capsys.readouterr().err.partition(" s")[0].split()[-1]


def test_no_code_measures_time_by_a_clock_that_may_go_back():
    for path in (ROOT / "bochner").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.Attribute) and ast.unparse(node) in ("time.time", "datetime.utcnow")), path
            assert not (
                isinstance(node, ast.ImportFrom) and node.module == "time" and "time" in [n.name for n in node.names]
            )
