"""Searches that a device has no room for: smaller ones, and in the end those of the host."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from bochner.engines.smaller_blocks import SmallerBlocksWarning, is_out_of_memory
from bochner.folds import FoldedRows
from bochner.metric_learning.stages import Stage

LEAST_CENTRES = 100
"""A device that has no room for the pairs of twice as many is given up."""

T = TypeVar("T")


def with_fewer(stage: Stage, n_rows: int, act: Callable[[Stage], T]) -> T:
    """What ``act`` makes of a stage of ``n_rows`` in all, or of half its size, and so on while a device has no room for it.

    The device's error where rows and centres are few already.
    """
    while True:
        try:
            return act(stage)
        except RuntimeError as error:
            most = min(stage.n_rows, n_rows)
            if not is_out_of_memory(error) or min(most, stage.n_centres) < 2 * LEAST_CENTRES:
                raise
        stage = replace(stage, n_rows=most // 2, n_centres=min(most, stage.n_centres) // 2)
        warnings.warn(
            f"The device has no room to compare kernels on so many rows and data centres: going on with {stage.n_rows:,} "
            f"and {stage.n_centres:,} at most, which may be less accurate. To have room, let go of other arrays there.",
            SmallerBlocksWarning,
            stacklevel=2,
        )


def or_on_host(folds: FoldedRows, act: Callable[[FoldedRows], T]) -> T:
    """What ``act`` makes of rows, or of those on the host where their device has no room for it."""
    try:
        return act(folds)
    except RuntimeError as error:
        if not is_out_of_memory(error) or folds.in_memory is folds:
            raise
    warnings.warn(
        "The device has no room to learn kernels: they are learned on the host, which may be slower. To have room, let go "
        "of other arrays there.",
        SmallerBlocksWarning,
        stacklevel=2,
    )
    return act(folds.in_memory)
