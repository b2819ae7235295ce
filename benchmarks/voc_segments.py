"""How well segments cover the objects of PASCAL VOC: whole pools, and the 100 best of each.

    python benchmarks/voc_segments.py VOCdevkit/VOC2012 CACHE
    python benchmarks/voc_segments.py --table     no run: rewrite the table of docs/benchmarks.md

A ranker is fitted to images of the training part, and objects of the validation part are looked for; what is made of an
image is kept in the folder CACHE, so that a run which was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from harness import PACKAGES, ROOT, describe, manifest, markdown_table, read_results, replace_table, write_results
from PIL import Image
from threadpoolctl import threadpool_limits

from bochner.vision.cues import cues_of
from bochner.vision.proposals import ProposalOptions, overlaps_within, proposals_of
from bochner.vision.ranking import SegmentRanker, diversify

NAME = "voc_segments"
SEED = 0
VOID = 255
GOALS = {
    "pool": {"mean_best_overlap": 0.72, "recall_at_0.5": 0.85},
    "best_100": {"mean_best_overlap": 0.60, "covering": 0.70, "recall_at_0.5": 0.65},
}
SECONDS = 2.0
"""The goal of seconds an image."""


@dataclass(frozen=True)
class Segments:
    """What the ranking needs to know of an image."""

    cues: Any
    """(s, q)."""
    overlaps: Any
    """With objects (s, k)."""
    areas: Any
    """Pixels of objects (k,), void ones left out."""
    members: Any
    sizes: Any
    seconds: float
    """Time that proposals and cues took on one core."""

    @classmethod
    def of(cls, root: Path, name: str) -> Segments:
        """Propose segments of an image, at its own size."""
        image = np.asarray(Image.open(root / "JPEGImages" / f"{name}.jpg").convert("RGB"))
        truth = np.asarray(Image.open(root / "SegmentationObject" / f"{name}.png"))
        masks = np.array([truth == k for k in np.unique(truth) if k not in (0, VOID)])
        start = time.process_time()
        found = proposals_of(image, ProposalOptions())
        cues = cues_of(found)
        seconds = time.process_time() - start
        overlaps = found.pool.overlaps(masks, truth == VOID)
        return cls(cues, overlaps, masks.sum(axis=(1, 2)), found.pool.members, found.graph.sizes, seconds)

    def save(self, path: Path) -> None:
        """Keep them in a file."""
        arrays = vars(self) | {"members": np.packbits(self.members, axis=1)}
        partial = path.with_suffix(".part.npz")
        np.savez(partial, **arrays)
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> Segments:
        """Read what :meth:`save` wrote."""
        with np.load(path) as stored:
            arrays = dict(stored)
        members = np.unpackbits(arrays.pop("members"), axis=1, count=len(arrays["sizes"])).astype(bool)
        return cls(members=members, seconds=float(arrays.pop("seconds")), **arrays)


def segments_of(root: Path, part: str, n_images: int, cache: Path) -> list[Segments]:
    """Segments of some images of a part, chosen at random."""
    names = (root / "ImageSets" / "Segmentation" / f"{part}.txt").read_text(encoding="utf-8").split()
    found = []
    for k, name in enumerate(np.random.default_rng(7).permutation(names)[:n_images]):
        path = cache / f"{name}.npz"
        if not path.exists():
            Segments.of(root, name).save(path)
        found.append(Segments.load(path))
        if (k + 1) % 20 == 0:
            print(f"{part}: {k + 1} images", flush=True)
    return found


def measure(best: list[Any], images: list[Segments]) -> dict[str, float]:
    """Mean best overlap of objects, their covering weighted by area, and the share found, from overlaps (k,) each."""
    overlaps = np.concatenate(best)
    areas = np.concatenate([image.areas for image in images]).astype(float)
    return {
        "mean_best_overlap": float(overlaps.mean()),
        "covering": float(areas @ overlaps / areas.sum()),
        "recall_at_0.5": float(np.mean(overlaps >= 0.5)),
        "n_objects": len(overlaps),
    }


def run(root: Path, cache: Path, n_train: int, n_test: int) -> dict[str, Any]:
    """Fit on training images, measure on others."""
    train, test = segments_of(root, "train", n_train, cache), segments_of(root, "val", n_test, cache)
    start = time.process_time()
    ranker = SegmentRanker.fit([one.cues for one in train], [one.overlaps for one in train], seed=SEED)
    fit_seconds = time.process_time() - start
    ranker.save(cache / "ranker.npz")
    results: dict[str, Any] = {"n_train": len(train), "n_test": len(test), "fit_seconds": fit_seconds}
    results["pool"] = measure([one.overlaps.max(axis=0) for one in test], test)
    results["pool"]["segments"] = float(np.mean([len(one.members) for one in test]))
    seconds, lists = [], []
    for one in test:
        start = time.process_time()
        scores = ranker.scores(one.cues)
        lists.append(diversify(scores, overlaps_within(one.members, one.sizes), 100, ranker.diversity))
        seconds.append(one.seconds + time.process_time() - start)
    for n in (20, 50, 100):
        results[f"best_{n}"] = measure(
            [one.overlaps[some[:n]].max(axis=0) for one, some in zip(test, lists, strict=True)], test
        )
    results["seconds_per_image"] = {"mean": float(np.mean(seconds)), "largest": float(np.max(seconds))}
    return results


def write_table() -> None:
    """The table of the page, from the file of results."""
    results, about = read_results(NAME)
    rows = []
    for which, label in (("pool", "whole pool"), ("best_100", "best 100"), ("best_50", "best 50"), ("best_20", "best 20")):
        goals = GOALS.get(which, {})
        cells = [
            f"{results[which][key]:.3f}" + (f" (goal {goals[key]:.2f})" if key in goals else "")
            for key in ("mean_best_overlap", "covering", "recall_at_0.5")
        ]
        rows.append([label, *cells])
    seconds = results["seconds_per_image"]
    lines = [
        markdown_table(["segments", "mean best overlap", "covering by area", "recall at 0.5"], rows),
        f"{results['pool']['n_objects']} objects of {results['n_test']} validation images; the ranker was fitted to "
        f"{results['n_train']} training images. A pool has {results['pool']['segments']:.0f} segments on average. Segments "
        f"and their ranks take {seconds['mean']:.2f} s of the processor an image, {seconds['largest']:.2f} s at most "
        f"(goal {SECONDS:g} s).",
        describe(about),
    ]
    replace_table(ROOT / "docs" / "benchmarks.md", NAME, "\n\n".join(lines))


def main() -> None:
    """Measure, write the results and the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path, nargs="?", help="the folder VOC2012 of the development kit")
    parser.add_argument("cache", type=Path, nargs="?", help="a folder for what is made of the images")
    parser.add_argument("--train", type=int, default=250, help="images that the ranker is fitted to")
    parser.add_argument("--test", type=int, default=100, help="images that are measured")
    parser.add_argument("--table", action="store_true", help="no run: rewrite the table from the file")
    arguments = parser.parse_args()
    if arguments.table:
        write_table()
        return
    if arguments.root is None or arguments.cache is None:
        parser.error("name the folder VOC2012 of the development kit, and one for what is made of the images")
    arguments.cache.mkdir(parents=True, exist_ok=True)
    cv2.setNumThreads(1)
    with threadpool_limits(1):
        results = run(arguments.root, arguments.cache, arguments.train, arguments.test)
    packages = (*PACKAGES, "opencv-python-headless", "scikit-image", "PyMaxflow", "pillow")
    print(results)
    print(write_results(NAME, results, manifest(SEED, packages)))
    write_table()


if __name__ == "__main__":
    main()
