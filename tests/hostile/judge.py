"""The rule: a finite prediction no worse than the mean or the prior on training data, or an error that says what to do.

No warning from NumPy or SciPy, and never a NaN. Ridge regression with a free intercept lowers (training error + alpha
|beta|^2), and zero coefficients have the deviation of the targets from their mean there; so its training error is never
larger, but for rounding. The same holds for any loss, its own, and its best constant.
"""

from __future__ import annotations

import inspect
import re
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.hostile.cases import Data

EPS, EPS32 = (float(np.finfo(dtype).eps) for dtype in (np.float64, np.float32))
ROUNDINGS = 1e3
"""Predictions are sums of a thousand terms at most, and their rounding errors are this many roundings of the largest one."""
FOREIGN = ("numpy", "scipy", "torch", "builtins")
"""Whose warnings, and errors from inside, are never right."""
ADVICE = re.compile(
    r"\b(use|give|gives?n|drop|fill|fit|raise|lower|leave|take|choose|name|write|set|open|encode|reshape|standardi[sz]e|"
    r"scale|clean|divide|multiply|convert|turn|consider|try|add|remove|replace|reduce|increase|pass|provide|should|must|needs?|"
    r"require[sd]?|expected|supports? only|only supports?|at least|at most)\b",
    re.IGNORECASE,
)
"""Words of a message that says what was expected, or what to type."""


@dataclass(frozen=True)
class Outcome:
    """What came of a case: "finite", "error" (one that says what to do) or "failed", and why."""

    result: str
    message: str = ""


class BrokenRuleError(Exception):
    """The rule is broken."""


def judge(act: Callable[[], Any], check: Callable[[Any], None]) -> Outcome:
    """What comes of ``act`` by the rule, where ``check`` raises BrokenRuleError unless what it returns is right."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            found = act()
            outcome = Outcome("finite")
        except Exception as error:  # noqa: BLE001, whatever comes is judged
            outcome = about_error(error)
    wrong = [each for each in seen if is_foreign(each)]
    if wrong:
        return Outcome("failed", f"{wrong[0].category.__name__}: {wrong[0].message} ({place_of(wrong[0])})")
    if outcome.result != "finite":
        return outcome
    try:
        check(found)
    except BrokenRuleError as broken:
        return Outcome("failed", str(broken))
    return outcome


def is_foreign(warning: warnings.WarningMessage) -> bool:
    """Whether a warning is NumPy's, SciPy's or Python's own, as of an overflow, and not one of the estimator's package."""
    category = warning.category
    return category is not UserWarning and category.__module__.split(".")[0] in FOREIGN


def place_of(warning: warnings.WarningMessage) -> str:
    """File and line of a warning."""
    return f"{'/'.join(Path(warning.filename).parts[-2:])}:{warning.lineno}"


def about_error(error: Exception) -> Outcome:
    """An error is right if it is a ValueError or MemoryError, comes from no foreign package, and says what to do."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno}"
    text = f"{type(error).__name__}: {error}"
    message = " ".join(text.split())[:400]
    inside = set(Path(frame.filename).parts) & set(FOREIGN)
    if not isinstance(error, ValueError | MemoryError) or isinstance(error, np.linalg.LinAlgError) or inside:
        return Outcome("failed", f"{message} ({where})")
    if not ADVICE.search(str(error)):
        return Outcome("failed", f"says not what to do: {message} ({where})")
    return Outcome("error", message)


def refuse_nan(name: str, values: Any) -> None:
    """An error where numbers are not finite."""
    values = np.asarray(values)
    if not np.isfinite(values).all():
        raise BrokenRuleError(f"{name} has {int((~np.isfinite(values)).sum())} of {values.size} numbers that are not finite")


def refuse_nan_attributes(model: Any) -> None:
    """An error where a public number or array of a fitted model is NaN."""
    for name, value in list(vars(model).items()):
        if name.endswith("_") and not name.startswith("_") and isinstance(value, float | np.ndarray):
            values = np.asarray(value)
            if values.dtype.kind == "f" and np.isnan(values).any():
                raise BrokenRuleError(f"{name} holds NaN")


def counted(weights: Any, n: int) -> np.ndarray:
    """Shares (n,) of the rows: those whose weight vanishes in the rounding of the sum have none."""
    if weights is None:
        return np.full(n, 1 / n)
    share = np.asarray(weights, dtype=np.float64) / np.max(weights)
    share[share < n * EPS] = 0
    return share / share.sum()


def rounding(X: Any) -> float:
    """The rounding of numbers of the precision that rows are computed with: float32 as float32, all else as float64."""
    dtypes = set(X.dtypes) if hasattr(X, "dtypes") else {X.dtype}
    return EPS32 if dtypes == {np.dtype(np.float32)} else EPS


def no_worse_than_mean(predictions: Any, data: Data, band: float | None = None, edge: float = 0.0) -> None:
    """An error unless, for each target, the root mean square of the residuals is at most that of deviations from the mean.

    With a ``band`` the loss is not the squared one but distances beyond the band, bent over ``edge`` (parts of the spread).
    """
    refuse_nan("predict", predictions)
    single = np.asarray(predictions).dtype == np.float32  # as some peers give them; ours are in float64
    y = np.asarray(data.y, dtype=np.float64)
    share = counted(data.weights, len(y))
    y, f = (np.asarray(each, dtype=np.float64).reshape(len(share), -1)[share > 0] for each in (y, predictions))
    share = share[share > 0]
    largest = np.maximum(np.abs(y).max(axis=0), np.finfo(np.float64).tiny)
    y, f = y / largest, np.clip(f / largest, -1e150, 1e150)
    residuals, deviations = f - y, y - share @ y
    spread = np.sqrt(share @ deviations**2)
    if band is None:
        error = np.sqrt(share @ residuals**2)
        bound = spread
    else:
        error, bound = (share @ np.maximum(np.abs(each) - band / largest, 0) for each in (residuals, deviations))
        bound = bound + edge * spread
    unit, last = ROUNDINGS * rounding(data.X), ROUNDINGS * (EPS32 if single else EPS)
    over = error - bound * (1 + 1e-6) - unit * spread - last
    if not (over <= 0).all():
        worst = int(over.argmax())
        raise BrokenRuleError(
            f"worse than the mean: {error[worst]:.6g}, and the mean {bound[worst]:.6g}, of the largest target"
        )


def no_worse_than_prior(model: Any, predicted: Any, probabilities: Any, data: Data, held_out: float = 1.0) -> None:
    """An error unless the share of right classes is at least the largest class's, or the log loss at most the prior's.

    Probabilities that are calibrated on held-out rows are the most probable ones under a standard normal law of offsets b
    (narrower for fewer than 30 rows), labels being taken for sure by 1 - d, d = 1 / (n + 2). Against that the constant
    b = log prior pays |b|^2 / 2n for its offsets and d for each difference of them, so that the best log loss may be above
    the prior's by as much, and by no more. Where only a part of the rows is ``held_out``, c + 1 numbers are fitted to v of
    them, which costs (c + 1) / 2v on others on average (Wilks), and up to twice that is allowed.
    """
    y = np.asarray(data.y)
    share = counted(data.weights, len(y))
    labels = np.unique(y[share > 0], return_inverse=True)[1]
    prior = np.bincount(labels, share[share > 0])
    if not np.isin(predicted, y).all():
        raise BrokenRuleError("predict gives a label that is not in y")
    right = float(share @ (np.asarray(predicted) == y))
    slack = len(y) * EPS
    if probabilities is None:
        if right < prior.max() - slack:
            raise BrokenRuleError(f"worse than the largest class: {right:.6g} of {prior.max():.6g}")
        return
    refuse_nan("predict_proba", probabilities)
    if np.min(probabilities) < 0 or np.abs(np.sum(probabilities, axis=1) - 1).max() > 64 * rounding(data.X):
        raise BrokenRuleError("probabilities are negative or do not sum to one")
    column = {label: j for j, label in enumerate(model.classes_.tolist())}
    own = np.array([column[label] for label in y.tolist()])[share > 0]
    chosen = np.asarray(probabilities)[share > 0, own]
    loss = float(-share[share > 0] @ np.log(np.maximum(chosen, np.finfo(np.float64).tiny)))
    entropy = float(-prior @ np.log(prior))
    offsets = np.log(prior) - np.log(prior).mean()
    allowed = max(1.0, 30 / len(y)) / (2 * len(y)) * (offsets @ offsets) + 2 / (len(y) + 2) * np.ptp(offsets)
    allowed += 0.0 if held_out == 1 else (len(prior) + 1) / max(1, int(held_out * len(y)))
    if right < prior.max() - slack and loss > entropy * (1 + 1e-6) + allowed + ROUNDINGS * rounding(data.X):
        raise BrokenRuleError(
            f"worse than the prior: accuracy {right:.6g} of {prior.max():.6g}, log loss {loss:.6g} of {entropy:.6g}"
        )


def lengths_of_one(features: Any, data: Data) -> None:
    """An error unless features (n, d) of a kernel with k(x, x) = 1 are finite and of length one."""
    features = np.asarray(features.todense() if hasattr(features, "todense") else features, dtype=np.float64)
    refuse_nan("transform", features)
    if np.abs(np.sum(features**2, axis=1) - 1).max() > ROUNDINGS * rounding(data.X):
        raise BrokenRuleError("features have not the length of one")


def takes(method: Any, name: str) -> bool:
    """Whether a function has a parameter of a name."""
    return name in inspect.signature(method).parameters
