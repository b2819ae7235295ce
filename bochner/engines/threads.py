"""Blocks of rows over the cores of one machine: the loop that everything row-wise runs in.

Blocks are handed to threads in runs; each thread has one BLAS thread, so that cores are neither idle nor shared. Results
come back in the order of the rows whatever the number of threads, so sums have the same bits on any number of cores.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")


def row_blocks(start: int, stop: int, block_rows: int) -> list[slice]:
    """Slices of at most ``block_rows`` rows that cover those from ``start`` to ``stop``."""
    return [slice(first, min(first + block_rows, stop)) for first in range(start, stop, block_rows)]


def map_blocks(function: Callable[[slice], T], blocks: list[slice]) -> Generator[T, None, None]:
    """``function`` of every block, in order, on as many threads as BLAS may use now."""
    workers = min(_blas_threads(), len(blocks))
    if workers <= 1:
        with _one_blas_thread():  # several would share out the products, and round them, in another way
            yield from map(function, blocks)
        return
    with _one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[T]] = deque()
        for block in blocks:
            waiting.append(pool.submit(function, block))
            if len(waiting) > 2 * workers:  # run ahead, but not without bound: results may be large
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def _blas_threads() -> int:
    """Threads that BLAS may use at this moment: all cores unless the user or a parallel caller set a limit."""
    return max((library["num_threads"] for library in _controller().info()), default=1)


_limit_lock = threading.Lock()
_limit_users = 0
_limit = None


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread while any caller is inside; the last one out restores the old number."""
    global _limit_users, _limit
    with _limit_lock:
        if _limit_users == 0:
            _limit = _controller().limit(limits=1)
        _limit_users += 1
    try:
        yield
    finally:
        with _limit_lock:
            _limit_users -= 1
            if _limit_users == 0 and _limit is not None:
                _limit.restore_original_limits()
                _limit = None
