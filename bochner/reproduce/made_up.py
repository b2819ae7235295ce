"""A small tree of PASCAL VOC with made-up images: shapes of a few classes, each with a colour and a texture of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from bochner.arrays import Array
from bochner.vision.datasets import VOID

HEIGHT, WIDTH = 64, 88
COLOURS = np.array([[200, 60, 50], [60, 180, 70], [60, 80, 210]])
"""Of the classes 1, 2 and 3; backgrounds are gray."""
NOISE = 25
DONE = "made-up.txt"


def made_up_tree(root: Path, n_train: int, n_test: int, seed: int) -> Path:
    """A tree under a folder, made unless it is there; returns the folder VOCdevkit."""
    year = root / "VOCdevkit" / "VOC-made-up"
    mark, wanted = year / DONE, f"{n_train} {n_test} {seed}"
    if mark.is_file() and mark.read_text(encoding="utf-8") == wanted:
        return year.parent
    for folder in ("JPEGImages", "SegmentationClass", "SegmentationObject", "ImageSets/Segmentation"):
        (year / folder).mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    for image_set, count in (("train", n_train), ("val", n_test)):
        names = [f"{image_set}_{number:03}" for number in range(count)]
        for number, name in enumerate(names):
            image, classes, objects = made_up_image([number % len(COLOURS), (number + 1) % len(COLOURS)], rng)
            Image.fromarray(image).save(year / "JPEGImages" / f"{name}.jpg", quality=92)
            for kind, mask in (("Class", classes), ("Object", objects)):
                _save_mask(year / f"Segmentation{kind}" / f"{name}.png", mask)
        lines = "".join(f"{name}\n" for name in names)
        (year / "ImageSets" / "Segmentation" / f"{image_set}.txt").write_text(lines, encoding="utf-8")
    mark.write_text(wanted, encoding="utf-8")
    return year.parent


def made_up_image(labels: list[int], rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """An image (h, w, 3) with an ellipse of each class side by side, and its masks of classes and objects, void at edges."""
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    image = rng.normal(128, NOISE, (HEIGHT, WIDTH, 1)) + np.zeros(3)
    classes, objects = np.zeros((HEIGHT, WIDTH), dtype=np.uint8), np.zeros((HEIGHT, WIDTH), dtype=np.uint8)
    room = WIDTH / len(labels)
    for place, label in enumerate(labels):
        centre = rng.uniform(24, 40), room * (place + 0.5) + rng.uniform(-4, 4)
        height, width = rng.uniform(13, 20), rng.uniform(0.3, 0.42) * room
        distance = ((rows - centre[0]) / height) ** 2 + ((columns - centre[1]) / width) ** 2
        stripes = 35 * np.sin((label + 1) * 0.5 * (rows if label % 2 else columns))
        colour = COLOURS[label] + rng.normal(0, 12, 3)
        inside = distance < 1
        image[inside] = (colour + stripes[..., None] + rng.normal(0, NOISE, (HEIGHT, WIDTH, 1)))[inside]
        edge = (distance > 0.9) & (distance < 1.1)
        for mask, value in ((classes, label + 1), (objects, place + 1)):
            mask[inside] = value
            mask[edge] = VOID
    return np.clip(image, 0, 255).astype(np.uint8), classes, objects


def _save_mask(path: Path, labels: Array) -> None:
    image = Image.fromarray(labels)
    image.putpalette([(37 * k) % 256 for k in range(768)])
    image.save(path)
