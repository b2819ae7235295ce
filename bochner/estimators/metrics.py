"""Which metrics and finishes an estimator tries: from its parameters to a plan, or to the reason why there is none."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from scipy import sparse

from bochner.descent import family_name, typed_name
from bochner.errors import InputError
from bochner.estimators.validation import check_option
from bochner.folds import FoldedRows
from bochner.kernels import Kernel, get_kernel
from bochner.memory import MATRIX_SHARE, as_bytes
from bochner.metric_learning import EFFORTS, METRIC_FAMILIES, WAYS, MetricPlan, can_have_metric
from bochner.spectra import SPECTRA

METRICS = ("auto", "diagonal", "low-rank", "full")
FINISHES = ("auto", "fourier", "centres")
AUTO_ROWS = 100
"""Rows below which metric="auto" and finish="auto" learn scales alone, on random features."""
NEEDED_ROWS = 10
"""Rows that metrics and centres need where they are asked for: some are set aside, and the others are cut into parts."""
AUTO_COLUMNS = 1000
"""Columns above which metric="auto" and finish="auto" learn scales alone, too: a metric has the square of them."""


def check_metric_choices(estimator: Any) -> None:
    """Errors of metric, rank, finish, n_centres and effort that need no data."""
    check_option("metric", estimator.metric, METRICS)
    check_option("finish", estimator.finish, FINISHES)
    check_option("effort", estimator.effort, ("fast", *EFFORTS))
    check_option("metric_by", estimator.metric_by, WAYS)
    check_option("spectrum", estimator.spectrum, SPECTRA)
    if estimator.spectrum != "prior" and (estimator.loss_name != "squared" or estimator.criterion == "loo"):
        other = f"loss={estimator.loss_name!r}" if estimator.loss_name != "squared" else "criterion='loo'"
        raise InputError(f"spectrum={estimator.spectrum!r} is not for {other}: use spectrum='prior', or leave that out.")
    if estimator.spectrum != "prior":
        mapped = [each for each in estimator._families() if each.has_input_map or each.geometry == "additive"]
        if mapped:
            raise InputError(
                f"spectrum={estimator.spectrum!r} is for kernels of plain differences such as 'gaussian', and the kernel is "
                f"{typed_name(family_name(mapped[0]))}: use spectrum='prior'."
            )
    for name in ("rank", "n_centres"):
        value = getattr(estimator, name)
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if value is not None and not (whole and value > 0):
            raise InputError(f"{name} must be a positive whole number or None, got {value!r}.")
    if estimator.rank is not None and estimator.metric != "low-rank":
        raise InputError(
            f"rank={estimator.rank} belongs to metric='low-rank', and metric is {estimator.metric!r}: leave rank out."
        )
    if estimator.n_centres is not None and estimator.finish == "fourier":
        raise InputError(
            f"n_centres={estimator.n_centres} belongs to finish='centres', and finish is 'fourier': leave n_centres out."
        )
    if estimator.n_features is not None and estimator.finish == "centres":
        raise InputError(
            f"n_features={estimator.n_features} belongs to finish='fourier', and finish is 'centres': leave n_features out."
        )
    if estimator.spectrum != "prior" and estimator.finish == "centres":
        raise InputError(
            f"spectrum={estimator.spectrum!r} belongs to finish='fourier', and finish is 'centres': leave one of them out."
        )
    if estimator.n_centres is not None and estimator.n_features is not None:
        raise InputError(
            f"n_centres={estimator.n_centres} is for a finish on data centres, n_features={estimator.n_features} for one on "
            "random features: leave one of them out."
        )
    if estimator.metric_by != "products" and (estimator.metric, estimator.finish) == ("diagonal", "fourier"):
        raise InputError(
            f"metric_by={estimator.metric_by!r} says how metrics are learned, and metric='diagonal' with finish='fourier' "
            "learns none: leave metric_by out, or use metric='full'."
        )
    reason = obstacle(estimator)
    if reason is not None and asks_for_more(estimator):
        raise InputError(
            f"{_what_is_asked(estimator)} is not for {reason}: leave one of them out, or use metric='diagonal' and "
            "finish='fourier'."
        )


def asks_for_features(estimator: Any) -> bool:
    """Whether random features are asked for: a number of them, their frequencies, or sums that further rows are added to."""
    return estimator.n_features is not None or estimator.spectrum != "prior" or estimator._needs_sums


def asks_for_more(estimator: Any) -> bool:
    """Whether a metric of directions, a way to learn one, or centres are asked for in so many words."""
    return _what_is_asked(estimator) is not None


def _what_is_asked(estimator: Any) -> str | None:
    if estimator.metric in ("low-rank", "full"):
        return f"metric={estimator.metric!r}"
    if estimator.finish == "centres":
        return "finish='centres'"
    if estimator.n_centres is not None:
        return f"n_centres={estimator.n_centres}"
    return None if estimator.metric_by == "products" else f"metric_by={estimator.metric_by!r}"


def obstacle(estimator: Any) -> str | None:
    """The choice, in words, with which scales alone are learned, on random features; None: there is none."""
    if estimator.loss_name != "squared":
        return f"loss={estimator.loss_name!r}"
    if estimator.criterion == "loo":
        return "criterion='loo'"
    if estimator.alpha is not None:
        return f"alpha={estimator.alpha!r}"
    if estimator.scale_penalty != "none":
        return f"scale_penalty={estimator.scale_penalty!r}"
    if not (isinstance(estimator.scale, str) and estimator.scale in ("auto", "per-column")):
        return "columns that share a scale"
    if estimator.schedule != "small-to-large":
        return f"schedule={estimator.schedule!r}"
    if not metric_families(estimator):
        return "kernels that are not functions of a distance alone"
    return None


def metric_families(estimator: Any) -> tuple[Kernel, ...]:
    """The families to try, if a metric can be learned for one of them."""
    if estimator._automatic:
        more = tuple(get_kernel(name) for name in METRIC_FAMILIES)
        orthogonal = estimator.sampling == "orthogonal"  # which exists for radial laws only
        return tuple(each for each in more if each.geometry == "radial") if orthogonal else more
    families = estimator._families()
    return tuple(each.replace(scale=1.0) for each in families) if any(map(can_have_metric, families)) else ()


def _on_gpu(estimator: Any) -> bool:
    """Whether rows are on a device with memory of its own, which tells itself how much there is."""
    return estimator._learned_on is not None and not str(estimator._learned_on).startswith("cpu")


def metric_plan(estimator: Any, folds: FoldedRows) -> MetricPlan | None:
    """What is tried beyond scales on random features; None: nothing."""
    more = asks_for_more(estimator)
    on_features = asks_for_features(estimator)
    plain = estimator.effort == "fast" or (on_features and estimator.finish != "centres")
    few = folds.n_to_fit < AUTO_ROWS or folds.n_columns > AUTO_COLUMNS or folds.n_columns < 2
    few = few or sparse.issparse(folds.in_memory.parts[0].X)
    if obstacle(estimator) is not None or (not more and (plain or few)):
        return None
    if estimator.metric == "diagonal" and estimator.finish == "fourier":
        return None
    if folds.n_to_fit < NEEDED_ROWS:
        raise InputError(
            f"metric={estimator.metric!r} and finish={estimator.finish!r} are chosen on rows set aside, and there are "
            f"{folds.n_to_fit} rows of positive weight: give at least {NEEDED_ROWS}, or use metric='diagonal' and "
            "finish='fourier'."
        )
    quick = estimator.effort == "fast"
    kinds = ("diagonal",) if quick else ("diagonal", "full")
    finishes = ("fourier",) if quick or on_features else ("centres", "fourier")
    if estimator.n_centres is not None:
        finishes = ("centres",)
    if estimator.metric != "auto":
        kinds = (estimator.metric,)
    if estimator.finish != "auto":
        finishes = (estimator.finish,)
    return MetricPlan(
        families=metric_families(estimator),
        kinds=kinds,
        must=estimator.metric in ("low-rank", "full"),
        finishes=finishes,
        effort=EFFORTS["default" if quick else estimator.effort],
        n_centres=estimator.n_centres,
        rank=estimator.rank,
        way=estimator.metric_by,
        needs_sums=estimator._needs_sums,
        n_features=estimator._levels(folds.n, folds.n_columns)[-1].n_features,
        room=np.inf if _on_gpu(estimator) else as_bytes(estimator.max_memory),
        matrices=estimator._matrices / MATRIX_SHARE,
    )
