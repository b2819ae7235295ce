"""Memory of a pass: blocks of rows, never a table of n by d beyond the answer."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from bochner import FourierFeatures, engines
from bochner.engines import passes
from bochner.features.build import FORMS
from tests.cases import ALL, each, rows, small_map

N, D, M = 20_000, 400, 10
TILE = 2**17
SLACK = 2**20
"""Python's own objects: frequencies, slices, futures."""
KERNELS = {name: ALL[name] for name in ("gaussian", "skewed_chi2", "exponentiated_chi2")}


@pytest.fixture
def one_thread(monkeypatch):
    monkeypatch.setattr(passes, "TILE_BYTES", TILE)
    with threadpool_limits(limits=1, user_api="blas"):
        yield


def peak(function, *arguments):
    """Bytes allocated at most at one time inside ``function``, its result among them."""
    tracemalloc.start()
    try:
        result = function(*arguments)
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


def the_map(kernel, form):
    return small_map(kernel, M, form=form, frequencies=D // 2 if form == "paired" else D)


@pytest.mark.parametrize("form", FORMS)
@each(KERNELS)
def test_forward(kernel, form, one_thread):
    X = rows(kernel, N, M)
    used, features = peak(engines.forward, the_map(kernel, form), X)
    assert features.nbytes == N * D * 8
    # A tile at a time: the angles, their squared tangents, and the mapped rows with a few temporaries of their size, which
    # is the same or less: eight tiles.
    assert used - features.nbytes <= 8 * TILE + SLACK


@pytest.mark.parametrize("form", FORMS)
@each(KERNELS)
def test_adjoint(kernel, form, one_thread):
    X = rows(kernel, N, M)
    G = np.ones((N, D), dtype=np.float64)
    used, _ = peak(engines.adjoint, the_map(kernel, form), X, G)
    # A block of eight tiles at a time. In units of a block's angles: features (2), what they are made of (2), three products
    # of halves (3), the mapped rows (1): eight.
    assert used <= 8 * passes.TILES_A_BLOCK * TILE + SLACK
    assert used < G.nbytes / 4


@pytest.mark.parametrize("form", FORMS)
def test_memory_does_not_grow_with_the_rows(form, one_thread):
    kernel = ALL["gaussian"]
    used = []
    for n in (N, 2 * N):
        X, G = rows(kernel, n, M), np.ones((n, D))
        feature_map = the_map(kernel, form)
        total, features = peak(engines.forward, feature_map, X)
        used.append((total - features.nbytes, peak(engines.adjoint, feature_map, X, G)[0]))
    assert abs(used[1][0] - used[0][0]) <= SLACK
    assert abs(used[1][1] - used[0][1]) <= SLACK


def test_sparse_rows_are_not_made_dense(one_thread):
    X = sparse.random_array((N, 2_000), density=0.002, rng=np.random.default_rng(0), format="csr")
    feature_map = small_map(ALL["gaussian"], 2_000, frequencies=20)
    used, features = peak(engines.forward, feature_map, X)
    assert used - features.nbytes <= 8 * TILE + SLACK
    assert used < N * 2_000 * 8 / 10


@pytest.mark.parametrize("name", ["gaussian", "skewed_chi2"])
def test_the_transformer_adds_no_table_of_its_own(name, one_thread):
    X = rows(ALL[name], N, M)
    transformer = FourierFeatures(name, n_features=D, scale=1.0, random_state=0).fit(X)
    used, features = peak(transformer.transform, X)
    # Checking the rows may take a few tables of their size: a sum, and a mask of one byte a value.
    assert used - features.nbytes <= 8 * TILE + SLACK + 3 * X.nbytes
