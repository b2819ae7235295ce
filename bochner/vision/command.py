"""The command ``bochner voc``: one word for each step from images to measures."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bochner.durable import replace_file, write_all
from bochner.errors import FileAccessError
from bochner.progress import note
from bochner.vision import recognition, show
from bochner.vision.best_and_worst import class_panels, rated_images
from bochner.vision.classifier import SegmentClassifier
from bochner.vision.datasets import SUFFIXES, DataError, ImageSet, open_dataset
from bochner.vision.flags import (
    add_describe,
    add_nothing,
    add_number,
    add_run,
    add_segments,
    add_show,
    add_train,
    whole_number,
)
from bochner.vision.images import LONGEST, ImageError, read_image
from bochner.vision.options import DescriptorOptions
from bochner.vision.proposals import ProposalOptions
from bochner.vision.recogniser import Recogniser
from bochner.vision.runner import Cost, Estimate, ImageLine, Outcome, RunError, Task, estimate, run_images
from bochner.vision.stages import (
    DESCRIPTORS_COST,
    PROPOSALS_COST,
    RANKER,
    SEGMENTS_COST,
    WORDS,
    Describe,
    Folders,
    Propose,
    Rank,
    Shorten,
    Source,
    check_made_of,
    descriptor_store,
    file_key,
    learn_ranker,
    learn_words,
    pool_of,
    proposal_store,
    ranker_of,
    segment_store,
    vocabularies_of,
)
from bochner.vision.store import Store, StoreError, read_header

FINE, WRONG, SOME_FAILED, INTERRUPTED = 0, 1, 3, 130
"""Exit codes; 2 is a command line that is not understood."""
DATA = "a VOCdevkit, a folder VOC20xx, a folder with images/ and masks/, or (predict) a picture"
CODES = "exit codes: 0 all went well, 1 nothing could be done, 2 the command line is wrong, 3 some images failed, 130 Ctrl-C"


def parser(prog: str = "bochner voc") -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog=prog, description=__doc__, epilog=CODES)
    steps = top.add_subparsers(dest="step", required=True, metavar="STEP")
    for name, (_, help_text, add) in STEPS.items():
        step = steps.add_parser(name, help=help_text, description=f"{help_text[0].upper()}{help_text[1:]}.", epilog=CODES)
        step.add_argument("data", metavar="DATA", help=DATA)
        step.add_argument("--out", metavar="DIR", required=True, type=Path, help="the folder of all results")
        step.add_argument("--set", metavar="NAME", default="train", help="the image set, or a file of names (%(default)s)")
        step.add_argument("--limit", metavar="N", type=whole_number, help="only the first N images")
        add_number(step, "--longest", LONGEST, "longest side of an image in pixels; larger ones are reduced")
        step.add_argument("--quiet", action="store_true", help="no line of progress")
        add(step)
    return top


def main(arguments: Sequence[str] | None = None, prog: str = "bochner voc") -> int:
    """Run a step; errors are one line on standard error."""
    asked = parser(prog).parse_args(arguments)
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _interrupt) if is_main else None
    try:
        if asked.step == "predict" and _is_picture(Path(asked.data)):
            return predict_picture(asked)
        dataset = open_dataset(asked.data, asked.set, longest=asked.longest)
        if asked.step != "segments":
            _check_longest(Folders(asked.out).proposals, asked.longest)
        return STEPS[asked.step][0](asked, dataset, dataset.names[: asked.limit])
    except (ValueError, RunError, FileAccessError) as error:
        note(f"{prog} {asked.step}: {error}")
        return WRONG
    except OSError as error:
        note(f"{prog} {asked.step}: {error.filename or asked.out}: {error.strerror or error}")
        return WRONG
    except KeyboardInterrupt:
        note("Interrupted.")
        return INTERRUPTED
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)


# -- steps ---------------------------------------------------------------------------------------------------------------


def segments(asked: argparse.Namespace, dataset: ImageSet, names: Sequence[str]) -> int:
    """Propose segments of every image, and keep those that are likely to be objects."""
    folders = Folders(asked.out)
    options = replace(ProposalOptions(), n_superpixels=asked.superpixels)
    pools = proposal_store(folders, dataset, options, asked.stale)
    proposed = _run(Propose(dataset, options), pools, PROPOSALS_COST, asked, dataset, names)
    pools = pools.of_images(dataset)
    done = [name for name in names if pools.has(name)]
    if proposed.interrupted or not done:
        return _end(proposed)
    ranker: Store | None = None
    unread: Mapping[str, str] = {}
    task: Task = Shorten(pools, asked.segments)
    if not asked.unranked:
        if not (folders.ranker / f"{RANKER}.npz").is_file():
            note(f"Learning from {len(done)} images which segments are likely to be objects")
        source = Source(dataset, done, asked.set, asked.seed)
        try:
            found = learn_ranker(folders, source, pools, asked.stale, None if asked.quiet else _note_part)
        except StoreError:
            _tell(proposed.failed)
            raise
        ranker, unread = found.store, found.unread
        task = Rank(pools, ranker_of(ranker), found.held_out, asked.segments)
    store = segment_store(folders, pools, ranker, asked.segments, asked.stale)
    ranked = _run(task, store, SEGMENTS_COST, asked, dataset, done)
    _tell(unread, "The ranker has not learned from these images:")
    code = _end(replace(ranked, failed={**proposed.failed, **ranked.failed}))
    return code or (SOME_FAILED if unread else FINE)


def describe(asked: argparse.Namespace, dataset: ImageSet, names: Sequence[str]) -> int:
    """Describe the segments of every image."""
    folders = Folders(asked.out)
    pools = _before(folders.segments, dataset)
    done = _done(pools, names)
    options = replace(DescriptorOptions(), n_words=asked.words, n_colour_words=asked.colour_words)
    needed = None
    if not (folders.vocabularies / f"{WORDS}.npz").is_file():
        needed = _needed(DESCRIPTORS_COST, pools, asked, dataset, done)
        note("Learning the words of descriptors")
    line = _line(asked)
    words = learn_words(folders, Source(dataset, done, asked.set, asked.seed), options, asked.stale, line)
    _close(line)
    store = descriptor_store(folders, pools, words, options, asked.stale)
    task = Describe(dataset, pools, vocabularies_of(words), options)
    code = _end(_run(task, store, DESCRIPTORS_COST, asked, dataset, done, needed))
    return code or _whole(done, names)


def train(asked: argparse.Namespace, dataset: ImageSet, names: Sequence[str]) -> int:
    """Train a classifier on described segments."""
    folders = Folders(asked.out)
    pools, described = _described(folders, dataset)
    done, failed = _with_truth(dataset, _done(described, names))
    rows = recognition.training_set(dataset, done, pools, described, asked.per_class)
    note(f"Learning {len(dataset.classes)} classes from {len(rows.overlaps):,} segments")
    classifier = SegmentClassifier(asked.learner, random_state=asked.seed, verbose=not asked.quiet)
    classifier.fit(rows.descriptors, rows.overlaps, rows.images, dataset.classes)
    classifier.save(folders.model)
    note(f"wrote {folders.model}")
    _tell(failed)
    return SOME_FAILED if failed else FINE


def predict(asked: argparse.Namespace, dataset: ImageSet, names: Sequence[str]) -> int:
    """Score segments and label pixels with a trained classifier."""
    folders = Folders(asked.out)
    pools, described = _described(folders, dataset)
    if not folders.model.is_file():
        raise StoreError(f"{folders.model}: there is no classifier; train one first.")
    store = recognition.prediction_store(folders, described, file_key(folders.model), asked.stale).of_images(dataset)
    classifier = SegmentClassifier.load(folders.model)
    _check_classes(classifier, dataset)
    task = recognition.Predict(classifier, pools, described)
    done = _done(described, names)
    code = _end(_run(task, store, SEGMENTS_COST, asked, dataset, done))
    for name in done:
        if store.has(name):
            recognition.save_labels(folders.labels / f"{name}.png", store.load(name)["labels"])
    return code or _whole(done, names)


def predict_picture(asked: argparse.Namespace) -> int:
    """Find the objects of a single picture, which needs no data set: an overlay, labels, and a line for each class."""
    path, folders = Path(asked.data), Folders(asked.out)
    recogniser = Recogniser.of(folders.out)
    found = recogniser(read_image(path, recogniser.longest))
    labels, overlay = (folders.pictures / f"{path.stem}{end}.png" for end in ("_labels", ""))
    recognition.save_labels(labels, found.labels)
    picture = show.png(show.labelled(found.image, found.labels, found.classes))
    replace_file(overlay, lambda file: write_all(file, picture))
    for name, share, score in found.found():
        sys.stdout.write(f"{name:<16}{share:>7.1%} of the pixels, best score {score:.2f}\n")
    if not found.labels.any():
        sys.stdout.write("background only: no segment has a score above the threshold\n")
    note(f"Wrote {overlay} and {labels}")
    return FINE


def evaluate(asked: argparse.Namespace, dataset: ImageSet, names: Sequence[str]) -> int:
    """Measure predictions against masks."""
    folders = Folders(asked.out)
    pools, described = _described(folders, dataset)
    predicted = _before(folders.predictions, dataset)
    check_made_of(predicted, "descriptors", described)
    if folders.model.is_file() and predicted.configuration.get("model") != file_key(folders.model):
        told = f"these are of another classifier than {folders.model}; make them again (predict --stale redo)"
        raise StoreError(f"{predicted.folder}: {told}.")
    done, failed = _with_truth(dataset, _done(predicted, names))
    found = recognition.evaluate(dataset, done, pools, predicted)
    sys.stdout.write(f"{'':<16}{'AP':>8}{'IoU':>8}\n")
    for name, *numbers in found.table():
        if np.isfinite(numbers).any():  # a class that neither masks nor labels have is left out
            cells = [f"{number:>8.3f}" if np.isfinite(number) else f"{'-':>8}" for number in numbers]
            sys.stdout.write(f"{name:<16}{''.join(cells)}\n")
    for name, value in found.summary().items():
        sys.stdout.write(f"{name:<30}{value:.4f}\n")
    text = json.dumps({"set": asked.set, **found.plain()}, indent=1)
    replace_file(folders.out / f"evaluation_{Path(asked.set).stem}.json", lambda file: write_all(file, text.encode()))
    _tell(failed)
    return _whole(done, names)


def show_sheets(asked: argparse.Namespace, dataset: ImageSet, names: Sequence[str]) -> int:
    """Draw contact sheets of images and their segments."""
    folders = Folders(asked.out)
    pools = _before(folders.segments, dataset)
    predicted = _predicted(folders, dataset) if folders.predictions.is_dir() else None
    sheets, failed = {}, {}
    n_objects, n_found, total = 0, 0, 0.0
    for name in asked.image or names[: asked.images]:
        try:
            shown = _shown(dataset, name, pools, predicted)
            sheets[name] = show.sheet(show.panels_of(shown, dataset.classes))
        except (DataError, ImageError, StoreError) as error:
            failed[name] = str(error)
            continue
        if shown.truth is not None and shown.pool is not None:
            numbers = show.pool_summary(shown.pool, shown.truth)
            n_objects, n_found, total = n_objects + numbers[0], n_found + numbers[1], total + numbers[2]
    _tell(failed)
    if not sheets:
        return WRONG
    lead = f"{len(sheets)} images, {n_objects} objects, {n_found} of them with a segment of overlap 0.5 or more; "
    lead += f"mean of the best overlaps {total / max(n_objects, 1):.3f}."
    page = show.write_sheets(folders.sheets, {**sheets, **_class_sheets(dataset, names, predicted)}, lead)
    note(f"{lead} Wrote {page}")
    return SOME_FAILED if failed else FINE


# -- what steps share ----------------------------------------------------------------------------------------------------


def _run(
    task: Task,
    store: Store,
    cost: Cost,
    asked: argparse.Namespace,
    dataset: ImageSet,
    names: Sequence[str],
    needed: Estimate | None = None,
) -> Outcome:
    """Run a task over images: first what it will take, where that was not told before, then how far it is."""
    if store.replaces is not None:
        note(f"{store.folder}: results of another configuration are made again: {store.replaces}.")
    store = store.of_images(dataset)
    if needed is None:
        needed = _needed(cost, store, asked, dataset, [name for name in names if not store.has(name)])
    line = _line(asked)
    outcome = run_images(task, names, store, n_jobs=needed.n_jobs, progress=line)
    _close(line)
    note(f"{outcome}: {store.folder}")
    return outcome


def _needed(cost: Cost, store: Store, asked: argparse.Namespace, dataset: ImageSet, missing: Sequence[str]) -> Estimate:
    """What a task will take for images that are missing, on the disk of a store; told where there are any."""
    found = estimate(dataset, missing, cost, asked.jobs, store)
    if missing:
        note(str(found))
    return found


def _end(outcome: Outcome) -> int:
    """At last, what failed; and the exit code."""
    _tell(outcome.failed)
    if outcome.interrupted:
        note("Interrupted; the same command goes on from here.")
        return INTERRUPTED
    if not outcome.failed:
        return FINE
    return SOME_FAILED if outcome.n_done + outcome.n_kept else WRONG


def _tell(failed: Mapping[str, str], lead: str = "These images failed:") -> None:
    if failed:
        note(lead)
        for name, reason in sorted(failed.items()):
            note(f"  {name}: {reason}")


def _line(asked: argparse.Namespace) -> ImageLine | None:
    return None if asked.quiet else ImageLine()


def _note_part(done: int, n_parts: int) -> None:
    note(f"  {done} of {n_parts} rankers that score what they have not seen; then one of all images")


def _close(line: ImageLine | None) -> None:
    if line is not None:
        line.close()


def _done(store: Store, names: Sequence[str]) -> list[str]:
    """The images that a step before has done; an error without any."""
    done = [name for name in names if store.has(name)]
    if not done:
        raise StoreError(
            f"{store.folder}: none of the {len(names)} images has been computed; "
            "run the step before on them first, with the same --set."
        )
    if len(done) < len(names):
        note(f"{len(names) - len(done)} of {len(names)} images are not in {store.folder}, and are left out.")
    return done


def _with_truth(dataset: ImageSet, names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The images whose masks can be read, and why the others cannot; an error without any."""
    failed = {}
    for name in names:
        try:
            dataset.truth(name)
        except (DataError, ImageError) as error:
            failed[name] = str(error)
    if len(failed) == len(names):
        raise DataError(
            f"No image has a mask that can be read; mend them, or choose another set. The first: "
            f"{next(iter(failed.values()))}"
        )
    return [name for name in names if name not in failed], failed


def _before(folder: Path, dataset: ImageSet) -> Store:
    """What a step before has made of the images."""
    return Store.existing(folder).of_images(dataset)


def _described(folders: Folders, dataset: ImageSet) -> tuple[Store, Store]:
    """Segments, and descriptors of just these."""
    pools, described = _before(folders.segments, dataset), _before(folders.descriptors, dataset)
    check_made_of(described, "segments", pools)
    return pools, described


def _check_longest(proposals: Path, longest: int) -> None:
    """Refuse images and masks of another size than that of the segments."""
    before = (read_header(proposals) or {}).get("longest", longest)
    if before != longest:
        raise StoreError(
            f"{proposals}: these segments are of images of --longest {before}: got {longest}; "
            f"give --longest {before}, or another --out."
        )


def _check_classes(classifier: SegmentClassifier, dataset: ImageSet) -> None:
    """Refuse a data set whose labels mean other classes than those that were learned."""
    if classifier.classes_ != dataset.classes:
        learned, found = (", ".join(names) for names in (classifier.classes_, dataset.classes))
        raise DataError(f"The classifier has the classes {learned}, and the images {found}: name them in classes.txt alike.")


def _predicted(folders: Folders, dataset: ImageSet) -> Store | None:
    """Predictions of the segments that are there now; None, and a note, where they are of others."""
    try:
        predicted = _before(folders.predictions, dataset)
        check_made_of(predicted, "descriptors", _described(folders, dataset)[1])
    except StoreError as error:
        note(f"Without labels and scores: {error}")
        return None
    return predicted


def _whole(done: Sequence[str], names: Sequence[str]) -> int:
    return FINE if len(done) == len(names) else SOME_FAILED


def _shown(dataset: ImageSet, name: str, pools: Store, predicted: Store | None) -> show.Shown:
    """What there is of an image."""
    truth = dataset.truth(name) if dataset.mask_paths(name)[0].is_file() else None
    found = predicted.load(name) if predicted is not None and predicted.has(name) else {}
    return show.Shown(name, dataset.image(name), pool_of(pools, name), truth, found.get("scores"), found.get("labels"))


def _class_sheets(dataset: ImageSet, names: Sequence[str], predicted: Store | None) -> dict[str, bytes]:
    """For every class, a sheet of the images in which it was labelled best and worst."""
    if predicted is None:
        return {}
    labels = {name: predicted.load(name)["labels"] for name in names if predicted.has(name)}
    rated = rated_images(dataset, labels)
    return {
        f"best and worst of {name}": show.sheet(class_panels(dataset, name, some, labels)) for name, some in rated.items()
    }


def _is_picture(path: Path) -> bool:
    """Whether a path is meant to be that of a picture, if only by its name."""
    return path.is_file() or (path.suffix.lower() in SUFFIXES and not path.is_dir())


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


Step = Callable[[argparse.Namespace, ImageSet, Sequence[str]], int]
STEPS: dict[str, tuple[Step, str, Callable[[argparse.ArgumentParser], None]]] = {
    "segments": (
        segments,
        "propose segments of every image and keep likely ones; a ranker is learned from the first set",
        add_segments,
    ),
    "describe": (describe, "describe the segments; vocabularies are learned from the first set", add_describe),
    "train": (train, "train a classifier on described segments", add_train),
    "predict": (predict, "score segments and label pixels; DATA may be a single picture", add_run),
    "evaluate": (evaluate, "measure predictions against masks", add_nothing),
    "show": (show_sheets, "draw contact sheets: show/index.html", add_show),
}
"""The function of each step, what it does, and its options."""
