"""Described segments of PASCAL VOC as a problem: those of the set train to learn from, those of val to test on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bochner.arrays import Array
from bochner.reproduce.errors import ReproduceError
from bochner.reproduce.protocol import (
    COMMON_DEPARTURES,
    Problem,
    Protocol,
    Views,
    classes_that_occur,
    rows_to_test,
)
from bochner.reproduce.rows import key_of
from bochner.vision import command
from bochner.vision.datasets import ImageSet, VOCDataset, open_dataset
from bochner.vision.pool import SegmentPool
from bochner.vision.stages import Folders
from bochner.vision.store import Store
from bochner.vision.targets import GOOD, class_overlaps

TRAIN, TEST = "train", "val"
FINE = (command.FINE, command.SOME_FAILED)
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Steps:
    """Options of the steps that make segments and descriptors, where these are not there."""

    segments: tuple[str, ...] = ()
    describe: tuple[str, ...] = ()


@dataclass(frozen=True)
class Described:
    """An image set with its segments and their descriptors."""

    dataset: ImageSet
    segments: Store
    descriptors: Store
    names: tuple[str, ...]
    """Images that are described."""

    @classmethod
    def of(cls, data: Path, image_set: str, folder: Path) -> Described:
        """What there is of an image set in the folder of ``bochner voc``."""
        dataset, folders = open_dataset(data, image_set), Folders(folder)
        segments = Store.existing(folders.segments).of_images(dataset)
        descriptors = Store.existing(folders.descriptors).of_images(dataset)
        if descriptors.configuration.get("segments") != segments.key:
            told = "the descriptors are of other segments than those beside them"
            raise ReproduceError(f"{folder}: {told}; run bochner voc describe --stale redo, or give another --descriptors.")
        names = tuple(name for name in dataset.names if descriptors.has(name))
        if not names:
            again = f"bochner voc describe {data} --set {image_set} --out {folder}"
            raise ReproduceError(
                f"{folder}: none of the {len(dataset.names)} images of {image_set!r} is described; run {again}."
            )
        return cls(dataset, segments, descriptors, names)

    def overlaps(self) -> tuple[Array, Array, Array]:
        """Overlaps (n, c) of all segments with the objects of each class; the image of each, and its score: (n,) each.

        Scores are those of the ranker, which has not seen the image; without one, the first segment of an image comes first.
        """
        n_classes = len(self.dataset.classes)
        each, scores = [], []
        for name in self.names:
            found = self.segments.load(name)
            each.append(class_overlaps(SegmentPool.from_arrays(found), self.dataset.truth(name), n_classes))
            scores.append(found.get("scores", -np.arange(len(each[-1]), dtype=np.float32)))
        return np.concatenate(each), np.repeat(np.arange(len(each)), [len(one) for one in each]), np.concatenate(scores)

    def tables(self, images: Array, index: Array) -> dict[str, Array]:
        """Descriptors of the segments ``index`` (ascending) of those in ``images`` (n,): tables of float32 by name."""
        starts = np.searchsorted(images, np.arange(len(self.names) + 1))
        found: dict[str, Array] = {}
        done = 0
        for name, first, last in zip(self.names, starts, starts[1:], strict=False):
            own = index[slice(*np.searchsorted(index, [first, last]))] - first
            if not len(own):
                continue
            for kind, table in self.descriptors.load(name).items():
                whole = found.setdefault(kind, np.empty((len(index), table.shape[1]), dtype=np.float32))
                whole[done : done + len(own)] = table[own]
            done += len(own)
        return found


@dataclass(frozen=True)
class Images:
    """What labellings need of the data set."""

    test: Described
    train_overlaps: Array
    classes: Array
    """Numbers of the classes of the problem among those of the data set."""


def check_tree(data: Path) -> None:
    """Refuse what has no image sets train and val."""
    for image_set in (TRAIN, TEST):
        if not isinstance(open_dataset(data, image_set), VOCDataset):
            told = f"expected a tree of PASCAL VOC with the image sets {TRAIN} and {TEST}, got a folder of images and masks"
            raise ReproduceError(f"{data}: {told}; put them into JPEGImages, SegmentationClass and ImageSets/Segmentation.")


def make_descriptors(data: Path, folder: Path, steps: Steps, quiet: bool) -> None:
    """Run the steps ``segments`` and ``describe`` on both image sets, where images lack them."""
    if all(_is_whole(data, image_set, folder) for image_set in (TRAIN, TEST)):
        return
    for step, options in (("segments", steps.segments), ("describe", steps.describe)):
        for image_set in (TRAIN, TEST):
            silent = ("--quiet",) if quiet else ()
            code = command.main([step, str(data), "--set", image_set, "--out", str(folder), *options, *silent])
            if code == command.INTERRUPTED:
                raise KeyboardInterrupt
            if code not in FINE:
                again = f"bochner voc {step} {data} --set {image_set} --out {folder}"
                raise ReproduceError(f"the step {step} on {image_set} came to nothing (above is why); try it alone: {again}")


def _is_whole(data: Path, image_set: str, folder: Path) -> bool:
    if not Folders(folder).descriptors.is_dir() or not Folders(folder).segments.is_dir():
        return False
    dataset = open_dataset(data, image_set)
    descriptors = Store.existing(Folders(folder).descriptors).of_images(dataset)
    return all(descriptors.has(name) for name in dataset.names)


def voc_problem(data: Path, folder: Path, protocol: Protocol, seed: int, tell: Tell) -> Problem:
    """The problem of a tree of PASCAL VOC whose descriptors are in ``folder``."""
    train, test = (Described.of(data, image_set, folder) for image_set in (TRAIN, TEST))
    tell(f"Reading the segments of {len(train.names)} training and {len(test.names)} test images")
    overlaps, images, scores = train.overlaps()
    test_overlaps, test_images, _ = test.overlaps()
    used = classes_that_occur(overlaps, test_overlaps, protocol.fewest)
    if len(used) < 2:
        told = f"expected two classes or more that {protocol.fewest} segments of both sets show, found {len(used)}"
        raise ReproduceError(f"{data}: {told}; give a tree with more images.")
    classes = tuple(train.dataset.classes[k] for k in used)
    chosen = rows_to_test(test_overlaps[:, used], protocol.test_per_class, seed)
    everything = np.arange(len(overlaps))
    tables = train.tables(images, everything)
    keys = {"descriptors": train.descriptors.key, "images": [len(train.names), len(test.names)], "protocol": repr(protocol)}
    return Problem(
        name=_name(train.dataset),
        key=key_of({**keys, "classes": list(classes)}),
        classes=classes,
        train=Views(tables, overlaps[:, used], images),
        test=Views(test.tables(test_images, chosen), test_overlaps[np.ix_(chosen, used)], test_images[chosen]),
        scores=scores,
        histograms=True,
        protocol=protocol,
        seed=seed,
        departures=(*_departures(train, test, used, len(chosen), protocol), _how_many_show_objects(overlaps[:, used])),
        images=Images(test, overlaps, used),
    )


def _name(dataset: ImageSet) -> str:
    return dataset.root.name if isinstance(dataset, VOCDataset) else "images"


def _how_many_show_objects(overlaps: Array) -> str:
    """What more training rows can add."""
    shows = int((overlaps.max(axis=1) >= GOOD).sum())
    return (
        f"Of {len(overlaps):,} training segments {shows:,} show an object with an overlap of {GOOD:g} or more; they "
        "are all in from twice that number on, and what larger n add are parts of objects and background."
    )


def _departures(train: Described, test: Described, used: Array, n_test: int, protocol: Protocol) -> tuple[str, ...]:
    """What differs from the paper, of this data set."""
    n_all = len(train.dataset.classes)
    found = [
        f"Data: {len(train.names)} training and {len(test.names)} test images of {_name(train.dataset)}; the paper has "
        "VOC 2011 with 2223 images for both.",
        "Segments come from this package's own proposals and ranking, and so do the eight descriptors; the paper takes "
        "segments from CPMC, scores from Li et al. and boundaries from globalPb.",
        f"Accuracy is measured on {n_test:,} test segments that show an object with an overlap of 0.5 or more, drawn at "
        f"random, at most {protocol.test_per_class} of a class; the paper predicts the class of more than 100,000 segments.",
    ]
    if len(used) < n_all:
        found.append(f"{n_all - len(used)} of {n_all} classes have too few segments here, and are left out.")
    for image_set, described in ((TRAIN, train), (TEST, test)):
        missing = len(described.dataset.names) - len(described.names)
        if missing:
            found.append(f"{missing} images of {image_set} have no descriptors, and are left out.")
    return (*found, *COMMON_DEPARTURES)
