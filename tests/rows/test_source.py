"""The contract, for rows in memory and on disk: blocks, samples, threads that end and files that are closed."""

import os
import threading
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from bochner.rows import from_arrays, from_blocks
from bochner.rows.hashing import row_hash
from bochner.rows.reading import AHEAD, read_ahead
from bochner.rows.source import Block, recut
from tests.rows.tables import FORMATS, N, make_table, open_files, opened
from tests.rows.test_formats import check_cuts, joined

each_format = pytest.mark.parametrize("name", FORMATS)


def our_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("bochner-rows")]


@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=8), size=st.integers(1, 40), sparse_rows=st.booleans())
def test_blocks_of_any_length_cut_anew(lengths, size, sparse_rows):
    n = sum(lengths)
    X, y, ends = np.arange(2.0 * n).reshape(n, 2), np.arange(n), np.cumsum(lengths)
    form = sparse.csr_array if sparse_rows else np.asarray
    parts = [(form(X[end - k : end]), y[end - k : end], y[end - k : end]) for k, end in zip(lengths, ends, strict=True)]
    if not n:
        return
    source = from_blocks(parts)
    blocks = list(source.blocks(size))
    check_cuts(blocks, n, size)
    for found, expected in zip(joined(blocks), (X, y, y), strict=True):
        assert np.array_equal(found, expected)
    assert source.n_rows == n


@pytest.mark.parametrize("kind", ["dense", "fortran", "memmap", "csr", "csc", "float32", "int", "frame"])
def test_arrays(kind, tmp_path):
    table = make_table()
    np.save(tmp_path / "X.npy", table.X)
    X = {
        "dense": lambda: table.X,
        "fortran": lambda: np.asfortranarray(table.X),
        "memmap": lambda: np.load(tmp_path / "X.npy", mmap_mode="r"),
        "csr": lambda: sparse.csr_array(table.X),
        "csc": lambda: sparse.csc_matrix(table.X),
        "float32": lambda: table.X.astype(np.float32),
        "int": lambda: (10 * table.X).astype(np.int16),
        "frame": lambda: pd.DataFrame(table.X, columns=list("abcd")),
    }[kind]()
    source = from_arrays(X, table.y, table.weight)
    blocks = list(source.blocks(10))
    check_cuts(blocks, N, 10)
    found = joined(blocks)
    assert np.array_equal(found[0], X.toarray() if sparse.issparse(X) else np.asarray(X))
    assert np.array_equal(found[1], table.y)
    assert np.array_equal(found[2], table.weight)
    assert source.dtype == (np.float32 if kind == "float32" else np.float64)
    assert all(block.X.dtype == source.dtype for block in blocks)
    assert source.names == (tuple("abcd") if kind == "frame" else None)
    assert source.fingerprint() == ()


def test_blocks_of_dense_arrays_are_views():
    X = make_table().X
    assert all(np.shares_memory(block.X, X) for block in from_arrays(X).blocks(10))


def test_targets_of_arrays():
    X = make_table().X
    several = next(from_arrays(X, y=X[:, :2]).blocks(5)).y
    assert several.shape == (5, 2)
    text = next(from_arrays(X, y=np.where(X[:, 0] > 0, "yes", "no")).blocks(5)).y
    assert set(text) == {"yes", "no"}
    objects = next(from_arrays(X, y=np.arange(N).astype(object)).blocks(5)).y
    assert objects.dtype == np.float64


def test_blocks_from_functions_lists_and_iterables():
    class Stream:
        def __iter__(self):
            return iter([make_table().X[:20], make_table().X[20:]])

    for make in (Stream(), Stream().__iter__, list(Stream()), lambda: list(Stream())):
        source = from_blocks(make, names="abcd")
        for _ in range(2):
            assert np.array_equal(joined(list(source.blocks(7)))[0], make_table().X)
        assert source.names == tuple("abcd")
    assert from_blocks(lambda: [(make_table().X, None)], n_rows=N).n_rows == N


def test_blocks_that_are_one_buffer_filled_again():
    def make():
        X, y = np.empty((5, 2)), np.empty(5)
        for i in range(10):
            X[:], y[:] = i, i
            yield X, y

    blocks = list(from_blocks(make).blocks(5))
    assert [block.X[0, 0] for block in blocks] == [block.y[0] for block in blocks] == list(range(10))


def test_two_passes_at_a_time():
    source = from_arrays(make_table().X)
    for one, other in zip(source.blocks(9), source.blocks(9), strict=True):
        assert np.array_equal(one.X, other.X)


@each_format
@pytest.mark.parametrize("n", [1, 10, N, 2 * N])
def test_samples(name, n, tmp_path, monkeypatch):
    """The rows of the smallest hashes, for any block size."""
    table = make_table()
    source = opened(name, table, tmp_path)
    expected = np.sort(np.argsort(row_hash(0, N, 7))[:n])
    for n_bytes in (1, 2**24):
        monkeypatch.setattr("bochner.rows.source.SAMPLE_BLOCK_BYTES", n_bytes)
        monkeypatch.setattr("bochner.rows.source.FEWEST_BLOCK_ROWS", 4)
        sample = source.sample(n, seed=7)
        X = sample.X.toarray() if sparse.issparse(sample.X) else sample.X
        assert np.array_equal(sample.numbers, expected)
        assert np.array_equal(X, table.X[expected])
        assert np.array_equal(sample.y, table.y[expected])
    assert not np.array_equal(source.sample(10, seed=8).numbers, source.sample(10, seed=9).numbers)


@each_format
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="lists the open files of a process as Linux does")
def test_leaving_a_pass_closes_everything(name, tmp_path):
    source = opened(name, make_table(), tmp_path)
    kept = []
    for block in source.blocks(5):
        assert len(our_threads()) == 1
        kept.append(block)
        break
    assert not our_threads()
    assert not open_files(tmp_path)
    blocks = source.blocks(5)
    kept.append(next(blocks))
    blocks.close()
    assert not our_threads()
    assert not open_files(tmp_path)
    with pytest.raises(ZeroDivisionError):
        kept.extend(block.n_rows / 0 for block in source.blocks(5))
    list(source.blocks(5))
    assert source.n_rows == N
    assert not our_threads()
    assert not open_files(tmp_path)


def test_a_pass_that_is_never_started_opens_nothing():
    def make():
        yield make_table().X
        raise AssertionError("read too far")

    source = from_blocks(make)
    blocks = source.blocks(5)
    assert not our_threads()
    del blocks


def test_the_iterable_is_closed():
    closed = []

    def make():
        try:
            yield from [make_table().X] * 10
        finally:
            closed.append(True)

    source = from_blocks(make)
    assert len(closed) == 1
    next(source.blocks(5))
    assert len(closed) == 2


def test_errors_come_in_order():
    def make():
        yield make_table().X
        yield make_table().X
        raise LookupError("no more")

    blocks = from_blocks(make).blocks(N)
    next(blocks)
    next(blocks)
    with pytest.raises(LookupError, match="no more"):
        next(blocks)
    assert not our_threads()


def test_two_blocks_ahead():
    made = []

    def numbers():
        for i in range(10):
            made.append(i)
            yield i

    items = read_ahead(numbers())
    for i in range(4):
        assert next(items) == i
        while len(made) < i + 1 + AHEAD:
            time.sleep(0.001)
        time.sleep(0.01)
        assert len(made) == i + 1 + AHEAD
    items.close()


def test_cutting_copies_only_where_blocks_meet():
    X = np.arange(20.0).reshape(10, 2)
    blocks = list(recut((Block(i, X[i : i + 5]) for i in (0, 5)), 4))
    assert [np.shares_memory(block.X, X) for block in blocks] == [True, False, True]
    assert [block.start for block in blocks] == [0, 4, 8]
