"""Engines: the only loops over blocks of rows that make features."""

from bochner.engines.gradients import outer_product
from bochner.engines.passes import (
    adjoint,
    fold_moments,
    forward,
    moments,
    predict,
    predict_folds,
    pull_back,
    pull_back_folds,
    quadratic_form,
    squared_lengths,
)
from bochner.engines.smaller_blocks import SmallerBlocksWarning

__all__ = [
    "SmallerBlocksWarning",
    "adjoint",
    "fold_moments",
    "forward",
    "moments",
    "outer_product",
    "predict",
    "predict_folds",
    "pull_back",
    "pull_back_folds",
    "quadratic_form",
    "squared_lengths",
]
