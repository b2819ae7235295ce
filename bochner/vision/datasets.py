"""Images with masks of their objects: trees of PASCAL VOC, and folders of images with labelled masks beside them."""

from __future__ import annotations

import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import ndimage

from bochner.arrays import Array
from bochner.errors import FileContentError
from bochner.vision.images import LONGEST, full_size, label_values, read_image, read_labels, reduced

VOID = 255
"""The label of pixels that count for nothing: edges of objects, and objects too difficult to label."""
VOC_CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp")
MARKED = 4096
"""Bytes at each end of a file by which it is known."""
SHOWN = 5
"""Names that an error lists at most."""


class DataError(FileContentError):
    """A data set with something missing or at odds: one line with the file."""


@dataclass(frozen=True)
class Truth:
    """What an image of h x w pixels shows."""

    classes: Array
    """(h, w) of uint8: 0 is background, k the class of index k - 1, VOID counts for nothing."""
    objects: Array
    """(h, w) of int32: the number of the object, 0 where there is none."""
    void: Array
    """(h, w) of bool: pixels that count for nothing."""

    def objects_of(self) -> list[tuple[int, Array]]:
        """The index of its class and the pixels (h, w) of every object, in the order of their numbers."""
        return [(int(self._labels(number).argmax()) - 1, self.objects == number) for number in self._numbers()]

    def _numbers(self) -> Array:
        found = np.unique(self.objects)
        return found[found > 0]

    def _labels(self, number: int) -> Array:
        """How many pixels of an object have each label, background left out."""
        labels = self.classes[(self.objects == number) & ~self.void]
        return np.bincount(labels[labels > 0], minlength=1)


class ImageSet(ABC):
    """Named images with masks. A data set of another layout writes the two methods that say where its files are.

    Images of more than ``longest`` pixels a side are reduced, and their masks with them.
    """

    def __init__(self, names: Sequence[str], classes: Sequence[str], longest: int | None = LONGEST) -> None:
        self.names = tuple(names)
        self.classes = tuple(classes)
        self.longest = longest
        if not 0 < len(self.classes) < VOID:
            raise DataError(f"classes must be 1 to {VOID - 1} names, got {len(self.classes)}.")
        if len(set(self.classes)) < len(self.classes):
            raise DataError(f"classes must have names of their own, got {_some(_repeated(self.classes))} twice; rename one.")

    @abstractmethod
    def image_path(self, name: str) -> Path:
        """The file of an image."""

    @abstractmethod
    def mask_paths(self, name: str) -> tuple[Path, Path | None]:
        """The file of the classes, and that of the objects where there is one."""

    def image(self, name: str) -> Array:
        """The pixels of an image: (h, w, 3) of uint8."""
        return read_image(self.image_path(name), self.longest)

    def size(self, name: str) -> tuple[int, int]:
        """Height and width of an image, from its header alone."""
        size = full_size(self.image_path(name))
        return size if self.longest is None else reduced(size, self.longest)

    def mark(self, name: str) -> str:
        """A short text that tells images of equal names apart: by size, beginning and end of the file."""
        try:
            with open(self.image_path(name), "rb") as file:
                size = file.seek(0, os.SEEK_END)
                parts = [str(size).encode()]
                for start in (0, max(0, size - MARKED)):
                    file.seek(start)
                    parts.append(file.read(MARKED))
        except (OSError, DataError):
            return "missing"
        return hashlib.blake2b(b" ".join(parts), digest_size=8).hexdigest()

    def truth(self, name: str) -> Truth:
        """The classes and objects of an image.

        Where no file tells objects apart, every connected region of a class is one.
        """
        class_path, object_path = self.mask_paths(name)
        shown = full_size(self.image_path(name))
        size = shown if self.longest is None else reduced(shown, self.longest)
        classes = _mask(class_path, shown, size)
        wrong = np.setdiff1d(classes, [*range(len(self.classes) + 1), VOID])
        if wrong.size:
            allowed = f"labels must lie between 0 and {len(self.classes)}, or be {VOID}"
            raise DataError(f"{class_path}: {allowed}: found {_some(wrong)}; correct the mask, or name more classes.")
        if object_path is None:
            void = classes == VOID
            return Truth(classes.astype(np.uint8), _regions(np.where(void, 0, classes)), void)
        objects = _mask(object_path, shown, size)
        void = (classes == VOID) | (objects == VOID)
        truth = Truth(classes.astype(np.uint8), np.where(void, 0, objects).astype(np.int32), void)
        for number in truth._numbers():
            if not truth._labels(number).any():
                raise DataError(f"{object_path}: object {number} has no class in {class_path}; give it one there.")
        return truth


class VOCDataset(ImageSet):
    """PASCAL VOC of the years 2007 to 2012, or whatever has its layout.

    ``root`` is the folder VOCdevkit, a folder VOC20xx of it, or the one that holds VOCdevkit; ``image_set`` a name in
    ImageSets/Segmentation (or else ImageSets/Main), or the path of a text file with a name a line.
    """

    def __init__(
        self,
        root: str | Path,
        image_set: str | Path = "train",
        *,
        classes: Sequence[str] = VOC_CLASSES,
        longest: int | None = LONGEST,
    ) -> None:
        self.root = _year_folder(Path(root))
        self.image_set = str(image_set)
        super().__init__(_listed(_set_file(self.root, image_set)), classes, longest)

    def image_path(self, name: str) -> Path:
        return _with_suffix(self.root / "JPEGImages", name)

    def mask_paths(self, name: str) -> tuple[Path, Path | None]:
        return self.root / "SegmentationClass" / f"{name}.png", self.root / "SegmentationObject" / f"{name}.png"


class MaskFolder(ImageSet):
    """Images in one folder, and in another a PNG mask of the same name for each: 0 background, k class k, 255 void.

    ``classes`` has the names of classes 1, 2, ...; None reads them from classes.txt beside or in the folder of masks, a name
    a line, or else calls them after the labels that the masks have. ``objects`` is a folder of masks that number objects,
    and ``names_file`` a text file with the names of the images to take, one a line, without suffix; None takes all.
    """

    def __init__(
        self,
        images: str | Path,
        masks: str | Path,
        classes: Sequence[str] | None = None,
        *,
        objects: str | Path | None = None,
        names_file: str | Path | None = None,
        longest: int | None = LONGEST,
    ) -> None:
        self.images, self.masks = _folder(images), _folder(masks)
        self.objects = None if objects is None else _folder(objects)
        found = sorted(path for path in self.images.iterdir() if path.suffix.lower() in SUFFIXES)
        if not found:
            raise DataError(f"{self.images}: there are no images here ({', '.join(SUFFIXES)}); give another folder.")
        names = [path.stem for path in found]
        if len(set(names)) < len(names):
            raise DataError(
                f"{self.images}: images must have names of their own, got {_some(_repeated(names))} twice; rename one."
            )
        self._paths = dict(zip(names, found, strict=True))
        if names_file is not None:
            names = _listed(Path(names_file))
            unknown = [name for name in names if name not in self._paths]
            if unknown:
                raise DataError(
                    f"{names_file}: there is no image of the name {_some(unknown)} in {self.images}; "
                    "take it out, or put it there."
                )
        super().__init__(names, _class_names(self.masks) if classes is None else classes, longest)

    def image_path(self, name: str) -> Path:
        if name not in self._paths:
            raise DataError(f"{self.images}: there is no image {name!r}; choose one of .names.")
        return self._paths[name]

    def mask_paths(self, name: str) -> tuple[Path, Path | None]:
        return self.masks / f"{name}.png", None if self.objects is None else self.objects / f"{name}.png"


def open_dataset(root: str | Path, image_set: str | Path = "train", *, longest: int | None = LONGEST) -> ImageSet:
    """The data set in a folder: one with folders ``images`` and ``masks`` (and ``objects``), or a tree of PASCAL VOC.

    Of the first kind, ``image_set`` is the name of a text file in the folder (train for train.txt), or the path of one; all
    images are "train" where there is no such file.
    """
    root = Path(root)
    if (root / "images").is_dir() and (root / "masks").is_dir():
        objects = root / "objects"
        return MaskFolder(
            root / "images",
            root / "masks",
            objects=objects if objects.is_dir() else None,
            names_file=_names_file(root, image_set),
            longest=longest,
        )
    return VOCDataset(root, image_set, longest=longest)


def _mask(path: Path, shown: tuple[int, int], size: tuple[int, int]) -> Array:
    """The labels of a mask of an image that is ``shown`` in some size, brought to ``size``."""
    if not path.is_file():
        raise DataError(f"{path}: this mask is missing; put it there, or leave its image out of the set.")
    found = full_size(path)
    if found != shown:
        sides = [f"{height} x {width}" for height, width in (found, shown)]
        raise DataError(
            f"{path}: the mask is {sides[0]} pixels (height x width), and its image {sides[1]}; make them of one size."
        )
    return read_labels(path, size)


def _regions(classes: Array) -> Array:
    """Connected regions of equal label, background left out, numbered from 1: (h, w) of int32."""
    numbers = np.zeros(classes.shape, dtype=np.int32)
    last = 0
    for label in np.unique(classes[classes > 0]):
        regions, n_regions = ndimage.label(classes == label, structure=np.ones((3, 3)))
        numbers[regions > 0] = regions[regions > 0] + last
        last += n_regions
    return numbers


def _year_folder(root: Path) -> Path:
    """The folder that holds JPEGImages and ImageSets."""
    if not root.is_dir():
        raise DataError(f"{root}: there is no such folder; give a VOCdevkit, or a folder with images/ and masks/.")
    for folder in (root, root / "VOCdevkit"):
        if _is_year(folder):
            return folder
        years = sorted(path for path in folder.glob("VOC*") if _is_year(path))
        if len(years) > 1:
            raise DataError(f"{folder} holds several years: give one of {_some([path.name for path in years])}.")
        if years:
            return years[0]
    raise DataError(
        f"{root}: found neither JPEGImages and ImageSets of PASCAL VOC, nor folders images and masks; "
        "give the folder of these."
    )


def _is_year(folder: Path) -> bool:
    return (folder / "JPEGImages").is_dir() and (folder / "ImageSets").is_dir()


def _names_file(root: Path, image_set: str | Path) -> Path | None:
    """The text file with the names of a set of images in a folder of one's own; None for all images."""
    for path in (root / f"{image_set}.txt", Path(image_set)):
        if path.is_file():
            return path
    if str(image_set) == "train":
        return None
    target = root / f"{Path(image_set).stem}.txt"
    advice = f"write the names of its images, one a line, into {target}, or give the path of such a file"
    raise DataError(f"{root}: there is no image set {str(image_set)!r}: {advice}.")


def _set_file(root: Path, image_set: str | Path) -> Path:
    """The text file of an image set."""
    folders = [root / "ImageSets" / name for name in ("Segmentation", "Main")]
    for path in [*(folder / f"{image_set}.txt" for folder in folders), Path(image_set)]:
        if path.is_file():
            return path
    there = sorted(path.stem for folder in folders[:1] for path in folder.glob("*.txt"))
    advice = (f"one of {_some(there)}, or " if there else "") + "the path of a file with a name a line"
    raise DataError(f"{root}: there is no image set {str(image_set)!r}; give {advice}.")


def _listed(path: Path) -> list[str]:
    """The names in a file of an image set; where a class is said to be absent (-1), the image is left out."""
    lines = [line.split() for line in _text(path).splitlines()]
    names = [words[0] for words in lines if words and words[1:] != ["-1"]]
    if not names:
        raise DataError(f"{path}: the image set is empty; write the names of its images, one a line.")
    wrong = [name for name in names if not re.fullmatch(r"[\w.-]+", name)]
    if wrong:
        raise DataError(f"{path}: names of images have letters, digits and _.- only, got {_some(wrong)}; rename them.")
    if len(set(names)) < len(names):
        raise DataError(f"{path}: expected every name once, got {_some(_repeated(names))} twice; take one out.")
    return names


def _text(path: Path) -> str:
    """What a text file says."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path}: this file cannot be read ({error.strerror or error}); give another.") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: expected text in UTF-8, one name a line, got other bytes ({error}); save it as UTF-8."
        ) from error


def _class_names(masks: Path) -> list[str]:
    """Names of the classes of a folder of masks: from classes.txt, or after the labels that are found."""
    for path in (masks / "classes.txt", masks.parent / "classes.txt"):
        if path.is_file():
            return [line.strip() for line in _text(path).splitlines() if line.strip()]
    labels = {int(label) for path in sorted(masks.glob("*.png")) for label in label_values(path)} - {0, VOID}
    if not labels:
        raise DataError(f"{masks}: no mask has an object, so give classes, or a file classes.txt with a name a line.")
    if max(labels) >= VOID:
        raise DataError(
            f"{masks}: labels must lie between 0 and {VOID}: found {max(labels)}; "
            "number the classes from 1, and change the masks."
        )
    return [f"class {label}" for label in range(1, max(labels) + 1)]


def _with_suffix(folder: Path, name: str) -> Path:
    """The file of a name: .jpg, or another suffix of images where there is one."""
    for suffix in SUFFIXES:
        if (folder / f"{name}{suffix}").is_file():
            return folder / f"{name}{suffix}"
    raise DataError(f"{folder / name}.jpg: this image is missing; put it there, or take its name out of the image set.")


def _folder(path: str | Path) -> Path:
    if not Path(path).is_dir():
        raise DataError(f"{path}: there is no such folder; give one that holds pictures.")
    return Path(path)


def _repeated(names: Sequence[str]) -> list[str]:
    counts = Counter(names)
    return sorted(name for name, count in counts.items() if count > 1)


def _some(names: Sequence[object] | Array) -> str:
    """The first few of a list of names, in words."""
    shown = ", ".join(str(name) for name in names[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown or "none"
