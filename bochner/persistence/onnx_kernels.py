"""Kernels and feature maps as formulas of a graph of ONNX.

A table says for each class how its input map, its value at centres or its features are written. It is looked up along the
bases of a class, so that a subclass which changes nothing is found under its base.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bochner.features import CentreKernels, CentreMap, FourierMap, HomogeneousMap, StackedMap
from bochner.features.inputs import HomogeneousInput, TransformInput
from bochner.kernels import (
    Cauchy,
    Chi2,
    Exponentiated,
    Gaussian,
    Intersection,
    JensenShannon,
    Kernel,
    Laplacian,
    Matern,
    MetricKernel,
    SkewedChi2,
    SkewedIntersection,
)
from bochner.kernels.metric import ROUNDINGS
from bochner.kernels.skewed import SkewedKernel
from bochner.persistence.errors import ModelFileError
from bochner.persistence.onnx_graph import Graph

# -- features ---------------------------------------------------------------------------------------------------------


def features(graph: Graph, feature_map: Any, rows: str) -> str:
    """Features (n, d) of rows (n, m)."""
    return _found(MAPS, feature_map)(graph, feature_map, rows)


def _fourier(graph: Graph, feature_map: FourierMap, rows: str) -> str:
    rows = _found(INPUTS, feature_map.inputs)(graph, feature_map.inputs, rows)
    angles = graph.add("MatMul", rows, np.asarray(feature_map.frequencies))
    n = feature_map.points.shape[1]
    if feature_map.phases is not None:
        values, weight = graph.add("Cos", graph.sum(angles, feature_map.phases[None, :])), (2 / n) ** 0.5
    else:
        values, weight = graph.add("Concat", graph.add("Cos", angles), graph.add("Sin", angles), axis=1), (1 / n) ** 0.5
    return graph.times(values, np.full((1, feature_map.n_features), weight))  # runtimes round a single factor to float32


def _homogeneous(graph: Graph, feature_map: HomogeneousMap, rows: str) -> str:
    scales = np.tile(feature_map.kernel.scales(feature_map.n_columns), feature_map.inputs.width)
    return graph.times(_homogeneous_input(graph, feature_map.inputs, rows), scales[None, :])


def _whitened(graph: Graph, feature_map: CentreMap, rows: str) -> str:
    inverse = np.linalg.inv(np.tril(np.asarray(feature_map.factor)))
    return graph.add("MatMul", at_centres(graph, feature_map.kernels, rows), inverse.T)


def _stacked(graph: Graph, feature_map: StackedMap, rows: str) -> str:
    n_columns = 1 + max(_last(columns) for columns in feature_map.columns)
    parts = [
        features(graph, each, graph.columns(rows, columns, n_columns))
        for each, columns in zip(feature_map.maps, feature_map.columns, strict=True)
    ]
    return graph.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]


def _last(columns: Any) -> int:
    return columns.stop - 1 if isinstance(columns, slice) else int(max(columns))


def _transform_input(graph: Graph, inputs: TransformInput, rows: str) -> str:
    return transformed(graph, inputs.kernel, rows)


def _homogeneous_input(graph: Graph, inputs: HomogeneousInput, rows: str) -> str:
    root = graph.add("Sqrt", rows)
    positive = graph.add("Greater", rows, 0.0)
    log = graph.add("Log", graph.add("Where", positive, rows, 1.0))
    weights = np.sqrt(inputs.interval * inputs.kernel.spectrum(inputs.interval * np.arange(inputs.width)))
    parts = [graph.times(root, float(weights[0]))]
    for j in range(1, inputs.order + 1):
        weighted = graph.times(root, float(2**0.5 * weights[j]))
        angle = graph.times(log, j * inputs.interval)
        parts += [graph.times(weighted, graph.add("Cos", angle)), graph.times(weighted, graph.add("Sin", angle))]
    return graph.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]


def transformed(graph: Graph, kernel: Kernel, rows: str) -> str:
    """Rows as a kernel of differences sees them."""
    if not kernel.has_input_map:
        return rows
    return _found(TRANSFORMS, kernel)(graph, kernel, rows)


def _log1p(graph: Graph, kernel: SkewedKernel, rows: str) -> str:
    return graph.add("Log", graph.sum(graph.add("Div", rows, kernel.c), 1.0))


# -- kernels at centres -----------------------------------------------------------------------------------------------


def at_centres(graph: Graph, centres: CentreKernels, rows: str) -> str:
    """k(x, c) for rows (n, m) and centres (M, m): (n, M)."""
    return _found(VALUES, centres.kernel)(graph, centres.kernel, rows, np.asarray(centres.centres, dtype=np.float64))


def _metric(graph: Graph, kernel: MetricKernel, rows: str, centres: Any) -> str:
    inner = CentreKernels(kernel.base, kernel.seen(centres))
    if kernel.origin is None:
        return at_centres(graph, inner, graph.add("MatMul", rows, kernel.metric))
    seen = graph.add("MatMul", graph.add("Sub", rows, kernel.origin[None, :]), kernel.metric)
    length = graph.add("Sqrt", graph.add("ReduceSum", graph.add("Mul", seen, seen), np.array([1]), keepdims=1))
    there = graph.add(
        "Greater", length, graph.times(_reach(graph, kernel, rows), ROUNDINGS * float(np.finfo(graph.dtype).eps))
    )
    unit = graph.add("Div", seen, graph.add("Where", there, length, 1.0))
    return at_centres(graph, inner, graph.add("Where", there, unit, 0.0))


def _reach(graph: Graph, kernel: MetricKernel, rows: str) -> str:
    """What the rounding of rows seen from the origin is in units of: (n, 1)."""
    sizes = graph.sum(graph.add("Abs", rows), np.abs(np.asarray(kernel.origin))[None, :])
    return graph.add("MatMul", sizes, np.linalg.norm(kernel.metric, axis=1)[:, None])


def _radial(profile: Callable[[Graph, Any, str], str]) -> Callable[..., str]:
    """A function of the squared distance, which is summed column by column: no digits are lost where rows are close."""

    def squares(graph: Graph, so_far: str, x: str, c: str, weight: str) -> str:
        difference = graph.times(graph.add("Sub", x, c), weight)
        return graph.sum(so_far, graph.times(difference, difference))

    def value(graph: Graph, kernel: Kernel, rows: str, centres: Any) -> str:
        rows, seen = transformed(graph, kernel, rows), kernel.transform(centres)
        return profile(graph, kernel, graph.over_columns(0.0, rows, seen, squares, kernel.scales(centres.shape[1])))

    return value


def _gaussian(graph: Graph, _kernel: Gaussian, squares: str) -> str:
    return graph.add("Exp", graph.times(squares, -0.5))


def _matern(graph: Graph, kernel: Matern, squares: str) -> str:
    if np.isinf(kernel.nu):
        return graph.add("Exp", graph.times(squares, -0.5))
    x = graph.times(graph.add("Sqrt", squares), (2 * kernel.nu) ** 0.5)
    decay = graph.add("Exp", graph.add("Neg", x))
    if kernel.nu == 0.5:
        return decay
    if kernel.nu == 1.5:
        return graph.times(graph.sum(x, 1.0), decay)
    if kernel.nu == 2.5:
        return graph.times(graph.sum(x, 1.0, graph.add("Div", graph.times(x, x), 3.0)), decay)
    raise ModelFileError(
        f"Matern(nu={kernel.nu}) at centres is a Bessel function, which ONNX does not have: use nu=0.5, 1.5 or 2.5, or "
        "finish='fourier'."
    )


def _product(profile: Callable[[Graph, str], str]) -> Callable[..., str]:
    """A product over columns of a function of a scaled difference."""

    def step(graph: Graph, so_far: str, x: str, c: str, weight: str) -> str:
        return graph.times(so_far, profile(graph, graph.times(graph.add("Sub", x, c), weight)))

    def value(graph: Graph, kernel: Kernel, rows: str, centres: Any) -> str:
        rows, seen = transformed(graph, kernel, rows), kernel.transform(centres)
        return graph.over_columns(1.0, rows, seen, step, kernel.scales(centres.shape[1]))

    return value


def _decay(graph: Graph, t: str) -> str:
    return graph.add("Exp", graph.add("Neg", graph.add("Abs", t)))


def _lorentz(graph: Graph, t: str) -> str:
    return graph.add("Div", 1.0, graph.sum(graph.times(t, t), 1.0))


def _sech(graph: Graph, t: str) -> str:
    decay = _decay(graph, t)
    return graph.add("Div", graph.times(decay, 2.0), graph.sum(graph.times(decay, decay), 1.0))


def _additive(graph: Graph, kernel: Any, rows: str, centres: Any) -> str:
    return _weighted_pairs(graph, kernel, kernel, rows, centres, distance=False)


def _exponentiated(graph: Graph, kernel: Exponentiated, rows: str, centres: Any) -> str:
    distances = _weighted_pairs(graph, kernel, kernel.additive, rows, centres, distance=True)
    return graph.add("Exp", graph.times(distances, -0.5))


def _weighted_pairs(graph: Graph, kernel: Any, additive: Any, rows: str, centres: Any, *, distance: bool) -> str:
    """sum_i s_i^2 k(x_i, c_i), or of the distances x + c - 2 k(x, c) of an additive kernel."""
    pair = _found(PAIRS, additive)

    def step(graph: Graph, so_far: str, x: str, c: str, weight: str) -> str:
        value = pair(graph, x, c)
        if distance:
            value = graph.add("Sub", graph.sum(x, c), graph.times(value, 2.0))
        return graph.sum(so_far, graph.times(value, weight))

    return graph.over_columns(0.0, rows, centres, step, kernel.scales(centres.shape[1]) ** 2)


def _chi2_pair(graph: Graph, x: str, c: str) -> str:
    return graph.times(x, _share(graph, c, graph.sum(x, c)), 2.0)


def _minimum(graph: Graph, x: str, c: str) -> str:
    return graph.add("Min", x, c)


def _jensen_shannon_pair(graph: Graph, x: str, c: str) -> str:
    both = graph.sum(x, c)
    parts = [graph.times(each, _log_share(graph, each, both)) for each in (x, c)]
    bits = graph.times(graph.sum(*parts), -1 / (2 * float(np.log(2))))
    return graph.add("Max", bits, 0.0)


def _share(graph: Graph, part: str, whole: str) -> str:
    """part / whole, and zero where the whole is zero."""
    there = graph.add("Greater", whole, 0.0)
    return graph.add("Where", there, graph.add("Div", part, graph.add("Where", there, whole, 1.0)), 0.0)


def _log_share(graph: Graph, part: str, whole: str) -> str:
    """log(part / whole), and zero where the part is zero."""
    share = _share(graph, part, whole)
    return graph.add("Log", graph.add("Where", graph.add("Greater", share, 0.0), share, 1.0))


# -- tables -----------------------------------------------------------------------------------------------------------

MAPS: dict[type, Callable[..., str]] = {
    CentreKernels: at_centres,
    CentreMap: _whitened,
    FourierMap: _fourier,
    HomogeneousMap: _homogeneous,
    StackedMap: _stacked,
}
INPUTS: dict[type, Callable[..., str]] = {HomogeneousInput: _homogeneous_input, TransformInput: _transform_input}
TRANSFORMS: dict[type, Callable[..., str]] = {SkewedChi2: _log1p, SkewedIntersection: _log1p}
PAIRS: dict[type, Callable[..., str]] = {Chi2: _chi2_pair, Intersection: _minimum, JensenShannon: _jensen_shannon_pair}
VALUES: dict[type, Callable[..., str]] = {
    Cauchy: _product(_lorentz),
    Chi2: _additive,
    Exponentiated: _exponentiated,
    Gaussian: _radial(_gaussian),
    Intersection: _additive,
    JensenShannon: _additive,
    Laplacian: _product(_decay),
    Matern: _radial(_matern),
    MetricKernel: _metric,
    SkewedChi2: _product(_sech),
    SkewedIntersection: _product(_decay),
}


def _found(table: dict[type, Callable[..., str]], value: Any) -> Callable[..., str]:
    """What a table says of the class of a value, or of one of its bases."""
    for cls in type(value).__mro__:
        if cls in table:
            return table[cls]
    raise ModelFileError(
        f"{type(value).__name__} has no form in ONNX: the kernels of bochner.kernels.KERNELS have one; kernels of "
        "differences of your own have one on random features: fit with finish='fourier'."
    )
