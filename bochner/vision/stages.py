"""The first two steps on a data set: segments of every image, and descriptors of every segment, in stores on disk."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.blas import one_blas_thread
from bochner.vision.boundaries import boundaries_of
from bochner.vision.cues import cues_of
from bochner.vision.datasets import DataError, ImageSet
from bochner.vision.descriptors import describe
from bochner.vision.images import ImageError
from bochner.vision.options import DescriptorOptions
from bochner.vision.pool import SegmentPool
from bochner.vision.proposals import ProposalOptions, at_size, overlaps_within, proposals_of
from bochner.vision.ranking import RankingOptions, SegmentRanker, cross_fit, diversify
from bochner.vision.runner import Cost
from bochner.vision.store import Store, StoreError, configuration_of, read_header
from bochner.vision.targets import object_overlaps
from bochner.vision.words import Vocabularies

Progress = Callable[[dict[str, Any]], None]
PROPOSALS_COST = Cost(disk=3.0, memory=1000.0)
SEGMENTS_COST = Cost(disk=0.3, memory=500.0)
DESCRIPTORS_COST = Cost(disk=6.0, memory=500.0)
"""Measured on images of PASCAL VOC, and rounded up."""
WORDS, RANKER = "words", "ranker"
"""Names of what is learned in its store."""
ENOUGH = 0.9
"""What was learned from this part of the images is not learned again for the rest."""
VOCABULARY_IMAGES = 300
"""Images that vocabularies are learned from, at most, evenly spread over the set."""


@dataclass(frozen=True)
class Folders:
    """Where the results of each step are."""

    out: Path

    @property
    def proposals(self) -> Path:
        """A large pool of segments for each image."""
        return self.out / "proposals"

    @property
    def ranker(self) -> Path:
        """What tells likely segments from others."""
        return self.out / "ranker"

    @property
    def segments(self) -> Path:
        """The short list of segments of each image."""
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
    def pictures(self) -> Path:
        """Labels of single pictures."""
        return self.out / "pictures"

    @property
    def sheets(self) -> Path:
        """Contact sheets."""
        return self.out / "show"


@dataclass(frozen=True)
class Propose:
    """The task of the first step: a large pool of segments of an image, and cues of each."""

    dataset: ImageSet
    options: ProposalOptions

    def __call__(self, name: str) -> Mapping[str, Array]:
        image = self.dataset.image(name)
        found = proposals_of(image, self.options)
        return {**at_size(found.pool, image.shape[:2]).arrays(), "cues": cues_of(found), "sizes": found.graph.sizes}


@dataclass(frozen=True)
class Shorten:
    """The task that keeps the first segments of each pool, in the order in which they were proposed."""

    proposals: Store
    n_segments: int

    def __call__(self, name: str) -> Mapping[str, Array]:
        return pool_of(self.proposals, name).take(slice(self.n_segments)).arrays()


@dataclass(frozen=True)
class Rank:
    """The task that keeps those segments of each pool which are likely to be objects, and differ from each other.

    ``held_out`` has scores of the images that the ranker was learned from.
    """

    proposals: Store
    ranker: SegmentRanker
    held_out: Store
    n_segments: int

    def __call__(self, name: str) -> Mapping[str, Array]:
        found = self.proposals.load(name)
        pool = SegmentPool.from_arrays(found)
        known = self.held_out.has(name)
        scores = self.held_out.load(name)["scores"] if known else self.ranker.scores(found["cues"])
        overlaps = overlaps_within(pool.members, found["sizes"])
        index = diversify(scores, overlaps, self.n_segments, self.ranker.diversity)
        return {**pool.take(index).arrays(), "scores": scores[index].astype(np.float32)}


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


def proposal_store(folders: Folders, dataset: ImageSet, options: ProposalOptions, stale: str = "refuse") -> Store:
    """The store of large pools."""
    return Store(folders.proposals, configuration_of(step="proposals", longest=dataset.longest, options=options), stale)


def segment_store(folders: Folders, proposals: Store, ranker: Store | None, n_segments: int, stale: str = "refuse") -> Store:
    """The store of short lists: of these pools, by this ranker."""
    key = None if ranker is None else file_key(ranker.path(RANKER))
    made_of = configuration_of(step="segments", proposals=proposals.key, ranker=key, most=n_segments)
    return Store(folders.segments, made_of, stale)


def descriptor_store(
    folders: Folders, segments: Store, words: Store, options: DescriptorOptions, stale: str = "refuse"
) -> Store:
    """The store of descriptors: of these segments, with these words."""
    made_of = configuration_of(step="descriptors", segments=segments.key, words=file_key(words.path(WORDS)), options=options)
    return Store(folders.descriptors, made_of, stale)


def file_key(path: Path) -> str:
    """A short text that tells files apart by what is in them."""
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()


def check_made_of(later: Store, name: str, earlier: Store, key: str | None = None) -> None:
    """Refuse results that were made of other ones than those that are there now, of the key given or of the store's."""
    if later.configuration.get(name) != (earlier.key if key is None else key):
        told = f"these were made of other {name} than those in {earlier.folder}; make them again (--stale redo)"
        raise StoreError(f"{later.folder}: {told}.")


@dataclass(frozen=True)
class Source:
    """What something is learned from: images of a data set, under the name of their set."""

    dataset: ImageSet
    names: Sequence[str]
    image_set: str
    seed: int = 0


def learned_store(folder: Path, wanted: dict[str, Any], source: Source, stale: str) -> Store:
    """The store of something that is learned once, from the first set it is asked for.

    What was learned with the same options from another set, or from most of these images, is kept: training and test images
    are treated alike.
    """
    learned_from: dict[str, Any] = {"set": source.image_set, "images": len(source.names)}
    header = read_header(folder)
    if header is not None:
        before = header.pop("learned_from", {})
        enough = before.get("images", 0) >= ENOUGH * len(source.names)
        if header == wanted and (before.get("set") != source.image_set or enough):
            learned_from = before
    store = Store(folder, {**wanted, "learned_from": learned_from}, stale)
    if learned_from["set"] != source.image_set and not any(folder.glob("*.npz")):
        told = f"what the set {learned_from['set']} is to teach is missing; run this step on that set first"
        raise StoreError(f"{folder}: {told}, or use another folder.")
    return store


@dataclass(frozen=True)
class LearnedRanker:
    """Where a ranker is, and what it was learned from."""

    store: Store
    held_out: Store
    """Scores of the images it was learned from, each by a ranker that has not seen the image."""
    unread: Mapping[str, str]
    """Images that it could not be learned from, and why; empty where it was there before."""


def learn_ranker(
    folders: Folders,
    source: Source,
    proposals: Store,
    stale: str = "refuse",
    watch: Callable[[int, int], None] | None = None,
) -> LearnedRanker:
    """The ranker, learned from pools and masks of ``source`` where it is not there."""
    options = RankingOptions()
    wanted = configuration_of(step=RANKER, proposals=proposals.key, options=options, seed=source.seed)
    store = learned_store(folders.ranker, wanted, source, stale)
    made_of = configuration_of(step="held out", ranker=store.key)
    held_out = Store(folders.ranker / "held_out", made_of, "redo").of_images(source.dataset)
    unread = {}
    if not store.has(RANKER):
        with store.writing(), one_blas_thread():
            cues, overlaps, names = [], [], []
            for name in source.names:
                try:
                    truth = source.dataset.truth(name)
                except (ImageError, DataError) as error:
                    unread[name] = str(error)
                    continue
                found = proposals.load(name)
                cues.append(found["cues"])
                overlaps.append(object_overlaps(SegmentPool.from_arrays(found), truth))
                names.append(name)
            if sum(some.shape[1] > 0 for some in overlaps) < 2:
                told = f" Masks that cannot be read: {len(unread)}; the first: {min(unread.values())}" if unread else ""
                raise StoreError(
                    f"{store.folder}: a ranker needs two images with objects in their masks, or more; "
                    f"give more images, or --unranked.{told}"
                )
            for name, scores in zip(names, cross_fit(cues, overlaps, options, source.seed, watch), strict=True):
                held_out.save(name, {"scores": scores})
            ranker = SegmentRanker.fit(cues, overlaps, options, source.seed)
            store.save(RANKER, ranker.arrays())
    return LearnedRanker(store, held_out, unread)


def ranker_of(store: Store) -> SegmentRanker:
    """The stored ranker."""
    return SegmentRanker.from_arrays(store.load(RANKER))


def learn_words(
    folders: Folders, source: Source, options: DescriptorOptions, stale: str = "refuse", progress: Progress | None = None
) -> Store:
    """The store with the vocabularies, learned from ``source`` where they are not there."""
    names = source.names[:: -(-len(source.names) // VOCABULARY_IMAGES)]
    wanted = configuration_of(step=WORDS, longest=source.dataset.longest, options=options, seed=source.seed)
    store = learned_store(folders.vocabularies, wanted, replace(source, names=names), stale)
    if not store.has(WORDS):
        with store.writing(), one_blas_thread():
            images = _readable(source.dataset, names, progress)
            store.save(WORDS, Vocabularies.fit(images, options, source.seed).arrays())
    return store


def vocabularies_of(words: Store) -> Vocabularies:
    """The stored vocabularies."""
    return Vocabularies.from_arrays(words.load(WORDS))


def _readable(dataset: ImageSet, names: Sequence[str], progress: Progress | None) -> Iterator[Array]:
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
