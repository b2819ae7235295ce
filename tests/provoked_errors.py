"""One call for each public way to go wrong, with the error that it must raise and the words that tell what came.

A message has three parts. What was expected: a word of obligation or of fact (EXPECTED). What came: the words listed with
the call. What to type: an order, or the values to choose from (REMEDY).
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd

import bochner
from bochner import (
    FourierFeatures,
    KernelClassifier,
    KernelRegressor,
    MultipleKernelClassifier,
    MultipleKernelRegressor,
    exact,
    kernels,
    open_rows,
)
from bochner.errors import (
    FileContentError,
    InputError,
    InputTypeError,
    MissingFileError,
    NotEnoughMemoryError,
)
from bochner.kernels import Gaussian
from bochner.rows import from_arrays, from_blocks
from bochner.solvers import group_lasso_path

EXPECTED = re.compile(
    r"\b(must|needs?|needed|expected|expecting|requires?|at least|at most|only|should|cannot|is for|belongs|not available|"
    r"unknown|has|have|holds|names|fitted on|is of no use|takes no|known|in all|reads|says)\b",
    re.IGNORECASE,
)
ORDERS = (
    "add|ask|call|change|check|choose|convert|copy|correct|delete|divide|download|draw|drop|encode|fetch|"
    "fill|fit|get|give|install|keep|leave|make|mend|name|open|pass|pip install|put|raise|read|reduce|"
    "remove|rename|repeat|reshape|restart|resume|run|save|say|set|shorten|standardise|take|train|try|turn|"
    "update|upgrade|use|validate|wait|write"
)
"""Verbs that count where an order stands, at the beginning of a clause: "fit again" does, "the rows of fit" does not."""
REMEDY = re.compile(
    rf"(^|[.:;,?!)(—] |\b(or|and|then|so) )(\w+ly )?({ORDERS})\b|\b(one of|such as|did you mean)\b|"
    r"^[\w.{}']+((, [\w.]+)* and [\w.]+)? must be ",  # an argument, and the values that it may have
    re.IGNORECASE,
)
X = np.random.default_rng(0).random((30, 3))
Y = np.sin(3 * X[:, 0])
CLASSES = (np.median(Y) < Y).astype(int)
DATA = SimpleNamespace(X=X, y=Y, c=CLASSES)


def fitting(make, **options):
    """A fit of an estimator with parameters that it cannot have."""

    def call(data):
        make(**options).fit(data.X, data.c if "Classifier" in make.__name__ else data.y)

    return call


def table(data, **options):
    return KernelRegressor("gaussian", n_features=8, alpha=1.0, tol=1e9, random_state=0, **options).fit(data.X, data.y)


def with_value(value):
    wrong = X.copy()
    wrong[4, 1] = value
    return wrong


def written(name, text):
    Path(name).write_bytes(text.encode())
    return name


SEVENTH = [("a", "gaussian", [7])]
PARAMETERS = {
    KernelRegressor: {
        "kernel": ("gausian", 3, Gaussian, []),
        "n_features": (7, -2, 1.5),
        "scale": ([0, 1], "both", 3.5),
        "metric": ("round", None),
        "rank": (2, 0),
        "metric_by": ("hand",),
        "finish": ("both",),
        "n_centres": (0,),
        "effort": ("much",),
        "spectrum": ("wide",),
        "alpha": (-1.0, "small"),
        "criterion": ("cv", None),
        "validation": (1, 2.5, "kfold", (X, Y[:3])),
        "scale_penalty": ("l3",),
        "scale_penalty_strength": (-1.0,),
        "schedule": ("slow",),
        "max_memory": ("much", -5),
        "tol": (-1.0,),
        "random_state": ("seed",),
        "verbose": (-1, "loud"),
        "callback": (3,),
        "device": ("gpu",),
    },
    KernelClassifier: {"loss": ("hinge",), "class_weight": ("even", {0: -1.0, 1: 1.0})},
    FourierFeatures: {
        "kernel": ("gausian", None),
        "n_features": (7, 0),
        "scale": (-1.0, "mean", [1.0, 2.0]),
        "sampling": ("sobol",),
        "form": ("pairs",),
        "order": (-1,),
    },
    MultipleKernelRegressor: {
        "kernels": (3, {"a": "gaussian"}, SEVENTH),
        "n_features": (7, [8, 8, 8]),
        "l1_ratio": (2.0,),
        "n_alphas": (0,),
        "refit": ("again",),
        "penalty_weights": ([1.0, 2.0, 3.0],),
        "smallest": (0.0,),
    },
    MultipleKernelClassifier: {"loss": ("hinge",)},
    exact.KernelRidgeGD: {"criterion": ("loo",), "alpha": ("per-target",), "max_iter": (-1,)},
    exact.GMKLRegressor: {"C": (0.0,), "epsilon": (-1.0,), "loss": ("huber",), "kernels": (3,), "tol": (0.0,)},
    exact.GMKLClassifier: {"loss": ("logistic",)},
}
"""Values that parameters of estimators cannot have."""


def shown(name, value):
    """How a message tells such a value: as Python writes it, or in part."""
    if isinstance(value, type):
        return "the class"
    if isinstance(value, float) and value.is_integer():
        return f"{value:g}"
    if isinstance(value, dict | list | tuple):
        return "column 7" if name == "kernels" and value == SEVENTH else name
    return repr(value)


CALLS = {
    f"{make.__name__}({name}={str(value)[:20]!r})": (InputError, shown(name, value), fitting(make, **{name: value}))
    for make, choices in PARAMETERS.items()
    for name, values in choices.items()
    for value in values
}
CALLS |= {
    "NaN in X": (InputError, "column 1, row 4 holds NaN", lambda d: table(d).predict(with_value(np.nan))),
    "infinity in X": (InputError, "holds inf", lambda d: KernelRegressor().fit(with_value(np.inf), d.y)),
    "outside the domain": (InputError, "row 4 holds -2", lambda d: KernelRegressor("chi2").fit(with_value(-2.0), d.y)),
    "text in X": (InputError, "holds text", lambda d: FourierFeatures().fit(np.array([["1", "a"], ["2", "b"]]))),
    "dates in X": (
        InputError,
        "'when'",
        lambda d: FourierFeatures().fit(pd.DataFrame({"a": [1.0, 2.0], "when": pd.to_datetime(["2020", "2021"])})),
    ),
    "masked X": (InputError, "1 masked entr", lambda d: FourierFeatures().fit(np.ma.array(d.X, mask=d.X[0, 0] == d.X))),
    "huge X": (InputError, "overflow", lambda d: FourierFeatures().fit(np.array([[1e200], [-1e200], [3e200]]))),
    "text in y": (InputError, "a", lambda d: KernelRegressor().fit(d.X, np.array(["a", "b"] * 15))),
    "NaN in y": (InputError, "NaN", lambda d: KernelClassifier().fit(d.X, np.where(d.y > 0.5, np.nan, 1.0))),
    "one class": (InputError, "one class, 1", lambda d: KernelClassifier().fit(d.X, np.ones(30, dtype=int))),
    "one class of GMKL": (InputError, "one class, 1", lambda d: exact.GMKLClassifier().fit(d.X, np.ones(30, dtype=int))),
    "one row": (InputError, "1 sample", lambda d: KernelRegressor().fit(d.X[:1], d.y[:1])),
    "weights of zero": (InputError, "zero", lambda d: KernelRegressor().fit(d.X, d.y, sample_weight=np.zeros(30))),
    "targets of another shape": (InputError, "(30, 2)", lambda d: table(d).partial_fit(d.X, np.stack([d.y, d.y], 1))),
    "an unknown class": (
        InputError,
        "7",
        lambda d: KernelClassifier("gaussian", n_features=8, tol=1e9).fit(d.X, d.c).partial_fit(d.X, d.c + 7),
    ),
    "n_features beyond max_memory": (
        NotEnoughMemoryError,
        "n_features=4000",
        fitting(KernelRegressor, n_features=4000, max_memory="1MB"),
    ),
    "rows beyond max_memory": (NotEnoughMemoryError, "30 rows", fitting(exact.KernelRidgeGD, max_memory="1kB")),
    "kernels beyond max_memory": (NotEnoughMemoryError, "30 rows", fitting(exact.GMKLRegressor, max_memory="1kB")),
    "a file that is not there": (MissingFileError, "no.csv", lambda d: open_rows("no.csv", target="y")),
    "a folder without files": (MissingFileError, "holds no file", lambda d: open_rows(".", target="y")),
    "no files": (MissingFileError, "empty", lambda d: open_rows([])),
    "a file of unknown format": (InputError, "rows.xyz", lambda d: open_rows(written("rows.xyz", "1,2\n"), target=0)),
    "a target that is no column": (
        InputError,
        "'prize'",
        lambda d: open_rows(written("rows.csv", "size,price\n1,2\n3,4\n"), target="prize"),
    ),
    "an iterator of blocks": (InputTypeError, "list_iterator", lambda d: from_blocks(iter([(d.X, d.y)]))),
    "blocks that are none": (InputTypeError, "int", lambda d: from_blocks(3)),
    "lengths that differ": (InputError, "29 rows", lambda d: from_arrays(d.X, d.y[:29])),
    "text as model": (FileContentError, "m.safetensors", lambda d: bochner.load(written("m.safetensors", "no model"))),
    "ONNX of what is none": (InputError, "'float16'", lambda d: bochner.export_onnx(table(d), "m.onnx", dtype="float16")),
    "a kernel that is none": (InputError, "'gausian'", lambda d: kernels.get_kernel("gausian")),
    "a scale of zero": (InputError, "0", lambda d: Gaussian(scale=0.0)),
    "deviations without sums": (InputError, "sums", lambda d: table(d, keep_moments=False).predict(d.X, return_std=True)),
    "groups that do not fit": (InputError, "(2,)", lambda d: group_lasso_path(d.X, d.y[:, None], groups=[0, 1])),
}
"""The class of the error, what the message says came, and the call, by a name."""
