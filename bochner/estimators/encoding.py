"""Tables that are not all numbers: what an estimator learns of their columns at fit, and does with new ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import _get_feature_names

from bochner.arrays import Array
from bochner.tables import TableEncoder, needs_encoding

ENCODER = "encoder_"
"""The fitted attribute that holds the encoding; models of plain numbers have none."""
PLACES = "_names_by_place"
"""The fitted attribute that holds what columns of a file without names are called."""


def encoder_of(estimator: Any) -> TableEncoder | None:
    """The encoding that an estimator learned, if its columns needed one."""
    return getattr(estimator, ENCODER, None)


def learn_encoding(estimator: Any, X: Any, columns: Sequence[int] | None = None) -> TableEncoder | None:
    """The encoding of a table, kept with the estimator; None where it takes X as it is. ``columns`` are those it uses."""
    vars(estimator).pop(ENCODER, None)
    if not getattr(estimator, "_encodes_tables", False) or not needs_encoding(X, columns):
        return None
    names = _get_feature_names(X)
    keep_encoder(estimator, TableEncoder().fit(X, columns), named=names is not None)
    return encoder_of(estimator)


def keep_encoder(estimator: Any, encoder: TableEncoder, *, named: bool = True) -> None:
    """The encoding as a fitted attribute, with number and names of the columns that it takes."""
    setattr(estimator, ENCODER, encoder)
    estimator.n_features_in_ = len(encoder.names_in)
    if named:
        estimator.feature_names_in_ = np.array(encoder.names_in, dtype=object)
    else:
        vars(estimator).pop("feature_names_in_", None)


def encoded(estimator: Any, X: Any, *, reset: bool) -> Array | None:
    """A table as numbers (n, k), or None where the estimator takes X as it is; ``reset`` learns the encoding first."""
    encoder = learn_encoding(estimator, X) if reset else encoder_of(estimator)
    return None if encoder is None else encoder.transform(X)


def forget_names(estimator: Any) -> None:
    """Let a model of a file without names be one of columns without names; what they are called is kept for people."""
    names = vars(estimator).pop("feature_names_in_", None)
    if names is not None:
        setattr(estimator, PLACES, np.array(names, dtype=object))


def table_columns(estimator: Any) -> list[str]:
    """What the columns of the table are called: their names, or what stands for their places; empty where they have none."""
    encoder = encoder_of(estimator)
    unnamed = getattr(estimator, PLACES, ()) if encoder is None else encoder.names_in
    return [str(name) for name in getattr(estimator, "feature_names_in_", unnamed)]


def column_names(estimator: Any) -> list[str]:
    """Names of the columns that a kernel sees: those of the encoding, of the table, or x0, x1, ..."""
    encoder = encoder_of(estimator)
    if encoder is not None:
        return encoder.names_out
    return table_columns(estimator) or [f"x{i}" for i in range(estimator.n_features_in_)]


def seen_width(estimator: Any) -> Any:
    """How many columns kernels see: those of the encoding, or of the table."""
    encoder = encoder_of(estimator)
    return getattr(estimator, "n_features_in_", None) if encoder is None else len(encoder.names_out)


def origin_names(estimator: Any) -> list[str]:
    """For each column that a kernel sees, the name of the table's column that it comes from."""
    encoder = encoder_of(estimator)
    if encoder is None:
        return column_names(estimator)
    return [encoder.names_in[i] for i in encoder.origins]
