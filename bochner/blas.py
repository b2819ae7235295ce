"""The thread pools of BLAS: how many threads there are, holding them to one, and keeping two libraries apart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def blas_threads() -> int:
    """Threads that BLAS may use at this moment: all cores unless the user or a parallel caller set a limit."""
    return max((library.num_threads for library in _controller().lib_controllers), default=1)


class _Limits:
    """Limits that many callers, in many threads, may hold at a time; the last one out restores the old numbers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = {"everywhere": 0, "outside SciPy": 0}
        self._before: list[tuple[Any, int]] = []

    @contextmanager
    def hold(self, where: str) -> Iterator[None]:
        """One thread for the libraries ``where``, whatever other callers hold or let go of meanwhile."""
        with self._lock:
            if not any(self._holders.values()):
                self._before = [(library, library.num_threads) for library in _controller().lib_controllers]
            self._change(where, 1)
        try:
            yield
        finally:
            with self._lock:
                self._change(where, -1)

    def _change(self, where: str, by: int) -> None:
        self._holders[where] += by
        there_is_scipy = any(_is_scipy(library) for library, _ in self._before)
        for library, threads in self._before:
            apart = self._holders["outside SciPy"] and there_is_scipy and not _is_scipy(library)
            _set_threads(library, 1 if self._holders["everywhere"] or apart else threads)


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


def _is_scipy(library: Any) -> bool:
    return "scipy.libs" in library.filepath


_limits = _Limits()


def one_blas_thread() -> AbstractContextManager[None]:
    """A context in which every BLAS has one thread."""
    return _limits.hold("everywhere")


def one_blas_pool() -> AbstractContextManager[None]:
    """A context in which only SciPy's BLAS has several threads, for work that goes back and forth between the two.

    The wheels of NumPy and SciPy carry a library each, and the threads of one go on spinning for a while after its last
    product: in the way of the other's, which makes factorisations two to three times slower.
    """
    return _limits.hold("outside SciPy")
