"""Limits on the threads of BLAS: they end with their last holder, in whatever order holders come and go."""

import itertools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from bochner.blas import blas_threads, one_blas_thread, same_bits, workers
from bochner.threads import map_blocks


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


@pytest.fixture
def another_thread():
    with ThreadPoolExecutor(1) as pool:
        yield lambda function, *arguments: pool.submit(function, *arguments).result()


def test_who_shares_out_and_who_does_not():
    assert workers() == 2
    with same_bits():
        assert set(threads().values()) == {1}
        assert workers() == 2
        with same_bits(), one_blas_thread():
            assert workers() == 1
        assert workers() == 2
    assert set(threads().values()) == {2}


def test_threads_of_the_pool_share_nothing_out():
    assert list(map_blocks(lambda _: workers(), range(4))) == [1] * 4


ORDERS = [
    order
    for order in itertools.permutations(["+shared", "-shared", "+one", "-one"])
    if order.index("+shared") < order.index("-shared") and order.index("+one") < order.index("-one")
]


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_holders_may_overlap_in_any_order(order, another_thread):
    """As two threads of a program may: one fits, another predicts."""
    held = {"shared": same_bits(), "one": one_blas_thread()}
    inside = set()
    with ThreadPoolExecutor(1) as shared, ThreadPoolExecutor(1) as one:
        place = {"shared": shared, "one": one}
        for step in order:
            name = step[1:]
            if step[0] == "+":
                place[name].submit(held[name].__enter__).result()
                inside.add(name)
            else:
                place[name].submit(held[name].__exit__, None, None, None).result()
                inside.discard(name)
            assert blas_threads() == (1 if inside else 2)
            assert another_thread(workers) == (1 if "one" in inside else 2)
    assert set(threads().values()) == {2}


@pytest.mark.parametrize("hold", [same_bits, one_blas_thread])
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


LATE = """
from threadpoolctl import threadpool_info
from bochner.blas import one_blas_thread, same_bits

def threads():
    return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

with same_bits():
    early = set(threads())
    import cv2
    with one_blas_thread():
        inside = threads()
with one_blas_thread():
    again = threads()
print(len(set(inside) - early), set(inside.values()), set(again.values()), set(threads().values()))
"""


def test_a_blas_that_is_loaded_late_is_held_too():
    """Such as the one that comes with OpenCV, imported after a first fit or within one."""
    pytest.importorskip("cv2")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    said = subprocess.run([sys.executable, "-c", LATE], env=environment, capture_output=True, text=True, check=True)
    late, *others = said.stdout.split(maxsplit=1)
    if late == "0":
        pytest.skip("OpenCV has no BLAS of its own here")
    assert others == ["{1} {1} {2}\n"]
