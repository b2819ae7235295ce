"""Hashes of row numbers: fixed values, uniform, and the same however rows are cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bochner.rows.hashing import fold_of, hash_numbers, in_part, row_hash

SPLITMIX64 = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
"""The first numbers of splitmix64 from the seed 1234567, as its authors' C code prints them."""


def test_known_values():
    assert row_hash(0, 5, seed=1234567).tolist() == SPLITMIX64
    assert row_hash(2, 4, seed=1234567).tolist() == SPLITMIX64[2:4]
    assert row_hash(0, 1).tolist() == [0xE220A8397B1DCDAF]
    assert row_hash(3, 3).dtype == np.uint64


@given(st.integers(0, 2**40), st.integers(0, 50), st.integers(0, 50), st.integers(-(2**70), 2**70))
def test_cuts_do_not_show(start, before, after, seed):
    whole = row_hash(start, start + before + after, seed)
    parts = row_hash(start, start + before, seed), row_hash(start + before, start + before + after, seed)
    assert np.array_equal(whole, np.concatenate(parts))
    assert np.array_equal(whole, hash_numbers(np.arange(start, start + before + after), seed))


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_uniform(seed):
    """Chi-square tests of the high and low bits, and of neighbours, at a level that a fair hash fails once in a million."""
    hashes = row_hash(10**9, 10**9 + 60_000, seed)
    high, low = (hashes >> np.uint64(59)).astype(int), (hashes & np.uint64(31)).astype(int)
    for cells in (high, low, 32 * high[:-1] + high[1:], 32 * high + low):
        counts = np.bincount(cells, minlength=32 if cells.max() < 32 else 1024)
        assert stats.chisquare(counts).pvalue > 1e-6


def test_seeds_are_independent():
    both = in_part(row_hash(0, 60_000, 1), 0.5) & in_part(row_hash(0, 60_000, 2), 0.5)
    assert abs(both.mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 60_000)


@pytest.mark.parametrize("fraction", [0.01, 0.3, 0.5, 0.99])
def test_parts(fraction):
    hashes = row_hash(0, 60_000)
    chosen = in_part(hashes, fraction)
    assert abs(chosen.mean() - fraction) < 5 * np.sqrt(fraction * (1 - fraction) / 60_000)
    assert not np.any(chosen & ~in_part(hashes, min(1, 1.5 * fraction)))


def test_all_and_none():
    hashes = np.array([0, 2**64 - 1], dtype=np.uint64)
    assert in_part(hashes, 1.0).all()
    assert not in_part(hashes, 0.0).any()


@pytest.mark.parametrize("n_folds", [1, 2, 3, 10, 97])
def test_folds(n_folds):
    hashes = row_hash(0, 60_000)
    folds = fold_of(hashes, n_folds)
    counts = np.bincount(folds, minlength=n_folds)
    assert len(counts) == n_folds
    assert n_folds == 1 or stats.chisquare(counts).pvalue > 1e-6
    within = np.bincount(folds[in_part(hashes, 0.2)], minlength=n_folds)
    assert n_folds == 1 or stats.chisquare(within).pvalue > 1e-6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: row_hash(5, 4), "start and stop must be row numbers"),
        (lambda: row_hash(-1, 4), "start and stop must be row numbers"),
        (lambda: in_part(row_hash(0, 2), 1.5), "fraction must be from 0 to 1"),
        (lambda: fold_of(row_hash(0, 2), 0), "n_folds must be a whole number"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
