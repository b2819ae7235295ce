"""Every format against the table that was written."""

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from bochner import open_rows
from bochner.rows import csv_files, svmlight
from tests.rows.tables import FORMATS, NAMES, M, N, make_table, opened, write

WITHOUT_WEIGHT = [name for name in FORMATS if "svmlight" in name]
TABLES = ["parquet", "feather", "csv", "csv.gz"]
each_format = pytest.mark.parametrize("name", FORMATS)


def joined(blocks):
    """All rows of a list of blocks, dense: X, y, weight."""
    X = np.concatenate([block.X.toarray() if sparse.issparse(block.X) else block.X for block in blocks])
    y, weight = (
        None if getattr(blocks[0], role) is None else np.concatenate([getattr(block, role) for block in blocks])
        for role in ("y", "weight")
    )
    return X, y, weight


def check_cuts(blocks, n_rows, size):
    """Blocks lie one after the other, full but for the last."""
    assert [block.start for block in blocks] == list(range(0, n_rows, size))
    assert [block.n_rows for block in blocks] == [min(size, n_rows - start) for start in range(0, n_rows, size)]


@each_format
@pytest.mark.parametrize("size", [1, 7, 17, N - 1, N, 1000])
def test_blocks_are_the_table(name, size, tmp_path):
    table = make_table()
    source = opened(name, table, tmp_path)
    for _ in range(2):  # every pass is a fresh one
        blocks = list(source.blocks(size))
        check_cuts(blocks, N, size)
        X, y, weight = joined(blocks)
        assert np.array_equal(X, table.X)
        assert np.array_equal(y, table.y)
        assert (weight is None) if name in WITHOUT_WEIGHT else np.array_equal(weight, table.weight)
    assert (source.n_rows, source.n_columns, source.dtype) == (N, M, np.float64)
    assert source.names == (NAMES if name in [*TABLES, "arrow"] else None)
    assert all(sparse.issparse(block.X) == ("svmlight" in name) for block in blocks)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Every format once, for tests that only read."""
    return {name: opened(name, make_table(), tmp_path_factory.mktemp("rows")) for name in FORMATS}


@each_format
@given(size=st.integers(1, 2 * N))
def test_any_block_size(name, files, size):
    blocks = list(files[name].blocks(size))
    check_cuts(blocks, N, size)
    assert np.array_equal(joined(blocks)[0], make_table().X)


@each_format
def test_rows_are_counted_before_a_pass_and_by_it(name, tmp_path):
    path, options = write(name, make_table(), tmp_path)
    assert open_rows(path, **options).n_rows == N
    source = open_rows(path, **options)
    list(source.blocks(10))
    assert f"{N} rows" in repr(source)


@each_format
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtype(name, dtype, tmp_path):
    table = make_table()
    blocks = list(opened(name, table, tmp_path, dtype=dtype).blocks(20))
    assert all(block.X.dtype == dtype and block.y.dtype == np.float64 for block in blocks)
    assert np.array_equal(joined(blocks)[0], table.X.astype(dtype))


@pytest.mark.parametrize("name", ["parquet", "npz", "hdf5", "zarr"])
def test_float32_stays(name, tmp_path):
    source = opened(name, make_table(dtype=np.float32), tmp_path)
    assert source.dtype == np.float32
    assert next(source.blocks(5)).X.dtype == np.float32


@each_format
def test_several_files(name, tmp_path):
    """A pattern, a list and a folder: blocks go on over the ends of files."""
    table = make_table()
    file, writer, options = FORMATS[name]
    stem, _, suffix = file.partition(".")
    paths = [tmp_path / f"{stem}{k}.{suffix}" for k in range(3)]
    for path, rows in zip(paths, (slice(0, 10), slice(10, 12), slice(12, N)), strict=True):
        writer(table.part(rows), path)
    for given_as in (str(tmp_path / f"{stem}*.{suffix}"), paths, [str(path) for path in paths]):
        source = open_rows(given_as, **options)
        blocks = list(source.blocks(8))
        check_cuts(blocks, N, 8)
        assert np.array_equal(joined(blocks)[0], table.X)
        assert np.array_equal(joined(blocks)[1], table.y)
        assert source.n_rows == N
        assert [found.path for found in source.fingerprint()] == [str(path) for path in paths]


@pytest.mark.parametrize("name", ["parquet", "csv", "npz", "zarr"])
def test_folder(name, tmp_path):
    path, options = write(name, make_table(), tmp_path)
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / "README.txt").write_text("not rows")
    (tmp_path / ".hidden.csv").write_text("a\nx\n")
    (tmp_path / "below").mkdir()
    path.rename(tmp_path / "below" / path.name)
    assert np.array_equal(joined(list(open_rows(tmp_path, **options).blocks(9)))[0], make_table().X)


@pytest.mark.parametrize("name", TABLES)
def test_columns_by_name_and_number(name, tmp_path):
    table = make_table()
    path, _ = write(name, table, tmp_path)
    source = open_rows(path, columns=["c", 0], target=["y", "b"])
    X, y, weight = joined(list(source.blocks(11)))
    assert np.array_equal(X, table.X[:, [2, 0]])
    assert np.array_equal(y, np.column_stack([table.y, table.X[:, 1]]))
    assert weight is None
    assert (source.names, source.target_names) == (("c", "a"), ("y", "b"))
    assert next(open_rows(path, target=["y"]).blocks(4)).y.shape == (4, 1)
    assert next(open_rows(path).blocks(4)).y is None
    assert open_rows(path).n_columns == M + 2


@pytest.mark.parametrize("name", ["npz", "zarr", "npy"])
def test_columns_of_arrays_by_number(name, tmp_path):
    table = make_table()
    X, y, weight = joined(list(opened(name, table, tmp_path, columns=[3, 0]).blocks(11)))
    assert np.array_equal(X, table.X[:, [3, 0]])
    assert np.array_equal(y, table.y)
    assert np.array_equal(weight, table.weight)


@pytest.mark.parametrize("name", ["npz", "zarr"])
def test_targets_among_the_columns_of_an_array(name, tmp_path):
    table = make_table()
    X, y, _ = joined(list(opened(name, table, tmp_path, target=[1, -1]).blocks(11)))
    assert np.array_equal(X, table.X[:, [0, 2]])
    assert np.array_equal(y, table.X[:, [1, 3]])


def test_arrays_side_by_side(tmp_path):
    import h5py

    table = make_table()
    with h5py.File(tmp_path / "t.hdf5", "w") as file:
        file["one"], file["two"] = table.X[:, 0], table.X[:, 1:]
        file["label"] = ["ham" if i % 2 else "spam" for i in range(N)]
    X, y, _ = joined(list(open_rows(tmp_path / "t.hdf5", columns=["two", "one"], target="label").blocks(10)))
    assert np.array_equal(X, np.roll(table.X, -1, axis=1))
    assert y.tolist() == ["spam", "ham"] * (N // 2) + ["spam"]


def test_one_zarr_array_is_x(tmp_path):
    import zarr

    table = make_table()
    zarr.save_array(tmp_path / "t.zarr", table.X)
    X, y, _ = joined(list(open_rows(tmp_path / "t.zarr", target=0).blocks(10)))
    assert np.array_equal(X, table.X[:, 1:])
    assert np.array_equal(y, table.X[:, 0])


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_with_targets_in_files_of_their_own(order, tmp_path):
    table = make_table()
    for k, rows in enumerate((slice(0, 20), slice(20, N))):
        np.save(tmp_path / f"X{k}.npy", np.asarray(table.X[rows], order=order))
        np.save(tmp_path / f"y{k}.npy", np.arange(N)[rows])
        np.save(tmp_path / f"w{k}.npy", table.weight[rows])
    source = open_rows(
        tmp_path / "X*.npy", target=str(tmp_path / "y*.npy"), weight=[tmp_path / "w0.npy", tmp_path / "w1.npy"]
    )
    X, y, weight = joined(list(source.blocks(9)))
    assert np.array_equal(X, table.X)
    assert np.array_equal(y, np.arange(N))
    assert np.array_equal(weight, table.weight)
    assert len(source.fingerprint()) == 6


def test_blocks_of_npy_are_copies(tmp_path):
    np.save(tmp_path / "X.npy", make_table().X)
    block = next(open_rows(tmp_path / "X.npy").blocks(5))
    block.X[:] = 0
    assert not isinstance(block.X, np.memmap)
    assert np.array_equal(next(open_rows(tmp_path / "X.npy").blocks(5)).X, make_table().X[:5])


def test_files_with_columns_in_another_order(tmp_path):
    frame = make_table().frame
    frame[:20].to_parquet(tmp_path / "0.parquet")
    frame[20:][["w", "d", "y", "b", "a", "c"]].to_parquet(tmp_path / "1.parquet", index=False)
    for options in ({"target": "y", "weight": "w"}, {"target": 4, "weight": -1}):  # numbers are those of the first file
        X, y, weight = joined(list(open_rows(tmp_path, **options).blocks(15)))
        assert np.array_equal(X, make_table().X)
        assert np.array_equal(y, make_table().y)
        assert np.array_equal(weight, make_table().weight)


def test_types_of_columns(tmp_path):
    """Whole numbers, truth values, decimals, categories of numbers, halves."""
    columns = {
        "i": pa.array([1, 2, 2**60]),
        "b": pa.array([True, False, True]),
        "d": pa.array([1, 2, 3]).cast(pa.decimal128(21, 2)),
        "k": pa.array([7, 8, 7]).dictionary_encode(),
        "h": pa.array(np.array([1, 2, 0.5], dtype=np.float16)),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    source = open_rows(tmp_path / "t.parquet")
    assert next(source.blocks(3)).X.tolist() == [[1, 1, 1, 7, 1], [2, 0, 2, 8, 2], [2.0**60, 1, 3, 7, 0.5]]
    assert source.dtype == np.float64
    assert open_rows(tmp_path / "t.parquet", columns="h").dtype == np.float32


@pytest.mark.parametrize("suffix", ["parquet", "csv", "feather"])
def test_targets_of_text(suffix, tmp_path):
    frame = pd.DataFrame({"x": [1.0, 2, 3], "kind": ["ham", "spam", "ham"]})
    path = tmp_path / f"t.{suffix}"
    {"parquet": frame.to_parquet, "feather": frame.to_feather, "csv": lambda p: frame.to_csv(p, index=False)}[suffix](path)
    assert next(open_rows(path, target="kind").blocks(3)).y.tolist() == ["ham", "spam", "ham"]


def test_the_index_of_pandas_is_no_column(tmp_path):
    frame = make_table().frame
    frame.iloc[[3, 1, 2]].to_parquet(tmp_path / "t.parquet")
    frame.iloc[[3, 1, 2]].rename_axis("id").to_parquet(tmp_path / "named.parquet")
    assert open_rows(tmp_path / "t.parquet", target="y").names == (*NAMES, "w")
    assert open_rows(tmp_path / "named.parquet", target="y").names == (*NAMES, "w")
    assert open_rows(tmp_path / "named.parquet", columns=["id", "a"]).names == ("id", "a")
    assert open_rows(tmp_path, target="y").names == (*NAMES, "w")


def test_csv_without_names_with_semicolons(tmp_path):
    table = make_table()
    table.frame.to_csv(tmp_path / "t.csv", index=False, header=False, sep=";")
    source = open_rows(tmp_path / "t.csv", header=False, delimiter=";", target=4, weight=5)
    X, y, _ = joined(list(source.blocks(10)))
    assert np.array_equal(X, table.X)
    assert np.array_equal(y, table.y)
    assert (source.names, source.n_rows) == (None, N)
    table.frame.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    assert open_rows(tmp_path / "t.tsv").names == (*NAMES, "y", "w")


def test_csv_whole_numbers_then_fractions(tmp_path, monkeypatch):
    """Types are guessed from the beginning; numbers of every kind may follow."""
    monkeypatch.setattr(csv_files, "CSV_BYTES", 64)
    (tmp_path / "t.csv").write_text("a,b\n" + "1,\n" * 40 + "0.5,\n")
    source = open_rows(tmp_path / "t.csv", columns="a")
    assert joined(list(source.blocks(6)))[0].ravel().tolist() == [1.0] * 40 + [0.5]
    assert source.n_rows == 41


def test_format_by_name(tmp_path):
    table = make_table()
    table.frame.to_csv(tmp_path / "table.data", index=False)
    assert open_rows(tmp_path / "table.data", format="csv").n_columns == M + 2
    table.frame.to_parquet(tmp_path / "T.PARQUET")
    assert open_rows(tmp_path / "T.PARQUET").n_rows == N


def test_svmlight_in_small_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(svmlight, "TEXT_BYTES", 50)
    table = make_table()
    assert np.array_equal(joined(list(opened("svmlight", table, tmp_path).blocks(10)))[0], table.X)


def test_svmlight_oddities(tmp_path):
    """Comments, qid, empty rows, empty lines, unsorted columns, Windows line ends, no newline at the end."""
    text = b"# a comment\n+1 qid:3 2:0.5 1:4 # a remark: 7\r\n\r\n-1\n2.5e0 3:1e-3\n0 4:-7"
    (tmp_path / "t.svm").write_bytes(text)
    source = open_rows(tmp_path / "t.svm")
    X, y, _ = joined(list(source.blocks(3)))
    assert X.tolist() == [[4, 0.5, 0, 0], [0, 0, 0, 0], [0, 0, 1e-3, 0], [0, 0, 0, -7]]
    assert y.tolist() == [1, -1, 2.5, 0]
    (tmp_path / "t.svm.gz").write_bytes(gzip.compress(text))
    wide = open_rows(tmp_path / "t.svm.gz", n_columns=9, zero_based=True)
    assert next(wide.blocks(9)).X.toarray()[:, :5].tolist() == [
        [0, 4, 0.5, 0, 0],
        [0] * 5,
        [0, 0, 0, 1e-3, 0],
        [0, 0, 0, 0, -7],
    ]
    assert (wide.n_columns, wide.n_rows) == (9, 4)


def test_folder_of_files_without_rows(tmp_path):
    pd.DataFrame({"a": [1.0], "y": [2.0]})[:0].to_parquet(tmp_path / "t.parquet")
    source = open_rows(tmp_path / "t.parquet", target="y")
    assert source.n_rows == 0
    assert list(source.blocks(5)) == []
    with pytest.raises(ValueError, match="no rows"):
        source.sample(3)
