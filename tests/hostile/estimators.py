"""Who is asked: every public estimator with every loss that it names, on every engine that it has, and some of its options.

Estimators are found by their ``fit``, losses by the error that an unknown one brings, engines and options by the names of
parameters, so that a new estimator is tested unasked.
"""

from __future__ import annotations

import functools
import inspect
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import bochner
from bochner import exact
from tests.hostile.cases import IN_BLOCKS, LAYOUTS, Case, Data, data_of
from tests.hostile.judge import (
    BrokenRuleError,
    Outcome,
    judge,
    lengths_of_one,
    no_worse_than_mean,
    no_worse_than_prior,
    refuse_nan,
    refuse_nan_attributes,
    takes,
)

SECONDS = 120
"""A case that computes for longer than this has failed."""
ROWS_TO_CHOOSE_BY = 100
"""Rows of positive weight from which on a metric is chosen unasked, as docs/learning.md says."""
ESTIMATORS = {
    name: cls
    for room in (bochner, exact)
    for name in room.__all__
    if isinstance(cls := getattr(room, name), type) and hasattr(cls, "fit")
}
"""All public estimators by name."""
HURRIED = {
    "n_features": 16,
    "n_alphas": 3,
    "max_iter": 20,
    "max_memory": "300MB",
    "random_state": 0,
    "tol": 0.1,
}
"""Options by name that make a fit short."""
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "loo": {"criterion": "loo"},
    "holdout": {"criterion": "holdout"},
    "per-column": {"scale": "per-column"},
    "as-they-are": {"standardize": False},
    "given-alpha": {"alpha": 1e-12},
    "per-target": {"alpha": "per-target"},
    "centres": {"finish": "centres", "n_features": None, "n_centres": 20},
    "full-metric": {"metric": "full", "finish": "auto", "n_features": None, "n_centres": 20},
    "default-effort": {"effort": "default", "n_features": None},
    "free-spectrum": {"spectrum": "free"},
    "sparse-scales": {"scale_penalty": "sparse"},
    "cauchy": {"kernel": "cauchy"},
    "matern12": {"kernel": "matern12"},
    "chi2": {"kernel": "chi2", "n_features": None},
    "skewed_chi2": {"kernel": "skewed_chi2"},
    "phase": {"form": "phase"},
    "two-kernels": {"kernels": ["gaussian", "cauchy"]},
    "learned-weights": {"kernels": ["gaussian", "laplacian"], "refit": "learned"},
    "joint": {"kernels": ["gaussian", "gaussian"], "refit": "joint"},
    "no-refit": {"kernels": ["gaussian", "cauchy"], "refit": None},
    "own-weights": {"kernels": ["gaussian", "cauchy"], "shared_weights": False},
    "dear": {"C": 1e6},
    "cheap": {"C": 1e-6},
}
"""Options by the name of a variant, for every estimator that has all of them."""
LEARNERS_ON_FEATURES = ("KernelRegressor", "KernelClassifier")
NOT_FOR: dict[str, Callable[[str, str, str], bool]] = {
    "loo": lambda name, loss, engine: loss != "squared" or engine == "torch" or name == "KernelRidgeGD",
    "per-column": lambda name, loss, engine: "kernel" not in parameters(name) or name == "FourierFeatures",
    "per-target": lambda name, loss, engine: loss != "squared" or name not in LEARNERS_ON_FEATURES,
    "centres": lambda name, loss, engine: loss != "squared",
    "full-metric": lambda name, loss, engine: loss != "squared",
    "free-spectrum": lambda name, loss, engine: loss != "squared",
    "learned-weights": lambda name, loss, engine: loss != "squared",
    "joint": lambda name, loss, engine: loss != "squared",
}
"""Variants that an estimator refuses whatever the data: they are no matter of these."""
CALIBRATED_ON_A_PART = ("holdout", "centres", "full-metric", "default-effort")
"""Variants whose probabilities come from a part of the rows alone, since others have learned the kernel."""
VARIANTS_IN_BLOCKS = ("plain", "default-effort", "centres", "given-alpha")
NO_BLOCKS = ("csr", "csc", "frame")


def is_classifier(name: str) -> bool:
    """Whether an estimator predicts classes."""
    return getattr(ESTIMATORS[name], "_estimator_type", None) == "classifier" or "Classifier" in name


@functools.cache
def losses_of(name: str) -> tuple[str, ...]:
    """The losses of an estimator, as its error about an unknown one names them; "squared" where it has no choice."""
    if "loss" not in parameters(name):
        return ("squared",)
    X = np.random.default_rng(0).standard_normal((20, 2))
    y = np.arange(20) % 2
    try:
        ESTIMATORS[name](loss="?").fit(X, y)
    except ValueError as error:
        found = re.search(r"loss must be one of (.*), got", str(error))
        if found is not None:
            return tuple(found[1].split(", "))
    raise AssertionError(f"{name}(loss='?') must raise 'loss must be one of ..., got ...'")


def parameters(name: str) -> tuple[str, ...]:
    """Names of the parameters of an estimator."""
    return tuple(inspect.signature(ESTIMATORS[name]).parameters)


def variants_of(name: str) -> list[str]:
    """Variants whose options an estimator has."""
    return [variant for variant, options in OPTIONS.items() if set(options) <= set(parameters(name))]


@functools.cache
def takes_blocks(name: str) -> bool:
    """Whether an estimator takes rows in blocks: others say that they do not, whatever the rows."""
    from bochner.rows import from_arrays

    try:
        ESTIMATORS[name]().fit(from_arrays(np.ones((1, 2)), np.ones(1)), None)
    except ValueError as error:
        return "takes no rows in blocks" not in str(error)
    return True


def engines_of(name: str, loss: str) -> list[str]:
    """Engines that an estimator has: blocks as it says itself, Dask and devices by its parameter; devices know one loss."""
    found = ["threads"]
    if takes_blocks(name):
        found.append("blocks")
    if "device" in parameters(name):
        found += ["dask", "torch"] if loss == "squared" else ["dask"]
    return found


def learners() -> list[tuple[str, str, str, str]]:
    """All of (estimator, loss, engine, variant); those in blocks in a few variants."""
    return [
        (name, loss, engine, variant)
        for name in ESTIMATORS
        for loss in losses_of(name)
        for engine in engines_of(name, loss)
        for variant in variants_of(name)
        if variant not in NOT_FOR or not NOT_FOR[variant](name, loss, engine)
        if engine not in IN_BLOCKS or variant in VARIANTS_IN_BLOCKS
    ]


def made(case: Case) -> Any:
    """The estimator of a case, not fitted."""
    allowed = parameters(case.estimator)
    options = {**HURRIED, **OPTIONS[case.variant]}
    if "loss" in allowed:
        options["loss"] = case.loss
    if case.engine == "torch":
        options["device"] = "cpu"
    if case.engine in IN_BLOCKS:
        options["validation"] = 2
    if "kernels" in allowed and "kernels" not in options:
        options["kernels"] = "gaussian"
    return ESTIMATORS[case.estimator](**{name: value for name, value in options.items() if name in allowed})


def fitted(case: Case, data: Data) -> tuple[Any, Any]:
    """The fitted estimator of a case, and the rows as they go in to predict."""
    model, X, y, weights = made(case), data.X, data.y, data.weights
    if case.engine == "blocks":
        from bochner.rows import from_arrays

        return model.fit(from_arrays(X, y, weights)), X
    if case.engine == "dask":
        import dask.array as da

        X, y, weights = (
            None if each is None else da.from_array(each, chunks=(13, -1)[: each.ndim]) for each in (X, y, weights)
        )
        return model.fit(X, y, sample_weight=weights), data.X
    if takes(model.fit, "sample_weight"):
        return model.fit(X, y, sample_weight=weights), X
    return model.fit(X, y), X


def refuse_other_finish(model: Any, case: Case, data: Data) -> None:
    """An error unless the default settings have compared metrics, on centres, exactly where they can."""
    rows = np.shape(data.X)[0] if data.weights is None else np.count_nonzero(data.weights)
    enough = rows >= ROWS_TO_CHOOSE_BY and case.m > 1 and case.loss == "squared" and case.layout not in ("csr", "csc")
    expected = ("centres", True) if enough else ("fourier", False)
    if (model.finish_, bool(model.selection_)) != expected:
        raise BrokenRuleError(
            f"finish {model.finish_!r} after {len(model.selection_)} candidates, where {expected[0]} is due"
        )


def attempt(case: Case) -> Outcome:
    """What comes of a case of ours."""
    if case.engine in IN_BLOCKS and case.layout in NO_BLOCKS:  # of arrays
        case = Case(**{**vars(case), "layout": LAYOUTS[NO_BLOCKS.index(case.layout)]})
    data = data_of(case, is_classifier(case.estimator))

    def act() -> tuple[Any, ...]:
        model, X = fitted(case, data)
        if hasattr(model, "transform"):
            return model, model.transform(X)
        if not is_classifier(case.estimator):
            extra = model.predict(X, return_std=True)[1:] if takes(model.predict, "return_std") else ()
            return model, model.predict(X), *extra
        return model, model.predict(X), model.predict_proba(X) if hasattr(model, "predict_proba") else None

    def check(found: tuple[Any, ...]) -> None:
        model, answers, *others = found
        refuse_nan_attributes(model)
        if case.variant == "default-effort":
            refuse_other_finish(model, case, data)
        if hasattr(model, "transform"):
            if model.kernel_.geometry == "additive":
                refuse_nan("transform", answers.data if hasattr(answers, "nnz") else answers)
            elif case.variant != "phase":
                lengths_of_one(answers, data)
        elif is_classifier(case.estimator):
            no_worse_than_prior(model, answers, others[0], data, 0.2 if case.variant in CALIBRATED_ON_A_PART else 1.0)
        else:
            no_worse_than_mean(answers, data, *band_of(case.loss, data))
            for deviations in others:
                refuse_nan("return_std", deviations)
                if np.min(deviations) < 0:
                    raise BrokenRuleError("a deviation is negative")

    return limited(lambda: judge(act, check))


def band_of(loss: str, data: Data) -> tuple[float | None, float]:
    """Half the width of the band of a loss that is not the squared one, in units of y, and how wide its edge is."""
    if loss == "epsilon-insensitive":
        return 0.1, 0.0
    return (0.0, 0.1 + 2 * np.log(2) / 10) if loss == "epsilon-logistic" else (None, 0.0)


def limited(call: Any) -> Outcome:
    """The outcome, or a failure where it takes too long."""
    try:
        with alarm(SECONDS):
            return call()
    except TimeoutError:
        return Outcome("failed", f"took more than {SECONDS} seconds")


@contextmanager
def alarm(seconds: int) -> Iterator[None]:
    """A TimeoutError after so many seconds of computing, where the system has alarms."""
    if not hasattr(signal, "SIGPROF"):
        yield
        return

    def ring(*_: Any) -> None:
        raise TimeoutError(f"took more than {seconds} seconds")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
