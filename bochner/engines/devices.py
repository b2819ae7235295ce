"""Rows on a device of PyTorch's, such as a GPU: all of them where they fit, or a block at a time.

The passes over such rows, the sums that they leave and the factorisations of these stay on the device; what a criterion
gives back is on the host. Nothing else of the package imports PyTorch.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from bochner.arrays import Array, dense, dtype_of
from bochner.engines.passes import predict_folds
from bochner.engines.smaller_blocks import SmallerBlocksWarning, is_out_of_memory
from bochner.errors import InputError, MissingPackageError
from bochner.features import FeatureMap
from bochner.folds import FoldedRows, Folds, Rows, RunningSums, stretches
from bochner.threads import map_blocks, row_blocks

SHARE = 0.5
"""The part of a GPU's free memory that rows may take; the rest is for blocks of features and for matrices."""
COPY_BYTES = 2**28
"""Rows that are brought to a device at a time."""
COPY_TILE_BYTES = 2**22
"""What one thread copies at a time."""


def on_device(folds: FoldedRows, device: str, *, room: float | None = None) -> FoldedRows:
    """The same rows for computations on a device of PyTorch's: "cuda", "cuda:1" or "cpu".

    Rows in memory that take ``room`` bytes or less (None: SHARE of what is free on a GPU, any number on the host) are
    copied there once; others come block by block in every pass. Sparse rows become dense, and X keeps its precision.
    """
    device = check_device(device)
    if isinstance(folds, DeviceFolds | DeviceStream):
        folds = folds.host if folds.host.dtype == folds.dtype else folds.host.astype(folds.dtype)
    stream = DeviceStream(folds, device, _precision(folds.dtype), room)
    if not isinstance(folds, Folds) or stream.row_bytes * folds.n > _room(device, room):
        return stream
    try:
        return stream.at_once()
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    told = "The device ran out of memory for all rows: they come to it block by block in every pass, which is slower."
    warnings.warn(told, SmallerBlocksWarning, stacklevel=2)
    return stream


def brought(folds: FoldedRows) -> FoldedRows:
    """The rows that ``folds`` have in memory, on the device of ``folds`` where they have one."""
    if isinstance(folds, DeviceFolds):
        return folds
    if isinstance(folds, DeviceStream):
        return on_device(folds.in_memory, folds.device, room=folds.room)
    return folds.in_memory


def predict_on(device: str, feature_map: FeatureMap, X: Array, coef: Array, intercept: Array) -> Array:
    """Predictions (n, c), in NumPy, of rows X (n, m) on the host that come to a device in blocks, as by ``predict``."""
    rows = Rows(X, np.broadcast_to(0.0, (X.shape[0], 1)), np.broadcast_to(1.0, X.shape[0]))
    stream = DeviceStream(Folds((rows,), ()), check_device(device), _precision(X.dtype))
    return predict_folds(feature_map, stream, {0: (coef, intercept)})[0]


@contextmanager
def tf32() -> Iterator[None]:
    """A context in which a GPU may round the factors of products of float32 rows to 11 bits (TF32), which is faster.

    Outside it they keep all their 24 bits, unless PyTorch was told otherwise. Products of float64 rows are as ever.
    """
    torch = _torch()
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@dataclass(frozen=True)
class DeviceFolds(Folds):
    """Folds whose rows are tensors on a device; ``in_memory`` are those on the host that they were made from."""

    host: Folds = field(kw_only=True)

    @property
    def dtype(self) -> Any:
        """The precision of X."""
        return dtype_of(self.parts[0].X)

    @property
    def in_memory(self) -> Folds:
        """The same rows in NumPy or sparse arrays."""
        return self.host if self.host.dtype == self.dtype else self.host.astype(self.dtype)

    def head(self, n_rows: int, most_validated: int | None = None) -> DeviceFolds:
        """The first rows of every part: see :meth:`Folds.head`."""
        host = self.host.head(n_rows, most_validated)
        parts = tuple(part.take(slice(0, few.n)) for part, few in zip(self.parts, host.parts, strict=True))
        return replace(self, parts=parts, validated=host.validated, host=host)

    def pooled(self) -> DeviceFolds:
        """The same with all parts that are not predicted as one: see :meth:`Folds.pooled`."""
        pooled = super().pooled()
        return self if pooled is self else replace(cast(DeviceFolds, pooled), host=self.host.pooled())

    def _joined(self, parts: list[Rows]) -> Rows:
        return Rows(*(_torch().cat(arrays) for arrays in zip(*map(_arrays, parts), strict=True)))

    def astype(self, dtype: Any) -> DeviceFolds:
        """The same with X in another precision."""
        torch = _torch()
        there = getattr(torch, np.dtype(dtype).name)
        return replace(self, parts=tuple(replace(part, X=part.X.to(there)) for part in self.parts))


@dataclass(frozen=True)
class DeviceStream:
    """Rows on the host that every pass brings to a device, a block at a time.

    On a GPU, a block is copied while the one before is computed with. The tensors of a chunk are overwritten by later ones:
    they are good until the next chunk is asked for.
    """

    host: FoldedRows
    device: str
    dtype: Any
    """The precision of X on the device."""
    room: float | None = None
    """Bytes that rows may take on the device: see :func:`on_device`."""

    @property
    def validated(self) -> tuple[int, ...]:
        """The parts that are predicted from all the others."""
        return self.host.validated

    @property
    def fitted(self) -> tuple[int, ...] | None:
        """The parts that the final regression is fitted on; None: all of them."""
        return self.host.fitted

    @property
    def n(self) -> int:
        """Number of rows in all."""
        return self.host.n

    @property
    def n_to_fit(self) -> int:
        """Number of rows that the final regression is fitted on."""
        return self.host.n_to_fit

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return self.host.n_parts

    @property
    def n_columns(self) -> int:
        """Columns of X."""
        return self.host.n_columns

    @property
    def n_targets(self) -> int:
        """Columns of the targets."""
        return self.host.n_targets

    @property
    def row_bytes(self) -> int:
        """Bytes of a row with its targets and weight."""
        return self.n_columns * self.dtype.itemsize + (self.n_targets + 1) * 8

    @property
    def in_memory(self) -> Folds:
        """Those that are in the memory of the host, in NumPy or sparse arrays."""
        folds = self.host.in_memory
        return folds if folds.dtype == self.dtype else folds.astype(self.dtype)

    @property
    def smallest_value(self) -> float:
        """The smallest entry of X."""
        return self.host.smallest_value

    def head(self, n_rows: int, most_validated: int | None = None) -> FoldedRows:
        """Some of the rows of every part, on the device at once where they fit."""
        return on_device(self.host.head(n_rows, most_validated), self.device, room=self.room).astype(self.dtype)

    def astype(self, dtype: Any) -> DeviceStream:
        """The same with X in another precision."""
        return replace(self, dtype=np.dtype(dtype))

    def chunks(self) -> Iterator[tuple[int, Rows]]:
        """All rows, once: the number of a part, and a block of its rows on the device."""
        return self._brought(self.host.chunks())

    def stretches(self, sums: RunningSums) -> Generator[Iterable[tuple[int, Rows]], None, None]:
        """The same in the stretches of the host: no block of the next is on its way before one has been added."""
        yield [(0, self.empty(0))]  # no rows: where those of the host are all left out, the sums are on the device too
        with closing(stretches(self.host, sums)) as each:
            for chunks in each:
                yield self._brought(chunks)

    def _brought(self, chunks: Iterable[tuple[int, Rows]]) -> Iterator[tuple[int, Rows]]:
        """Chunks of the host as blocks on the device."""
        size = max(1, COPY_BYTES // self.row_bytes)
        with closing(_blocks(chunks, size)) as blocks:
            yield from self._through_buffers(blocks, min(size, self.n)) if _is_gpu(self.device) else self._copied(blocks)

    def at_once(self) -> DeviceFolds:
        """All rows on the device; they must be in memory."""
        folds = self.in_memory
        parts = tuple(self.empty(part.n) for part in folds.parts)
        done = [0] * len(parts)
        for k, rows in self.chunks():
            for whole, some in zip(_arrays(parts[k]), _arrays(rows), strict=True):
                whole[done[k] : done[k] + rows.n] = some
            done[k] += rows.n
        return DeviceFolds(parts, folds.validated, folds.fitted, host=folds)

    def empty(self, n_rows: int, *, pinned: bool = False) -> Rows:
        """Room for rows on the device, or in memory of the host that a GPU can read by itself."""
        torch = _torch()
        where = {"device": "cpu", "pin_memory": True} if pinned else {"device": self.device}
        shapes = ((n_rows, self.n_columns), self.dtype.name), ((n_rows, self.n_targets), "float64"), ((n_rows,), "float64")
        return Rows(*(torch.empty(shape, dtype=getattr(torch, dtype), **where) for shape, dtype in shapes))

    def _copied(self, blocks: Iterator[tuple[int, Rows]]) -> Iterator[tuple[int, Rows]]:
        """The blocks in tensors on the host."""
        for k, rows in blocks:
            copy = self.empty(rows.n)
            _fill(copy, rows)
            yield k, copy

    def _through_buffers(self, blocks: Iterator[tuple[int, Rows]], size: int) -> Iterator[tuple[int, Rows]]:
        """The blocks on a GPU, through two buffers: each is on its way before the one before is given out."""
        torch = _torch()
        compute, copies = torch.cuda.current_stream(self.device), torch.cuda.Stream(self.device)
        buffers = [_Buffer(self, size) for _ in range(2)]
        copies.wait_stream(compute)  # which may still be at work on what was in that memory before
        before = None
        try:
            for number, (k, rows) in enumerate(blocks):
                buffers[number % 2].bring(rows, copies)
                if before is not None:
                    with before[1].lent(compute) as there:
                        yield before[0], there
                before = k, buffers[number % 2]
            if before is not None:
                with before[1].lent(compute) as there:
                    yield before[0], there
        finally:
            compute.wait_stream(copies)


class _Buffer:
    """Room for a block of rows in pinned memory of the host and on a GPU; events say when either is free again."""

    def __init__(self, stream: DeviceStream, n_rows: int) -> None:
        torch = _torch()
        self._pinned, self._there, self._n = stream.empty(n_rows, pinned=True), stream.empty(n_rows), 0
        self._copied, self._used = torch.cuda.Event(), torch.cuda.Event()

    def bring(self, rows: Rows, copies: Any) -> None:
        """Fill the pinned memory with rows, and have the stream ``copies`` take them from there to the GPU."""
        self._copied.synchronize()
        self._n = rows.n
        _fill(self._pinned, rows)
        copies.wait_event(self._used)
        with _torch().cuda.stream(copies):
            for there, pinned in zip(_arrays(self._there), _arrays(self._pinned), strict=True):
                there[: self._n].copy_(pinned[: self._n], non_blocking=True)
        self._copied.record(copies)

    @contextmanager
    def lent(self, compute: Any) -> Iterator[Rows]:
        """The rows on the GPU, for work on the stream ``compute``."""
        compute.wait_event(self._copied)
        yield self._there.take(slice(0, self._n))
        self._used.record(compute)


def _blocks(chunks: Iterable[tuple[int, Rows]], size: int) -> Generator[tuple[int, Rows], None, None]:
    """Chunks in blocks of at most ``size`` rows."""
    for k, rows in chunks:
        for block in row_blocks(0, rows.n, size):
            yield k, rows.take(block)


def _arrays(rows: Rows) -> tuple[Array, Array, Array]:
    return rows.X, rows.targets, rows.weights


def _fill(tensors: Rows, rows: Rows) -> None:
    """Copy rows (NumPy, or sparse ones) to the first places of tensors on the host, on all threads."""
    for tensor, array in zip(_arrays(tensors), _arrays(rows), strict=True):
        out = tensor.numpy()
        tile = max(1, COPY_TILE_BYTES // (out.itemsize * max(1, out[:1].size)))

        def copy(block: slice, out: Array = out, array: Array = array) -> None:
            out[block] = dense(array[block])

        for _ in map_blocks(copy, row_blocks(0, rows.n, tile)):
            pass


def _precision(dtype: Any) -> np.dtype[Any]:
    """float32 for rows of float32, and float64 for all others."""
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)


def _is_gpu(device: str) -> bool:
    return device.startswith("cuda")


def _room(device: str, room: float | None) -> float:
    """Bytes that rows may take on a device."""
    if room is not None:
        return room
    if not _is_gpu(device):
        return float("inf")
    gpu = _torch().cuda
    free, _ = gpu.mem_get_info(device)
    return SHARE * (free + gpu.memory_reserved(device) - gpu.memory_allocated(device))


def free_room(gpu: str) -> float:
    """SHARE of the bytes that are free on a GPU."""
    return _room(gpu, None)


def check_device(device: str) -> str:
    """PyTorch's own name for a device, or an error where there is none such."""
    torch = _torch()
    try:
        asked = torch.device(device)
    except (RuntimeError, TypeError):
        asked = None
    if asked is None or asked.type not in ("cpu", "cuda"):
        raise InputError(f"device must be 'cuda', 'cuda:' and the number of a GPU, or 'cpu', got {device!r}.")
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if asked.type == "cuda" and (asked.index or 0) >= there:
        has = "none" if there == 0 else ", ".join(f"'cuda:{number}'" for number in range(there))
        raise InputError(
            f"device={device!r} was asked for and this machine has {has}: use device='cpu', or look at "
            "torch.cuda.is_available(), which needs a GPU, its driver and a build of PyTorch for CUDA."
        )
    return str(asked)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingPackageError(
            "Computations on a device are done by PyTorch, which is not here: pip install torch"
        ) from error
    return torch
