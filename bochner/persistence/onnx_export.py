"""Fitted estimators as graphs of ONNX: rows in, predictions out, standardising and probabilities within."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bochner.arrays import Array
from bochner.estimators.classifiers import KernelClassifier
from bochner.estimators.encoding import column_names, encoder_of, seen_width
from bochner.estimators.multiple import MultipleKernelClassifier, MultipleKernelRegressor
from bochner.estimators.regressors import KernelRegressor
from bochner.estimators.transformer import FourierFeatures
from bochner.features import CentreKernels, CentreMap
from bochner.persistence.errors import ModelFileError
from bochner.persistence.onnx_graph import PRECISIONS, Graph
from bochner.persistence.onnx_kernels import at_centres, features
from bochner.persistence.onnx_tables import table_rows
from bochner.standardise import Standardiser


def export_onnx(model: Any, path: str | Path, *, dtype: str = "float64", encoded: bool = False) -> None:
    """Write a fitted model as a graph of the format ONNX, which any runtime of ONNX predicts by, without bochner.

    Inputs are ``X`` (n, m), or one for each view, by its name, or ``view0``, ``view1``, ... where views have none. Outputs
    are ``predictions`` of regressors, shaped like those of ``predict``; ``label`` and ``probabilities`` of classifiers
    (``label`` and ``decisions`` of ``GMKLClassifier``); ``features`` of ``FourierFeatures``. Rows are not checked: what is
    outside the domain of a kernel becomes NaN.

    A model of a table that was encoded has an input for each column, by its name (n, 1): numbers, NaN where they are
    missing; truth values as one and zero, durations in seconds; levels as text, "" where they are missing; a date as the
    numbers that it is encoded to (n, k), since ONNX knows no dates. Columns of a view have its name and a point before
    theirs. Metadata have the names of what columns become (``columns``) and the encoding (``encoder``).

    Parameters
    ----------
    model : estimator
        Any fitted estimator of bochner.
    path : str or Path
        The file, such as "model.onnx".
    dtype : {"float64", "float32"}, default="float64"
        Precision of the rows, of all computations and of the results. float32 is half the size and faster; frequencies of
        heavy tails (Laplacian, Matérn 1/2, skewed intersection) and small penalties lose digits with it. Models of rows of
        the fit (data centres, the exact learners) compute in float64 all the same, and are no smaller: what they add up
        may be a million times as large as the sum.
    encoded : bool, default=False
        Whether the graph of such a model takes rows that are encoded already, ``model.encoder_.transform(table)``, as X.
    """
    check_is_fitted(model)
    if dtype not in PRECISIONS:
        raise ModelFileError(f"dtype must be 'float64' or 'float32', got {dtype!r}.")
    writers = _writers()
    write = next((writers[cls] for cls in type(model).__mro__ if cls in writers), None)
    if write is None:
        raise ModelFileError(f"model must be a fitted estimator of bochner, got {type(model).__name__}.")
    graph = Graph("float64" if _adds_up_rows(model) else dtype, outside=dtype, takes_tables=not encoded)
    write(graph, model)
    graph.write(Path(path), _about(model))


def _writers() -> dict[type, Callable[[Graph, Any], None]]:
    """What writes the graph of each estimator."""
    from bochner import exact  # which takes a while

    return {
        FourierFeatures: _transformer,
        KernelClassifier: _classifier,
        KernelRegressor: _regressor,
        MultipleKernelClassifier: _classifier,
        MultipleKernelRegressor: _regressor,
        exact.GMKLClassifier: _exact_classifier,
        exact.GMKLRegressor: _exact_regressor,
        exact.KernelRidgeGD: _exact_ridge,
    }


def _adds_up_rows(model: Any) -> bool:
    """Whether predictions are sums over rows of the fit, whose coefficients may be large and of either sign."""
    return hasattr(model, "X_fit_") or (hasattr(model, "coef_") and isinstance(model.feature_map_, CentreMap))


def _about(model: Any) -> dict[str, str]:
    """Metadata of the graph: the class, and the names of the columns where they have any."""
    about = {"bochner_class": type(model).__name__}
    encoder = encoder_of(model)
    if encoder is not None:
        about |= {"encoder": json.dumps(encoder.state())}
    elif not hasattr(model, "feature_names_in_"):
        return about
    return about | {"columns": json.dumps(column_names(model))}


# -- estimators -------------------------------------------------------------------------------------------------------


def _transformer(graph: Graph, model: Any) -> None:
    rows = _rows(graph, model)
    graph.output("features", features(graph, model.feature_map_, rows), ["n", model.feature_map_.n_features])


def _regressor(graph: Graph, model: Any) -> None:
    _predictions(graph, _outputs(graph, model), model.coef_.shape[1], one=model._one_target)


def _classifier(graph: Graph, model: Any) -> None:
    scores = _outputs(graph, model)
    if model.coef_.shape[1] == 1:
        scores = graph.add("Concat", graph.add("Neg", scores), scores, axis=1)
    calibration = model.calibration_
    _labels(graph, graph.sum(scores, (calibration.offsets / calibration.slope)[None, :]), model.classes_)
    logits = graph.sum(graph.times(scores, calibration.slope), calibration.offsets[None, :])
    graph.output("probabilities", graph.add("Softmax", logits, axis=1), ["n", len(model.classes_)])


def _exact_ridge(graph: Graph, model: Any) -> None:
    rows = _standardised(graph, _rows(graph, model), model.standardiser_)
    kernel = model.kernel_.replace(scale=model.kernel_.scale * model.standardiser_.spread)
    target = model._target_standardiser
    values = at_centres(graph, CentreKernels(kernel, model.X_fit_), rows)
    outputs = _linear(graph, values, model.dual_coef_ * target.spread, target.undo(model._intercept))
    _predictions(graph, outputs, model.dual_coef_.shape[1], one=model._one_target)


def _exact_regressor(graph: Graph, model: Any) -> None:
    _predictions(graph, _exact_scores(graph, model), 1, one=True)


def _exact_classifier(graph: Graph, model: Any) -> None:
    scores, n_classes = _exact_scores(graph, model), len(model.classes_)
    if n_classes == 2:
        _labels(graph, graph.add("Concat", graph.add("Neg", scores), scores, axis=1), model.classes_)
        graph.output("decisions", graph.add("Squeeze", scores, np.array([1])), ["n"])
    else:
        _labels(graph, scores, model.classes_)
        graph.output("decisions", scores, ["n", n_classes])


# -- what they share --------------------------------------------------------------------------------------------------


def _outputs(graph: Graph, model: Any) -> str:
    """phi(x) . coef_ + intercept_ of rows as they come: (n, c)."""
    if hasattr(model, "_views"):
        tables = _tables(graph, model, model._views)
        columns = zip(model._views.parts, model._standardisers, strict=True)
        parts = [_standardised(graph, _seen(graph, tables, part), standardiser) for part, standardiser in columns]
        rows = graph.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
    else:
        rows = _standardised(graph, _rows(graph, model), model.standardiser_)
    if isinstance(model.feature_map_, CentreMap):
        return _linear(graph, at_centres(graph, model.feature_map_.kernels, rows), model._at_centres, model.intercept_)
    return _linear(graph, features(graph, model.feature_map_, rows), model.coef_, model.intercept_)


def _exact_scores(graph: Graph, model: Any) -> str:
    """sum_t d_t k_t(x, X_fit) a + b: (n, c)."""
    if model._precomputed:
        raise ModelFileError("A model of kernel matrices has no kernels to write: fit it on rows, with kernels= by name.")
    tables = _tables(graph, model, model.views_)
    scores = graph.constant(model.intercept_[None, :])
    for t in np.flatnonzero(model._weights.any(axis=1)):
        centres = CentreKernels(model.kernels_[t], model.X_fit_[t][model.support_])
        values = at_centres(graph, centres, _seen(graph, tables, model.views_.parts[t]))
        scores = graph.sum(graph.add("MatMul", values, model.dual_coef_[model.support_] * model._weights[t]), scores)
    return scores


def _tables(graph: Graph, model: Any, views: Any) -> list[tuple[str, int]]:
    """The inputs of a model, one table or several views: their names and numbers of columns."""
    if not views.labels:
        return [(_rows(graph, model), seen_width(model))]
    names = [label if isinstance(label, str) else f"view{label}" for label in views.labels]
    widths = [seen_width(view) for view in views.tables]
    rows = [_rows(graph, view, name) for name, view in zip(names, views.tables, strict=True)]
    return list(zip(rows, widths, strict=True))


def _rows(graph: Graph, model: Any, name: str = "X") -> str:
    """Rows of a model or a view: one input, or one for each column of a table that is encoded."""
    encoder = encoder_of(model)
    if encoder is None or not graph.takes_tables:
        return graph.input(name, seen_width(model))
    return table_rows(graph, encoder, "" if name == "X" else f"{name}.")


def _seen(graph: Graph, tables: list[tuple[str, int]], part: Any) -> str:
    """The columns that one kernel sees."""
    table, width = tables[part.table]
    return graph.columns(table, part.columns, width)


def _standardised(graph: Graph, rows: str, standardiser: Standardiser) -> str:
    if not standardiser.centre.any() and np.all(standardiser.spread == 1):
        return rows
    return graph.add("Div", graph.add("Sub", rows, standardiser.centre[None, :]), standardiser.spread[None, :])


def _linear(graph: Graph, values: str, coef: Array, intercept: Array) -> str:
    return graph.sum(graph.add("MatMul", values, coef), intercept[None, :])


def _predictions(graph: Graph, outputs: str, n_targets: int, *, one: bool) -> None:
    if one:
        graph.output("predictions", graph.add("Squeeze", outputs, np.array([1])), ["n"])
    else:
        graph.output("predictions", outputs, ["n", n_targets])


def _labels(graph: Graph, decisions: str, classes: Array) -> None:
    """The class of the largest decision."""
    largest = graph.add("ArgMax", decisions, axis=1, keepdims=0)
    text = classes.dtype.kind in "OU"
    if text and not all(isinstance(label, str) for label in classes.tolist()):
        raise ModelFileError(
            "Labels must be numbers or text, and some of classes_ are neither: turn them into text before fit."
        )
    known = classes.astype(object) if text else classes
    kind = object if text else None if classes.dtype.kind == "f" else classes.dtype
    graph.output("label", graph.add("Gather", known, largest), ["n"], dtype=kind)
