"""Seconds of each step of the descriptors of segments, on images of PASCAL VOC 2012.

    python benchmarks/voc_descriptors.py FOLDER                 FOLDER holds JPEGImages and ImageSets; 20 images
    python benchmarks/voc_descriptors.py FOLDER --images 5      fewer
    python benchmarks/voc_descriptors.py FOLDER --pools DIR     segments from DIR/NAME.npz in the place of random ones

Where there are no pools, segments are random connected unions of SLIC superpixels, 100 an image, and boundaries are lengths
of smoothed gradients. Everything runs in one thread; its time on the processor is
printed, and on the clock, which is longer where others use the machine.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
import cv2
import numpy as np
from skimage.segmentation import slic

from bochner.vision import descriptors, lbp, phog, sift
from bochner.vision.options import DescriptorOptions
from bochner.vision.pool import SegmentPool
from bochner.vision.words import Vocabularies

SEED = 0
SUPERPIXELS, SEGMENTS = 500, 100
TRAINING_IMAGES = 40


class Maps:
    """Boundaries of an image at two scales: lengths of its gradients."""

    def __init__(self, image: Any) -> None:
        gray = sift.opponent(image)[0]
        self.fine, self.coarse = (np.tanh(np.hypot(*sift.gradients(gray, sigma)) / 50) for sigma in (1.0, 3.0))


def random_pool(image: Any, rng: np.random.Generator) -> SegmentPool:
    """Random connected unions of superpixels, of all sizes."""
    labels = slic(image, n_segments=SUPERPIXELS, start_label=0).astype(np.int32)
    n = int(labels.max()) + 1
    near = np.zeros((n, n), dtype=bool)
    for one, other in ((labels[:, :-1], labels[:, 1:]), (labels[:-1], labels[1:])):
        near[one.ravel(), other.ravel()] = near[other.ravel(), one.ravel()] = True
    members = np.zeros((SEGMENTS, n), dtype=bool)
    for own in members:
        own[rng.integers(n)] = True
        for _ in range(int(n ** rng.uniform(0, 1))):
            around = np.flatnonzero(near[own].any(axis=0) & ~own)
            own[rng.choice(around)] = True
    return SegmentPool(labels, members)


class Clock:
    """Seconds of named steps: on the processor, and by the clock on the wall."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[tuple[float, float]]] = {}

    def time(self, name: str, step: Callable[..., Any], *arguments: Any) -> Any:
        """What a step gives; its seconds are kept."""
        start = time.thread_time(), time.perf_counter()
        found = step(*arguments)
        self.seconds.setdefault(name, []).append((time.thread_time() - start[0], time.perf_counter() - start[1]))
        return found

    def lines(self) -> list[str]:
        """Seconds of each step: mean, median and largest of the processor, and the mean of the clock."""
        lines = [f"{'seconds':<32}{'mean':>10}{'median':>10}{'largest':>10}{'clock':>10}"]
        for name, seconds in self.seconds.items():
            own, clock = np.array(seconds).T
            lines.append(f"{name:<32}{own.mean():10.4f}{np.median(own):10.4f}{own.max():10.4f}{clock.mean():10.4f}")
        return lines


def read(folder: Path, name: str) -> Any:
    """An image (h, w, 3) of red, green and blue."""
    return cv2.imread(str(folder / "JPEGImages" / f"{name}.jpg"))[:, :, ::-1].copy()


def measure(clock: Clock, image: Any, pool: SegmentPool, vocabularies: Vocabularies, options: DescriptorOptions) -> None:
    """Time the steps, and all of them together."""
    maps, n, sigma = Maps(image), options.n_orientations, options.smoothing
    channels = clock.time("opponent channels", sift.opponent, image)
    for width in options.sift.widths:
        clock.time(f"  sums of cells, width {width}", sift.cells, channels, options.sift, width)
    raw = np.concatenate([some for some, _ in clock.time("  descriptors", lambda: list(sift.dense(channels, options.sift)))])
    gray = clock.time("  gray, normalised", sift.normalised, raw[:, 0])
    colour = clock.time("  colour, normalised", sift.normalised, raw)
    clock.time("  gray words", vocabularies.gray.assign, gray)
    clock.time("  colour words", vocabularies.colour.assign, colour)
    clock.time("words on segments, in all", descriptors.word_histograms, image, pool, vocabularies)
    clock.time("  edges of the image", phog.image_edges, sift.brightness(image), n, sigma)
    clock.time("  edges of one map", phog.boundary_edges, maps.fine, n, sigma)
    clock.time("  crossings", phog.crossings, pool.labels, options.pyramid.block)
    for n_points, radius in options.circles:
        clock.time(f"  patterns of {n_points} points", lbp.patterns, sift.brightness(image), n_points, radius)
    clock.time("pyramids, in all", descriptors.pyramid_histograms, image, pool, maps, options)
    clock.time("all eight", descriptors.describe, image, pool, maps, vocabularies, options)


def main() -> None:
    """Print seconds per step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--images", type=int, default=20)
    parser.add_argument("--pools", type=Path)
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    options, rng, clock = DescriptorOptions(), np.random.default_rng(SEED), Clock()
    names = (arguments.folder / "ImageSets" / "Segmentation" / "train.txt").read_text().split()
    train, shown = names[arguments.images :][:TRAINING_IMAGES], names[: arguments.images]
    images = (read(arguments.folder, name) for name in train)
    vocabularies = clock.time(f"vocabularies, {len(train)} images", Vocabularies.fit, images, options, SEED)
    for name in shown:
        image = read(arguments.folder, name)
        own = arguments.pools and arguments.pools / f"{name}.npz"
        pool = SegmentPool.load(own) if own and own.exists() else random_pool(image, rng)
        measure(clock, image, pool, vocabularies, options)
    print("\n".join(clock.lines()))


if __name__ == "__main__":
    main()
