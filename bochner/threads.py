"""Blocks of rows over the cores of one machine: the loop that everything row-wise runs in.

Blocks are handed to threads in runs; each thread has one BLAS thread, so that cores are neither idle nor shared. Results
come back in the order of the rows whatever the number of threads, so sums have the same bits on any number of cores.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from typing import TypeVar

from bochner.blas import same_bits, work_alone, workers

S = TypeVar("S")
T = TypeVar("T")


def row_blocks(start: int, stop: int, block_rows: int) -> list[slice]:
    """Slices of at most ``block_rows`` rows that cover those from ``start`` to ``stop``."""
    return [slice(first, min(first + block_rows, stop)) for first in range(start, stop, block_rows)]


def map_blocks(function: Callable[[S], T], blocks: Sequence[S]) -> Generator[T, None, None]:
    """``function`` of every block (of rows, or whatever it takes), in order, on as many threads as the caller has."""
    n_threads = min(workers(), len(blocks))
    with same_bits():  # several would share out the products, and round them, in another way
        if n_threads <= 1:
            yield from map(function, blocks)
            return
        pool = _pool(n_threads)
        waiting: deque[Future[T]] = deque()
        try:
            for block in blocks:
                waiting.append(pool.submit(function, block))
                if len(waiting) > 2 * n_threads:  # run ahead, but not without bound: results may be large
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # where a block failed or the caller has seen enough, the others come to their end first
            for future in waiting:
                future.cancel()
            wait(waiting)


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="bochner", initializer=work_alone)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
