"""What a fitted model has to say of itself in a few lines: pairs of a word and a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np

from bochner.descent import family_name, typed_name
from bochner.estimators.encoding import seen_width
from bochner.kernels import MetricKernel

TOP = 5
"""Columns and kernels that are named."""
REFITS = {
    "ridge": "on the sum of kernels",
    "weighted": "on their weighted sum",
    "joint": "on one kernel of their columns",
    "learned": "with learned weights",
}


def facts(model: Any) -> list[tuple[str, str]]:
    """Pairs (word, sentence) of what a fitted model is: kernel, features, penalty, error, what it relies on, time."""
    found = [
        ("kernel", _kernel(model)),
        ("kernels", _kernels(model)),
        ("fitted on", _finish(model)),
        ("penalty", _penalty(model)),
        ("held-out error", _error(model)),
        ("relies on", _relevance(model)),
        ("fit", _time(model)),
    ]
    return [(word, sentence) for word, sentence in found if sentence]


def summary(model: Any) -> str:
    """The same as a text, a line each, below the name of the model's class."""
    rows = facts(model)
    width = max((len(word) for word, _ in rows), default=0)
    return "\n".join([type(model).__name__, *(f"  {word:{width}s}  {sentence}" for word, sentence in rows)])


def kernel_in_words(kernel: Any, n_columns: int) -> str:
    """The family of a kernel, and what it has for its columns."""
    if isinstance(kernel, MetricKernel):
        seen = "" if kernel.origin is None else ", of rows brought to one length"
        directions = counted(kernel.metric.shape[1], "direction")
        return f"{_family(kernel.base)}, a metric of {counted(n_columns, 'column')} in {directions}{seen}"
    one = np.size(kernel.scale) == 1 or np.ptp(np.asarray(kernel.scale)) == 0
    scales = "one scale" if one else f"a scale for each of {n_columns} columns"
    return f"{_family(kernel)}, {scales}"


def _family(kernel: Any) -> str:
    return typed_name(family_name(kernel))


def _kernel(model: Any) -> str:
    if not hasattr(model, "kernel_"):
        return ""
    kernel, n_scales = model.kernel_, getattr(model, "n_scales_", None)
    n_columns = seen_width(model)
    if n_scales is None or isinstance(kernel, MetricKernel) or n_scales == n_columns:
        return kernel_in_words(kernel, n_columns)
    return f"{_family(kernel)}, {counted(n_scales, 'scale')} for {n_columns} standardised columns"


def _kernels(model: Any) -> str:
    if not hasattr(model, "kernel_weights_"):
        return ""
    names = [str(name) for name in model.kernel_names_]
    weights = np.asarray(model.kernel_weights_).reshape(len(names), -1).max(axis=1)
    inside = int(np.sum(weights > 0))
    order = [i for i in np.argsort(-weights, kind="stable")[:TOP] if weights[i] > 0]
    named = ", ".join(f"{names[i]} {weights[i]:.3g}" for i in order)
    more = ", ..." if inside > len(order) else ""
    are = "is" if inside == 1 else "are"
    return f"{inside} of {len(names)} {are} in: {named}{more}" if order else f"none of {len(names)} is in"


def _finish(model: Any) -> str:
    if hasattr(model, "X_fit_"):
        return f"the exact kernel of {counted(held_rows(model), 'row')} of the fit, which a file of the model holds"
    feature_map = getattr(model, "feature_map_", None)
    if feature_map is None:
        return ""
    if hasattr(feature_map, "centres"):
        return f"{counted(feature_map.n_features, 'data centre')}, {_part_of_rows(model)}, which a file of the model holds"
    moved = any(record["chosen"] and record["spectrum"] != "prior" for record in spectra(model))
    kind = "learned" if moved else "random"
    frequencies = f", {kind} frequencies" if hasattr(feature_map, "frequencies") else ""
    return counted(feature_map.n_features, "feature") + frequencies


def held_rows(model: Any) -> int:
    """How many rows of the fit a model holds, and a file of it: its centres, or all of an exact learner."""
    if hasattr(model, "X_fit_"):
        rows = model.X_fit_[0] if isinstance(model.X_fit_, list) else model.X_fit_
        return int(rows.shape[0])
    feature_map: Any = getattr(model, "feature_map_", None)
    return int(feature_map.n_features) if hasattr(feature_map, "centres") else 0


def _part_of_rows(model: Any) -> str:
    every_one = held_rows(model) == getattr(model, "_n_rows", None)
    return "all rows of the fit" if every_one else "rows of the fit"


def spectra(model: Any) -> list[dict[str, Any]]:
    """What was compared where frequencies were learned."""
    return getattr(model, "spectrum_", None) or []


def _penalty(model: Any) -> str:
    alpha = getattr(model, "alpha_", None)
    if alpha is None:
        return f"C = {model.C:g}" if hasattr(model, "kernel_weights_") and hasattr(model, "C") else ""
    text = f"{alpha:.3g}" if np.ndim(alpha) == 0 else f"{np.min(alpha):.3g} to {np.max(alpha):.3g}, one for each target"
    if hasattr(model, "l1_ratio_"):
        refit = f", then ridge regression {REFITS[model.refit_]}" if model.refit_ else ""
        return f"{text}, {model.l1_ratio_:.0%} of it on the lengths of kernels{refit}"
    return text


def _error(model: Any) -> str:
    error = getattr(model, "validation_error_", None)
    if error is None:
        return ""
    if hasattr(model, "classes_"):
        text = f"mean {getattr(model, 'loss', 'squared')} loss {error:.4g}{beside_shares(model)}"
    elif getattr(model, "loss", "squared") != "squared":
        text = f"mean {model.loss} loss {error:.4g}, in units of standardised targets"
    else:
        text = f"{error:.4g} of the variance of the target" + _deviation(model)
    return f"{text}; it chose the model, and new rows do somewhat worse"


def beside_shares(model: Any) -> str:
    """What a held-out error of a classifier is beside, to the end of the clause; nothing where that is not known."""
    known = getattr(model, "_loss_of_shares", None)
    return "" if known is None else f", where {known:.4g} is what predicting the shares of the classes scores"


def _deviation(model: Any) -> str:
    deviation = getattr(model, "residual_deviation_", None)
    if deviation is None or len(deviation) > 1:
        return ""
    return f": predictions are off by {deviation[0]:.4g} in its units (root mean square)"


def _relevance(model: Any) -> str:
    if not hasattr(model, "relevance_"):
        return ""
    named = [(name, value) for name, value in model.relevance_by_name(by="column").items() if value > 0]
    text = ", ".join(f"{name} {value:.2f}" for name, value in named[:TOP])
    rest = f"; less on {counted(len(named) - TOP, 'more column')}" if len(named) > TOP else ""
    out = len(model.relevance_by_name(by="column")) - len(named)
    return f"{text}{rest}" + (f"; {counted(out, 'column')} not at all" if out else "")


def _time(model: Any) -> str:
    seconds, history = getattr(model, "fit_seconds_", None), getattr(model, "history_", None)
    trials = getattr(model, "trials_", None)
    parts = [] if seconds is None else [seconds_in_words(seconds)]
    tried = len(history or []) + len(getattr(model, "selection_", []))
    parts += [f"{counted(tried, 'evaluation')} of kernels"] if tried else []
    parts += [f"{counted(len(trials), 'model')} compared"] if trials else []
    if getattr(model, "converged_", None) is False:
        parts.append("not converged")
    return ", ".join(parts)


def counted(n: int, what: str) -> str:
    """A number of things: "1 row", "2 rows"."""
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def held_out_rows(n: int) -> str:
    """So many rows that were held out."""
    return f"{counted(n, 'row')} that {'was' if n == 1 else 'were'} held out"


def steps(model: Any) -> list[tuple[str, int, float]]:
    """The steps of a fit that compared metrics: what they are, how many kernels each tried, and its seconds.

    ``selection_`` says when each of its records was made; the scales that metrics grow from were learned in between.
    """
    took = dict.fromkeys(("search", "unseen rows", "finish"), 0.0)
    tried = dict.fromkeys(took, 0)
    before = 0.0
    for record in model.selection_:
        stage = record["stage"].split(" ")[0] if record["stage"].startswith("search") else record["stage"]
        took[stage] += record["seconds"] - before
        tried[stage] += 1
        before = record["seconds"]
    rest = model.fit_seconds_ - before
    if any(record["stage"] == "finish" for record in model.selection_):  # history_ is that of the scales
        scales = model.history_[-1]["seconds"]
        learning = [("scales", len(model.history_), scales), ("metrics", tried["search"], took["search"] - scales)]
    else:
        learning = [("scales and metrics", tried["search"], took["search"])]
        took["finish"], rest, tried["finish"] = rest, 0.0, len(model.history_)
    found = [
        *learning,
        ("comparison on unseen rows", tried["unseen rows"], took["unseen rows"]),
        ("last fit, on all rows", tried["finish"], took["finish"]),
        ("the rest, such as relevance and deviations", 0, rest),
    ]
    return [(step, n, seconds) for step, n, seconds in found if seconds > 0]


def seconds_in_words(seconds: float) -> str:
    """A time that is easy to read.

    Examples
    --------
    >>> from bochner.estimators.summary import seconds_in_words
    >>> [seconds_in_words(seconds) for seconds in (0.0123, 3.21, 75.0, 7500.0)]
    ['0.012 s', '3.2 s', '1 min 15 s', '2 h 5 min']
    """
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds) // 60
    return f"{minutes} min {round(seconds) % 60} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
