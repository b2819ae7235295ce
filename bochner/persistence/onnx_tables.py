"""The encoding of a table as a graph of ONNX: one input for each column, of numbers or of text, and encoded rows from them.

Numbers and truth values are numbers (NaN where missing), levels are text ("" where missing). ONNX knows no dates: a column
of dates is one input of the numbers that it is encoded to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bochner.persistence.onnx_graph import Graph
from bochner.tables import TableEncoder
from bochner.tables.cells import MISSING_TEXT
from bochner.tables.columns import Blank, Encoding, Levels, Numbers, Sums, Times, Truth, WrittenTimes


def table_rows(graph: Graph, encoder: TableEncoder, prefix: str = "") -> str:
    """Encoded rows (n, k) of a table; inputs have the names of its columns, behind ``prefix``."""
    parts = {i: _WRITERS[type(each)](graph, each, prefix) for i, each in _written(encoder)}
    first = next(iter(parts.values()), None) or graph.input(f"{prefix}{encoder.names_in[0]}", 1)
    for i, each in enumerate(encoder.encodings):
        if isinstance(each, Blank):
            parts[i] = _zeros(graph, first)
    return graph.add("Concat", *(parts[i] for i in sorted(parts)), axis=1) if len(parts) > 1 else parts[min(parts)]


def _written(encoder: TableEncoder) -> list[tuple[int, Encoding]]:
    return [(i, each) for i, each in enumerate(encoder.encodings) if type(each) in _WRITERS]


def _numbers(graph: Graph, column: Any, prefix: str) -> str:
    values = graph.input(f"{prefix}{column.name}", 1)
    missing = graph.add("IsNaN", values)
    filled = graph.add("Where", missing, np.full((1, 1), float(column.fill)), values)
    return graph.add("Concat", filled, graph.number(missing), axis=1) if column.gaps else filled


def _levels(graph: Graph, column: Any, prefix: str) -> str:
    """The code of each level, and the row of a table of ones and zeros that belongs to it."""
    text = graph.input(f"{prefix}{column.name}", 1, text=True)
    width = len(column.levels) + column.other + column.gaps
    known = dict.fromkeys(sorted(MISSING_TEXT), width - 1 if column.gaps else width)
    known |= {level: i for i, level in enumerate(column.levels)}
    codes = graph.add(
        "LabelEncoder",
        text,
        domain="ai.onnx.ml",
        keys_strings=list(known),
        values_int64s=list(known.values()),
        default_int64=len(column.levels) if column.other else width,
    )
    ones = np.eye(width + 1)[:, 1:width] if column.is_binary else np.eye(width + 1)[:, :width]
    return graph.add("Gather", ones, graph.add("Squeeze", codes, np.array([1])), axis=0)


def _times(graph: Graph, column: Any, prefix: str) -> str:
    return graph.input(f"{prefix}{column.name}", len(column.names_out))


def _zeros(graph: Graph, rows: str) -> str:
    n_rows = graph.add("Slice", graph.add("Shape", rows), np.array([0]), np.array([1]))
    return graph.add("Expand", np.zeros((1, 1)), graph.add("Concat", n_rows, np.array([1]), axis=0))


_WRITERS: dict[type, Callable[[Graph, Any, str], str]] = {
    Numbers: _numbers,
    Truth: _numbers,
    Sums: _numbers,
    Levels: _levels,
    Times: _times,
    WrittenTimes: _times,
}
