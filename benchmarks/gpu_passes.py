"""Parts b and c of ``gpu.py``: moments of rows that stream from the host, and of the features of many kernels."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from gpu_common import Config, is_gpu, median_seconds, seconds_of, smooth_rows
from skl_common import SEED, gaussian_map, held_out_folds, say

from bochner.engines import fold_moments
from bochner.engines.devices import on_device, tf32
from bochner.engines.passes import DEVICE_SINGLE_ROWS
from bochner.features import FeatureChoices, StackedMap, build_map
from bochner.folds import Folds, Rows
from bochner.kernels import Gaussian
from bochner.multiple_kernel import WeightChoices, learn_weights
from bochner.statistics import STRIP

COPIES, BLOCKS = 20, 50
"""How many copies, and how many blocks of products, a rate is measured by."""
CONTEXTS: dict[str, Callable[[], AbstractContextManager[None]]] = {"float32": nullcontext, "TF32": tf32}


def streamed(config: Config) -> dict[str, Any]:
    """Rows a second of one pass for moments, with the copies and the products by themselves, for rows of float32."""
    n, m, d = config.stream_rows, config.stream_columns, config.stream_features
    say(f"b: {n:,} rows are made")
    X, y = smooth_rows(n, m, np.float32)
    stream, feature_map = on_device(held_out_folds(X, y), config.device, room=0), gaussian_map(m, d)
    few = on_device(held_out_folds(X[:20_000], y[:20_000]), config.device, room=0)
    found: dict[str, Any] = {"rows": n, "columns": m, "features": d, "row_bytes": stream.row_bytes, "passes": {}}
    say("b: copies")
    found["copy_bytes_per_s"] = copy_rate(config)
    found["copies"] = found["copy_bytes_per_s"] / stream.row_bytes
    for name, context in CONTEXTS.items():
        with context():
            say(f"b: products, {name}")
            products = product_rate(config)
            say(f"b: moments, {name}")
            fold_moments(feature_map, few)  # warms up
            seconds, _ = seconds_of(lambda: fold_moments(feature_map, stream), config.device)
        slower = min(products, found["copies"])
        rate = n / seconds
        found["passes"][name] = {"seconds": seconds, "moments": rate, "products": products, "ratio": slower / rate}
    return found


def copy_rate(config: Config) -> float:
    """Bytes a second from pinned memory of the host to the device."""
    here = torch.empty(config.copy_bytes, dtype=torch.uint8, pin_memory=is_gpu(config.device))
    there = torch.empty(config.copy_bytes, dtype=torch.uint8, device=config.device)

    def copy() -> None:
        for _ in range(COPIES):
            there.copy_(here, non_blocking=True)

    return COPIES * config.copy_bytes / median_seconds(copy, config.device, 3)


def product_rate(config: Config) -> float:
    """Rows a second of X G and the lower triangle of Phi' Phi, in blocks like those of a pass, into memory that is there."""
    m, d = config.stream_columns, config.stream_features
    b = min(DEVICE_SINGLE_ROWS, config.stream_rows)
    make = {"dtype": torch.float32, "device": config.device}
    X, frequencies, features = (torch.rand(shape, **make) for shape in ((b, m), (m, d // 2), (b, d)))
    angles = torch.empty((b, d // 2), **make)
    strips = [slice(start, min(start + STRIP, d)) for start in range(0, d, STRIP)]
    squares = [torch.empty((d - strip.start, strip.stop - strip.start), **make) for strip in strips]

    def products() -> None:
        for _ in range(BLOCKS):
            torch.matmul(X, frequencies, out=angles)
            for strip, square in zip(strips, squares, strict=True):
                torch.matmul(features[:, strip.start :].T, features[:, strip], out=square)

    return BLOCKS * b / median_seconds(products, config.device, 3)


def group_lasso(config: Config) -> dict[str, Any]:
    """Moments of many kernels on the device, and the path of penalties on the host, for rows of float64."""
    n, r, m = config.lasso_rows, config.lasso_kernels, config.lasso_columns
    say(f"c: {n:,} rows are made")
    folds = on_device(lasso_folds(n, r, m), config.device)
    rng = np.random.default_rng(SEED)
    kernel, choices = Gaussian(scale=np.full(m, (2 * m) ** -0.5)), FeatureChoices(n_features=config.lasso_features)
    feature_map = StackedMap(tuple(build_map(kernel, m, choices, rng) for _ in range(r)))
    how = WeightChoices(
        weights=np.ones(r),
        shared=True,
        alpha=None,
        l1_ratios=(1.0,),
        n_alphas=config.lasso_penalties,
        smallest=1e-2,
        refits=(None, "ridge"),
    )
    fold_moments(feature_map, folds.head(2000))  # warms up
    say("c: moments")
    moments, _ = seconds_of(lambda: fold_moments(feature_map, folds), config.device)
    say("c: moments and path")
    total, learned = seconds_of(lambda: learn_weights(folds, feature_map, how), config.device)
    return {
        "rows": n,
        "kernels": r,
        "columns": m,
        "features": config.lasso_features,
        "penalties": len(learned.trials),
        "moments_s": moments,
        "total_s": total,
        "rest_s": total - moments,
        "kernels_in": np.flatnonzero(learned.norms.max(axis=1) > 0).tolist(),
        "held_out_error": learned.chosen.error,
        "converged": learned.converged,
    }


def lasso_folds(n: int, n_kernels: int, m: int) -> Folds:
    """Standard normal columns, m for each kernel; y depends on those of the first two kernels."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, n_kernels * m))
    y = np.sin(X[:, 0] + X[:, 1]) + 0.5 * np.cos(2 * X[:, m]) + 0.1 * rng.standard_normal(n)
    y = (y - y.mean()) / y.std()
    held = n // 5
    rows = Rows(X, y[:, None], np.ones(n))
    return Folds((rows.take(slice(held, None)), rows.take(slice(0, held))), (1,))
