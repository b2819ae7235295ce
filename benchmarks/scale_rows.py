"""Rows for ``scale.py``: made ones, in memory and in Parquet files, and MNIST enlarged by small shifts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bochner.folds import Rows
from bochner.rows import Block, RowSource, from_blocks

SEED = 0
COLUMNS = 50
GROUP_ROWS = 50_000
LARGEST_SHIFT = 2


def made_rows(n_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows and targets, GROUP_ROWS at a time; the first ones are the same for any number."""
    for group, start in enumerate(range(0, n_rows, GROUP_ROWS)):
        rng = np.random.default_rng([SEED, group])
        X = rng.standard_normal((GROUP_ROWS, COLUMNS))
        y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(GROUP_ROWS)
        yield X[: n_rows - start], y[: n_rows - start]


def write_rows(path: Path, n_rows: int) -> None:
    """A Parquet file of them."""
    names = [*(f"x{i}" for i in range(COLUMNS)), "y"]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for X, y in made_rows(n_rows):
            writer.write_table(pa.table([*X.T, y], schema=schema))


def shifted_digits(images: np.ndarray, labels: np.ndarray, n_rows: int) -> RowSource:
    """MNIST over and over, every image shifted at random; whether it is a 3 is the target."""
    side, pad = images.shape[1], LARGEST_SHIFT
    padded = np.pad(images, ((0, 0), (pad, pad), (pad, pad)))

    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, n_rows, 10_000):
            rng = np.random.default_rng([SEED, start])
            which = rng.integers(len(images), size=min(10_000, n_rows - start))
            down, right = rng.integers(2 * pad + 1, size=(2, len(which), 1, 1))
            across = np.arange(side)
            X = padded[which[:, None, None], down + across[:, None], right + across]
            yield X.reshape(len(which), -1).astype(np.float32) / 255, (labels[which] == 3).astype(float)

    return from_blocks(blocks, n_rows=n_rows, dtype="float32")


def prepared(block: Block) -> Rows:
    """The rows of a block as they are."""
    return Rows(block.X, np.asarray(block.y)[:, None], np.ones(block.n_rows))
