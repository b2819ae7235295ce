"""Peers of ``hostile.py``: how each is asked about the same cases, behind a StandardScaler for columns and one for targets.

Both scalers are there for the peers' good: without them a peer with a fixed penalty or width could do little with columns of
1e30. Weights go to peers that take them. GPyTorch and xRFM are used where they can be imported.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_approximation import RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from uci_gp import fit_process

from tests.hostile.cases import Case, Data, data_of
from tests.hostile.estimators import limited
from tests.hostile.judge import Outcome, judge, no_worse_than_mean, no_worse_than_prior


class GP(RegressorMixin, BaseEstimator):
    """GPyTorch's exact Gaussian process as ``uci_gp.py`` has it, target by target, its mean and noise learned."""

    def fit(self, X: Any, y: Any) -> GP:
        """Fit one process for each target."""
        X, y = _dense(X), np.asarray(y, dtype=np.float64)
        columns = y.reshape(len(y), -1)[:, :4]  # of very many targets the first ones are judged
        self.n_targets_ = y.reshape(len(y), -1).shape[1]
        self.processes_ = [fit_process(X, column, 0, None)[0] for column in columns.T]
        self.one_ = y.ndim == 1
        return self

    def predict(self, X: Any) -> Any:
        """Means."""
        found = np.stack([process.predict(_dense(X)) for process in self.processes_], axis=1)
        return found[:, 0] if self.one_ else found


class XRFM(RegressorMixin, BaseEstimator):
    """xRFM with its default settings, validated on its training rows, of which there may be two."""

    def fit(self, X: Any, y: Any) -> XRFM:
        """Fit."""
        import torch
        from xrfm import xRFM  # type: ignore[import-not-found]

        X, y = _dense(X).astype(np.float32), np.asarray(y, dtype=np.float32)
        self.model_ = xRFM(device=torch.device("cpu"), tuning_metric="mse", random_state=0, verbose=False)
        self.model_.fit(X, y.reshape(len(y), -1), X, y.reshape(len(y), -1))
        self.one_ = y.ndim == 1
        return self

    def predict(self, X: Any) -> Any:
        """Predictions."""
        found = np.asarray(self.model_.predict(_dense(X).astype(np.float32)))
        return found.reshape(len(found), -1)[:, 0] if self.one_ else found


def _dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def _scaled(model: Any, X: Any, *, targets: bool = True) -> Any:
    """Behind a scaler of the columns (without their mean where they are sparse), and one of the targets."""
    pipeline = make_pipeline(StandardScaler(with_mean=not sparse.issparse(X)), model)
    return TransformedTargetRegressor(pipeline, transformer=StandardScaler()) if targets else pipeline


Make = Callable[[], Any]
PEERS: dict[str, tuple[Make, bool, str]] = {
    "Ridge on RBFSampler": (
        lambda: make_pipeline(RBFSampler(n_components=16, random_state=0), Ridge()),
        False,
        "pipeline__ridge",
    ),
    "KernelRidge": (lambda: KernelRidge(kernel="rbf"), False, "kernelridge"),
    "SVR": (lambda: SVR(), False, "svr"),
    "SVC": (lambda: SVC(), True, "svc"),
    "GaussianProcessRegressor": (
        lambda: GaussianProcessRegressor(RBF() + WhiteKernel(), random_state=0),
        False,
        "",
    ),
    "GPyTorch exact GP": (GP, False, ""),
    "xRFM": (XRFM, False, ""),
}
"""How each is made, whether it tells classes, and the step that takes weights."""
NEEDS = {"GPyTorch exact GP": "gpytorch", "xRFM": "xrfm"}


def there() -> list[str]:
    """Peers that can be imported."""
    return [name for name in PEERS if name not in NEEDS or find_spec(NEEDS[name]) is not None]


def attempt_peer(name: str, case: Case) -> Outcome:
    """What comes of a case where a peer is asked."""
    make, classifier, step = PEERS[name]
    data = data_of(case, classifier)
    if not step:
        data = Data(data.X, data.y, None)

    def act() -> tuple[Any, Any]:
        model = _scaled(make(), data.X, targets=not classifier)
        weights = {} if data.weights is None else {f"{step}__sample_weight": data.weights}
        model.fit(data.X, data.y, **weights)
        return model, model.predict(data.X)

    def check(found: tuple[Any, Any]) -> None:
        model, predictions = found
        if classifier:
            no_worse_than_prior(model, predictions, None, data)
        elif name == "SVR":
            spread = np.asarray(data.y, dtype=np.float64).std(axis=0)
            no_worse_than_mean(predictions, data, 0.1 * float(np.max(spread)))
        else:
            columns = slice(0, 4) if name == "GPyTorch exact GP" and np.ndim(data.y) == 2 else slice(None)
            y = np.asarray(data.y)[:, columns] if np.ndim(data.y) == 2 else data.y
            no_worse_than_mean(predictions, Data(data.X, y, data.weights))

    return limited(lambda: judge(act, check))
