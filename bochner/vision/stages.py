"""The first two steps on a data set: segments of every image, and descriptors of every segment, in stores on disk."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bochner.arrays import Array
from bochner.blas import one_blas_thread
from bochner.vision.boundaries import boundaries_of
from bochner.vision.datasets import DataError, ImageSet
from bochner.vision.descriptors import describe
from bochner.vision.images import ImageError
from bochner.vision.options import DescriptorOptions
from bochner.vision.pool import SegmentPool
from bochner.vision.proposals import ProposalOptions, propose
from bochner.vision.runner import Cost
from bochner.vision.store import Store, StoreError, configuration_of, read_header
from bochner.vision.words import Vocabularies

SEGMENTS_COST = Cost(disk=0.5, memory=2000.0)
DESCRIPTORS_COST = Cost(disk=100.0, memory=3000.0)
"""Measured on images of PASCAL VOC, and rounded up."""
WORDS = "words"
"""The name of the vocabularies in their store."""
VOCABULARY_IMAGES = 300
"""Images that vocabularies are learned from, at most, evenly spread over the set."""


@dataclass(frozen=True)
class Folders:
    """Where the results of each step are."""

    out: Path

    @property
    def segments(self) -> Path:
        """A pool of segments for each image."""
        return self.out / "segments"

    @property
    def vocabularies(self) -> Path:
        """The words that descriptors count."""
        return self.out / "vocabularies"

    @property
    def descriptors(self) -> Path:
        """Descriptors of the segments of each image."""
        return self.out / "descriptors"

    @property
    def model(self) -> Path:
        """The trained classifier."""
        return self.out / "model.npz"

    @property
    def predictions(self) -> Path:
        """Scores and labels of each image."""
        return self.out / "predictions"

    @property
    def labels(self) -> Path:
        """Labels of each image, as pictures."""
        return self.out / "labels"

    @property
    def sheets(self) -> Path:
        """Contact sheets."""
        return self.out / "show"


@dataclass(frozen=True)
class Propose:
    """The task of the first step: the segments of an image."""

    dataset: ImageSet
    options: ProposalOptions

    def __call__(self, name: str) -> Mapping[str, Array]:
        return propose(self.dataset.image(name), self.options).arrays()


@dataclass(frozen=True)
class Describe:
    """The task of the second step: the descriptors of the segments of an image."""

    dataset: ImageSet
    segments: Store
    vocabularies: Vocabularies
    options: DescriptorOptions

    def __call__(self, name: str) -> Mapping[str, Array]:
        image = self.dataset.image(name)
        return describe(image, pool_of(self.segments, name), boundaries_of(image), self.vocabularies, self.options)


def pool_of(segments: Store, name: str) -> SegmentPool:
    """The stored segments of an image."""
    return SegmentPool.from_arrays(segments.load(name))


def segment_store(folders: Folders, dataset: ImageSet, options: ProposalOptions, stale: str = "refuse") -> Store:
    """The store of segments of one configuration."""
    return Store(folders.segments, configuration_of(step="segments", longest=dataset.longest, options=options), stale)


def descriptor_store(
    folders: Folders, segments: Store, words: Store, options: DescriptorOptions, stale: str = "refuse"
) -> Store:
    """The store of descriptors: of these segments, with these words."""
    made_of = configuration_of(step="descriptors", segments=segments.key, words=words_key(words), options=options)
    return Store(folders.descriptors, made_of, stale)


def words_key(words: Store) -> str:
    """A short text that tells vocabularies apart."""
    return hashlib.blake2b(words.path(WORDS).read_bytes(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class WordsFrom:
    """Where vocabularies are to be learned: images of a data set, under the name of their set."""

    dataset: ImageSet
    names: Sequence[str]
    image_set: str
    seed: int = 0


def vocabulary_store(
    folders: Folders,
    source: WordsFrom,
    options: DescriptorOptions,
    *,
    stale: str = "refuse",
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Store:
    """The store with the vocabularies, learned from ``source`` where they are not there.

    Vocabularies of the same options that were learned from another set, or from more images of this one, are kept: training
    and test images have the same words.
    """
    names = source.names[:: -(-len(source.names) // VOCABULARY_IMAGES)]
    wanted = configuration_of(step=WORDS, longest=source.dataset.longest, options=options, seed=source.seed)
    learned_from = {"set": source.image_set, "images": len(names)}
    header = read_header(folders.vocabularies)
    if header is not None:
        before = header.pop("learned_from", {})
        if header == wanted and (before.get("set") != source.image_set or before.get("images", 0) >= len(names)):
            learned_from = before
    store = Store(folders.vocabularies, {**wanted, "learned_from": learned_from}, stale)
    if not store.has(WORDS):
        if learned_from["set"] != source.image_set:
            missing = f"the words of the set {learned_from['set']} are missing; describe that one first"
            raise StoreError(f"{store.folder}: {missing}.")
        with store.writing(), one_blas_thread():
            images = _readable(source.dataset, names, progress)
            store.save(WORDS, Vocabularies.fit(images, options, source.seed).arrays())
    return store


def vocabularies_of(words: Store) -> Vocabularies:
    """The stored vocabularies."""
    return Vocabularies.from_arrays(words.load(WORDS))


def _readable(dataset: ImageSet, names: Sequence[str], progress: Callable[[dict[str, Any]], None] | None) -> Iterator[Array]:
    """The images that can be read; those that cannot are told of where they are described."""
    start = time.monotonic()
    for number, name in enumerate(names, start=1):
        try:
            yield dataset.image(name)
        except (ImageError, DataError):
            continue
        finally:
            if progress is not None:
                record = {"done": number, "failed": 0, "n_images": len(names), "name": name}
                progress({**record, "seconds": time.monotonic() - start})
