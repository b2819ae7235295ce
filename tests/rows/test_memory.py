"""A pass holds a few blocks, however large the file is."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file

from bochner import open_rows
from bochner.rows import csv_files, svmlight, tables

N, M, SIZE = 20_000, 20, 250
BLOCK_BYTES = 8 * M * SIZE
LIMIT = 25 * BLOCK_BYTES
"""Three blocks that wait, one that is made from pieces, and the readers' own buffers; less than a third of the file."""


def write_parquet(X, path):
    pd.DataFrame(X, columns=[f"x{i}" for i in range(M)]).to_parquet(path, row_group_size=N)


def write_csv(X, path):
    pd.DataFrame(X[: N // 4], columns=[f"x{i}" for i in range(M)]).to_csv(path, index=False)


def write_hdf5(X, path):
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, chunks=(SIZE, M), compression="gzip", compression_opts=1)


def write_svmlight(X, path):
    dump_svmlight_file(X[: N // 10], X[: N // 10, 0], str(path))


def write_feather(X, path):
    pd.DataFrame(X, columns=[f"x{i}" for i in range(M)]).to_feather(path, chunksize=SIZE)


def write_zarr(X, path):
    import zarr

    zarr.open_group(path, mode="w").create_array("X", data=X, chunks=(SIZE, M))


WRITERS = {
    "t.parquet": write_parquet,
    "t.feather": write_feather,
    "t.zarr": write_zarr,
    "t.csv": write_csv,
    "t.npy": lambda X, path: np.save(path, X),
    "t.npz": lambda X, path: np.savez_compressed(path, X=X),
    "t.h5": write_hdf5,
    "t.svm": write_svmlight,
}


@pytest.mark.parametrize("file", WRITERS)
def test_memory_of_a_pass(file, tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    monkeypatch.setattr(csv_files, "CSV_BYTES", 2**14)
    monkeypatch.setattr(tables, "BUFFER_BYTES", 2**12)
    monkeypatch.setattr(svmlight, "TEXT_BYTES", 2**14)
    WRITERS[file](np.random.default_rng(0).integers(0, 100, (N, M)).astype(float), tmp_path / file)
    source = open_rows(tmp_path / file)
    list(source.blocks(10 * N))  # imports are not counted
    before, most = pa.total_allocated_bytes(), 0
    tracemalloc.start()
    try:
        for _ in source.blocks(SIZE):
            most = max(most, pa.total_allocated_bytes() - before)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 3 * LIMIT < 8 * N * M
    assert peak < LIMIT
    assert most < LIMIT
