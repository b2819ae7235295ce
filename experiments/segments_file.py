"""Segments of both halves of PASCAL VOC in one small file, for ``bochner reproduce --views`` on a machine without images.

    python experiments/segments_file.py VOCdevkit FOLDER paper.npz

FOLDER is that of ``bochner voc segments`` and ``bochner voc describe``, run on the image sets train and val. The rows to
learn from are all segments of train, and those of so many images of val, drawn at random, that there are 100,000; those to
test on are segments of the other images of val that show an object. Views are the first principal components of the roots of
the descriptors, in half precision. Then, where there is a GPU,

    bochner reproduce --views paper.npz --out results --size paper --device cuda --only table_a --learner RFF-SKL

whose rows.jsonl is experiments/results/reproduce-gpu.jsonl, which the page of docs/ shows by ``--gpu-rows``.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bochner.reproduce.protocol import labels_of
from bochner.reproduce.voc import TEST, TRAIN, Described


@dataclass(frozen=True, kw_only=True)
class Config:
    """What the file holds."""

    n_train: int = 100_000
    components: int = 32
    sample: int = 4000
    """Segments of train, evenly spread, from which principal components come."""
    seed: int = 0


@dataclass(frozen=True)
class Half:
    """An image set: its rows, and the place of each."""

    described: Described
    worth: Any
    images: Any
    scores: Any

    @classmethod
    def of(cls, data: Path, image_set: str, folder: Path) -> Half:
        """What is described of an image set."""
        described = Described.of(data, image_set, folder)
        return cls(described, *described.overlaps())

    def components(self, rotations: dict[str, Any], index: Any) -> dict[str, Any]:
        """Principal components (n, k) of the roots of some segments, by descriptor, image after image."""
        found: dict[str, list[Any]] = {name: [] for name in rotations}
        for k, name in enumerate(self.described.names):
            own = index[slice(*np.searchsorted(index, np.searchsorted(self.images, [k, k + 1])))]
            tables = self.described.descriptors.load(name) if len(own) else {}
            for kind, table in tables.items():
                some = table[own - np.searchsorted(self.images, k)]
                found[kind].append((np.sqrt(some) @ rotations[kind]).astype(np.float16))
        return {name: np.concatenate(parts) for name, parts in found.items()}


def rotations_of(half: Half, config: Config) -> dict[str, Any]:
    """The first principal components (q, k) of the roots of each descriptor."""
    index = np.unique(np.linspace(0, len(half.images) - 1, config.sample).astype(int))
    found = {}
    for name, table in half.described.tables(half.images, index).items():
        _, vectors = np.linalg.eigh(np.cov(np.sqrt(table.astype(np.float64)), rowvar=False))
        found[name] = vectors[:, ::-1][:, : config.components].astype(np.float32)
    return found


def split(train: Half, test: Half, config: Config) -> tuple[Any, Any]:
    """Which segments of the second half are learned from, and which are tested on: (n,) of bool each."""
    order = np.random.default_rng(config.seed).permutation(np.unique(test.images))
    counts = np.bincount(test.images)[order]
    n_more = int((np.cumsum(counts) <= config.n_train - len(train.images)).sum())
    learned = np.isin(test.images, order[:n_more])
    return learned, ~learned & (labels_of(test.worth) >= 0)


def arrays_of(train: Half, test: Half, config: Config) -> dict[str, Any]:
    """All arrays of the file."""
    learned, tested = split(train, test, config)
    used = np.flatnonzero(learned | tested)
    rotations = rotations_of(train, config)
    views = [train.components(rotations, np.arange(len(train.images))), test.components(rotations, used)]
    tables = {f"view_{k}": np.concatenate([half[name] for half in views]) for k, name in enumerate(rotations)}
    n_images = [len(np.unique(some)) for some in (train.images, test.images[learned], test.images[~learned])]
    about = (
        f"Rows are segments of PASCAL VOC: {len(train.images):,} of {n_images[0]} images of the set {TRAIN} and "
        f"{int(learned.sum()):,} of {n_images[1]} images of {TEST}, drawn at random, to learn from; those to test on are of "
        f"the other {n_images[2]} images of {TEST}. Views are the first {config.components} principal components of the "
        f"roots of the {len(rotations)} descriptors, in half precision."
    )
    groups = [train.images, test.images[used] + train.images.max() + 1]
    return {
        **tables,
        "names": np.array(list(rotations)),
        "classes": np.array(train.described.dataset.classes),
        "y": np.concatenate([train.worth, test.worth[used]]).astype(np.float16),
        "groups": np.concatenate(groups).astype(np.int32),
        "scores": np.concatenate([train.scores, test.scores[used]]).astype(np.float32),
        "tested": np.concatenate([np.zeros(len(train.images), dtype=bool), tested[used]]),
        "same_units": np.array(True),
        "about": np.array(about),
    }


def main() -> None:
    """Parse the options, read both halves, write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path, help="a VOCdevkit, or a folder VOC20xx")
    parser.add_argument("folder", type=Path, help="where bochner voc has put segments and descriptors")
    parser.add_argument("out", type=Path, help="the file to write, .npz")
    asked = parser.parse_args()
    halves = [Half.of(asked.data, image_set, asked.folder) for image_set in (TRAIN, TEST)]
    np.savez_compressed(asked.out, **arrays_of(*halves, Config()))


if __name__ == "__main__":
    main()
