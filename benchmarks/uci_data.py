"""The data sets of ``uci.py`` and ``skl.py``: where they lie, which there are, how large, and the rows of a split."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from harness import ROOT
from sklearn.model_selection import train_test_split

VARIABLE = "BOCHNER_DATA"
BESIDE = ROOT.parent / "shared" / "data"
"""Where data are looked for if nobody says where they are."""
MIN_ROWS = 500
PMLB = ("letter", "pendigits", "optdigits", "spambase", "magic", "adult")
MNIST_FILE = Path("mnist") / "mnist_uint8.npz"
Task = Literal["regression", "classification"]
LAYOUT = f"""\
  uci/NAME.data.csv.gz       numbers without a header, the target in the last column
  uci/NAME.test_mask.csv.gz  the same rows with one column a split, in which 1 marks the test rows
  pmlb/NAME.tsv.gz           a header, and the classes in the column "target": {", ".join(PMLB)}
  {MNIST_FILE.as_posix()}      X_train, y_train, X_test, y_test"""


@dataclass(frozen=True)
class DataSet:
    """A set by its name and size. ``n`` counts all rows; MNIST has one split of its own, the others as many as asked for."""

    task: Task
    name: str
    n: int
    m: int
    folder: Path

    @property
    def n_train(self) -> int:
        """About how many rows a split trains on."""
        return 60_000 if self.name == "mnist" else round(self.n * (0.9 if self.task == "regression" else 0.8))

    def splits(self, wanted: list[int]) -> list[int]:
        """The splits of ``wanted`` that the set has."""
        return [split for split in wanted if split == 0 or self.name != "mnist"]

    def load(self, split: int) -> Split:
        """The rows of one split, columns standardised by the training rows (MNIST: pixels from 0 to 1)."""
        if self.task == "regression":
            return regression_split(self.folder, self.name, split)
        return _mnist_split(self.folder) if self.name == "mnist" else _class_split(self.folder, self.name, split)


@dataclass(frozen=True)
class Split:
    """Training and test rows. Targets of a regression are standardised by the training rows; classes count from zero."""

    X: np.ndarray
    X_test: np.ndarray
    y: np.ndarray
    y_test: np.ndarray


def data_folder(named: Path | None = None) -> Path:
    """The folder of data: the one that is named, or that of the environment variable, or the one beside the repository."""
    if named is None and os.environ.get(VARIABLE):
        named = Path(os.environ[VARIABLE])
    if named is None and not BESIDE.is_dir():
        raise absent("Nobody said where the data are")
    return named or BESIDE


def absent(what: str) -> FileNotFoundError:
    """The error of data that are not there: what is missing, how to name the folder, what it should hold."""
    return FileNotFoundError(
        f"{what}. Name the folder of data with --data DIR, or in the environment variable {VARIABLE}. It holds\n{LAYOUT}\n"
        "docs/benchmarks.md says where these files come from."
    )


def find_sets(folder: Path) -> list[DataSet]:
    """The sets of both tasks that are in the folder of data: regressions of at least MIN_ROWS rows, then classifications."""
    sets = [*_regressions(folder), *_classifications(folder)]
    if not sets:
        raise absent(f"There are no data sets in {folder}")
    return sets


def uci_files(folder: Path, name: str) -> tuple[Path, Path]:
    """The files of a regression: rows, and masks of the test rows."""
    data, masks = (folder / "uci" / f"{name}.{part}.csv.gz" for part in ("data", "test_mask"))
    for path in (data, masks):
        if not path.is_file():
            raise absent(f"There is no file {path}")
    return data, masks


def _regressions(folder: Path) -> Iterator[DataSet]:
    for path in sorted((folder / "uci").glob("*.data.csv.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            m = next(lines).count(",")
            n = 1 + sum(1 for _ in lines)
        if n >= MIN_ROWS:
            yield DataSet("regression", path.name.removesuffix(".data.csv.gz"), n, m, folder)


def _classifications(folder: Path) -> Iterator[DataSet]:
    for name in PMLB:
        path = folder / "pmlb" / f"{name}.tsv.gz"
        if path.exists():
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                yield DataSet("classification", name, m=next(lines).count("\t"), n=sum(1 for _ in lines), folder=folder)
    if (folder / MNIST_FILE).exists():
        yield DataSet("classification", "mnist", 70_000, 784, folder)


def standardise(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both with zero mean and unit spread over the training rows; constant columns become zero."""
    mean, spread = train.mean(axis=0), train.std(axis=0)
    spread = np.where(spread > 1e-12 * (1 + np.abs(mean)), spread, 1.0)
    return (train - mean) / spread, (test - mean) / spread


def regression_split(folder: Path, name: str, split: int) -> Split:
    """The rows of one split of a UCI set, columns and target standardised by the training rows."""
    rows, masks = map(_read_numbers, uci_files(folder, name))
    if split >= masks.shape[1]:
        raise ValueError(f"{name} has splits 0 to {masks.shape[1] - 1}, not {split}.")
    test = masks[:, split] > 0
    scaled, scaled_test = standardise(rows[~test], rows[test])
    return Split(scaled[:, :-1], scaled_test[:, :-1], scaled[:, -1], scaled_test[:, -1])


@lru_cache(maxsize=8)
def _read_numbers(path: Path) -> np.ndarray:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return np.loadtxt(lines, delimiter=",", ndmin=2)


def _class_split(folder: Path, name: str, split: int) -> Split:
    X, y = _read_classes(folder / "pmlb" / f"{name}.tsv.gz")
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=split)
    return Split(*standardise(X, X_test), y, y_test)


@lru_cache(maxsize=8)
def _read_classes(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Columns in the order of the file, and classes as 0, 1, ..."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        target = next(csv.reader(lines, delimiter="\t")).index("target")
        rows = np.loadtxt(lines, delimiter="\t", ndmin=2)
    return np.delete(rows, target, axis=1), np.unique(rows[:, target], return_inverse=True)[1]


def _mnist_split(folder: Path) -> Split:
    with np.load(folder / MNIST_FILE) as file:
        parts = {key: file[key] for key in ("X_train", "X_test", "y_train", "y_test")}
    X, X_test = (parts[key].reshape(len(parts[key]), -1) / 255.0 for key in ("X_train", "X_test"))
    return Split(X, X_test, parts["y_train"].astype(int), parts["y_test"].astype(int))
