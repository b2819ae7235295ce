"""The thread pools of BLAS: how many threads there are, holding them to one, and keeping two libraries apart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def blas_threads() -> int:
    """Threads that BLAS may use at this moment: all cores unless the user or a parallel caller set a limit."""
    return max((library.num_threads for library in _controller().lib_controllers), default=1)


class _Limit:
    """A limit of one thread that many callers may hold at a time; the last one out restores the old numbers."""

    def __init__(self, *, spare: str = "") -> None:
        self.spare = spare
        self._lock = threading.Lock()
        self._holders = 0
        self._before: list[tuple[Any, int]] = []

    @contextmanager
    def hold(self) -> Iterator[None]:
        with self._lock:
            if self._holders == 0:
                self._before = [(library, library.num_threads) for library in self._libraries()]
                for library, _ in self._before:
                    library.set_num_threads(1)
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                if self._holders == 0:
                    for library, threads in self._before:
                        library.set_num_threads(threads)

    def _libraries(self) -> list[Any]:
        libraries = _controller().lib_controllers
        if not self.spare:
            return libraries
        spared = any(self.spare in library.filepath for library in libraries)
        return [library for library in libraries if self.spare not in library.filepath] if spared else []


_everywhere = _Limit()
_elsewhere = _Limit(spare="scipy.libs")


def one_blas_thread() -> Any:
    """A context in which every BLAS has one thread."""
    return _everywhere.hold()


def one_blas_pool() -> Any:
    """A context in which only SciPy's BLAS has several threads, for work that goes back and forth between the two.

    The wheels of NumPy and SciPy carry a library each, and the threads of one go on spinning for a while after its last
    product: in the way of the other's, which makes factorisations two to three times slower.
    """
    return _elsewhere.hold()
