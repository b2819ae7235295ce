"""Peers of ``hostile.py``: how each is asked about the same cases, behind a StandardScaler for columns and one for targets.

Both scalers are there for the peers' good: without them a peer with a fixed penalty or width could do little with columns of
1e30. They overflow themselves where squares of the numbers do; then the peer is not asked, and the case is counted apart, as
a failure of the scaler. Not all peers take weights, so that none are given. GPyTorch and xRFM are used where they can be
imported. Ours stand beside them without any scaler, on plain settings and on their defaults.
"""

from __future__ import annotations

import json
import os
import resource
import signal
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
from tests.hostile.estimators import ESTIMATORS, is_classifier
from tests.hostile.judge import (
    BrokenRuleError,
    Outcome,
    judge,
    no_worse_than_mean,
    no_worse_than_prior,
    refuse_nan_attributes,
)

PEER_SECONDS = 20
"""A peer that computes for longer than this for some sixty rows has failed."""


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


PEERS: dict[str, tuple[Callable[[], Any], bool]] = {
    "Ridge on RBFSampler": (lambda: make_pipeline(RBFSampler(n_components=16, random_state=0), Ridge()), False),
    "KernelRidge": (lambda: KernelRidge(kernel="rbf"), False),
    "SVR": (lambda: SVR(), False),
    "SVC": (lambda: SVC(), True),
    "GaussianProcessRegressor": (lambda: GaussianProcessRegressor(RBF() + WhiteKernel(), random_state=0), False),
    "GPyTorch exact GP": (GP, False),
    "xRFM": (XRFM, False),
}
"""How each is made, and whether it tells classes."""
DENSE = ("GaussianProcessRegressor", "GPyTorch exact GP", "xRFM")
"""Those that take no sparse rows, and are given dense ones."""
NEEDS = {"GPyTorch exact GP": "gpytorch", "xRFM": "xrfm"}


def there() -> list[str]:
    """Peers that can be imported."""
    return [name for name in PEERS if name not in NEEDS or find_spec(NEEDS[name]) is not None]


def attempt_ours(name: str, case: Case) -> Outcome:
    """What comes of a case where one of ours is asked with its default settings, but for the seed."""
    classifier = is_classifier(name)
    data = Data(data_of(case, classifier).X, data_of(case, classifier).y, None)

    def act() -> tuple[Any, ...]:
        model = ESTIMATORS[name](random_state=0).fit(data.X, data.y)
        return model, model.predict(data.X), model.predict_proba(data.X) if classifier else None

    def check(found: tuple[Any, ...]) -> None:
        model, predictions, probabilities = found
        refuse_nan_attributes(model)
        if classifier:  # probabilities come of held-out rows
            no_worse_than_prior(model, predictions, probabilities, data, 0.2)
        else:
            no_worse_than_mean(predictions, data)

    return judge(act, check)


def attempt_scaler(data: Data, *, targets: bool) -> Outcome:
    """What comes of the scalers alone: finite numbers, or what is wrong with them."""

    def act() -> list[Any]:
        columns = StandardScaler(with_mean=not sparse.issparse(data.X)).fit_transform(data.X)
        found = [columns.data if sparse.issparse(columns) else columns]
        if targets:
            found.append(StandardScaler().fit_transform(np.asarray(data.y).reshape(len(data.y), -1)))
        return found

    def check(found: list[Any]) -> None:
        if not all(np.isfinite(each).all() for each in found):
            raise BrokenRuleError("numbers that are not finite")

    return judge(act, check)


def attempt_peer(name: str, case: Case) -> Outcome:
    """What comes of a case where a peer is asked; "scaler" where what stands before it fails."""
    make, classifier = PEERS[name]
    data = data_of(case, classifier)
    X = data.X.toarray() if name in DENSE and sparse.issparse(data.X) else data.X
    data = Data(X, data.y, None)
    scaled = attempt_scaler(data, targets=not classifier)
    if scaled.result == "failed":
        return Outcome("scaler", scaled.message)

    def act() -> tuple[Any, Any]:
        model = _scaled(make(), data.X, targets=not classifier)
        model.fit(data.X, data.y)
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
            no_worse_than_mean(predictions, Data(data.X, y, None))

    return judge(act, check)


def isolated(call: Callable[[], Outcome]) -> Outcome:
    """The outcome of a call in a process of its own, which fails where that computes for too long or dies.

    Compiled loops, such as LIBSVM's, hear of no alarm.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (PEER_SECONDS, PEER_SECONDS))
        found = call()
        os.write(writer, json.dumps([found.result, found.message]).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        text = stream.read()
    status = os.waitpid(child, 0)[1]
    if status != 0 or not text:
        killed = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
        return Outcome("failed", f"took more than {PEER_SECONDS} seconds" if killed else f"ended with status {status}")
    return Outcome(*json.loads(text))


def warm_up(name: str) -> None:
    """Ask once about plain data, so that what is said once, when modules are imported, is said by then."""
    text = (
        "estimator=- loss=- engine=- variant=- columns=plain target={} weights=none layout=C dtype=float64 n=30 m=3 seed=0"
    )
    attempt_peer(name, Case.parse(text.format("two" if PEERS[name][1] else "plain")))
