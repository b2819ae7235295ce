"""Segments of one image as sets of superpixels, so that what is asked of all of them is one matrix product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bochner.archives import read_made
from bochner.arrays import Array
from bochner.durable import replace_file
from bochner.errors import InputError

EXACT_IN_FLOAT32 = 2**24
"""Counts of pixels up to this one are the same in float32."""


@dataclass(frozen=True)
class SegmentPool:
    """s segments of an image of h x w pixels, each the union of some of its P superpixels.

    ``mask(i)[y, x] = members[i, labels[y, x]]``.
    """

    labels: Array
    """(h, w) of int32: the superpixel of each pixel, from 0 to P - 1."""
    members: Array
    """(s, P) of bool: the superpixels of each segment."""

    def __post_init__(self) -> None:
        labels, members = np.asarray(self.labels, dtype=np.int32), np.asarray(self.members, dtype=bool)
        if labels.ndim != 2 or members.ndim != 2 or not labels.size:
            raise InputError(f"labels must be (h, w) and members (s, P): got {labels.shape} and {members.shape}.")
        if labels.min() < 0 or labels.max() >= members.shape[1]:
            found = f"they go from {labels.min()} to {labels.max()}"
            raise InputError(
                f"labels must lie between 0 and P - 1 = {members.shape[1] - 1}: {found}; "
                "give members a column for each label."
            )
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "members", members)

    @property
    def n_segments(self) -> int:
        """Number of segments s."""
        return len(self.members)

    @property
    def n_superpixels(self) -> int:
        """Number of superpixels P."""
        return self.members.shape[1]

    def sizes(self) -> Array:
        """Pixels of each superpixel (P,)."""
        return np.bincount(self.labels.ravel(), minlength=self.n_superpixels)

    def areas(self) -> Array:
        """Pixels of each segment (s,)."""
        return self._sums(self.sizes()[:, None])[:, 0].astype(np.int64)

    def mask(self, i: int) -> Array:
        """The pixels of one segment: (h, w) of bool."""
        return self.members[i][self.labels]

    def take(self, index: Any) -> SegmentPool:
        """Some of the segments, in the order given: a slice, numbers or a mask."""
        return replace(self, members=self.members[index])

    def overlaps(self, truth_masks: Array, void: Array | None = None) -> Array:
        """Intersection over union of every segment with every mask (k, h, w): (s, k).

        Pixels of ``void`` (h, w) do not count. It is zero where the union is empty.
        """
        truths = np.asarray(truth_masks, dtype=bool)
        if truths.ndim != 3 or truths.shape[1:] != self.labels.shape:
            raise InputError(f"truth_masks must be (k, {', '.join(map(str, self.labels.shape))}): got {truths.shape}.")
        seen = np.ones(self.labels.shape, dtype=bool) if void is None else ~np.asarray(void, dtype=bool)
        counts = np.stack([self._count(mask & seen) for mask in truths] + [self._count(seen)], axis=1)
        sums = self._sums(counts)
        both, own, theirs = sums[:, :-1], sums[:, -1:], counts[:, :-1].sum(axis=0)
        return both / np.maximum(own + theirs - both, 1)

    def pool_histograms(self, per_superpixel: Array) -> Array:
        """Histograms of the segments (s, q), the sums of those of their superpixels (P, q)."""
        values = np.asarray(per_superpixel)
        dtype = np.result_type(values.dtype, np.float32)
        return self.members.astype(dtype) @ values.astype(dtype, copy=False)

    def arrays(self) -> dict[str, Array]:
        """The pool as a few small arrays."""
        few = self.n_superpixels <= np.iinfo(np.uint16).max
        return {
            "labels": self.labels.astype(np.uint16) if few else self.labels,
            "packed": np.packbits(self.members, axis=1),
            "n_superpixels": np.array(self.n_superpixels),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> SegmentPool:
        """The pool of such arrays."""
        members = np.unpackbits(arrays["packed"], axis=1, count=int(arrays["n_superpixels"]))
        return cls(arrays["labels"].astype(np.int32), members.astype(bool))

    def save(self, path: str | Path) -> None:
        """Write the pool to a file of NumPy arrays (npz) that is there as a whole or not at all."""
        replace_file(Path(path), lambda file: np.savez_compressed(file, **self.arrays()))

    @classmethod
    def load(cls, path: str | Path) -> SegmentPool:
        """The pool that :meth:`save` wrote."""
        return read_made(path, "pool", cls.from_arrays)

    def _count(self, mask: Array) -> Array:
        return np.bincount(self.labels[mask], minlength=self.n_superpixels)

    def _sums(self, counts: Array) -> Array:
        """Sums of counts (P, q) over the segments: (s, q) of float64, exact."""
        dtype = np.float32 if self.labels.size <= EXACT_IN_FLOAT32 else np.float64
        return (self.members.astype(dtype) @ counts.astype(dtype)).astype(np.float64)
