"""What the parts of ``gpu.py`` share: their sizes, synthetic rows, a clock that waits for the device, what the device is."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from skl_common import NOISE, SEED

COUNTING = 8
"""Columns that y depends on; all others are noise."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes of all parts, and the device."""

    device: str = "cuda"
    rows: int = 100_000
    columns: int = 1000
    features: int = 3000
    evaluations: int = 60
    peer_evaluations: int = 3
    stream_rows: int = 10_000_000
    stream_columns: int = 50
    stream_features: int = 4000
    copy_bytes: int = 2**28
    lasso_rows: int = 1_000_000
    lasso_columns: int = 5
    """Of each kernel."""
    lasso_kernels: int = 8
    lasso_features: int = 1000
    lasso_penalties: int = 20


def quick_config(device: str) -> Config:
    """Sizes of a smoke test, which a CPU runs through in seconds."""
    return Config(
        device=device,
        rows=600,
        columns=10,
        features=60,
        evaluations=3,
        peer_evaluations=1,
        stream_rows=3000,
        stream_columns=5,
        stream_features=40,
        copy_bytes=2**16,
        lasso_rows=800,
        lasso_kernels=3,
        lasso_features=20,
        lasso_penalties=5,
    )


def smooth_rows(n: int, m: int, dtype: Any = np.float64) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal rows (n, m) and y = (sin x_0 + cos x_1 + ...) / sqrt(8) + noise, of the first eight columns or all.

    The generator is NumPy's PCG64 with the seed 0, first for X, then for the noise of y; y is standardised.
    """
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, m), dtype=dtype)
    some = X[:, :COUNTING].astype(np.float64)
    y = np.sin(some[:, ::2]).sum(axis=1) + np.cos(some[:, 1::2]).sum(axis=1)
    y = y / some.shape[1] ** 0.5 + NOISE * rng.standard_normal(n)
    return X, (y - y.mean()) / y.std()


def is_gpu(device: str) -> bool:
    """Whether a device is a GPU."""
    return device.startswith("cuda")


def wait(device: str) -> None:
    """Wait for all work of a device."""
    if is_gpu(device):
        torch.cuda.synchronize(device)


def seconds_of(call: Callable[[], Any], device: str) -> tuple[float, Any]:
    """Seconds of a call, with all work on the device that it leaves, and what it returns."""
    wait(device)
    start = time.perf_counter()
    result = call()
    wait(device)
    return time.perf_counter() - start, result


def median_seconds(call: Callable[[], Any], device: str, repeats: int) -> float:
    """The middle of some repeats, after one that does not count."""
    call()
    return statistics.median(seconds_of(call, device)[0] for _ in range(repeats))


def about_device(device: str) -> dict[str, Any]:
    """The name and the memory of a device, and the version of CUDA."""
    if not is_gpu(device):
        return {"device": device, "gpu": None, "gpu_memory_gib": None, "cuda": torch.version.cuda}
    properties = torch.cuda.get_device_properties(device)
    return {
        "device": device,
        "gpu": properties.name,
        "gpu_memory_gib": properties.total_memory / 2**30,
        "cuda": torch.version.cuda,
    }


def free_memory(device: str) -> None:
    """Give back what PyTorch keeps of a GPU's memory between two parts."""
    if is_gpu(device):
        torch.cuda.empty_cache()
