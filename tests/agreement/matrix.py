"""Every public estimator, done in two ways that must agree: the fits, the ways, and how far apart rounding may bring them.

All fits keep kernel and penalty, on features that are not random: they then are one problem of linear algebra, whatever the
folds, so that nothing but rounding tells two ways apart. Differences are of what a model says of the rows it was fitted on,
in units of its largest value.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import joblib
import numpy as np
from scipy import sparse
from sklearn.base import clone

import bochner
from bochner import rows as row_files
from bochner.arrays import dense
from bochner.estimators import blocks, machine, multiple_machine
from bochner.kernels import get_kernel
from bochner.rows import source
from tests.public import ESTIMATORS

N, M, ALPHA, GAP = 60, 3, 1.0, 1e-10
PARTS = [("first", get_kernel("chi2"), [0, 1]), ("last", get_kernel("chi2"), [2])]
FAST: dict[str, dict[str, Any]] = {
    "FourierFeatures": {"kernel": get_kernel("chi2")},
    "KernelClassifier": {"kernel": get_kernel("chi2"), "alpha": ALPHA, "tol": 1e9, "random_state": 0},
    "KernelRegressor": {"kernel": get_kernel("chi2"), "alpha": ALPHA, "tol": 1e9, "random_state": 0},
    "MultipleKernelClassifier": {"kernels": PARTS, "alpha": ALPHA, "l1_ratio": 0.0, "refit": None, "random_state": 0},
    "MultipleKernelRegressor": {"kernels": PARTS, "alpha": ALPHA, "l1_ratio": 0.0, "refit": None, "random_state": 0},
    "GMKLClassifier": {"kernels": PARTS, "loss": "squared", "tol": GAP, "max_iter": 1000},
    "GMKLRegressor": {"kernels": PARTS, "loss": "squared", "tol": GAP, "max_iter": 1000},
    "KernelRidgeGD": {"kernel": get_kernel("chi2"), "alpha": ALPHA, "tol": 1e9, "random_state": 0},
}
"""Arguments that make a fit fast, and its answer unique. A new estimator needs a line here."""


def table() -> tuple[np.ndarray, np.ndarray]:
    """Rows (N, M) of numbers that float32 holds, some of them zero, and targets."""
    rng = np.random.default_rng(11)
    X = rng.random((N, M)).astype(np.float32).astype(np.float64)
    X[rng.random((N, M)) < 0.2] = 0
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]
    X.flags.writeable = y.flags.writeable = False
    return X, y


X, Y = table()
LABELS = np.searchsorted(np.quantile(Y, [1 / 3, 2 / 3]), Y)
COUNTS = np.arange(N) % 3 + 1
"""How often each row is there, where rows are repeated."""


@dataclass(frozen=True)
class Case:
    """A public estimator, with rows and targets to fit."""

    name: str

    @property
    def rows(self) -> np.ndarray:
        return X

    @property
    def y(self) -> np.ndarray:
        return LABELS if self.is_classifier else Y

    @property
    def is_classifier(self) -> bool:
        return "Classifier" in self.name

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of the estimator."""
        return FAST[self.name]

    def make(self, **options: Any) -> Any:
        """An unfitted one."""
        return ESTIMATORS[self.name](**{**self.options, **options})

    def fit(self, rows: Any = None, y: Any = None, **options: Any) -> Any:
        """One that is fitted."""
        return self.make(**options).fit(self.rows if rows is None else rows, self.y if y is None else y)

    def fit_source(self, rows: Any) -> Any:
        """One that is fitted on rows that hold their targets."""
        return self.make().fit(rows, None)

    def says(self, model: Any, rows: Any = None, *, wholly: bool = False) -> np.ndarray:
        """What a model says of rows, before it rounds to classes.

        Unless ``wholly``, without the calibration of classifiers, which is that of rows held out: of other ones in another
        order of rows, and in blocks.
        """
        scores = ("_scores",) if hasattr(model, "calibration_") and not wholly else ()
        for method in (*scores, "transform", "decision_function", "predict"):
            if hasattr(model, method):
                said = getattr(model, method)(self.rows if rows is None else rows)
                return np.asarray(dense(said), dtype=np.float64)
        raise AssertionError(f"{self.name} says nothing")


Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Agreement:
    """Two ways to the same answer."""

    name: str
    both: Callable[[Case], Pair]
    """What both ways say, the second being the plain one."""
    bound: Callable[[Case], float]
    """How far they may differ."""
    refused: dict[str, str] = field(default_factory=dict)
    """Estimators that refuse one of the ways, and words of their refusal."""

    def difference(self, case: Case) -> float:
        """The largest difference of both ways, in units of the largest value."""
        found, expected = self.both(case)
        assert found.shape == expected.shape
        assert np.isfinite(expected).all()
        return float(np.abs(found - expected).max() / np.abs(expected).max())


# -- how far rounding may bring two ways apart --------------------------------------------------------------------------


def nothing(case: Case) -> float:
    """The same bits."""
    return 0.0


def rounding(case: Case, dtype: Any = np.float64) -> float:
    """4 (n + d) eps (1 + s^2 / alpha) r: sums over n rows and a solution of size d, and its condition, both ways.

    s is the length of the longest feature vector and r = max_i |phi_i| |beta| over the largest output: what cancels in a
    product. For GMKL the duality gap g of both ways counts too: C |f - f*|^2 <= g at the rows of the fit.
    """
    eps, model = float(np.finfo(dtype).eps), case.fit()
    if case.name == "FourierFeatures":
        return 4 * model.feature_map_.n_features * eps
    largest = np.abs(case.says(model)).max()
    if case.name.startswith("GMKL"):
        gap = GAP * np.max(model.objective_)
        condition = 1 + N * np.max(np.sum(X, axis=1)) * max(1.0, float(np.max(model.kernel_weights_)))
        return 2 * float(np.sqrt(gap)) / largest + 8 * N * eps * condition
    if case.name == "KernelRidgeGD":
        gram = model.kernel_.replace(scale=model.kernel_.scale * model.standardiser_.spread).exact(X, X)
        square, reach, d = np.diagonal(gram).max(), np.linalg.norm(gram, axis=1).max() * np.linalg.norm(model.dual_coef_), N
    else:
        features = features_of(model)
        square, d = np.max(np.sum(features**2, axis=1)), features.shape[1]
        reach = np.sqrt(square) * np.linalg.norm(model.coef_)
    return float(4 * (N + d) * eps * (1 + square / ALPHA) * (1 + reach / largest))


def features_of(model: Any) -> np.ndarray:
    """The features that a learner sees in the rows of its fit."""
    if hasattr(model, "standardiser_"):
        return dense(model.feature_map_.forward(model.standardiser_(X)))
    return dense(model.feature_map_.forward(np.concatenate([X[:, [0, 1]], X[:, [2]]], axis=1)))


def single(case: Case) -> float:
    """The same in float32, in which features of float32 rows are computed; kernel matrices are of float64."""
    return rounding(case, np.float64 if case.name in ONE_KERNEL_MATRIX else np.float32)


def promised(case: Case) -> float:
    """What docs/saving.md promises of graphs."""
    return 1e-5


# -- the ways -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def in_small_blocks() -> Iterator[None]:
    """Let sixty rows be many: samples of 20, blocks of 16."""
    with (
        mock.patch.object(machine, "FEWEST_SAMPLED", 20),
        mock.patch.object(multiple_machine, "FEWEST_SAMPLED", 20),
        mock.patch.object(blocks, "BLOCK_BYTES", 1),
        mock.patch.object(source, "FEWEST_BLOCK_ROWS", 16),
    ):
        yield


def plain(case: Case, **options: Any) -> np.ndarray:
    return case.says(case.fit(**options))


def of_float32(case: Case) -> Pair:
    narrow = case.rows.astype(np.float32)
    return case.says(case.fit(narrow), narrow), plain(case)


def of_tensors(case: Case) -> Pair:
    import torch

    return case.says(case.fit(torch.tensor(case.rows), torch.tensor(case.y)), torch.tensor(case.rows)), plain(case)


def on_device(case: Case) -> Pair:
    return case.says(case.make().set_params(device="cpu").fit(X, case.y)), plain(case)


def on_dask(case: Case) -> Pair:
    import dask
    import dask.array as da

    with in_small_blocks(), dask.config.set(scheduler="synchronous"):
        there = da.from_array(X, chunks=(25, M)), da.from_array(case.y, chunks=25)
        return case.says(case.make().fit(*there)), plain(case)


def from_parquet(case: Case) -> Pair:
    import pandas as pd

    with tempfile.TemporaryDirectory() as folder, in_small_blocks():
        path = Path(folder) / "rows.parquet"
        frame = pd.DataFrame(X, columns=list("abc"))
        frame.assign(y=case.y).to_parquet(path, row_group_size=17)
        return case.says(case.fit_source(row_files.open_rows(path, target="y")), frame), plain(case)


def from_npy(case: Case) -> Pair:
    with tempfile.TemporaryDirectory() as folder, in_small_blocks():
        paths = Path(folder) / "X.npy", Path(folder) / "y.npy"
        for path, values in zip(paths, (X, case.y), strict=True):
            np.save(path, values)
        return case.says(case.fit_source(row_files.open_rows(paths[0], target=paths[1]))), plain(case)


def saved(case: Case) -> Pair:
    model = case.fit()
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "m.safetensors")
        return case.says(bochner.load(Path(folder) / "m.safetensors"), wholly=True), case.says(model, wholly=True)


def pickled(case: Case) -> Pair:
    model = case.fit()
    return case.says(pickle.loads(pickle.dumps(model)), wholly=True), case.says(model, wholly=True)


def by_joblib(case: Case) -> Pair:
    model, file = case.fit(), io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return case.says(joblib.load(file), wholly=True), case.says(model, wholly=True)


def as_graph(case: Case) -> Pair:
    import onnxruntime

    model = case.fit()
    with tempfile.TemporaryDirectory() as folder:
        model.to_onnx(Path(folder) / "m.onnx")
        session = onnxruntime.InferenceSession(str(Path(folder) / "m.onnx"), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs() if each.name != "label"]
    expected = model.predict_proba(case.rows) if names == ["probabilities"] else case.says(model)
    return session.run(names, {"X": case.rows})[0], expected


def weighted(case: Case) -> Pair:
    there = case.make().fit(X, case.y, sample_weight=COUNTS.astype(float))
    repeated = case.fit(np.repeat(X, COUNTS, axis=0), np.repeat(case.y, COUNTS))
    return case.says(there), case.says(repeated)


def in_another_order(case: Case) -> Pair:
    order = np.random.default_rng(5).permutation(N)
    return case.says(case.fit(X[order], case.y[order])), plain(case)


def of_sparse(case: Case) -> Pair:
    options = {"standardize": False} if "standardize" in case.make().get_params() else {}
    rows = sparse.csr_array(X)
    return case.says(case.fit(rows, **options), rows), plain(case, **options)


def of_frames(case: Case) -> Pair:
    import pandas as pd

    frame = pd.DataFrame(case.rows, columns=list("abc"), index=range(7, 7 + len(case.rows)))
    return case.says(case.fit(frame), frame), plain(case)


def of_clones(case: Case) -> Pair:
    model = case.fit()
    expected = case.says(model, wholly=True)
    again = case.says(model.fit(case.rows, case.y), wholly=True)
    copy = case.says(clone(model).fit(case.rows, case.y), wholly=True)
    return np.stack([again, copy]), np.stack([expected, expected])


def row_by_row(case: Case) -> Pair:
    model = case.fit()
    return np.concatenate([case.says(model, case.rows[i : i + 1]) for i in range(len(case.rows))]), case.says(model)


ONE_KERNEL_MATRIX = dict.fromkeys(("GMKLClassifier", "GMKLRegressor", "KernelRidgeGD"), "in blocks")
OF_DASK = dict.fromkeys(("FourierFeatures", "GMKLClassifier", "GMKLRegressor", "KernelRidgeGD"), "Dask")
ON_DEVICES = dict.fromkeys(("FourierFeatures", *ONE_KERNEL_MATRIX), "Invalid parameter 'device'")

AGREEMENTS = {
    each.name: each
    for each in (
        Agreement("float32 rows against float64", of_float32, single),
        Agreement("tensors of PyTorch against NumPy", of_tensors, rounding),
        Agreement("device='cpu' against NumPy", on_device, rounding, ON_DEVICES),
        Agreement("Dask against NumPy", on_dask, rounding, OF_DASK),
        Agreement("Parquet in blocks against memory", from_parquet, rounding, ONE_KERNEL_MATRIX),
        Agreement(".npy in blocks against memory", from_npy, rounding, ONE_KERNEL_MATRIX),
        Agreement("loaded against saved", saved, nothing),
        Agreement("pickle", pickled, nothing),
        Agreement("joblib", by_joblib, nothing),
        Agreement("ONNX against predict", as_graph, promised),
        Agreement("weights against repetition", weighted, rounding, {"FourierFeatures": "sample_weight"}),
        Agreement("order of rows", in_another_order, rounding),
        Agreement("sparse against dense", of_sparse, rounding),
        Agreement("pandas against NumPy", of_frames, rounding),
        Agreement("clone and second fit", of_clones, nothing),
        Agreement("row by row against all", row_by_row, rounding),
    )
}
"""All agreements by name."""
