"""Tables that tests share: the same cells in every library."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from bochner.tables.columns import Levels, Numbers, Times

LIBRARIES = ("pandas", "polars", "pyarrow")


def cells(n=120, seed=0, gaps=True):
    """Columns of every kind as lists, every seventh cell or so missing."""
    rng = np.random.default_rng(seed)
    day = datetime.datetime(2020, 1, 1)
    columns = {
        "age": rng.normal(size=n).round(3).tolist(),
        "rooms": rng.integers(1, 9, n).tolist(),
        "city": rng.choice(["Rome", "Oslo", "Bonn"], n).tolist(),
        "kind": rng.choice(["flat", "house"], n).tolist(),
        "sold": (rng.random(n) > 0.3).tolist(),
        "when": [day + datetime.timedelta(hours=int(h)) for h in rng.integers(0, 9000, n)],
        "date": [(day + datetime.timedelta(days=int(d))).date() for d in rng.integers(0, 900, n)],
        "took": [datetime.timedelta(seconds=int(s)) for s in rng.integers(0, 9000, n)],
        "code": [str(c) for c in rng.integers(10, 99, n)],
        "text date": [str((day + datetime.timedelta(days=int(d))).date()) for d in rng.integers(0, 900, n)],
    }
    if gaps:
        for i, values in enumerate(columns.values()):
            values[i :: 7 + i] = [None] * len(values[i :: 7 + i])
    return columns


def make(library, columns):
    if library == "pandas":
        return pd.DataFrame(columns)
    if library == "polars":
        return pl.DataFrame(columns)
    return pa.table(columns)


def cells_for_onnx(X, encoder, prefix=""):
    """The columns of a frame as a graph takes them: text, numbers, and dates by what they are encoded to."""
    found = {}
    for encoding in encoder.encodings:
        column, name = X[encoding.name], f"{prefix}{encoding.name}"
        if isinstance(encoding, Levels):
            found[name] = np.array([["" if pd.isna(v) else str(v)] for v in column], dtype=object)
        elif isinstance(encoding, Numbers):
            column = column.dt.total_seconds() if column.dtype.kind == "m" else column
            found[name] = pd.to_numeric(column).astype("Float64").to_numpy(float, na_value=np.nan)[:, None]
        elif isinstance(encoding, Times):
            own = [encoder.names_in[i] == encoding.name for i in encoder.origins]
            found[name] = encoder.transform(X)[:, own]
    return found
