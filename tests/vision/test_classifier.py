"""Classifiers of segments, on made-up histograms."""

import pickle

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from bochner.kernels import SkewedChi2
from bochner.vision import classifier
from bochner.vision.classifier import ScoreLevels, SegmentClassifier, held_out_images
from bochner.vision.measures import mean_average_precision
from bochner.vision.targets import worth_of

OPTIONS = {"n_features": 60, "random_state": 0}


def histograms(n=240, n_classes=3, seed=0):
    """Descriptors of segments: one tells the classes apart, one tells nothing; overlaps; numbers of images."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_classes + 1, size=n)
    centres = np.random.default_rng(7).dirichlet(np.ones(12), size=n_classes + 1)
    told = np.array([rng.dirichlet(60 * centres[label] + 0.05) for label in labels]).astype(np.float32)
    noise = rng.dirichlet(np.ones(9), size=n).astype(np.float32)
    overlaps = np.where(labels[:, None] == np.arange(1, n_classes + 1), rng.uniform(0.5, 1, size=(n, 1)), 0.0)
    return {"told": told, "noise": noise}, overlaps, np.arange(n) // 10


@pytest.mark.parametrize("learner", ["group-lasso", "single-kernel", "average"])
def test_classes_of_new_segments(learner):
    descriptors, overlaps, images = histograms()
    new, truth, _ = histograms(seed=1)
    model = SegmentClassifier(learner, **OPTIONS).fit(descriptors, overlaps, images)
    assert mean_average_precision(truth >= 0.5, model.scores(new)) > 0.9
    given = model.scores(new).max(axis=1) > model.threshold
    assert np.mean(given == (truth.max(axis=1) >= 0.5)) > 0.85


@pytest.mark.parametrize("learner", ["group-lasso", "single-kernel", "average"])
def test_large_tables_go_in_blocks(learner, monkeypatch):
    descriptors, overlaps, images = histograms(n=600)
    seen = []
    monkeypatch.setattr(classifier, "IN_BLOCKS", 1)
    monkeypatch.setattr(classifier, "BLOCK_ROWS", 100)
    made = classifier.from_blocks
    monkeypatch.setattr(classifier, "from_blocks", lambda *args, **options: seen.append(made(*args, **options)) or seen[0])
    model = SegmentClassifier(learner, **OPTIONS).fit(descriptors, overlaps, images, ["a", "b", "c"])
    (source,) = seen
    stacked = np.sqrt(np.hstack(list(descriptors.values())))
    np.testing.assert_array_equal(np.concatenate([block.X for block in source.blocks(100)]), stacked)
    np.testing.assert_array_equal(np.concatenate([block.y for block in source.blocks(100)]), worth_of(overlaps))
    new, truth, _ = histograms(seed=1)
    assert mean_average_precision(truth >= 0.5, model.scores(new)) > 0.9
    assert model.classes_ == ("a", "b", "c")


def test_as_many_segments_show_a_class_as_do():
    rng = np.random.default_rng(0)
    overlaps = np.where(rng.random((2000, 2)) < [0.3, 0.02], 0.7, 0.1)
    expected = overlaps * [1.0, 0.2] + 0.02 * rng.standard_normal((2000, 2))  # of a rare class, little is expected
    levels = ScoreLevels.of(expected, overlaps)
    shown = (levels.scores(expected) > 0).sum(axis=0)
    np.testing.assert_allclose(shown, (overlaps >= 0.5).sum(axis=0), atol=1)
    assert (ScoreLevels.of(expected, 0 * overlaps).scores(expected) < -0.99).all()  # what no segment shows
    other = ScoreLevels.of(3 * expected + 1, overlaps)  # units do not matter
    np.testing.assert_allclose(other.scores(3 * expected + 1), levels.scores(expected), atol=1e-9)


def test_group_lasso_finds_the_descriptor_that_counts():
    model = SegmentClassifier(**OPTIONS).fit(*histograms())
    weights = model.kernel_weights_by_name()
    assert np.all(weights["told"] > weights["noise"])


def test_classes_may_have_weights_of_their_own():
    (one, first, images), (other, second, _) = histograms(), histograms(seed=5)
    tables, overlaps = {"one": one["told"], "other": other["told"]}, np.hstack([first[:, :1], second[:, :1]])
    own = SegmentClassifier(own_weights=True, joint=False, **OPTIONS).fit(tables, overlaps, images).kernel_weights_by_name()
    assert own["one"][0] > own["one"][1]
    assert own["other"][1] > own["other"][0]
    shared = SegmentClassifier(joint=False, **OPTIONS).fit(tables, overlaps, images).kernel_weights_by_name()
    assert {name: weights.shape for name, weights in shared.items()} == {"one": (1,), "other": (1,)}
    assert min(weights.min() for weights in shared.values()) > 0


@pytest.mark.parametrize("kernel", ["gaussian", "exponentiated_chi2"])
def test_what_descriptors_show_only_together(kernel):
    def segments(seed):
        rng = np.random.default_rng(seed)
        kinds = rng.integers(2, size=(300, 2))
        centres = np.random.default_rng(7).dirichlet(np.ones(8), size=(2, 2))
        tables = {
            name: np.array([rng.dirichlet(80 * centres[j, kind]) for kind in kinds[:, j]]) for j, name in enumerate("ab")
        }
        return tables, np.where(kinds[:, :1] == kinds[:, 1:], 0.8, 0.0), np.arange(300) // 10

    new, truth, _ = segments(1)
    joint = SegmentClassifier(kernel=kernel, **OPTIONS).fit(*segments(0))
    apart = SegmentClassifier(kernel=kernel, joint=False, **OPTIONS).fit(*segments(0))
    assert mean_average_precision(truth >= 0.5, joint.scores(new)) > 0.95
    assert mean_average_precision(truth >= 0.5, apart.scores(new)) < 0.7  # a sum of functions of one descriptor each
    assert list(joint.kernel_weights_by_name()) == ["a", "b", "all, wide", "all, narrow"]
    assert list(apart.kernel_weights_by_name()) == ["a", "b"]


@pytest.mark.parametrize(
    ("kernel", "scale"), [("exponentiated_chi2", "median"), ("skewed_chi2", "learned"), ("skewed_chi2", "median")]
)
def test_kernels_of_histograms_see_the_bins(kernel, scale):
    descriptors, overlaps, images = histograms()
    new, truth, _ = histograms(seed=1)
    model = SegmentClassifier("average", kernel=kernel, scale=scale, **OPTIONS).fit(descriptors, overlaps, images)
    np.testing.assert_array_equal(model._rows(new), np.hstack([new["told"], new["noise"]]))
    assert mean_average_precision(truth >= 0.5, model.scores(new)) > 0.8
    if scale == "learned":
        assert len({one.c for one in model.model_.kernels_}) == 2


def test_segments_of_an_image_are_held_out_together():
    images = np.repeat(np.arange(10), 7)
    ((fitted, validated),) = held_out_images(images, 3)
    assert set(images[fitted]).isdisjoint(images[validated])
    assert len(set(images[validated])) == 2
    assert sorted([*fitted, *validated]) == list(range(70))
    with pytest.raises(ValueError, match="two images or more"):
        held_out_images(np.zeros(5, dtype=int), 0)


def test_it_is_saved_without_its_training_data(tmp_path):
    descriptors, overlaps, images = histograms()
    model = SegmentClassifier(**OPTIONS).fit(descriptors, overlaps, images)
    model.save(tmp_path / "model")
    row, saved = np.sqrt(descriptors["told"][7]), (tmp_path / "model").read_bytes()
    assert row.tobytes() not in saved
    assert row.astype(np.float64).tobytes() not in saved
    np.testing.assert_array_equal(SegmentClassifier.load(tmp_path / "model").scores(descriptors), model.scores(descriptors))


def test_a_file_of_something_else(tmp_path):
    for wrong in (b"nothing", b"", b"cos\nnothing\n.", b"ccollections\nOrderedDict\n(K\x01tR.", b"I9x\n."):
        (tmp_path / "model").write_bytes(wrong)
        with pytest.raises(ValueError, match="no classifier of segments"):
            SegmentClassifier.load(tmp_path / "model")
    np.savez(tmp_path / "other.npz", about=np.array('{"format": 2}'))
    with pytest.raises(ValueError, match="saved by another version: train it again"):
        SegmentClassifier.load(tmp_path / "other.npz")


@pytest.mark.parametrize("learner", ["group-lasso", "single-kernel"])
def test_a_kernel_that_is_an_object_comes_with_the_model(learner, tmp_path):
    descriptors, overlaps, images = histograms()
    model = SegmentClassifier(learner, **{**OPTIONS, "kernel": SkewedChi2(c=0.1)}).fit(descriptors, overlaps, images)
    model.save(tmp_path / "model")
    again = SegmentClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.scores(descriptors), model.scores(descriptors))
    assert (again.descriptors_, again.classes_, again.n_columns_) == (model.descriptors_, model.classes_, model.n_columns_)


def test_nothing_in_a_file_is_executed(tmp_path):
    class Escape:
        def __reduce__(self):
            return (open, (str(tmp_path / "escaped"), "w"))

    (tmp_path / "model").write_bytes(pickle.dumps((3, Escape())))
    with pytest.raises(ValueError, match="no classifier of segments"):
        SegmentClassifier.load(tmp_path / "model")
    assert not (tmp_path / "escaped").exists()


def test_bad_input():
    descriptors, overlaps, images = histograms()
    with pytest.raises(ValueError, match="learner must be one of"):
        SegmentClassifier("nearest").fit(descriptors, overlaps, images)
    with pytest.raises(ValueError, match="classes must be as many as columns of overlaps, 3: got 1"):
        SegmentClassifier(**OPTIONS).fit(descriptors, overlaps, images, ["cat"])
    with pytest.raises(ValueError, match=r"must be one table .* got dict"):
        SegmentClassifier(**OPTIONS).fit({}, overlaps, images)
    model = SegmentClassifier(**OPTIONS).fit(descriptors, overlaps, images)
    with pytest.raises(ValueError, match=r"overlaps must be \(n, c\).*got \(240,\)"):
        SegmentClassifier(**OPTIONS).fit(descriptors, overlaps[:, 0], images)
    with pytest.raises(ValueError, match="images must be the number of the image of each segment"):
        SegmentClassifier(**OPTIONS).fit(descriptors, overlaps, images[:-1])
    with pytest.raises(ValueError, match=r"must be one table .* got ndarray"):
        SegmentClassifier(**OPTIONS).fit(descriptors["told"], overlaps, images)
    with pytest.raises(ValueError, match="'noise' must have 240 rows"):
        SegmentClassifier(**OPTIONS).fit({**descriptors, "noise": descriptors["noise"][1:]}, overlaps, images)
    for wrong in (np.nan, -1.0, np.inf):
        spoiled = descriptors["noise"].copy()
        spoiled[3, 2] = wrong
        with pytest.raises(ValueError, match="'noise' must be histograms: finite and not negative"):
            SegmentClassifier(**OPTIONS).fit({**descriptors, "noise": spoiled}, overlaps, images)
    with pytest.raises(NotFittedError):
        SegmentClassifier().scores(descriptors)
    with pytest.raises(ValueError, match="'noise' has 8 columns, and had 9 in fit"):
        model.scores({**descriptors, "noise": descriptors["noise"][:, 1:]})
    with pytest.raises(ValueError, match="'noise' is missing"):
        model.scores({"told": descriptors["told"]})
    with pytest.raises(ValueError, match="'told' is missing: got none"):
        model.scores({})
    with pytest.raises(ValueError, match="'told' has 9 columns, and had 12 in fit"):
        model.scores({"told": descriptors["noise"], "noise": descriptors["told"]})
    with pytest.raises(ValueError, match=r"'noise' must have 240 rows, one for each segment: got \(7, 9\)"):
        model.scores({"told": descriptors["told"], "noise": descriptors["noise"][:7]})


def test_descriptors_that_were_not_learned_from_are_left_out():
    descriptors, overlaps, images = histograms()
    model = SegmentClassifier(**OPTIONS).fit(descriptors, overlaps, images)
    more = {"other": np.ones((3, 5)), "noise": descriptors["noise"], "told": descriptors["told"]}
    np.testing.assert_array_equal(model.scores(more), model.scores(descriptors))
    assert model.scores({name: table[:0] for name, table in descriptors.items()}).shape == (0, 3)


def test_one_kernel_has_no_weights():
    model = SegmentClassifier("single-kernel", **OPTIONS).fit(*histograms())
    with pytest.raises(AttributeError, match="has one kernel"):
        model.kernel_weights_by_name()
    assert len(set(model.model_.scale_.tolist())) == 2  # one for each descriptor
