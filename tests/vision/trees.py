"""Tiny data sets on disk: coloured rectangles as objects, with masks that say so."""

import numpy as np
from PIL import Image

HEIGHT, WIDTH = 40, 60
COLOURS = {1: (220, 40, 40), 2: (40, 200, 60), 3: (50, 60, 230)}
"""A colour for each class that the trees use."""


def picture(objects, rng, shape=(HEIGHT, WIDTH)):
    """An image with rectangles (class, top, left, bottom, right), and its masks of classes and objects, void at edges."""
    image = rng.integers(90, 130, (*shape, 3))
    classes, numbers = np.zeros(shape, dtype=np.uint8), np.zeros(shape, dtype=np.uint8)
    for number, (label, top, left, bottom, right) in enumerate(objects, start=1):
        image[top:bottom, left:right] = np.array(COLOURS[label]) + rng.integers(-10, 11, (bottom - top, right - left, 3))
        for mask, value in ((classes, label), (numbers, number)):
            mask[top:bottom, left:right] = 255
            mask[top + 1 : bottom - 1, left + 1 : right - 1] = value
    return np.clip(image, 0, 255).astype(np.uint8), classes, numbers


PICTURES = {
    "one": [(1, 5, 5, 30, 30)],
    "two": [(2, 4, 4, 20, 25), (3, 10, 32, 36, 56)],
    "same": [(1, 2, 2, 20, 20), (1, 22, 30, 38, 58)],
    "empty": [],
}


def save_mask(path, labels):
    """A mask with a palette, as those of PASCAL VOC."""
    image = Image.frombytes("P", labels.shape[::-1], labels.astype(np.uint8).tobytes())
    image.putpalette([(37 * k) % 256 for k in range(768)])
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)


def voc_tree(root, pictures=PICTURES, image_set="train", seed=0):
    """A tree of PASCAL VOC under a folder; returns the folder of its year."""
    rng = np.random.default_rng(seed)
    year = root / "VOCdevkit" / "VOC2012"
    for folder in ("JPEGImages", "SegmentationClass", "SegmentationObject", "ImageSets/Segmentation"):
        (year / folder).mkdir(parents=True, exist_ok=True)
    for name, objects in pictures.items():
        image, classes, numbers = picture(objects, rng)
        Image.fromarray(image).save(year / "JPEGImages" / f"{name}.jpg", quality=95)
        save_mask(year / "SegmentationClass" / f"{name}.png", classes)
        save_mask(year / "SegmentationObject" / f"{name}.png", numbers)
    (year / "ImageSets" / "Segmentation" / f"{image_set}.txt").write_text("".join(f"{name}\n" for name in pictures))
    return year
