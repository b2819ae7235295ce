"""Reading ahead: the next blocks are made while the caller works on this one."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

AHEAD = 2
"""Blocks that are read while the caller works."""


def read_ahead(items: Generator[T, None, None]) -> Generator[T, None, None]:
    """The same items, made in one thread, at most ``AHEAD`` of them before they are asked for.

    The thread lives from the first item to the end of the pass, however that comes; then ``items`` is closed. An error that
    ``items`` raises comes where its item would.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="bochner-rows")
    try:
        waiting: deque[Future[T | None]] = deque(pool.submit(next, items, None) for _ in range(AHEAD))
        while (item := waiting.popleft().result()) is not None:
            waiting.append(pool.submit(next, items, None))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)
        items.close()
