"""The loop over blocks: order, errors, limits."""

import threading
import time

import pytest
from threadpoolctl import threadpool_limits

from bochner import threads
from bochner.blas import blas_threads
from bochner.threads import map_blocks, row_blocks


@pytest.mark.parametrize(("n", "size"), [(0, 3), (1, 3), (3, 3), (4, 3), (10, 1), (7, 100)])
def test_blocks_cover_the_rows_once(n, size):
    blocks = row_blocks(0, n, size)
    covered = [i for block in blocks for i in range(block.start, block.stop)]
    assert covered == list(range(n))
    assert all(0 < block.stop - block.start <= size for block in blocks)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_come_in_order(workers, monkeypatch):
    monkeypatch.setattr(threads, "workers", lambda: workers)
    blocks = row_blocks(0, 30, 1)

    def late_at_first(block):
        time.sleep(0.002 if block.start % 3 == 0 else 0)
        return block.start

    assert list(map_blocks(late_at_first, blocks)) == list(range(30))


@pytest.mark.parametrize("workers", [1, 2])
def test_errors_reach_the_caller_and_blas_gets_its_threads_back(workers, monkeypatch):
    with threadpool_limits(limits=workers, user_api="blas"):

        def fails(block):
            if block.start == 5:
                raise ValueError("block five")
            return block.start

        with pytest.raises(ValueError, match="block five"):
            list(map_blocks(fails, row_blocks(0, 10, 1)))
        assert blas_threads() == workers


def test_each_thread_has_one_blas_thread():
    seen = []
    with threadpool_limits(limits=2, user_api="blas"):
        list(map_blocks(lambda block: seen.append(blas_threads()), row_blocks(0, 6, 1)))
        assert seen == [1] * 6
        assert blas_threads() == 2


def test_a_limit_set_by_the_caller_is_kept():
    names = set()
    with threadpool_limits(limits=1, user_api="blas"):
        list(map_blocks(lambda block: names.add(threading.current_thread().name), row_blocks(0, 6, 1)))
    assert names == {threading.current_thread().name}


def test_a_caller_who_stops_early_leaves_nothing_behind(monkeypatch):
    with threadpool_limits(limits=2, user_api="blas"):
        results = map_blocks(lambda block: block.start, row_blocks(0, 50, 1))
        assert next(results) == 0
        results.close()
        assert blas_threads() == 2


def test_two_callers_at_once(monkeypatch):
    with threadpool_limits(limits=2, user_api="blas"):
        answers = {}

        def call(name):
            answers[name] = list(map_blocks(lambda block: (time.sleep(0.001), block.start)[1], row_blocks(0, 20, 1)))

        callers = [threading.Thread(target=call, args=(name,)) for name in "ab"]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert answers == {"a": list(range(20)), "b": list(range(20))}
        assert blas_threads() == 2
