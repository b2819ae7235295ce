"""One task for many images: processes side by side, a line of progress, what failed and why; what is done stays done."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from threadpoolctl import threadpool_limits

from bochner.arrays import Array
from bochner.blas import one_blas_thread
from bochner.errors import StateError
from bochner.memory import free_bytes, readable
from bochner.progress import ProgressLine
from bochner.vision.datasets import ImageSet
from bochner.vision.store import Store, StoreError, pack

Task = Callable[[str], Mapping[str, Array]]
"""From the name of an image to its arrays. It goes to other processes, so it must be picklable."""
SIZES = 200
"""Images whose headers are read for an estimate, at most."""
KILLED = "its process was killed, perhaps for want of memory"
MOST_DEATHS = 5
"""Processes that may die one after the other before a run is given up."""


class RunError(StateError):
    """A run that cannot go on."""


@dataclass(frozen=True)
class Cost:
    """What a task takes for each pixel of an image in bytes, beside what a process takes anyway."""

    disk: float
    memory: float
    process: float = 2.5e8


@dataclass(frozen=True)
class Estimate:
    """What a run will take, about."""

    n_images: int
    n_jobs: int
    disk: float
    memory: float
    """Of all processes together."""

    def __str__(self) -> str:
        jobs = "1 process" if self.n_jobs == 1 else f"{self.n_jobs} processes"
        return f"{self.n_images} images, {jobs}: about {readable(self.disk)} on disk, {readable(self.memory)} of memory"


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    n_done: int
    """Images computed in this run."""
    n_kept: int
    """Images that were there before."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Why, by name."""
    interrupted: bool = False

    def __str__(self) -> str:
        parts = [f"{self.n_done} images done"]
        if self.n_kept:
            parts.append(f"{self.n_kept} were there before")
        if self.failed:
            parts.append(f"{len(self.failed)} failed")
        return ", ".join(parts)


class ImageLine(ProgressLine):
    """The line of a run: the bar fills with images."""

    def __init__(self, **more: Any) -> None:
        super().__init__(1, **more)

    def stage_of(self, record: dict[str, Any]) -> float:
        return 0.0

    def share_of(self, record: dict[str, Any]) -> float:
        return float(record["done"] / record["n_images"])

    def ends(self, record: dict[str, Any]) -> bool:
        return bool(record["done"] >= record["n_images"])

    def text(self, record: dict[str, Any]) -> str:
        each = record["seconds"] / record["done"]
        left = each * (record["n_images"] - record["done"])
        failed = f", {record['failed']} failed" if record["failed"] else ""
        return f"{record['done']:,} of {record['n_images']:,} images{failed}, {each:.2g} s each, {_clock(left)} left"


def estimate(dataset: ImageSet, names: Sequence[str], cost: Cost, n_jobs: int, store: Store) -> Estimate:
    """What a run will take, from the sizes of some images; with fewer processes where memory is short.

    An error where the disk has no room.
    """
    some = names[:: max(1, len(names) // SIZES)]
    pixels = [height * width for height, width in _sizes(dataset, some)] or [0]
    disk = cost.disk * len(names) * sum(pixels) / len(pixels)
    each = cost.process + cost.memory * max(pixels)
    n_jobs = max(1, min(n_jobs, len(names), int(free_bytes() // each)))
    free = shutil.disk_usage(store.folder).free
    if disk > free:
        raise StoreError(
            f"{store.folder}: about {readable(disk)} are needed, and the disk has {readable(free)} left; "
            "make room, or give another folder (--out)."
        )
    return Estimate(len(names), n_jobs, disk, each * n_jobs)


def run_images(
    task: Task,
    names: Sequence[str],
    store: Store,
    *,
    n_jobs: int = 1,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Outcome:
    """Compute what the store does not have, image after image, on ``n_jobs`` processes of one thread each (1: this one).

    An image that fails is listed, and the others go on. Ctrl-C ends the run; every file is then whole or not there.
    """
    failed: dict[str, str] = {}
    n_done = 0
    with store.writing() as log:
        missing = [name for name in names if not store.has(name)]
        packing = _Packed(task, store)
        results = _in_processes(packing, missing, n_jobs) if n_jobs > 1 else _here(packing, missing)
        start = time.monotonic()
        try:
            for name, packed, reason in results:
                if packed is not None:
                    store.put(name, packed)
                    n_done += 1
                else:
                    failed[name] = reason
                    log.add({"name": name, "reason": reason})
                if progress is not None:
                    seconds = time.monotonic() - start
                    record = {"done": n_done + len(failed), "failed": len(failed), "n_images": len(missing)}
                    progress({**record, "seconds": seconds, "name": name})
        except KeyboardInterrupt:
            return Outcome(n_done, len(names) - len(missing), failed, interrupted=True)
        finally:
            results.close()
    return Outcome(n_done, len(names) - len(missing), failed)


@dataclass(frozen=True)
class _Packed:
    """A task whose arrays come as the bytes of a file."""

    task: Task
    store: Store

    def __call__(self, name: str) -> bytes:
        return pack(self.task(name), self.store.file_key(name))


Result = tuple[str, bytes | None, str]
"""Name, bytes of the file or None, and the reason why there are none."""
Results = Generator[Result, None, None]


def _here(task: _Packed, names: Sequence[str]) -> Results:
    """Results of one image after the other, in this process."""
    for name in names:
        with one_blas_thread(), _one_thread_of_opencv():
            try:
                packed, reason = task(name), ""
            except Exception as error:  # noqa: BLE001, which is told, and the next image is begun
                packed, reason = None, _reason(error)
        yield name, packed, reason


def _in_processes(task: _Packed, names: Sequence[str], n_jobs: int) -> Results:
    """Results in the order in which they are ready.

    Where a process dies, the images under way are tried again one at a time, to find the one it dies of.
    """
    waiting = deque(names)
    n_died = 0
    while waiting:
        alone = deque((yield from _until_broken(task, waiting, n_jobs)))
        while alone:
            n_before = len(alone)
            for name in (yield from _until_broken(task, alone, 1)):
                yield name, None, KILLED
                n_died = n_died + 1 if n_before == len(alone) + 1 else 1
            if n_died == MOST_DEATHS:
                raise RunError(f"{n_died} processes died one after the other; try with one process to see why.")


def _until_broken(task: _Packed, waiting: deque[str], n_jobs: int) -> Generator[Result, None, list[str]]:
    """Results of waiting images; returns those under way when a process died, and leaves the others waiting."""
    running: dict[Future[bytes], str] = {}
    with _workers(task, n_jobs) as executor:
        while waiting or running:
            try:
                while waiting and len(running) < n_jobs + (n_jobs > 1):  # one ahead, but for a suspect
                    with _without_interrupts():
                        running[executor.submit(_work, waiting[0])] = waiting[0]
                    waiting.popleft()
            except BrokenProcessPool:
                if not running:
                    return [waiting.popleft()]
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    return list(running.values())
                name = running.pop(future)
                yield (name, future.result(), "") if error is None else (name, None, _reason(error))
    return []


@contextmanager
def _workers(task: _Packed, n_jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes for a task. They write nothing, so they are ended at once when the context is left early."""
    before = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(n_jobs, mp_context=context, initializer=_begin, initargs=(task,))
    try:
        yield executor
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


_task: _Packed | None = None
"""The task of this process, where it is one of the workers."""


def _begin(task: _Packed) -> None:
    """Set up a worker: one thread, and an end when the program that started it has ended."""
    global _task
    _task = task
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    threadpool_limits(1)
    import cv2

    cv2.setNumThreads(1)


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def _work(name: str) -> bytes:
    if _task is None:
        raise StateError("this process was not set up for images; call run_images, which starts its own processes.")
    return _task(name)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """A context whose processes never see Ctrl-C, which waits here until it is left."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _one_thread_of_opencv() -> Iterator[None]:
    import cv2

    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(before)


def _reason(error: BaseException) -> str:
    """An error in one line; its kind is left out where the text was written for the user."""
    text = " ".join(str(error).split())
    return text if type(error).__module__.startswith("bochner") and text else f"{type(error).__name__}: {text}".rstrip(": ")


def _sizes(dataset: ImageSet, names: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Sizes of the images that can be read."""
    for name in names:
        try:
            yield dataset.size(name)
        except ValueError:
            continue


def _clock(seconds: float) -> str:
    """A time in words of the right size."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 1:
        return f"{rest} s"
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
