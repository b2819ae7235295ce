"""A new picture: its segments, their classes and its labels, by what a folder of results has learned."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from bochner.arrays import Array
from bochner.blas import one_blas_thread
from bochner.vision.boundaries import boundaries_of
from bochner.vision.classifier import SegmentClassifier
from bochner.vision.descriptors import describe
from bochner.vision.measures import paste
from bochner.vision.options import DescriptorOptions
from bochner.vision.pool import SegmentPool
from bochner.vision.proposals import ProposalOptions, at_size, proposals_of
from bochner.vision.ranking import SegmentRanker
from bochner.vision.stages import RANKER, WORDS, Folders, check_made_of, file_key, ranker_of, vocabularies_of
from bochner.vision.store import Store, StoreError, read_header
from bochner.vision.words import Vocabularies


@dataclass(frozen=True)
class Recognised:
    """What was found in a picture."""

    image: Array
    """(h, w, 3) of uint8."""
    pool: SegmentPool
    scores: Array
    """Of each of s segments for each of c classes: (s, c)."""
    labels: Array
    """(h, w): 0 is background, k the k-th class."""
    classes: tuple[str, ...]

    def found(self) -> list[tuple[str, float, float]]:
        """Each class that is there, its share of the pixels and the best score of a segment; the largest share first."""
        shares = np.bincount(self.labels.ravel(), minlength=len(self.classes) + 1)[1:] / self.labels.size
        best = self.scores.max(axis=0, initial=-np.inf)
        return [(self.classes[k], float(shares[k]), float(best[k])) for k in np.argsort(-shares, kind="stable") if shares[k]]


@dataclass(frozen=True)
class Recogniser:
    """All that was learned from training images, and the options it was learned with."""

    proposals: ProposalOptions
    n_segments: int
    longest: int | None
    """Larger images are to be reduced to this before; None: never."""
    ranker: SegmentRanker | None
    """None where the first proposals are taken."""
    vocabularies: Vocabularies
    classifier: SegmentClassifier

    @classmethod
    def of(cls, folder: str | Path) -> Recogniser:
        """What ``bochner voc`` segments, describe and train have learned in a folder; an error where it does not fit."""
        folders = Folders(Path(folder))
        large, short, words = (
            Store.existing(folder) for folder in (folders.proposals, folders.segments, folders.vocabularies)
        )
        ranker = None if short.configuration["ranker"] is None else Store.existing(folders.ranker)
        check_made_of(short, "proposals", large)
        if ranker is not None:
            check_made_of(short, "ranker", ranker, file_key(ranker.path(RANKER)))
        if read_header(folders.descriptors) is not None:
            described = Store.existing(folders.descriptors)
            check_made_of(described, "segments", short)
            check_made_of(described, "words", words, file_key(words.path(WORDS)))
        if not folders.model.is_file():
            raise StoreError(f"{folders.model}: there is no classifier; train one first.")
        superpixels = large.configuration["options"]["n_superpixels"]
        return cls(
            proposals=_restored(replace(ProposalOptions(), n_superpixels=superpixels), large),
            n_segments=int(short.configuration["most"]),
            longest=large.configuration["longest"],
            ranker=None if ranker is None else ranker_of(ranker),
            vocabularies=vocabularies_of(words),
            classifier=SegmentClassifier.load(folders.model),
        )

    def __call__(self, image: Array) -> Recognised:
        """Segments, scores and labels of an image (h, w, 3) of uint8."""
        with one_blas_thread():
            found = proposals_of(image, self.proposals)
            index = np.arange(min(self.n_segments, found.pool.n_segments))
            if self.ranker is not None:
                index = self.ranker.rank(found, self.n_segments).index
            pool = at_size(found.pool.take(index), image.shape[:2])
            options = DescriptorOptions(sift=self.vocabularies.sift)
            scores = self.classifier.scores(describe(image, pool, boundaries_of(image), self.vocabularies, options))
        labels = paste(pool, scores, threshold=self.classifier.threshold)
        return Recognised(image, pool, scores, labels, self.classifier.classes_)


def _restored(options: ProposalOptions, store: Store) -> ProposalOptions:
    """The options, if all of them are those of a store."""
    if json.dumps(asdict(options), sort_keys=True) != json.dumps(store.configuration["options"], sort_keys=True):
        raise StoreError(
            f"{store.folder}: these segments were made with other options than this version has; "
            "make them again (bochner voc segments --stale redo)."
        )
    return options
