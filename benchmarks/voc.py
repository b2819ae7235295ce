"""Object recognition on PASCAL VOC: segments, descriptors and five ways to learn classes from them.

    python benchmarks/voc.py                      all of it, on the folder voc2012 of the data; about an hour
    python benchmarks/voc.py --limit 100          the first 100 images of each half: a trial, which writes no results
    python benchmarks/voc.py --table              no run: write the tables of docs/benchmarks.md from the results

The steps are those of ``bochner voc``, over the image sets train and val, in the folder that --out names; what is there
already is not computed again, and has no time of its own. Segments are measured on the validation images, void pixels left
out. Every way to learn has all segments of the training images, and predicts what their overlap with the objects of each
class is worth (nothing up to 0.35, all from 0.65 on):

- linear: ridge regression on the raw histograms side by side;
- one kernel: a Gaussian kernel of median width on all of them;
- average: the plain average of a kernel for each of the eight descriptors;
- RFF-SKL: one kernel on all of them, its scales learned;
- RFF-GL: a kernel for each and two on all of them, of which group lasso keeps those that count.

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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from harness import PACKAGES, ROOT, describe, manifest, markdown_table, read_results, replace_table, write_results
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import KernelCenterer
from uci_data import VARIABLE, data_folder

from bochner import MultipleKernelRegressor
from bochner.rows import from_blocks
from bochner.vision import SegmentClassifier, open_dataset
from bochner.vision.classifier import FEATURES, ScoreLevels, held_out_images
from bochner.vision.command import main as voc
from bochner.vision.measures import PixelCounts, average_precisions, balanced_accuracy, good_accuracy, paste
from bochner.vision.pool import SegmentPool
from bochner.vision.stages import Folders, pool_of
from bochner.vision.store import Store
from bochner.vision.targets import GOOD, class_overlaps, object_overlaps, segment_labels, worth_of

NAME = "voc"
SEEDS = (0, 1, 2)
RIDGES = tuple(np.geomspace(1e-8, 1e-2, 7).tolist())
LEVEL_ROWS = 20_000
"""Training segments that make the levels of scores."""
EXACT_FEATURES = FEATURES, 1000
"""Random features of each kernel beside it."""
EXACT_MEMORY = "8GB"
"""What the matrices of all pairs of these features may take, whatever else the machine does."""
EXACT_IMAGES = 100, 150
"""Training images of which the exact kernel is computed, and validation images that it predicts."""
STEPS = (
    ("segments", "train"),
    ("segments", "val"),
    ("describe", "train"),
    ("describe", "val"),
    ("train", "train"),
    ("predict", "val"),
)
"""Steps of the command, each with its image set."""
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
        self.worth = worth_of(self.overlaps)
        self.images = np.repeat(np.arange(len(each)), self.counts)
        found = [described.load(name) for name in self.names]
        self.descriptors = {key: np.concatenate([one[key] for one in found]) for key in found[0]}

    def pool(self, name: str) -> SegmentPool:
        """The segments of an image."""
        return pool_of(self.pools, name)


# -- ways to learn -------------------------------------------------------------------------------------------------------


def linear(train: Half, seed: int) -> Scores:
    """Ridge regression on raw histograms, from their products; its penalty by the error on held-out images."""
    ((fitted, validated),) = held_out_images(train.images, seed)
    products = [_products(train, fitted), _products(train, validated)]
    errors = []
    for alpha in RIDGES:
        coef, intercept = _ridge(products[0], alpha)
        scores = [_stacked(train.descriptors, some) @ coef + intercept for some in _pieces(validated)]
        errors.append(float(np.mean((np.concatenate(scores) - train.worth[validated]) ** 2)))
    coef, intercept = _ridge(products[0] + products[1], RIDGES[int(np.argmin(errors))])

    def scores_of(descriptors: dict[str, np.ndarray]) -> np.ndarray:
        n = len(next(iter(descriptors.values())))
        return np.concatenate([_stacked(descriptors, some) @ coef + intercept for some in _pieces(np.arange(n))])

    return scores_of


def _pieces(rows: np.ndarray, size: int = 4096) -> list[np.ndarray]:
    return np.split(rows, range(size, len(rows), size))


def _stacked(descriptors: dict[str, np.ndarray], some: np.ndarray) -> np.ndarray:
    return np.hstack([table[some] for table in descriptors.values()]).astype(np.float64)


def _products(train: Half, rows: np.ndarray) -> np.ndarray:
    """The products of all pairs of columns: of ones, histograms and targets."""
    total: Any = 0.0
    for some in _pieces(rows):
        beside = np.hstack([np.ones((len(some), 1)), _stacked(train.descriptors, some), train.worth[some]])
        total = total + beside.T @ beside
    return np.asarray(total)


def _ridge(products: np.ndarray, alpha: float, n_classes: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and intercept of mean squared error plus alpha times squared coefficients."""
    n, end = products[0, 0], len(products) - n_classes
    means = products[0] / n
    centred = products / n - np.outer(means, means)
    gram = centred[1:end, 1:end] + alpha * np.eye(end - 1)
    coef = scipy.linalg.solve(gram, centred[1:end, end:], assume_a="pos")
    return coef, means[end:] - means[1:end] @ coef


def one_kernel(train: Half, seed: int) -> Scores:
    """A Gaussian kernel of median width on roots of all histograms, with as many features as the others have in all."""

    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for some in _pieces(np.arange(len(train.overlaps)), 2048):
            yield roots(train.descriptors, some), train.worth[some]

    def roots(descriptors: dict[str, np.ndarray], some: np.ndarray) -> np.ndarray:
        return np.sqrt(np.hstack([table[some] for table in descriptors.values()]))

    held_out = held_out_images(train.images, seed)
    options: dict[str, Any] = {"n_features": len(train.descriptors) * FEATURES, "standardize": False, "random_state": seed}
    model = MultipleKernelRegressor(["gaussian"], l1_ratio=0.0, refit=None, validation=held_out, **options)
    model.fit(from_blocks(blocks, n_rows=len(train.overlaps)))

    def scores_of(descriptors: dict[str, np.ndarray]) -> np.ndarray:
        n = len(next(iter(descriptors.values())))
        return np.concatenate([model.predict(roots(descriptors, some)) for some in _pieces(np.arange(n))])

    return scores_of


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
    "RFF-GL": classifier("group-lasso"),
    "RFF-SKL": classifier("single-kernel"),
}


def beside_exact(train: Half, val: Half) -> dict[str, float]:
    """Mean average precision of the average of kernels on few images: by random features, and by scikit-learn, exactly."""
    few = np.flatnonzero(train.images < EXACT_IMAGES[0])
    new = np.flatnonzero(val.images < EXACT_IMAGES[1])
    descriptors, fresh = (
        {name: table[some] for name, table in half.descriptors.items()} for half, some in ((train, few), (val, new))
    )
    models = {
        n_features: SegmentClassifier("average", n_features=n_features, max_memory=EXACT_MEMORY).fit(
            descriptors, train.overlaps[few], train.images[few]
        )
        for n_features in EXACT_FEATURES
    }
    model = models[EXACT_FEATURES[-1]]
    within, across = 0.0, 0.0
    for kernel, name in zip(model.model_.kernels_, descriptors, strict=True):
        gamma = float(np.mean(kernel.scale)) ** 2 / 2
        rows, others = np.sqrt(descriptors[name]).astype(np.float64), np.sqrt(fresh[name]).astype(np.float64)
        within, across = within + rbf_kernel(rows, gamma=gamma), across + rbf_kernel(others, rows, gamma=gamma)
    centre = KernelCenterer().fit(within)
    mean = train.worth[few].mean(axis=0)
    exact = KernelRidge(alpha=len(few) * model.model_.alpha_, kernel="precomputed")
    exact.fit(centre.transform(within), train.worth[few] - mean)
    scores = {"exact": exact.predict(centre.transform(across)) + mean}
    scores |= {f"{n_features} features": some.scores(fresh) for n_features, some in models.items()}
    precision = {
        name: float(np.nanmean(average_precisions(val.overlaps[new] >= GOOD, some))) for name, some in scores.items()
    }
    return {"training segments": len(few), "new segments": len(new), **precision}


# -- measures ------------------------------------------------------------------------------------------------------------


def measure(half: Half, scores: np.ndarray) -> dict[str, float]:
    """What is told of scores (n, c), which are above zero where a class is shown."""
    given = np.where(scores.max(axis=1) > 0, scores.argmax(axis=1) + 1, 0)
    n_classes = scores.shape[1]
    counts = PixelCounts.none(n_classes)
    for name, some in zip(half.names, np.split(scores, np.cumsum(half.counts)[:-1]), strict=True):
        labels = paste(half.pool(name), some)
        counts = counts + PixelCounts.of(half.dataset.truth(name), labels, n_classes)
    return {
        "mean average precision": float(np.nanmean(average_precisions(half.overlaps >= GOOD, scores))),
        "balanced accuracy": balanced_accuracy(segment_labels(half.overlaps), given),
        "accuracy on good segments": good_accuracy(half.overlaps, scores.argmax(axis=1) + 1),
        "intersection over union": counts.mean(),
    }


def learn(train: Half, val: Half, ways: Sequence[str], seeds: Sequence[int], kept: Path) -> list[dict[str, Any]]:
    """Every way with every seed; as many training segments are given a class as show it, whatever the way.

    Rows are kept in a file as they come, and not computed again where they are there.
    """
    rows: list[dict[str, Any]] = json.loads(kept.read_text()) if kept.is_file() else []
    for seed in seeds:
        for way in ways:
            if any(row["way"] == way and row["seed"] == seed for row in rows):
                continue
            start = time.perf_counter()
            scores_of = WAYS[way](train, seed)
            seconds = time.perf_counter() - start
            some = np.random.default_rng(seed).permutation(len(train.overlaps))[:LEVEL_ROWS]
            drawn = scores_of({name: table[some] for name, table in train.descriptors.items()})
            levels = ScoreLevels.of(drawn, train.overlaps[some])
            row = {"way": way, "seed": seed, "seconds": seconds, **measure(val, levels.scores(scores_of(val.descriptors)))}
            rows.append(row)
            kept.write_text(json.dumps(rows, indent=1))
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
    """From images to labels: seconds of each step, and the most GiB that one process took up to its end.

    They are kept in the folder, so that a run on what is there already tells those of the run that made it.
    """
    kept = out / "steps.json"
    found: dict[str, Any] = json.loads(kept.read_text()) if kept.is_file() else {"seconds": {}, "peak_gib": {}}
    for step, part in STEPS:
        if f"{step}, {part}" in found["seconds"]:
            continue
        options = ["--limit", str(limit)] if limit else []
        start = time.perf_counter()
        code = voc([step, str(data), "--out", str(out), "--set", part, *options])
        if code:
            raise SystemExit(f"bochner voc {step} on {part} ended with code {code}.")
        found["seconds"][f"{step}, {part}"] = time.perf_counter() - start
        found["peak_gib"][f"{step}, {part}"] = peak_gib()
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
    results: dict[str, Any] = {"steps": steps["seconds"], "peak_gib": steps["peak_gib"]}
    folders = Folders(out)
    train, val = (Half(data, part, folders, options.limit) for part in ("train", "val"))
    results["images"] = {"train": len(train.names), "val": len(val.names)}
    results["segments"] = {"train": len(train.overlaps), "val": len(val.overlaps)}
    results["quality"] = {
        name: segment_quality(val, Store.existing(folder))
        for name, folder in (("whole pool", folders.proposals), ("best 100", folders.segments))
    }
    kept = out / "exact.json"
    if not kept.is_file():
        kept.write_text(json.dumps(beside_exact(train, val), indent=1))
    results["beside the exact kernel"] = json.loads(kept.read_text())
    print(results["beside the exact kernel"])
    results["learning"] = learn(train, val, options.ways, options.seeds, out / "learning.json")
    return results


# -- tables --------------------------------------------------------------------------------------------------------------

QUALITY = ("mean best overlap", "covering by area", "recall at 0.5")
QUALITY_GOALS = {
    ("whole pool", "mean best overlap"): 0.72,
    ("whole pool", "recall at 0.5"): 0.85,
    ("best 100", "mean best overlap"): 0.60,
    ("best 100", "covering by area"): 0.70,
    ("best 100", "recall at 0.5"): 0.65,
}
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


def write_tables() -> None:
    """The tables of the page, from the file of results."""
    results, about = read_results(NAME)
    images, segments, peak = results["images"], results["segments"], max(results["peak_gib"].values())
    steps = results["steps"]
    quality = [
        [name, *(_with_goal(found[key], QUALITY_GOALS.get((name, key))) for key in QUALITY)]
        for name, found in results["quality"].items()
    ]
    pool = results["quality"]["whole pool"]
    exact = results["beside the exact kernel"]
    gap = exact[f"{EXACT_FEATURES[-1]} features"] - exact["exact"]
    minutes = sum(steps.values()) / 60
    lines = [
        f"{images['train']} training images ({segments['train']:,} segments) and {images['val']} for validation "
        f"({segments['val']:,}).",
        markdown_table(
            ["step", "seconds", "seconds an image"],
            [[name, f"{value:.0f}", f"{value / images[name.split(', ')[1]]:.2f}"] for name, value in steps.items()],
        ),
        f"All steps take {minutes:.0f} minutes on {about['cores']} cores (goal 40: {_verdict(minutes <= 40)}), and one "
        f"process {peak:.1f} GiB at most (goal 4: {_verdict(peak < 4)}).",
        f"Segments of the validation images, for {pool['objects']} objects; a pool has {pool['segments an image']:.0f} on "
        "average, and the ranker has seen the training images alone:",
        markdown_table(["segments", *QUALITY], quality),
        "Mean average precision over classes and the other measures, mean and standard deviation over the seeds:",
        learning_table(results["learning"]),
        goals(results["learning"]),
        f"The plain average of eight kernels on {exact['training segments']:,} segments: mean average precision "
        f"{exact['exact']:.4f} by the exact kernel (KernelRidge of scikit-learn), "
        + ", ".join(f"{exact[f'{n} features']:.4f} by {n} features of each" for n in EXACT_FEATURES)
        + f", {gap:+.4f}; goal within 0.01: {_verdict(abs(gap) <= 0.01)}.",
        describe(about),
    ]
    replace_table(ROOT / "docs" / "benchmarks.md", NAME, "\n\n".join(lines))


def _with_goal(value: float, goal: float | None) -> str:
    return f"{value:.3f}" if goal is None else f"{value:.3f} (goal {goal:.2f})"


def _verdict(reached: bool) -> str:
    return "reached" if reached else "missed"


def main() -> None:
    """Run, write the results, and the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"folder with voc2012 (default: ${VARIABLE})")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of segments and descriptors (default: a new one)")
    parser.add_argument("--limit", type=int, metavar="N", help="a trial on the first N images of each half")
    parser.add_argument("--ways", nargs="+", choices=tuple(WAYS), default=tuple(WAYS), help="these ways to learn only")
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--table", action="store_true", help="no run: rewrite the tables from the file")
    options = parser.parse_args()
    if not options.table:
        with tempfile.TemporaryDirectory() as folder:
            results = run(options, options.out or Path(folder))
        packages = (*PACKAGES, "opencv-python-headless", "scikit-image", "PyMaxflow", "pillow")
        if options.limit:
            print(learning_table(results["learning"]))
            print(results["segments"], results["steps"], results["peak_gib"])
            return
        print(write_results(NAME, results, manifest(None, packages)))
    write_tables()


if __name__ == "__main__":
    main()
