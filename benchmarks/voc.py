"""Object recognition on PASCAL VOC: segments, descriptors and five ways to learn classes from them.

    python benchmarks/voc.py                      all of it, on the folder voc2012 of the data; about an hour
    python benchmarks/voc.py --limit 100          the first 100 images of each half: a trial, which writes no results
    python benchmarks/voc.py --table              no run: print the tables of the results

The steps are those of ``bochner voc``, over the image sets train and val, in the folder that --out names; what is there
already is not computed again, and has no time of its own. Segments are measured on the validation images, void pixels left
out. Every way to learn has all segments of the training images, and predicts their overlap with the objects of each class:

- linear: ridge regression on the raw histograms side by side;
- one kernel: a Gaussian kernel of median width on all of them;
- average: the plain average of a kernel for each of the eight descriptors;
- RFF-SKL: one kernel on all of them, its scales learned;
- RFF-GL: a kernel for each, of which group lasso keeps those that count for a class.

Penalties are chosen on the segments of held-out training images. Measures are of the validation images: mean average
precision over the classes (a segment shows a class where they overlap by a half or more), balanced accuracy with
background, accuracy on the segments that show an object, and intersection over union of pasted labels.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import PACKAGES, describe, manifest, markdown_table, read_results, write_results
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from uci_data import VARIABLE, data_folder

from bochner import KernelRegressor
from bochner.vision import SegmentClassifier, open_dataset
from bochner.vision.classifier import held_out_images
from bochner.vision.command import main as voc
from bochner.vision.measures import PixelCounts, average_precisions, balanced_accuracy, good_accuracy, paste
from bochner.vision.pool import SegmentPool
from bochner.vision.stages import Folders, pool_of
from bochner.vision.store import Store
from bochner.vision.targets import GOOD, class_overlaps, object_overlaps, segment_labels

NAME = "voc"
SEEDS = (0, 1, 2)
RIDGES = tuple(np.geomspace(1e-3, 1e3, 7).tolist())
Scores = Callable[[dict[str, np.ndarray]], np.ndarray]


class Half:
    """The segments of one image set: descriptors, overlaps and numbers of images, one after the other."""

    def __init__(self, data: Path, part: str, folders: Folders, limit: int | None) -> None:
        self.dataset = open_dataset(data, part)
        self.pools, described = Store.existing(folders.segments), Store.existing(folders.descriptors)
        self.names = [name for name in self.dataset.names[:limit] if described.has(name)]
        n_classes = len(self.dataset.classes)
        each = [class_overlaps(self.pool(name), self.dataset.truth(name), n_classes) for name in self.names]
        self.counts = [len(some) for some in each]
        self.overlaps = np.concatenate(each)
        self.images = np.repeat(np.arange(len(each)), self.counts)
        found = [described.load(name) for name in self.names]
        self.descriptors = {key: np.concatenate([one[key] for one in found]) for key in found[0]}

    def pool(self, name: str) -> SegmentPool:
        """The segments of an image."""
        return pool_of(self.pools, name)


# -- ways to learn -------------------------------------------------------------------------------------------------------


def linear(train: Half, seed: int) -> Scores:
    """Ridge regression on raw histograms; its penalty by the error on held-out images."""
    X = np.hstack(list(train.descriptors.values()))
    ((fitted, validated),) = held_out_images(train.images, seed)
    errors = []
    for alpha in RIDGES:
        model = Ridge(alpha=alpha).fit(X[fitted], train.overlaps[fitted])
        errors.append(float(np.mean((model.predict(X[validated]) - train.overlaps[validated]) ** 2)))
    final = Ridge(alpha=RIDGES[int(np.argmin(errors))]).fit(X, train.overlaps)
    return lambda descriptors: final.predict(np.hstack(list(descriptors.values())))


def one_kernel(train: Half, seed: int) -> Scores:
    """A Gaussian kernel of median width on roots of all histograms."""
    roots = FunctionTransformer(lambda tables: np.sqrt(np.hstack(list(tables.values()))))
    learner = KernelRegressor(
        "gaussian", scale="median", standardize=False, validation=held_out_images(train.images, seed), random_state=seed
    )
    model = make_pipeline(roots, learner).fit(train.descriptors, train.overlaps)
    return model.predict


def classifier(learner: str) -> Callable[[Half, int], Scores]:
    """One of SegmentClassifier's own ways."""

    def fit(train: Half, seed: int) -> Scores:
        model = SegmentClassifier(learner, random_state=seed)
        return model.fit(train.descriptors, train.overlaps, train.images).scores

    return fit


WAYS: dict[str, Callable[[Half, int], Scores]] = {
    "linear": linear,
    "one kernel": one_kernel,
    "average": classifier("average"),
    "RFF-SKL": classifier("single-kernel"),
    "RFF-GL": classifier("group-lasso"),
}


# -- measures ------------------------------------------------------------------------------------------------------------


def measure(half: Half, scores: np.ndarray, threshold: float) -> dict[str, float]:
    """What is told of scores (n, c)."""
    given = np.where(scores.max(axis=1) > threshold, scores.argmax(axis=1) + 1, 0)
    n_classes = scores.shape[1]
    counts = PixelCounts.none(n_classes)
    for name, some in zip(half.names, np.split(scores, np.cumsum(half.counts)[:-1]), strict=True):
        labels = paste(half.pool(name), some, threshold=threshold)
        counts = counts + PixelCounts.of(half.dataset.truth(name), labels, n_classes)
    return {
        "mean average precision": float(np.nanmean(average_precisions(half.overlaps >= GOOD, scores))),
        "balanced accuracy": balanced_accuracy(segment_labels(half.overlaps), given),
        "accuracy on good segments": good_accuracy(half.overlaps, scores.argmax(axis=1) + 1),
        "intersection over union": counts.mean(),
    }


def learn(train: Half, val: Half, ways: Sequence[str], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Every way with every seed; a threshold gives as many segments a class as show one in the training images."""
    rows = []
    for way in ways:
        for seed in seeds:
            start = time.perf_counter()
            scores_of = WAYS[way](train, seed)
            seconds = time.perf_counter() - start
            positive = float(np.mean(train.overlaps.max(axis=1) >= GOOD))
            threshold = float(np.quantile(scores_of(train.descriptors).max(axis=1), 1 - positive))
            row = {"way": way, "seed": seed, "seconds": seconds, **measure(val, scores_of(val.descriptors), threshold)}
            rows.append(row)
            print(f"{way}, seed {seed}: mean average precision {row['mean average precision']:.4f}, {seconds:.0f} s")
    return rows


def segment_quality(half: Half, pools: Store) -> dict[str, float]:
    """How well segments cover objects: mean best overlap, covering weighted by area, recall at a half."""
    best, areas, n_segments = [], [], 0
    for name in half.names:
        truth, pool = half.dataset.truth(name), pool_of(pools, name)
        n_segments += pool.n_segments
        best.append(object_overlaps(pool, truth).max(axis=0, initial=0.0))
        areas += [float((mask & ~truth.void).sum()) for _, mask in truth.objects_of()]
    overlaps, sizes = np.concatenate(best), np.array(areas)
    return {
        "segments an image": n_segments / len(half.names),
        "objects": len(overlaps),
        "mean best overlap": float(overlaps.mean()),
        "covering by area": float(sizes @ overlaps / sizes.sum()),
        "recall at 0.5": float(np.mean(overlaps >= GOOD)),
    }


# -- the run -------------------------------------------------------------------------------------------------------------


def pipeline(data: Path, out: Path, limit: int | None) -> dict[str, Any]:
    """Segments and descriptors of both halves: seconds of each step, and the most GiB that one process took.

    They are kept in the folder, so that a run on what is there already tells those of the run that made it.
    """
    kept = out / "steps.json"
    found: dict[str, Any] = json.loads(kept.read_text()) if kept.is_file() else {"seconds": {}}
    for step in ("segments", "describe"):
        for part in ("train", "val"):
            options = ["--limit", str(limit)] if limit else []
            start = time.perf_counter()
            code = voc([step, str(data), "--out", str(out), "--set", part, *options])
            if code:
                raise SystemExit(f"bochner voc {step} on {part} ended with code {code}.")
            if f"{step}, {part}" not in found["seconds"]:
                found["seconds"][f"{step}, {part}"] = time.perf_counter() - start
                found["peak_gib"] = max(found.get("peak_gib", 0.0), peak_gib())
                kept.write_text(json.dumps(found, indent=1))
    return found


def peak_gib() -> float:
    """The most memory that this process or one it has started took."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(kind).ru_maxrss for kind in kinds) / 2**20


def run(options: argparse.Namespace, out: Path) -> dict[str, Any]:
    """All steps and all ways to learn."""
    data = data_folder(options.data) / "voc2012"
    steps = pipeline(data, out, options.limit)
    results: dict[str, Any] = {"steps": steps["seconds"]}
    folders = Folders(out)
    train, val = (Half(data, part, folders, options.limit) for part in ("train", "val"))
    results["images"] = {"train": len(train.names), "val": len(val.names)}
    results["segments"] = {"train": len(train.overlaps), "val": len(val.overlaps)}
    results["quality"] = {
        name: segment_quality(val, Store.existing(folder))
        for name, folder in (("whole pool", folders.proposals), ("best 100", folders.segments))
    }
    results["learning"] = learn(train, val, options.ways, options.seeds)
    results["peak_gib"] = {"segments and descriptors": steps["peak_gib"], "learning": peak_gib()}
    return results


# -- tables --------------------------------------------------------------------------------------------------------------

MEASURES = ("mean average precision", "balanced accuracy", "accuracy on good segments", "intersection over union")


def learning_table(rows: Sequence[dict[str, Any]]) -> str:
    """Mean and standard deviation over the seeds, by way."""
    table = []
    for way in dict.fromkeys(row["way"] for row in rows):
        own = [row for row in rows if row["way"] == way]
        cells = [_cell([row[name] for row in own]) for name in MEASURES]
        table.append([way, *cells, f"{statistics.fmean(row['seconds'] for row in own):.0f}"])
    return markdown_table(["way to learn", *MEASURES, "seconds"], table)


def _cell(values: Sequence[float]) -> str:
    spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.4f}{spread}"


def goals(rows: Sequence[dict[str, Any]]) -> str:
    """Group lasso is best, three times the linear one, and above the average by more than its spread."""
    found = {way: [row[MEASURES[0]] for row in rows if row["way"] == way] for way in WAYS}
    if not all(found.values()):
        return "Goals: not all ways were run."
    mean = {way: statistics.fmean(values) for way, values in found.items()}
    spread = statistics.stdev(found["RFF-GL"]) if len(found["RFF-GL"]) > 1 else 0.0
    best = max(mean, key=lambda way: mean[way])
    ratio, gain = mean["RFF-GL"] / mean["linear"], mean["RFF-GL"] - mean["average"]
    lines = [
        f"RFF-GL is best: {'reached' if best == 'RFF-GL' else f'missed, {best} is'}.",
        f"At least 3 times the linear one: {ratio:.2f} times, {'reached' if ratio >= 3 else 'missed'}.",
        f"Above the average by more than its spread ({spread:.4f}): {gain:+.4f}, "
        f"{'reached' if gain > spread else 'missed'}.",
    ]
    return "Goals, of mean average precision:\n\n" + "\n".join(f"- {line}" for line in lines)


def print_tables() -> None:
    """The tables, from the file of results."""
    results, about = read_results(NAME)
    quality = results["segments"]
    steps = markdown_table(
        ["step", "seconds", "seconds an image"],
        [
            [step, f"{value:.0f}", f"{value / results['images'][step.split(', ')[1]]:.2f}"]
            for step, value in results["steps"].items()
        ],
    )
    told = ", ".join(f"{name} {quality[name]:.3f}" for name in ("mean best overlap", "covering", "recall at 0.5"))
    lines = [
        f"{results['images']['train']} training images ({quality['train']} segments) and {results['images']['val']} for "
        f"validation ({quality['val']}); peak memory of a process {results['peak_gib']:.1f} GiB.",
        steps,
        f"Best of 100 segments for {quality['objects']} objects of the validation images: {told}.",
        learning_table(results["learning"]),
        goals(results["learning"]),
        describe(about),
    ]
    print("\n\n".join(lines))


def main() -> None:
    """Run, write the results, and the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"folder with voc2012 (default: ${VARIABLE})")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of segments and descriptors (default: a new one)")
    parser.add_argument("--limit", type=int, metavar="N", help="a trial on the first N images of each half")
    parser.add_argument("--ways", nargs="+", choices=tuple(WAYS), default=tuple(WAYS), help="these ways to learn only")
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--table", action="store_true", help="no run: print the tables of the file")
    options = parser.parse_args()
    if not options.table:
        with tempfile.TemporaryDirectory() as folder:
            results = run(options, options.out or Path(folder))
        packages = (*PACKAGES, "opencv-python-headless", "scikit-image", "PyMaxflow", "pillow")
        if options.limit:
            print(learning_table(results["learning"]))
            print(results["segments"], results["steps"], f"{results['peak_gib']:.2f} GiB")
            return
        print(write_results(NAME, results, manifest(None, packages)))
    print_tables()


if __name__ == "__main__":
    main()
