"""What learners of many kernels are asked for: errors that need no data, and the same in the words of the search."""

from __future__ import annotations

import numbers
import reprlib
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.engines.devices import check_device
from bochner.errors import InputError
from bochner.estimators.predicted import refuse_device
from bochner.estimators.resuming import check_checkpoint
from bochner.estimators.validation import check_flags, check_option, check_verbose
from bochner.memory import as_bytes
from bochner.weight_search import Refit, WeightChoices

AUTO_RATIOS = (1.0, 0.0)
"""Shares of the group penalty that l1_ratio="auto" tries: all of it, and none, which is the plain average."""
SCALES = ("median", "given", "learned", "learned-per-column")


def check_choices(machine: Any) -> None:
    """Errors of a learner's parameters that need no data."""
    check_option("scale", machine.scale, SCALES)
    check_option("selection", machine.selection, ("best", "one-standard-error"))
    check_flags(machine, "standardize", "shared_weights")
    check_verbose(machine.verbose)
    _check_refit(machine)
    check_checkpoint(machine.checkpoint)
    as_bytes(machine.max_memory)  # which refuses what is no size
    if machine.device is not None:
        check_device(machine.device)
    if machine.loss != "squared":
        refuse_device(machine, f"loss={machine.loss!r}", "loss='squared'")
    _check_numbers(machine)


def _check_refit(machine: Any) -> None:
    if machine.refit not in ("auto", "ridge", "weighted", "joint", "learned", None, False):
        raise InputError(f"refit must be 'auto', 'ridge', 'weighted', 'joint', 'learned' or None, got {machine.refit!r}.")
    if machine.refit in ("ridge", "weighted", "joint", "learned") and machine.loss != "squared":
        raise InputError(
            f"refit={machine.refit!r} needs loss='squared', and loss is {machine.loss!r}: leave refit out, or use None."
        )


def _check_numbers(machine: Any) -> None:
    limits = {"alpha": np.inf, "tol": np.inf, "smallest": 1.0}
    for name, high in limits.items():
        value = getattr(machine, name)
        if value is None and name == "alpha":
            continue
        if not (isinstance(value, numbers.Real) and 0 < float(value) <= high and float(value) < np.inf):
            raise InputError(f"{name} must be a positive number{' up to 1' if high == 1 else ''}, got {value!r}.")
    ratio, n_features = machine.l1_ratio, machine.n_features
    if not (ratio == "auto" if isinstance(ratio, str) else _are_shares(ratio)):
        raise InputError(f"l1_ratio must be 'auto', or one number or several from 0 to 1, got {ratio!r}.")
    sizes = list(n_features) if isinstance(n_features, list | tuple | np.ndarray) else [n_features]
    if n_features is not None and not all(_is_even(size) for size in sizes):
        raise InputError(
            f"n_features must be an even whole number, one for each kernel, or None, got {n_features!r}: features come as "
            "pairs of cosine and sine."
        )
    for name in ("n_alphas", "max_iter", "n_coordinates"):
        value = getattr(machine, name)
        if value is None and name == "n_coordinates":
            continue
        if not (isinstance(value, numbers.Integral) and int(value) >= 1):
            raise InputError(f"{name} must be a whole number, at least 1, got {value!r}.")


def _is_even(value: Any) -> bool:
    """Whether this is a positive even number."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return bool(whole and value > 0 and value % 2 == 0)


def _are_shares(given: Any) -> bool:
    """Whether this is a number from 0 to 1, or several."""
    values = list(given) if isinstance(given, list | tuple | np.ndarray) else [given]
    return bool(values) and all(isinstance(value, numbers.Real) and 0 <= float(value) <= 1 for value in values)


def weight_choices(machine: Any, *, squared: bool) -> WeightChoices:
    """What the search for weights is told; ``squared``: whether the loss is the squared one."""
    return WeightChoices(
        weights=_penalty_weights(machine.penalty_weights, machine.kernel_names_.tolist()),
        shared=bool(machine.shared_weights),
        alpha=None if machine.alpha is None else float(machine.alpha),
        l1_ratios=_l1_ratios(machine),
        n_alphas=machine.n_alphas,
        smallest=machine.smallest,
        lowest=None if squared else machine.smallest,  # where each penalty takes many passes over the rows
        one_standard_error=machine.selection == "one-standard-error",
        refits=_refits(machine.refit) if squared else (None,),
        learned=machine.refit == "learned",
        tol=machine.tol,
        max_iter=machine.max_iter,
        n_coordinates=None if machine.n_coordinates is None else int(machine.n_coordinates),
    )


def _l1_ratios(machine: Any) -> tuple[float, ...]:
    if not isinstance(machine.l1_ratio, str):
        return tuple(map(float, np.atleast_1d(machine.l1_ratio)))
    return AUTO_RATIOS if machine.alpha is None else AUTO_RATIOS[:1]  # one number cannot be the penalty of both


def _refits(refit: Any) -> tuple[Refit | None, ...]:
    """The refits that are part of the search; a joint one comes after it, and so do learned weights."""
    if refit == "auto":
        return (None, "ridge", "weighted")
    if refit == "learned":
        return ("ridge",)
    return (None,) if refit == "joint" else (refit or None,)


def _penalty_weights(given: Any, names: list[str]) -> Array:
    """The penalty of each kernel, from a list in their order or a dict by name; one where nothing is said."""
    if given is None:
        return np.ones(len(names))
    values = given
    if isinstance(given, dict):
        unknown = sorted(set(given) - set(names))
        if unknown:
            raise InputError(f"penalty_weights names the kernel {unknown[0]!r}, which is not one of {names}.")
        values = [given.get(name, 1.0) for name in names]
    weights = np.asarray(values, dtype=np.float64)
    if weights.shape != (len(names),) or not (np.isfinite(weights).all() and np.all(weights > 0)):
        raise InputError(
            f"penalty_weights must be a positive number for each of the {len(names)} kernels, in their order or by name, "
            f"got {reprlib.repr(given)}."
        )
    return weights
