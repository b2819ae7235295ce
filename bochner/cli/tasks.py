"""What is to be learned: target, task, weights, columns and views of a table."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.cli.data import by_number, find_column
from bochner.cli.running import USAGE, CommandError, tell
from bochner.tables.frames import cells_of
from bochner.tables.learning import numbers_of
from bochner.tables.written import Tally

FEW_CLASSES = 10
"""Whole numbers of no more distinct values than this are classes, unless the task is given."""
MOST_CLASSES_OF_FEW = 20
"""Different texts of a target that are classes however few rows there are."""
VIEW = 'groups of columns, such as place = ["city", "latitude"]'
"""What a file of views holds, as errors tell it."""
INDEX = re.compile(r"__index_level_\d+__")
"""Names that pandas gives the index of a table in files; in CSV it has none."""


@dataclass(frozen=True)
class Problem:
    """Rows to learn from: a table of the columns, targets (n,), weights (n,) or None, and the task."""

    X: Any
    y: Array
    weight: Array | None
    task: str

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.y)

    def take(self, rows: Array) -> Problem:
        """Some of the rows."""
        return Problem(self.X.take(rows), self.y[rows], None if self.weight is None else self.weight[rows], self.task)


@dataclass(frozen=True)
class Asked:
    """Which columns of a file are what."""

    target: str
    weight: str | None = None
    drop: Sequence[str] = ()
    task: str = "auto"

    def among(self, names: Sequence[str]) -> Asked:
        """The same columns of a file without names, some of which may be asked for by their numbers."""
        weight = None if self.weight is None else by_number(self.weight, names)
        return Asked(by_number(self.target, names), weight, [by_number(name, names) for name in self.drop], self.task)


def make_problem(table: Any, asked: Asked, path: str) -> Problem:
    """The problem that a table of pyarrow's holds; rows without a target are left out, with a note."""
    names = table.schema.names
    target = find_column(asked.target, names, path, "--target")
    weight = None if asked.weight is None else find_column(asked.weight, names, path, "--weight")
    dropped = {find_column(name, names, path, "--drop") for name in asked.drop}
    if weight == target:
        raise CommandError(f"{target!r} is both --target and --weight: give another weight.", code=USAGE)
    if target in dropped:
        raise CommandError(f"{target!r} is both --target and among --drop: take it out of --drop.", code=USAGE)
    index = {name for name in names if name == "" or INDEX.fullmatch(name)}
    columns = [name for name in names if name not in {target, weight, *dropped, *index}]
    if not columns:
        raise CommandError(
            f"{path} has no columns left to learn from beside {target!r}: "
            "give a file with more columns, or drop fewer (--drop)."
        )
    y, missing = _targets(table, names.index(target), target)
    if missing.any():
        if missing.all():
            cells = "its one cell is" if len(missing) == 1 else f"all {len(missing):,} cells are"
            raise CommandError(f"{path}, column {target!r} (--target) holds nothing, {cells} missing: give another column.")
        have, are = ("has", "is") if missing.sum() == 1 else ("have", "are")
        tell(f"Note: {missing.sum():,} of {len(missing):,} rows {have} no {target!r} and {are} left out.")
        table, y = table.take(np.flatnonzero(~missing)), y[~missing]
    weights = None if weight is None else _weights(table, table.schema.names.index(weight), weight, path)
    task = _task(y, asked, target)
    if task == "classification" and y.dtype.kind == "f" and np.all(y == np.round(y)):
        y = y.astype(np.int64)
    return Problem(table.select(columns), y, weights, task)


def _targets(table: Any, i: int, name: str) -> tuple[Array, Array]:
    """Targets (n,), numbers or text, and where they are missing."""
    try:
        cells = cells_of(table, i)
    except ValueError as error:
        raise CommandError(f"Column {name!r} (--target) {error}.") from error
    if cells.kind in ("numbers", "empty"):
        return cells.values, np.isnan(cells.values)
    if cells.kind == "truth":
        missing = np.isnan(cells.values)
        return np.where(cells.values == 1, "true", "false").astype(object), missing
    if cells.kind == "times":
        raise CommandError(f"Column {name!r} (--target) holds dates: give a column of numbers or of classes.", code=USAGE)
    missing = np.array([value is None for value in cells.values])
    written = numbers_of(cells.values) if cells.kind == "text" and not missing.all() else None
    if written is None:
        return cells.values, missing
    found, sign = written
    if sign:
        tell(f"Note: {name!r} is read as numbers, in {sign}.")
    return found, missing


def _weights(table: Any, i: int, name: str, path: str) -> Array:
    cells = cells_of(table, i)
    if cells.kind not in ("numbers", "truth") or np.isnan(cells.values).any():
        got = {"text": "text", "times": "dates"}.get(cells.kind, "missing cells")
        raise CommandError(
            f"{path}, column {name!r} (--weight) must hold numbers without missing cells, got {got}: "
            "give another column, or fill it."
        )
    if (cells.values < 0).any():
        raise CommandError(
            f"{path}, column {name!r} (--weight) has a negative number, {cells.values.min():g}: "
            "weights must be zero or more, so take its rows out, or give another column."
        )
    return cells.values


def _task(y: Array, asked: Asked, target: str) -> str:
    """The task that was asked for, or that targets suggest."""
    if y.dtype.kind == "O":
        n_classes = len(set(y.tolist()))
        are_many = n_classes > max(MOST_CLASSES_OF_FEW, len(y) / 2)
        if are_many or asked.task == "regression":
            _refuse_mostly_numbers(y, target)
        if are_many:
            raise CommandError(
                f"Column {target!r} (--target) holds text, {n_classes:,} different ones in {len(y):,} rows, such as {y[0]!r}"
                ": classes need several rows each. If it stands for numbers, write it as plain numbers, such as 32.96.",
                code=USAGE,
            )
        if asked.task == "regression":
            raise CommandError(
                f"Column {target!r} (--target) holds text, such as {y[0]!r}: use --task classification.", code=USAGE
            )
        found = "classification"
    elif asked.task != "auto":
        found = asked.task
    else:
        distinct = np.unique(y)
        whole = bool(np.all(distinct == np.round(distinct)))
        found = "classification" if whole and len(distinct) <= FEW_CLASSES else "regression"
        if found == "classification" and len(distinct) > 2:
            tell(f"Note: {target!r} has {len(distinct)} whole numbers and is taken for classes; or say --task regression.")
    if found == "classification" and len(np.unique(y)) < 2:
        raise CommandError(
            f"Column {target!r} (--target) holds one class only, {y[0]!r}, and at least two are needed: "
            "give another column, or rows of other classes."
        )
    return found


def _refuse_mostly_numbers(y: Array, target: str) -> None:
    """An error where text without gaps is numbers for the most part, or in another way of writing."""
    tally = Tally()
    for cell in y:
        tally.see(cell)
    if told := tally.in_words("leave its row out", "leave these rows out"):
        raise CommandError(f"Column {target!r} (--target) holds text: {told}", code=USAGE)


def read_views(path: str, columns: Sequence[str], kernel: str) -> list[tuple[str, str, list[str]]]:
    """Kernels on groups of columns, from a file such as

    place = ["city", "latitude"]

    [house]
    columns = ["size", "rooms"]
    kernel = "matern32"
    """
    try:
        with open(path, "rb") as file:
            found = tomllib.load(file)
    except FileNotFoundError:
        raise CommandError(f"There is no file {path} (--views): give one that has {VIEW}.") from None
    except tomllib.TOMLDecodeError as error:
        raise CommandError(f"{path} (--views) is no TOML ({error}): write {VIEW}.") from None
    kernels = []
    for name, given in found.items():
        view = given if isinstance(given, dict) else {"columns": given}
        own = view.get("columns")
        if not isinstance(own, list) or not own or not all(isinstance(each, str) for each in own):
            raise CommandError(
                f'{path}, view {name!r} needs names of columns, got {own!r}: write {name} = ["column", "column"].'
            )
        if unknown := set(view) - {"columns", "kernel"}:
            raise CommandError(
                f"{path}, view {name!r} has {min(unknown)!r}, and a view has columns and a kernel only: take it out."
            )
        chosen = [find_column(each, columns, Path(path).name, f"view {name!r} of --views") for each in own]
        kernels.append((name, str(view.get("kernel", kernel)), chosen))
    if not kernels:
        raise CommandError(f"{path} (--views) is empty: write {VIEW}.")
    return kernels
