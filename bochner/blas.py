"""The thread pools of BLAS: how many threads there are, and holding them to one, so that results have the same bits.

A BLAS of several threads shares out a product in another way than one of one thread, and rounds it in another way. So
everything that an estimator does is done with one thread of BLAS (:func:`same_bits`), and what is large is cut into
pieces that do not depend on the number of threads, on threads of our own (``bochner.threads``, ``bochner.tiled``).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


def _libraries() -> list[Any]:
    """Every BLAS that the process has by now: packages bring their own, and may be imported late."""
    return _libraries_of(len(sys.modules), next(reversed(sys.modules)))


@lru_cache(maxsize=1)
def _libraries_of(_n_modules: int, _latest: str) -> list[Any]:
    found: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return found


def blas_threads() -> int:
    """Threads that BLAS may use at this moment: all cores unless the user, a parallel caller or we set a limit."""
    return max((library.num_threads for library in _libraries()), default=1)


class _Limits:
    """Limits that many callers, in many threads, may hold at a time; the last one out restores the old numbers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = {"shared": 0, "alone": 0}
        self._before: dict[str, tuple[Any, int]] = {}

    @contextmanager
    def hold(self, how: str) -> Iterator[None]:
        """One thread for every BLAS, whatever other callers hold or let go of meanwhile."""
        with self._lock:
            if not any(self._holders.values()):
                self._before = {}
            for library in _libraries():
                if library.filepath not in self._before:
                    self._before[library.filepath] = library, library.num_threads
                    _set_threads(library, 1)
            self._holders[how] += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders[how] -= 1
                if not any(self._holders.values()):
                    for library, threads in self._before.values():
                        _set_threads(library, threads)

    def threads_outside(self) -> int:
        """Threads that BLAS has where nobody holds anything; one while somebody is to have no others beside it."""
        with self._lock:
            if self._holders["alone"]:
                return 1
            if self._holders["shared"]:
                return max((threads for _, threads in self._before.values()), default=1)
        return blas_threads()


def _set_threads(library: Any, threads: int) -> None:
    """Set the threads of a library, whichever thread asks for it.

    From threadpoolctl 3.8 on, OpenBLAS heeds none but the first thread that sets them; the last holder may be another.
    """
    _release(library)
    library.set_num_threads(threads)
    _release(library)


def _release(library: Any) -> None:
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread(force=True)


_limits = _Limits()
_here = threading.local()
"""``workers``: the threads that this thread may use, where it is in one of the contexts below, or one of those threads."""


def workers() -> int:
    """Threads that the caller may share work out to: as many as BLAS had before it was held to one."""
    found: int | None = getattr(_here, "workers", None)
    return _limits.threads_outside() if found is None else found


def work_alone() -> None:
    """Let the thread that calls this share out nothing from now on: it is one of those that work is shared out to."""
    _here.workers = 1


@contextmanager
def _with_workers(n_workers: int) -> Iterator[None]:
    before = getattr(_here, "workers", None)
    _here.workers = n_workers
    try:
        yield
    finally:
        _here.workers = before


@contextmanager
def same_bits() -> Iterator[None]:
    """A context in which every BLAS has one thread, and :func:`workers` are as many as there were before.

    Also a decorator. What is computed inside has the same bits for any number of threads.
    """
    n_workers = workers()
    with _limits.hold("shared"), _with_workers(n_workers):
        yield


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context in which every BLAS has one thread, and nothing is shared out: for callers that are many themselves."""
    with _limits.hold("alone"), _with_workers(1):
        yield
