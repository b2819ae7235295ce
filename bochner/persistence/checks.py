"""Whether what was read from a file fits together: shapes, sizes, and at last a prediction of two made-up rows."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.calibration import SoftmaxCalibration
from bochner.estimators.encoding import encoder_of, seen_width
from bochner.estimators.views import View, Views
from bochner.features import CentreKernels, CentreMap, FourierMap, HomogeneousMap, StackedMap
from bochner.features.inputs import HomogeneousInput, TransformInput
from bochner.kernels import AdditiveKernel, Kernel
from bochner.persistence.errors import ModelFileError
from bochner.standardise import Standardiser

MOST_ORDER = 1000
"""Largest order of a homogeneous map, of which every column gets 2 p + 1 features."""
MOST_PROBED = 4_000_000
"""Numbers of the rows that are predicted to try a model; a model of more columns is taken as it is."""


def check_model(model: Any) -> None:
    """A ModelFileError where the attributes of a model that was read do not fit together."""
    attributes = vars(model)
    for name, value in attributes.items():
        _check_parts(value, name)
    feature_map = attributes.get("feature_map_")
    coef, intercept = attributes.get("coef_"), attributes.get("intercept_")
    n_columns, standardiser = seen_width(model), attributes.get("standardiser_")
    _check_encoder(model)
    _need(
        standardiser is None or (isinstance(standardiser, Standardiser) and len(standardiser.centre) == n_columns),
        "standardiser_ has other columns",
    )
    if feature_map is not None:
        _need(hasattr(feature_map, "forward"), "feature_map_ is no feature map")
        _need("_views" in attributes or feature_map.n_columns == n_columns, "feature_map_ has other columns")
        _need(
            coef is None or (_is_matrix(coef) and len(coef) == feature_map.n_features),
            "coef_ has not one row for each feature",
        )
    if coef is not None:
        _need(_is_matrix(coef) and _is_numbers(intercept, coef.shape[1]), "intercept_ has not one number for each target")
    outputs = attributes.get("dual_coef_") if coef is None else coef
    if (classes := attributes.get("classes_")) is not None:
        _need(_is_matrix(outputs), "it has classes, and no coefficients")
        expected = max(2, outputs.shape[1])  # two classes share a column, but for the multinomial loss
        _need(isinstance(classes, np.ndarray) and classes.shape == (expected,), "classes_ are not as many as scores")
    if (calibration := attributes.get("calibration_")) is not None:
        _need(isinstance(calibration, SoftmaxCalibration) and classes is not None, "calibration_ is none of classes")
        _need(calibration.offsets.shape == classes.shape, "calibration_ has other classes")
    probe(model)


def probe(model: Any) -> None:
    """Predict two rows of ones, so that a model which cannot predict is not handed out."""
    nameless = _nameless(model)
    for name in ("_views", "views_"):
        if hasattr(nameless, name):
            setattr(nameless, name, _nameless_views(getattr(nameless, name)))
    X = _ones_like_fit(nameless)
    if X is not None:
        with np.errstate(all="ignore"):
            for method in ("transform", "predict", "predict_proba"):
                if hasattr(nameless, method):
                    getattr(nameless, method)(X)


def _nameless(model: Any) -> Any:
    """A copy that takes plain numbers: the columns that kernels see, without names."""
    nameless = copy.copy(model)
    if hasattr(nameless, "n_features_in_"):
        nameless.n_features_in_ = seen_width(model)
    for name in ("feature_names_in_", "encoder_"):
        vars(nameless).pop(name, None)
    return nameless


def _check_encoder(model: Any) -> None:
    encoder = encoder_of(model)
    _need(encoder is None or len(encoder.names_in) == model.n_features_in_, "its encoder has other columns")


def _ones_like_fit(model: Any) -> Any:
    """Two rows of ones in the form of those of fit, or None where they would be very many numbers."""
    views = getattr(model, "_views", getattr(model, "views_", None))
    if views is not None and views.labels:
        tables = [_ones(view.n_features_in_) for view in views.tables]
        named, numbered = all(isinstance(label, str) for label in views.labels), tuple(range(len(tables)))
        _need(len(set(views.labels)) == len(tables) and (named or views.labels == numbered), "its views have no names")
        if any(table is None for table in tables):
            return None
        return dict(zip(views.labels, tables, strict=True)) if isinstance(views.labels[0], str) else tables
    if hasattr(model, "_n_fit"):
        table = _ones(model._n_fit)
        return None if table is None else [table] * len(model.kernel_names_)
    return _ones(model.n_features_in_)


def _ones(n_columns: Any) -> Array | None:
    _need(_is_count(n_columns), "it does not say how many columns rows have")
    return None if 2 * n_columns > MOST_PROBED else np.ones((2, n_columns))


def _nameless_views(views: Any) -> Any:
    """The same views without the names of their columns."""
    _need(isinstance(views, Views), "its views are none")
    tables: list[Any] = []
    for table in views.tables:
        _need(isinstance(table, View), "a view is none")
        tables.append(_nameless(table))
    return Views(views.parts, views.labels, tuple(tables))


# -- parts ------------------------------------------------------------------------------------------------------------


def _check_parts(value: Any, where: str) -> None:
    """Check every part of a model that has a check."""
    if isinstance(value, list | tuple):
        for item in value:
            _check_parts(item, where)
    check = CHECKS.get(type(value))
    if check is not None:
        check(value, where)


def _check_fourier(value: FourierMap, where: str) -> None:
    _need(isinstance(value.kernel, Kernel) and _is_count(value.n_columns), f"{where} is not whole")
    _check_input(value.inputs, where)
    _need(_is_matrix(value.points), f"{where} has no matrix of base points")
    width = value.inputs.width
    _need(value.points.shape[0] % width == 0, f"{where} has base points that do not fit its input map")
    columns = value.kernel.point_columns(value.n_columns)
    _need(value.points.shape[0] == columns * width, f"{where} has base points of other columns")
    _need(value.phases is None or _is_numbers(value.phases, value.points.shape[1]), f"{where} has other phases")
    value.kernel.scales(value.n_columns)


def _check_input(value: Any, where: str) -> None:
    if isinstance(value, TransformInput):
        _need(isinstance(value.kernel, Kernel) and value.width == 1, f"{where} has an input map that is none")
        return
    _need(isinstance(value, HomogeneousInput), f"{where} has an input map that is none")
    _need(isinstance(value.kernel, AdditiveKernel), f"{where} has a homogeneous map of no additive kernel")
    _need(_is_count(value.order, least=0) and value.order <= MOST_ORDER, f"{where} has a homogeneous map of a strange order")
    _need(isinstance(value.interval, float), f"{where} has a homogeneous map without a step")


def _check_homogeneous(value: HomogeneousMap, where: str) -> None:
    _need(isinstance(value.kernel, AdditiveKernel) and _is_count(value.n_columns), f"{where} is not whole")
    _need(isinstance(value.inputs, HomogeneousInput), f"{where} has an input map that is none")
    _check_input(value.inputs, where)


def _check_centres(value: CentreMap | CentreKernels, where: str) -> None:
    _need(isinstance(value.kernel, Kernel) and _is_matrix(value.centres), f"{where} has no centres")
    value.kernel.scales(value.n_columns)
    triangle = getattr(value, "triangle", None)
    _need(triangle is None or triangle.shape == (len(value.centres),) * 2, f"{where} has a factor of other centres")


def _check_stacked(value: StackedMap, where: str) -> None:
    _need(isinstance(value.maps, tuple) and len(value.maps) == len(value.columns), f"{where} is not whole")
    for each, columns in zip(value.maps, value.columns, strict=True):
        _need(type(each) in CHECKS and not isinstance(each, StackedMap), f"{where} holds what is no feature map")
        _check_parts(each, where)
        _need(isinstance(columns, slice) or _is_numbers(columns, each.n_columns), f"{where} has other columns")


def _check_standardiser(value: Standardiser, where: str) -> None:
    _need(isinstance(value.centre, np.ndarray) and value.centre.ndim == 1, f"{where} has no centre")
    _need(_is_numbers(value.spread, len(value.centre)), f"{where} has another spread")


def _check_calibration(value: SoftmaxCalibration, where: str) -> None:
    _need(isinstance(value.slope, float) and isinstance(value.offsets, np.ndarray), f"{where} is not whole")


CHECKS: dict[type, Callable[[Any, str], None]] = {
    CentreKernels: _check_centres,
    CentreMap: _check_centres,
    FourierMap: _check_fourier,
    HomogeneousMap: _check_homogeneous,
    SoftmaxCalibration: _check_calibration,
    StackedMap: _check_stacked,
    Standardiser: _check_standardiser,
}


def _need(fits: Any, otherwise: str) -> None:
    if not fits:
        raise ModelFileError(f"It does not fit together: {otherwise}. Save the model again.")


def _is_count(value: Any, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_matrix(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind == "f" and 0 not in value.shape


def _is_numbers(value: Any, size: int) -> bool:
    return isinstance(value, np.ndarray) and value.shape == (size,) and value.dtype.kind in "fi"
