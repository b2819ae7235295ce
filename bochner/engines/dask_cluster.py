"""Work on a cluster of Dask's: tasks of partitions, sums of them, and what is said where the cluster is lost.

It runs on the active client of ``distributed``, or else on Dask's own scheduler.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from bochner.blas import one_blas_thread
from bochner.errors import MissingPackageError, StateError
from bochner.memory import free_bytes

T = TypeVar("T")

SHARE = 0.5
"""The part of the workers' free memory that standardised rows may take between passes; else they are made for every pass."""
POLL, ALONE = 2.0, 30.0
"""Seconds between looks at the workers while a result is waited for, and those without any after which they are lost."""


def tasks(function: Callable[..., Any], partitions: Sequence[Any], beside: Sequence[Any] | None = None) -> list[Any]:
    """``function`` of every partition, to be done: sent once, however many there are, and to each its own of ``beside``."""
    delayed = get_dask().delayed
    shared, task = delayed(function, pure=False, traverse=False), delayed(alone, pure=False, traverse=False)
    if beside is None:
        return [task(shared, partition) for partition in partitions]
    given = [delayed(each, pure=False, traverse=False) for each in beside]
    return [task(shared, partition, each) for partition, each in zip(partitions, given, strict=True)]


def summed(
    function: Callable[..., Any],
    partitions: Sequence[Any],
    add: Callable[[T, T], T],
    beside: Sequence[Any] | None = None,
) -> Any:
    """The sum of ``function`` over partitions: of the first and the second, the third and the fourth, then of these sums."""
    parts = tasks(function, partitions, beside)
    join = get_dask().delayed(partial(_joined, add), pure=False, traverse=False)
    while len(parts) > 1:
        pairs = [join(*pair) for pair in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[2 * len(pairs) :]
    return run(parts[0])


def run(task: Any) -> Any:
    """What a ``Delayed`` object stands for, computed on the cluster."""
    client = _client()
    with told(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")  # frequencies and coefficients: they must go
        return task.compute() if client is None else _await(client, client.compute(task))


def _await(client: Any, future: Any) -> Any:
    """The result of a future; an error where the cluster has had no worker for a while."""
    from distributed import wait

    seen = time.monotonic()
    while True:
        try:
            wait(future, timeout=POLL)
        except TimeoutError:
            if client.status not in ("running", "connecting"):
                raise
            now = time.monotonic()
            seen = now if client.nthreads() else seen
            if now - seen > ALONE:
                future.cancel()
                raise TimeoutError(f"it has had no worker for {ALONE:.0f} seconds") from None
        else:
            return future.result()


@contextmanager
def told() -> Iterator[None]:
    """A context in which errors of a cluster that is lost say what to do."""
    try:
        from distributed.client import CancelledError, ClosedClientError
        from distributed.comm import CommClosedError
        from distributed.scheduler import KilledWorker
    except ImportError:  # Dask alone, on this machine
        yield
        return
    try:
        yield
    except KilledWorker as error:
        raise StateError(
            f"Several workers of the Dask cluster died over the same partition, most often because it does not fit into "
            f"their memory: {error} Give smaller partitions, such as X.rechunk({{0: 50_000}}), or workers with more memory, "
            "and fit again."
        ) from error
    except (CancelledError, ClosedClientError, CommClosedError, TimeoutError) as error:
        raise _lost(error) from error
    except ValueError as error:
        if not str(error).startswith("Missing dependency"):  # rows that were kept on a cluster that is closed
            raise
        raise _lost(error) from error


def _lost(error: BaseException) -> RuntimeError:
    return RuntimeError(
        f"The Dask cluster was lost amid the work ({_reason(error)}): start a new cluster and fit again, which goes on from "
        "there if the fit has a checkpoint."
    )


def _reason(error: BaseException) -> str:
    """The first line of an error."""
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(":.")


def _client() -> Any:
    """The active client, or None where Dask's own scheduler does the work."""
    if get_dask().config.get("scheduler", None) not in (None, "dask.distributed", "distributed"):
        return None
    try:
        from distributed import default_client
    except ImportError:
        return None
    try:
        return default_client()
    except ValueError:
        return None


def room() -> float:
    """Bytes that rows may take between passes: on the workers, or here where Dask's own scheduler does the work."""
    client = _client()
    if client is None:
        return SHARE * free_bytes()
    with told():
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return SHARE * sum(
        max(0.0, (worker["memory_limit"] or math.inf) - worker.get("metrics", {}).get("memory", 0)) for worker in workers
    )


def get_dask() -> Any:
    """Dask, or an error that says how to have it."""
    try:
        import dask
    except ImportError as error:
        raise MissingPackageError(
            "Work on many machines is done by Dask, which is not here: pip install 'dask[distributed]'"
        ) from error
    return dask


def alone(function: Callable[..., T], partition: Any, *beside: Any) -> T:
    """A task on one thread of BLAS: a worker does as many at a time as it has threads."""
    with one_blas_thread():
        return function(partition, *beside)


def _joined(add: Callable[[T, T], T], some: T | None, others: T | None) -> T | None:
    if some is None or others is None:
        return others if some is None else some
    return add(some, others)
