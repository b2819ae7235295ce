"""Limits on the threads of BLAS: they end with their last holder, in whatever order holders come and go."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from bochner.blas import blas_threads, one_blas_pool, one_blas_thread


def threads():
    return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        if set(threads().values()) != {2}:
            pytest.skip("BLAS has no second thread here")
        yield


def test_one_thread_everywhere():
    with one_blas_thread():
        assert set(threads().values()) == {1}
        assert blas_threads() == 1
    assert set(threads().values()) == {2}


def test_one_pool():
    with one_blas_pool():
        scipy = {path: number for path, number in threads().items() if "scipy.libs" in path}
        others = {path: number for path, number in threads().items() if "scipy.libs" not in path}
        assert set(scipy.values()) <= {2}
        assert set(others.values()) <= ({1} if scipy else {2})
        assert blas_threads() == 2
    assert set(threads().values()) == {2}


ORDERS = [
    order
    for order in itertools.permutations(["+pool", "-pool", "+one", "-one"])
    if order.index("+pool") < order.index("-pool") and order.index("+one") < order.index("-one")
]


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_holders_may_overlap_in_any_order(order):
    """As two threads of a program may: one fits, another predicts."""
    held = {name: ExitStack() for name in ("pool", "one")}
    inside = set()
    for step in order:
        name = step[1:]
        if step[0] == "+":
            held[name].enter_context(one_blas_pool() if name == "pool" else one_blas_thread())
            inside.add(name)
        else:
            held[name].close()
            inside.discard(name)
        assert blas_threads() == (1 if "one" in inside else 2)
    assert set(threads().values()) == {2}


@pytest.fixture
def another_thread():
    with ThreadPoolExecutor(1) as pool:
        yield lambda function, *arguments: pool.submit(function, *arguments).result()


@pytest.mark.parametrize("hold", [one_blas_pool, one_blas_thread])
def test_the_last_holder_may_be_another_thread(hold, another_thread):
    """And has its limit while it lasts."""
    here, there = ExitStack(), ExitStack()
    here.enter_context(hold())
    limited = threads()
    another_thread(there.enter_context, hold())
    here.close()
    assert threads() == limited
    another_thread(there.close)
    assert set(threads().values()) == {2}


def test_a_thread_is_limited_after_another_was(another_thread):
    with one_blas_thread():
        pass

    def inside():
        with one_blas_thread():
            return threads()

    assert set(another_thread(inside).values()) == {1}
    assert set(threads().values()) == {2}


def test_limits_of_others_end_where_they_should(another_thread):
    """Those of threadpoolctl itself, around holders in other threads."""

    def inside():
        with one_blas_thread():
            return threads()

    before = threads()
    with threadpool_limits(3, user_api="blas"):
        assert set(another_thread(inside).values()) == {1}
        assert set(threads().values()) == {3}
    assert threads() == before
