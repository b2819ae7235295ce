"""``bochner voc`` from images to measures, on a tiny tree; what it says and returns where something is wrong."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import average_precision_score, balanced_accuracy_score

from bochner.vision import classifier, command, recognition, runner, stages
from bochner.vision.datasets import VOCDataset
from bochner.vision.descriptors import DESCRIPTORS
from bochner.vision.ranking import RankingOptions
from bochner.vision.stages import Folders, pool_of
from bochner.vision.store import Store
from bochner.vision.targets import choose_segments, class_overlaps
from tests.vision.trees import HEIGHT, PICTURES, WIDTH, voc_tree

TRAIN = {f"{name}{k}": objects for k in range(2) for name, objects in PICTURES.items()}
VAL = {"three": [(3, 6, 6, 30, 26)], "four": [(1, 12, 20, 36, 50)]}
FEW = ["--superpixels", "40", "--segments", "12", "--jobs", "1"]
WORDS = ["--words", "20", "--colour-words", "30", "--jobs", "1"]


def run(step, data, out, *more):
    return command.main([step, str(data), "--out", str(out), *more])


@pytest.fixture(scope="module", autouse=True)
def small_rankers():
    """Few trees, which are quick to learn."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "RankingOptions", partial(RankingOptions, n_trees=10))
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A tree, and the results of the first two steps on both of its sets."""
    root = tmp_path_factory.mktemp("voc")
    voc_tree(root, VAL, "val", seed=1)
    data, out = voc_tree(root, TRAIN), root / "out"
    codes = [run("segments", data, out, "--set", some, *FEW) for some in ("train", "val")]
    codes += [run("describe", data, out, "--set", some, *WORDS) for some in ("train", "val")]
    assert codes == [0, 0, 0, 0]
    return data, out


@pytest.fixture
def copy(made, tmp_path):
    """A copy of it that a test may change."""
    shutil.copytree(made[0].parents[1], tmp_path / "copy")
    return tmp_path / "copy" / "VOCdevkit" / "VOC2012", tmp_path / "copy" / "out"


# -- segments and descriptors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*TRAIN, *VAL])
def test_every_image_has_segments_and_descriptors(made, name):
    folders = Folders(made[1])
    segments, descriptors = Store.existing(folders.segments), Store.existing(folders.descriptors)
    pool = pool_of(segments, name)
    assert pool.labels.shape == (HEIGHT, WIDTH)
    assert 0 < pool.n_segments <= 12
    scores = segments.load(name)["scores"]
    assert scores.shape == (pool.n_segments,)
    found = descriptors.load(name)
    assert found.keys() == set(DESCRIPTORS)
    for table in found.values():
        assert len(table) == pool.n_segments
        assert np.isfinite(table).all()


def test_scores_of_training_images_are_of_rankers_that_have_not_seen_them(made):
    folders = Folders(made[1])
    held_out = {path.stem for path in (folders.ranker / "held_out").glob("*.npz")}
    assert held_out == set(TRAIN)


def test_the_val_set_is_described_in_the_words_of_the_training_set(made):
    header = json.loads((Folders(made[1]).vocabularies / "store.json").read_text())
    assert header["learned_from"] == {"set": "train", "images": len(TRAIN)}


def test_what_is_there_is_kept(copy, capsys):
    data, out = copy
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.npz")}
    assert run("segments", data, out, *FEW) == 0
    assert run("describe", data, out, "--limit", "3", *WORDS) == 0
    told = capsys.readouterr().err
    assert f"0 images done, {len(TRAIN)} were there before" in told
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.npz")} == before


def test_processes_give_the_same_bytes(made, tmp_path):
    data, out = made
    assert run("segments", data, tmp_path, *FEW[:-1], "2") == 0
    for name in TRAIN:
        assert (tmp_path / "segments" / f"{name}.npz").read_bytes() == (out / "segments" / f"{name}.npz").read_bytes()


def test_another_configuration_is_refused_or_redone(copy, capsys):
    data, out = copy
    assert run("segments", data, out, "--superpixels", "30", *FEW[2:]) == command.WRONG
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "options.n_superpixels was 40 and is 30" in told
    assert "--stale redo" in told
    assert run("segments", data, out, "--superpixels", "30", *FEW[2:], "--stale", "redo") == 0
    assert "are made again" in capsys.readouterr().err
    assert pool_of(Store.existing(out / "segments"), "one0").n_superpixels != 40
    assert run("describe", data, out, *WORDS) == command.WRONG  # of the segments that were there before
    assert "segments was" in capsys.readouterr().err


def test_an_image_that_was_changed_is_computed_again(copy, capsys):
    data, out = copy
    shutil.copy(data / "JPEGImages" / "two0.jpg", data / "JPEGImages" / "one0.jpg")
    assert run("segments", data, out, *FEW) == 0
    assert capsys.readouterr().err.count(f"1 images done, {len(TRAIN) - 1} were there before") == 2
    assert run("describe", data, out, *WORDS) == 0
    first, second = (Store.existing(out / "descriptors").load(name) for name in ("one0", "two0"))
    assert all(np.isfinite(table).all() for table in first.values())
    proposals = [Store.existing(out / "proposals").load(name)["labels"] for name in ("one0", "two0")]
    np.testing.assert_array_equal(*proposals)
    assert first.keys() == second.keys()


def test_more_images_teach_other_words_and_another_ranker(made, tmp_path, capsys):
    data, _ = made
    assert run("segments", data, tmp_path, "--limit", "3", *FEW) == 0
    capsys.readouterr()
    assert run("segments", data, tmp_path, *FEW) == command.WRONG
    assert "learned_from.images was 3 and is 8" in capsys.readouterr().err
    assert run("segments", data, tmp_path, *FEW, "--stale", "redo") == 0


def test_without_a_ranker(made, tmp_path):
    data, _ = made
    assert run("segments", data, tmp_path, "--limit", "1", *FEW, "--unranked") == 0
    assert not (tmp_path / "ranker").exists()
    proposed, kept = (pool_of(Store.existing(tmp_path / folder), "one0") for folder in ("proposals", "segments"))
    np.testing.assert_array_equal(kept.members, proposed.members[:12])


def test_a_ranker_needs_objects(made, tmp_path, capsys):
    assert run("segments", made[0], tmp_path, "--limit", "1", *FEW) == command.WRONG
    assert "two images with objects" in capsys.readouterr().err


# -- what is wrong -------------------------------------------------------------------------------------------------------


def test_images_that_fail_are_listed_and_the_others_go_on(made, tmp_path, capsys):
    shutil.copytree(made[0], tmp_path / "VOC2012")
    data = tmp_path / "VOC2012"
    path = data / "JPEGImages" / "two0.jpg"
    path.write_bytes(path.read_bytes()[:400])
    (data / "JPEGImages" / "one1.jpg").unlink()
    assert run("segments", data, tmp_path / "out", *FEW) == command.SOME_FAILED
    told = capsys.readouterr().err
    assert "6 images done, 2 failed" in told
    assert f"  two0: {path}: the image cannot be read" in told
    assert "one1.jpg: this image is missing" in told
    last = told.splitlines()[-3:]  # at the end, after the other images
    assert last[0] == "These images failed:"
    assert [line.split(":")[0] for line in last[1:]] == ["  one1", "  two0"]
    assert run("describe", data, tmp_path / "out", *WORDS) == command.SOME_FAILED
    assert "2 of 8 images are not in" in capsys.readouterr().err


def test_masks_that_teach_the_ranker_nothing_are_listed(made, tmp_path, capsys):
    shutil.copytree(made[0], tmp_path / "VOC2012")
    data, out = tmp_path / "VOC2012", tmp_path / "out"
    Image.new("L", (3, 3)).save(data / "SegmentationClass" / "two0.png")
    (data / "SegmentationClass" / "one1.png").unlink()
    assert run("segments", data, out, *FEW) == command.SOME_FAILED
    told = capsys.readouterr().err.splitlines()
    assert told[-3] == "The ranker has not learned from these images:"
    assert told[-2].endswith("one1.png: this mask is missing; put it there, or leave its image out of the set.")
    assert told[-1].startswith("  two0: ")
    assert "the mask is 3 x 3 pixels" in told[-1]
    assert len(list((out / "segments").glob("*.npz"))) == len(TRAIN)
    assert {path.stem for path in (out / "ranker" / "held_out").glob("*.npz")} == {*TRAIN} - {"two0", "one1"}
    for path in (data / "SegmentationClass").glob("*.png"):
        path.unlink()
    assert run("segments", data, tmp_path / "none", *FEW) == command.WRONG
    assert "Masks that cannot be read: 8; the first: " in capsys.readouterr().err


def test_what_words_take_is_told_before_they_are_learned(made, tmp_path, capsys):
    for folder in ("proposals", "segments"):
        shutil.copytree(made[1] / folder, tmp_path / folder)
    assert run("describe", made[0], tmp_path, *WORDS) == 0
    told = capsys.readouterr().err
    assert told.index("8 images, 1 process: about") < told.index("Learning the words")
    assert told.count("on disk") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["segments", "nowhere"], "nowhere: there is no such folder"),
        (["segments", "DATA", "--set", "test"], "no image set 'test'; give one of train, val, or"),
        (["describe", "DATA"], "nothing has been computed here"),
        (["train", "DATA"], "nothing has been computed here"),
        (["predict", "DATA"], "nothing has been computed here"),
        (["evaluate", "DATA"], "nothing has been computed here"),
        (["show", "DATA"], "nothing has been computed here"),
    ],
)
def test_errors_are_one_line(made, tmp_path, capsys, arguments, said):
    step, data, *more = arguments
    assert run(step, made[0] if data == "DATA" else data, tmp_path / "new", *more) == command.WRONG
    told = capsys.readouterr().err
    assert said in told
    assert told.startswith(f"bochner voc {step}: ")
    assert told.count("\n") == 1


def test_a_file_in_the_place_of_the_folder(made, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run("segments", made[0], tmp_path / "file", *FEW) == command.WRONG
    assert "cannot write here" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--limit", "0"], ["--jobs", "two"], ["--stale", "perhaps"], ["--colour"]])
def test_a_wrong_command_line(made, tmp_path, capsys, wrong):
    with pytest.raises(SystemExit) as caught:
        run("segments", made[0], tmp_path, *wrong)
    assert caught.value.code == 2
    assert "usage: bochner voc" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_goes_on(made, tmp_path_factory, tmp_path, how):
    many = {**TRAIN, **{f"more{k}": PICTURES["two"] for k in range(40)}}  # not done before the signal comes
    data, out = voc_tree(tmp_path_factory.mktemp("many"), many), made[1]
    line = [sys.executable, "-m", "bochner.cli", "voc", "segments", data, "--out", tmp_path, *FEW, "--unranked"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(line, env=environment, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while not list(tmp_path.rglob("*.npz")) and time.monotonic() < end:
        time.sleep(0.005)
    process.send_signal(how)
    _, told = process.communicate(timeout=60)
    assert process.returncode == command.INTERRUPTED
    assert "Interrupted" in told
    assert "Traceback" not in told
    assert not list(tmp_path.rglob("*.part"))
    assert run("segments", data, tmp_path, *FEW, "--unranked") == 0
    for name in TRAIN:
        found, expected = (folder / "proposals" / f"{name}.npz" for folder in (tmp_path, out))
        assert found.read_bytes() == expected.read_bytes()


def test_a_full_disk_is_one_line(copy, monkeypatch, capsys):
    data, out = copy
    (out / "proposals" / "one0.npz").unlink()
    monkeypatch.setattr(runner.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 10, 0))
    assert run("segments", data, out, *FEW) == command.WRONG
    assert "the disk has 0 bytes left" in capsys.readouterr().err


# -- contact sheets ------------------------------------------------------------------------------------------------------


def test_contact_sheets(copy, capsys):
    data, out = copy
    assert run("show", data, out, "--images", "3") == 0
    names = list(TRAIN)[:3]
    assert {path.stem for path in (out / "show").glob("*.png")} == set(names)
    page = (out / "show" / "index.html").read_text()
    for name in names:
        with Image.open(out / "show" / f"{name}.png") as sheet:
            assert sheet.width > 4 * 240
        assert f"<h2>{name}</h2>" in page
    assert "3 images, 5 objects" in capsys.readouterr().err


def test_sheets_of_images_by_name_without_masks_or_segments(copy, capsys):
    data, out = copy
    (data / "SegmentationClass" / "one0.png").unlink()
    (out / "segments" / "two0.npz").unlink()
    assert run("show", data, out, "--image", "one0", "--image", "two0") == command.SOME_FAILED
    assert "two0: " in capsys.readouterr().err
    assert [path.stem for path in (out / "show").glob("*.png")] == ["one0"]


# -- a classifier --------------------------------------------------------------------------------------------------------


class Nearest:
    """The overlaps of the nearest training segment, by one descriptor."""

    threshold = 0.3

    def __init__(self, learner="", *, random_state=0, verbose=0):
        self.random_state = random_state

    def fit(self, descriptors, overlaps, images, classes):
        self.rows, self.overlaps, self.classes_ = descriptors["colour_sift_fg"], overlaps, tuple(classes)
        return self

    def scores(self, descriptors):
        gaps = ((descriptors["colour_sift_fg"][:, None] - self.rows) ** 2).sum(axis=2)
        return self.overlaps[gaps.argmin(axis=1)]

    def save(self, path):
        np.savez(path, rows=self.rows, overlaps=self.overlaps, classes=self.classes_)

    @classmethod
    def load(cls, path):
        found = cls()
        with np.load(path) as stored:
            found.rows, found.overlaps = stored["rows"], stored["overlaps"]
            found.classes_ = tuple(stored["classes"].tolist())
        return found


def test_train_predict_evaluate_and_show(copy, monkeypatch, capsys):
    data, out = copy
    monkeypatch.setattr(command, "SegmentClassifier", Nearest)
    assert run("train", data, out) == 0
    assert run("predict", data, out, "--set", "val", "--jobs", "1") == 0
    assert run("evaluate", data, out, "--set", "val") == 0
    printed = capsys.readouterr().out
    dataset = VOCDataset(data, "val")
    stores = [Store.existing(out / folder) for folder in ("segments", "predictions")]
    expected = recognition.evaluate(dataset, dataset.names, *stores)
    assert f"mean intersection over union  {expected.summary()['mean intersection over union']:.4f}" in printed
    stored = json.loads((out / "evaluation_val.json").read_text())
    assert stored["balanced accuracy"] == expected.balanced_accuracy
    assert stored["images"] == 2
    assert stored["classes"]["aeroplane"]["intersection over union"] == expected.intersection_over_union[1]
    assert stored["classes"]["cat"] == {"average precision": None, "intersection over union": None}
    overlaps = np.concatenate([class_overlaps(pool_of(stores[0], name), dataset.truth(name), 20) for name in VAL])
    scores = np.concatenate([stores[1].load(name)["scores"] for name in VAL])
    precision = average_precision_score(overlaps[:, 2] >= 0.5, scores[:, 2])
    assert stored["classes"]["bird"]["average precision"] == pytest.approx(precision)
    shown = np.where(overlaps.max(axis=1) >= 0.5, overlaps.argmax(axis=1) + 1, 0)
    given = np.where(scores.max(axis=1) > Nearest.threshold, scores.argmax(axis=1) + 1, 0)
    assert stored["balanced accuracy"] == pytest.approx(balanced_accuracy_score(shown, given))
    right = (scores.argmax(axis=1) + 1 == shown)[shown > 0]
    assert stored["accuracy on good segments"] == pytest.approx(right.mean())
    for name in VAL:
        found = stores[1].load(name)
        with Image.open(out / "labels" / f"{name}.png") as picture:
            assert picture.mode == "P"
            np.testing.assert_array_equal(np.asarray(picture), found["labels"])
    assert run("show", data, out, "--set", "val") == 0
    classes = {VOCDataset(data).classes[label - 1] for objects in VAL.values() for label, *_ in objects}
    sheets = {path.stem for path in (out / "show").glob("*.png")}
    assert sheets == {*VAL, *(f"best and worst of {name}" for name in classes)}
    # another classifier: predictions of the one before are recognised
    (out / "model.npz").write_bytes((out / "model.npz").read_bytes() + b" ")
    assert run("evaluate", data, out, "--set", "val") == command.WRONG
    assert "these are of another classifier" in capsys.readouterr().err
    assert run("predict", data, out, "--set", "val", "--jobs", "1") == command.WRONG
    assert "model was" in capsys.readouterr().err


def test_results_of_what_was_there_before_are_refused(copy, monkeypatch, capsys):
    data, out = copy
    monkeypatch.setattr(command, "SegmentClassifier", Nearest)
    assert run("train", data, out) == 0
    assert run("predict", data, out, "--set", "val", "--jobs", "1") == 0
    for some in ("train", "val"):
        assert run("segments", data, out, "--set", some, *FEW[:2], "--segments", "9", "--jobs", "1", "--stale", "redo") == 0
    capsys.readouterr()
    for step in ("train", "predict", "evaluate"):
        assert run(step, data, out, "--set", "val") == command.WRONG
        assert "these were made of other segments" in capsys.readouterr().err
    assert run("show", data, out, "--set", "val") == 0  # segments alone
    assert "Without labels and scores: " in capsys.readouterr().err
    assert {path.stem for path in (out / "show").glob("*.png")} == set(VAL)
    assert run("predict", data / "JPEGImages" / "three.jpg", out) == command.WRONG
    assert "these were made of other segments" in capsys.readouterr().err
    for some in ("train", "val"):
        assert run("describe", data, out, "--set", some, *WORDS, "--stale", "redo") == 0
    capsys.readouterr()
    assert run("evaluate", data, out, "--set", "val") == command.WRONG
    assert "these were made of other descriptors" in capsys.readouterr().err


def test_images_of_another_size_than_their_segments_are_refused(copy, capsys):
    data, out = copy
    for step in ("describe", "train", "predict", "evaluate", "show"):
        assert run(step, data, out, "--longest", "30") == command.WRONG
        told = capsys.readouterr().err
        assert "these segments are of images of --longest 1000: got 30" in told
        assert told.count("\n") == 1


def test_a_classifier_of_other_classes_is_refused(copy, monkeypatch, capsys):
    data, out = copy
    monkeypatch.setattr(command, "SegmentClassifier", Nearest)
    assert run("train", data, out) == 0
    monkeypatch.setattr(command, "open_dataset", lambda *some, **more: VOCDataset(data, classes=["a", "b", "c"]))
    capsys.readouterr()
    assert run("predict", data, out, "--jobs", "1") == command.WRONG
    assert "and the images a, b, c: name them in classes.txt alike" in capsys.readouterr().err


def test_too_many_words_are_one_line(made, tmp_path, capsys):
    data, out = made
    shutil.copytree(out / "segments", tmp_path / "segments")
    assert run("describe", data, tmp_path, "--words", "1000000", "--jobs", "1") == command.WRONG
    assert "1000000 words need as many descriptors" in capsys.readouterr().err


def test_training_rows_are_those_that_were_chosen(made):
    data, out = made
    dataset = VOCDataset(data)
    segments, descriptors = (Store.existing(out / folder) for folder in ("segments", "descriptors"))
    rows = recognition.training_set(dataset, dataset.names, segments, descriptors, 6)
    assert rows.overlaps.shape == (len(rows.descriptors["lbp"]), 20)
    everything = recognition.training_set(dataset, dataset.names, segments, descriptors)
    assert len(everything.overlaps) == sum(pool_of(segments, name).n_segments for name in dataset.names)
    chosen = choose_segments(everything.overlaps, 6)
    used = np.unique(np.concatenate([choice.all for choice in chosen]))
    assert 0 < len(used) < len(everything.overlaps)
    np.testing.assert_array_equal(rows.overlaps, everything.overlaps[used])
    np.testing.assert_array_equal(rows.images, everything.images[used])
    for name, table in rows.descriptors.items():
        np.testing.assert_array_equal(table, everything.descriptors[name][used])
        stacked = np.concatenate([descriptors.load(one)[name] for one in dataset.names])
        np.testing.assert_array_equal(everything.descriptors[name], stacked)


def test_a_single_picture(copy, tmp_path, monkeypatch, capsys):
    data, out = copy
    monkeypatch.setattr(classifier, "FEATURES", 30)
    assert run("train", data, out, "--quiet") == 0
    assert run("predict", data, out, "--set", "val", "--jobs", "1") == 0
    capsys.readouterr()
    picture = shutil.copy(data / "JPEGImages" / "three.jpg", tmp_path / "photo.jpg")
    assert run("predict", picture, out) == 0
    printed = capsys.readouterr().out
    expected = Store.existing(out / "predictions").load("three")["labels"]
    with Image.open(out / "pictures" / "photo_labels.png") as labels, Image.open(out / "pictures" / "photo.png") as overlay:
        np.testing.assert_array_equal(np.asarray(labels), expected)
        assert overlay.size == labels.size
    shares = np.bincount(expected.ravel(), minlength=21)[1:] / expected.size
    assert shares.any()
    for name, share in zip(VOCDataset(data).classes, shares, strict=True):
        assert (f"{name:<16}{share:>7.1%} of the pixels" in printed) == (share > 0)
    assert run("predict", tmp_path / "none.jpg", out) == command.WRONG
    assert "none.jpg: there is no such file; give the path of an image." in capsys.readouterr().err
    (tmp_path / "photo.jpg").write_bytes(b"no picture")
    assert run("predict", picture, out) == command.WRONG
    assert "photo.jpg" in capsys.readouterr().err
    assert run("predict", picture, tmp_path / "elsewhere") == command.WRONG
    assert "nothing has been computed here" in capsys.readouterr().err


def test_images_without_objects_teach_nothing(made, capsys):
    assert run("train", *made, "--set", str(made[1].parent / "empty.txt")) == command.WRONG
    capsys.readouterr()
    (made[1].parent / "empty.txt").write_text("empty0\nempty1\n")
    assert run("train", *made, "--set", str(made[1].parent / "empty.txt")) == command.WRONG
    assert "nothing can be learned" in capsys.readouterr().err


def test_predict_needs_a_classifier(made, capsys):
    assert run("predict", *made) == command.WRONG
    assert "train one first" in capsys.readouterr().err


def test_colours_are_those_of_the_data_set():
    expected = {0: (0, 0, 0), 1: (128, 0, 0), 2: (0, 128, 0), 3: (128, 128, 0), 15: (192, 128, 128), 20: (0, 64, 128)}
    found = recognition.colours(256)
    assert {k: tuple(map(int, found[k])) for k in expected} == expected
    assert len(np.unique(found, axis=0)) == 256
