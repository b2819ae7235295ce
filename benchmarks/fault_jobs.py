"""What benchmarks/faults.py kills: three kinds of fits with checkpoints, a saving, and predictions to files."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import zlib
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import bochner
from bochner import KernelRegressor, checkpoint, open_rows
from bochner.checkpoint import FIT, LOG
from bochner.cli import models
from bochner.estimators import blocks, machine
from bochner.rows import source as row_source
from bochner.rows.csv_files import CsvStyle

checkpoint.CHECKPOINT_SECONDS, checkpoint.SAVING_SHARE = 0.0, 1e9  # sums are saved after every block
machine.FEWEST_SAMPLED = 150
blocks.BLOCK_BYTES, row_source.FEWEST_BLOCK_ROWS = 1, 500
KEPT, MODEL, OUT = "kept", "model.safetensors", "out"


@dataclass(frozen=True)
class Job:
    """Something that is done in a folder. ``given`` has the rows and models that it starts from."""

    name: str
    run_in: Callable[[Path, Path], None]
    state_of: Callable[[Path, Path], str]
    result_of: Callable[[Path], str]
    begin_in: Callable[[Path, Path], None]
    given: Path = Path()

    def at(self, given: Path) -> Job:
        """The job with what it starts from."""
        return replace(self, given=given)

    def begin(self, folder: Path) -> None:
        """Lay the old state down."""
        self.begin_in(folder, self.given)

    def run(self, folder: Path) -> None:
        """Do it, or go on with it."""
        with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere), redirect_stdout(nowhere):
            self.run_in(folder, self.given)

    def state(self, folder: Path) -> str:
        """What is on disk: "old", "new", "between", or what is wrong with it."""
        return self.state_of(folder, self.given)

    def result(self, folder: Path) -> str:
        """A digest of what it has made."""
        return self.result_of(folder)

    def left(self, folder: Path) -> list[str]:
        """Files of a checkpoint that should not be there once it has ended.

        A folder whose removal was the next call is there and empty: nobody knows any longer who made it.
        """
        kept = folder / KEPT
        return [path.name for path in kept.iterdir()] if kept.is_dir() else []


def prepare(folder: Path) -> None:
    """Rows in files, and two models."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(1500)
    columns = dict(zip("abcdy", [*X.T, y], strict=True))
    parquet.write_table(pa.table(columns), folder / "rows.parquet", row_group_size=500)
    parquet.write_table(pa.table({name: np.tile(columns[name], 6) for name in "abcd"}), folder / "new.parquet")
    for name, n_features in (("old", 200), ("new", 300)):
        model = KernelRegressor("gaussian", n_features=n_features, tol=0.5, random_state=0)
        model.fit(pa.table(dict(zip("abcd", X.T, strict=True))).to_pandas(), y).save(folder / name)


def digest(*contents: bytes) -> str:
    """A digest of some bytes."""
    return hashlib.sha256(b"".join(contents)).hexdigest()


# -- fits -----------------------------------------------------------------------------------------------------------------


def fit(folder: Path, given: Path, n_rows: int | None = None, **options: Any) -> None:
    """Fit with a checkpoint, some rows or all of the file in blocks, and keep the bits of coefficients and predictions."""
    table = parquet.read_table(given / "rows.parquet").to_pandas().to_numpy()
    always: dict[str, Any] = {"random_state": 0, "max_memory": "1GB", "checkpoint": str(folder / KEPT), "verbose": 1}
    model = KernelRegressor("gaussian", **always, **options)
    if n_rows is None:
        model.fit(open_rows(str(given / "rows.parquet"), target="y"))
    else:
        model.fit(table[:n_rows, :-1], table[:n_rows, -1])
    arrays = [model.coef_, model.intercept_, model.scale_, model.predict(table[:, :-1])]
    (folder.parent / f"{folder.name}.bits").write_text(digest(*(np.ascontiguousarray(each).tobytes() for each in arrays)))


def fit_in_memory(folder: Path, given: Path) -> None:
    """Scales alone, on random features."""
    fit(folder, given, 500, n_features=64, validation=3, tol=1e-2)


def fit_by_default(folder: Path, given: Path) -> None:
    """As it is if nothing is said: a metric, on data centres."""
    fit(folder, given, 150)


def fit_from_file(folder: Path, given: Path) -> None:
    """At one size, so that most of it is sums over the blocks."""
    fit(folder, given, n_features=32, schedule="full", tol=0.3)


def fit_result(folder: Path) -> str:
    """The bits of the latest fit that came to its end."""
    path = folder.parent / f"{folder.name}.bits"
    return path.read_text()


def fit_state(folder: Path, _given: Path) -> str:
    """Whether the files of a checkpoint can be read, whole: all but the last line of the log."""
    kept = folder / KEPT
    if not kept.exists():
        return "new" if (folder.parent / f"{folder.name}.bits").exists() else "old"
    for path in kept.iterdir():
        if path.name == FIT:
            if set(json.loads(path.read_text())) != {"key", "constants", "made"}:
                return f"{FIT} is not whole"
        elif path.name == LOG:
            lines = path.read_bytes().splitlines(keepends=True)
            for line in lines if path.read_bytes().endswith(b"\n") else lines[:-1]:
                check, _, text = line[:-1].partition(b" ")
                if check != b"%08x" % zlib.crc32(text):
                    return f"{LOG} holds a spoiled line"
        elif path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                if not all(arrays[name].nbytes for name in ("pass", "done")):
                    return f"{path.name} is not whole"
        elif ".part" not in path.name:
            return f"{path.name} is not one of ours"
    return "between" if (kept / FIT).exists() else "old"


def begin_fit(folder: Path, _given: Path) -> None:
    """No bits of an earlier fit."""
    (folder.parent / f"{folder.name}.bits").unlink(missing_ok=True)


# -- files ----------------------------------------------------------------------------------------------------------------


def begin_save(folder: Path, given: Path) -> None:
    """An old model is there."""
    (folder / MODEL).write_bytes((given / "old").read_bytes())


def save(folder: Path, given: Path) -> None:
    """Save another model in its place."""
    bochner.load(given / "new").save(folder / MODEL)


def some_rows() -> Any:
    """Rows to predict."""
    return pa.table(dict(zip("abcd", np.random.default_rng(1).standard_normal((4, 50)), strict=True))).to_pandas()


def save_state(folder: Path, given: Path) -> str:
    """Which of the models is in the file, by all that it predicts."""
    X = some_rows()
    found = bochner.load(folder / MODEL).predict(X)
    for name in ("old", "new"):
        if np.array_equal(bochner.load(given / name).predict(X), found):
            return name
    return "another model"


def save_result(folder: Path) -> str:
    """The bits of what the saved model predicts."""
    return digest(bochner.load(folder / MODEL).predict(some_rows()).tobytes())


def begin_predict(folder: Path, _given: Path) -> None:
    """Predictions of another model are there."""
    for name in (f"{OUT}.parquet", f"{OUT}.csv"):
        (folder / name).write_bytes(old_predictions(name))


def old_predictions(name: str) -> bytes:
    """Those of another model, whole."""
    table = pa.table({"prediction": np.arange(5.0)})
    buffer = io.BytesIO()
    if name.endswith("parquet"):
        parquet.write_table(table, buffer)
    else:
        buffer.write(b"prediction\n" + b"\n".join(b"%d" % i for i in range(5)) + b"\n")
    return buffer.getvalue()


def predict_in_python(folder: Path, given: Path) -> None:
    """Predict to Parquet and to CSV, as the command does."""
    for suffix in ("parquet", "csv"):
        arguments = (str(given / "new"), str(given / "new.parquet"), str(folder / f"{OUT}.{suffix}"))
        models.predict(*arguments, std=False, proba=False, keep=["a"], style=CsvStyle())


def predict_by_command(folder: Path, given: Path) -> None:
    """The command, in a process that takes the place of this one; where calls are counted, in this one."""
    path = folder / f"{OUT}.csv"
    arguments = ["predict", str(given / "new"), str(given / "new.parquet"), "-o", str(path), "--keep", "a"]
    if io.open is not open:
        from bochner.cli import main

        code = main(arguments)
        if code:
            raise RuntimeError(f"bochner predict ended with {code}.")
        return
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    os.execv(sys.executable, [sys.executable, "-m", "bochner.cli", *arguments])


def predicted_state(folder: Path, _given: Path) -> str:
    """Whether each file is whole, by its bytes or by what Parquet reads: "new" if any of them is the new one."""
    states = set()
    for name in (f"{OUT}.parquet", f"{OUT}.csv"):
        content = (folder / name).read_bytes()
        if content == old_predictions(name):
            states.add("old")
            continue
        rows = parquet.read_table(io.BytesIO(content)).num_rows if name.endswith("parquet") else content.count(b"\n") - 1
        if rows != 9000 or not (name.endswith("parquet") or content.endswith(b"\n")):
            return f"{name} has {rows} rows"
        states.add("new")
    return "new" if "new" in states else "old"


def predicted_result(folder: Path) -> str:
    """The bits of the predictions in both files."""
    return digest((folder / f"{OUT}.csv").read_bytes(), (folder / f"{OUT}.parquet").read_bytes())


JOBS = (
    Job("fitting rows in memory", fit_in_memory, fit_state, fit_result, begin_fit),
    Job("fitting by default", fit_by_default, fit_state, fit_result, begin_fit),
    Job("summing rows of a file", fit_from_file, fit_state, fit_result, begin_fit),
    Job("saving a model", save, save_state, save_result, begin_save),
    Job("predicting to files", predict_in_python, predicted_state, predicted_result, begin_predict),
    Job("bochner predict", predict_by_command, predicted_state, predicted_result, begin_predict),
)
