"""The sets of ``mkl.py``: views of the same rows, their splits, and views of noise beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy.io import loadmat
from sklearn.model_selection import train_test_split
from uci_data import MNIST_FILE, VARIABLE, standardise

from bochner.estimators.dictionary import default_features
from bochner.kernels import Gaussian
from bochner.kernels.bandwidth import median_scale

TEST_PART = 0.3
MNIST = "MNIST"
MNIST_TRAIN, MNIST_TEST = 2000, 5000
"""Rows of MNIST that a split draws from its training and from its test rows, by class."""
MNIST_FACTORS = (0.5, 1.5)
"""The two widths of each quarter of an image: multiples of the median scale."""
NOISE_VIEWS = 3
MEDIAN_ROWS = 500
Cell = tuple[list[np.ndarray], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One split: tables of training and test rows, labels, and Gaussian kernels for each table, multiples of its scale."""

    name: str
    split: int
    tables: list[np.ndarray]
    tables_test: list[np.ndarray]
    y: np.ndarray
    y_test: np.ndarray
    factors: tuple[float, ...] = (1.0,)
    noise: int = 0
    """How many of the last tables are noise."""

    @property
    def d(self) -> int:
        """Random features of each kernel: as many as MultipleKernelClassifier takes by default."""
        return default_features(len(self.views), len(self.y))

    @property
    def views(self) -> list[int]:
        """The table of each kernel."""
        return [number for number in range(len(self.tables)) for _ in self.factors]

    def kernels(self) -> list[Gaussian]:
        """Gaussian kernels, their scales multiples of one over the median distance."""
        some = np.random.default_rng(self.split).permutation(len(self.y))[:MEDIAN_ROWS]
        medians = [median_scale(Gaussian(), table[some]) for table in self.tables]
        return [Gaussian(scale=medians[t] * factor) for t in range(len(self.tables)) for factor in self.factors]

    def grams(self) -> np.ndarray:
        """The kernel matrices of the training rows: (r, n, n)."""
        return self._exact(self.tables)

    def grams_test(self) -> np.ndarray:
        """Those of test rows with training rows: (r, n_test, n)."""
        return self._exact(self.tables_test)

    def _exact(self, tables: list[np.ndarray]) -> np.ndarray:
        pairs = zip(self.kernels(), self.views, strict=True)
        return np.stack([kernel.exact(tables[t], self.tables[t]) for kernel, t in pairs])

    def with_noise(self) -> Problem:
        """The same with views of standard normal noise, as wide as the median view."""
        rng = np.random.default_rng([self.split, NOISE_VIEWS])
        width = int(np.median([table.shape[1] for table in self.tables]))
        noise, noise_test = (
            [rng.standard_normal((len(labels), width)) for _ in range(NOISE_VIEWS)] for labels in (self.y, self.y_test)
        )
        return replace(self, tables=self.tables + noise, tables_test=self.tables_test + noise_test, noise=NOISE_VIEWS)


@dataclass(frozen=True, kw_only=True)
class ViewSet:
    """A set by its name, its number of training rows, kernels and classes, and how its splits are loaded."""

    name: str
    n: int
    kernels: int
    classes: int
    path: Path
    load: Callable[[Path, int], Problem] = field(repr=False)

    @property
    def d(self) -> int:
        """Random features of all kernels together."""
        return self.kernels * default_features(self.kernels, self.n)

    def problem(self, split: int, *, noise: bool) -> Problem:
        """The rows of one split, with or without views of noise."""
        problem = self.load(self.path, split)
        return problem.with_noise() if noise else problem


def _plain(views: str, labels: str) -> Callable[[dict], Cell]:
    return lambda file: (list(file[views].ravel()), file[labels].ravel())


def _transposed(labels: Callable[[dict], np.ndarray]) -> Callable[[dict], Cell]:
    return lambda file: ([view.T for view in file["data"].ravel()], labels(file).ravel())


READERS: dict[str, Callable[[dict], Cell]] = {
    "MSRC_v1": _plain("fea", "gt"),
    "100Leaves": _transposed(lambda file: file["truth"]),
    "Mfeat": _plain("X", "Y"),
    "BDGP": _transposed(lambda file: file["truelabel"].ravel()[0]),
    "Wikipedia": _plain("X", "y"),
    "Scene_15": _plain("X", "Y"),
}
"""How the cell arrays of each file are read, smaller sets first."""
LAYOUT = f"  multiview/NAME.mat         views and labels: {', '.join(READERS)}\n  {MNIST_FILE.as_posix()}      MNIST"


def find_sets(folder: Path) -> list[ViewSet]:
    """The sets that are in the folder of data, smaller ones first."""
    sets = [_of_file(path) for name in READERS if (path := folder / "multiview" / f"{name}.mat").is_file()]
    if (folder / MNIST_FILE).is_file():
        kernels = 4 * len(MNIST_FACTORS)
        sets.append(
            ViewSet(name=MNIST, n=MNIST_TRAIN, kernels=kernels, classes=10, path=folder / MNIST_FILE, load=_mnist_split)
        )
    if not sets:
        raise FileNotFoundError(
            f"There are no sets of views in {folder}. Name the folder of data with --data DIR, or in the environment "
            f"variable {VARIABLE}; docs/benchmarks.md says where its files come from."
        )
    return sets


def _of_file(path: Path) -> ViewSet:
    views, labels = _read(path)
    classes = len(np.unique(labels))
    n = len(labels) - int(np.ceil(TEST_PART * len(labels)))
    return ViewSet(name=path.stem, n=n, kernels=len(views), classes=classes, path=path, load=_file_split)


@lru_cache(maxsize=8)
def _read(path: Path) -> Cell:
    """Views (n, m_t) and classes as 0, 1, ..."""
    views, labels = READERS[path.stem](loadmat(path))
    return [np.asarray(view, dtype=np.float64) for view in views], np.unique(labels, return_inverse=True)[1]


def _file_split(path: Path, split: int) -> Problem:
    """70 % of each class to train, 30 % to test; columns standardised by the training rows."""
    views, labels = _read(path)
    train, test = train_test_split(np.arange(len(labels)), test_size=TEST_PART, stratify=labels, random_state=split)
    pairs = [standardise(view[train], view[test]) for view in views]
    tables, tables_test = (list(side) for side in zip(*pairs, strict=True))
    return Problem(name=path.stem, split=split, tables=tables, tables_test=tables_test, y=labels[train], y_test=labels[test])


def _mnist_split(path: Path, split: int) -> Problem:
    """Some training and some test rows by class; the quarters of the images, pixels from 0 to 1."""
    parts = []
    with np.load(path) as file:
        for side, size in (("train", MNIST_TRAIN), ("test", MNIST_TEST)):
            labels = file[f"y_{side}"].astype(int)
            some = train_test_split(np.arange(len(labels)), train_size=size, stratify=labels, random_state=split)[0]
            parts += [_quarters(file[f"X_{side}"][some]), labels[some]]
    tables, y, tables_test, y_test = parts
    return Problem(
        name=MNIST, split=split, tables=tables, tables_test=tables_test, y=y, y_test=y_test, factors=MNIST_FACTORS
    )


def _quarters(images: np.ndarray) -> list[np.ndarray]:
    images = images.reshape(len(images), 28, 28) / 255.0
    halves = (slice(0, 14), slice(14, 28))
    return [images[:, rows, columns].reshape(len(images), -1) for rows in halves for columns in halves]
