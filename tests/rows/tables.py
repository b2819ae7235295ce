"""One table, and how to write it in every format: the readers are compared with what was written."""

import bz2
import gzip
import lzma
import os
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.datasets import dump_svmlight_file

from bochner import open_rows

N, M = 53, 4
NAMES = tuple("abcd")


@dataclass(frozen=True)
class Table:
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray

    @property
    def frame(self):
        return pd.DataFrame(self.X, columns=list(NAMES)).assign(y=self.y, w=self.weight)

    def part(self, rows):
        return Table(self.X[rows], self.y[rows], self.weight[rows])


def make_table(n=N, dtype=np.float64):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, M)).round(3).astype(dtype)
    X[rng.random((n, M)) < 0.3] = 0
    y, weight = rng.standard_normal(n).round(3), rng.random(n).round(3)  # dump_svmlight_file writes 16 digits only
    return Table(X, y, weight)


def write_parquet(table, path):
    table.frame.astype(dict.fromkeys(NAMES, table.X.dtype)).to_parquet(path, row_group_size=17)


def write_feather(table, path):
    table.frame.to_feather(path, chunksize=10)


def write_arrow(table, path):
    table.frame.to_feather(path, chunksize=30, compression="uncompressed")


def write_csv(table, path):
    table.frame.to_csv(path, index=False)


def write_npz(table, path):
    np.savez(path, X=table.X, y=table.y, sample_weight=table.weight)


def write_npz_compressed(table, path):
    np.savez_compressed(path, X=np.asfortranarray(table.X), y=table.y, weight=table.weight)


def write_npy(table, path):
    np.save(path, np.column_stack([table.X, table.y, table.weight]))


def write_hdf5(table, path):
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("train/rows", data=table.X, chunks=(min(7, len(table.X)), 2), compression="gzip")
        file["train/price"], file["w"] = table.y, table.weight


def write_zarr(table, path):
    import zarr

    group = zarr.open_group(path, mode="w")
    for name, values, chunks in (("X", table.X, (7, 2)), ("y", table.y, (9,)), ("weight", table.weight, (53,))):
        group.create_array(name, data=values, chunks=chunks)


def write_svmlight(table, path):
    dump_svmlight_file(table.X, table.y, str(path), zero_based=False)


def write_svmlight_gz(table, path):
    write_svmlight(table, path.with_suffix(""))
    path.write_bytes(gzip.compress(path.with_suffix("").read_bytes()))


def write_svmlight_xz(table, path):
    write_svmlight(table, path.with_suffix(""))
    path.write_bytes(lzma.compress(path.with_suffix("").read_bytes()))


def write_svmlight_bz2(table, path):
    dump_svmlight_file(table.X, table.y, str(path.with_suffix("")), zero_based=True, comment="numbers from 0")
    path.write_bytes(bz2.compress(path.with_suffix("").read_bytes()))


BY_NAME = {"target": "y", "weight": "w"}
FORMATS = {
    "parquet": ("t.parquet", write_parquet, BY_NAME),
    "feather": ("t.feather", write_feather, BY_NAME),
    "arrow": ("t.arrow", write_arrow, BY_NAME),
    "csv": ("t.csv", write_csv, BY_NAME),
    "csv.gz": ("t.csv.gz", write_csv, BY_NAME),
    "npz": ("t.npz", write_npz, {}),
    "npz compressed": ("t.npz", write_npz_compressed, {}),
    "npy": ("t.npy", write_npy, {"target": 4, "weight": -1}),
    "hdf5": ("t.h5", write_hdf5, {"columns": "train/rows", "target": "train/price", "weight": "w"}),
    "zarr": ("t.zarr", write_zarr, {}),
    "svmlight": ("t.svm", write_svmlight, {}),
    "svmlight gz": ("t.libsvm.gz", write_svmlight_gz, {}),
    "svmlight xz": ("t.svm.xz", write_svmlight_xz, {}),
    "svmlight bz2": ("t.svmlight.bz2", write_svmlight_bz2, {}),
}
"""File name, writer and options of ``open_rows``."""


def write(name, table, folder):
    """The table in a format: the path and the options to open it with."""
    file, writer, options = FORMATS[name]
    writer(table, folder / file)
    return folder / file, options


def opened(name, table, folder, **more):
    path, options = write(name, table, folder)
    return open_rows(path, **{**options, **more})


def open_files(folder):
    """The files of a folder that this process has open, as Linux lists them; other threads may close theirs meanwhile."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return [path for path in found if str(folder) in path]
