"""Checkpoints: what is kept in a folder, saved sums, and answers from the log."""

import errno
import json
import os

import numpy as np
import pytest

from bochner import checkpoint
from bochner.checkpoint import FIT, LOG, PASS, NoCheckpoint, Replayed, opened
from bochner.criteria import HeldOutError
from bochner.durable import PARTIAL
from bochner.engines.passes import PartMoments, PulledBack
from bochner.features import FeatureChoices, build_map
from bochner.folds import Folds, Rows
from bochner.kernels import Gaussian
from bochner.rows import from_arrays

KEY = {"seed": "0", "X": "array"}
RECORDS = [
    {"question": str(k), "value": value, "log_alpha": -k, "gradient": None}
    for k, value in enumerate([0.1, 1e-300, float("inf"), -0.0, 1 / 3])
]


def folds(n=30, seed=0):
    rng = np.random.default_rng(seed)
    parts = (Rows(rng.standard_normal((n, 2)), rng.standard_normal((n, 1)), np.ones(n)) for _ in range(2))
    return Folds(tuple(parts), validated=(0, 1))


def feature_map(scale=0.7):
    return build_map(Gaussian(scale=np.full(2, scale)), 2, FeatureChoices(n_features=8), np.random.default_rng(0))


# -- files ---------------------------------------------------------------------------------------------------------------


def test_a_checkpoint_of_nothing_leaves_nothing(tmp_path):
    folder = tmp_path / "a" / "b"
    with opened(folder, KEY) as kept:
        assert kept.resumed is None
        assert kept.constant("seed", lambda: 3) == 3
    assert not folder.exists()


def test_a_folder_without_room_for_the_key_is_as_before(tmp_path, monkeypatch):
    def full(file, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_all", full)
    for folder in (tmp_path, tmp_path / "made"):
        with pytest.raises(OSError, match="make room on the disk and fit again"), opened(folder, KEY):
            pass
        assert os.listdir(tmp_path) == []


def test_a_folder_of_a_fit_that_was_killed_at_once(tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / LOG).write_bytes(b"")
    with opened(folder, KEY) as kept:
        kept.add(RECORDS[0])
        kept.finish()
    assert not folder.exists()


def test_what_is_kept_comes_back(tmp_path):
    folder = tmp_path / "kept"
    with opened(folder, KEY) as kept:
        assert kept.constant("seed", lambda: 2**100) == 2**100
        kept.add(RECORDS[0])
        kept.save("moments", {"pass": np.array("p"), "done": np.array(7), "a": np.arange(3.0)})
    (folder / ("bochner-x" + PARTIAL)).write_text("torn")
    with opened(folder, KEY) as kept:
        assert sorted(os.listdir(folder)) == sorted([LOG, FIT, PASS.format("moments")])
        assert kept.constant("seed", lambda: 0) == 2**100
        assert kept.resumed.endswith("1 evaluations are known, and 7 rows of a pass are summed")
        np.testing.assert_array_equal(kept.saved("moments", "p")["a"], np.arange(3.0))
        assert kept.saved("moments", "q") is None
        assert kept.saved("gradient", "p") is None
        assert kept.answer("0") == RECORDS[0]
        assert kept.answer("1") is None
        kept.finish()
    assert not folder.exists()


OTHER = {"question": "other", "value": 1.0, "log_alpha": 0.0, "gradient": None}


def test_another_question_ends_the_log(tmp_path):
    with opened(tmp_path / "kept", KEY) as kept:
        for record in RECORDS:
            kept.add(record)
    with opened(tmp_path / "kept", KEY) as kept:
        assert kept.answer("0") == RECORDS[0]
        assert kept.answer("other") is None
        kept.add(OTHER)
        assert kept.answer("2") is None
    with opened(tmp_path / "kept", KEY) as kept:
        assert [kept.answer("0"), kept.answer("other")] == [RECORDS[0], OTHER]


def test_another_fit(tmp_path):
    with opened(tmp_path, KEY) as kept:
        kept.add(RECORDS[0])
    for other, told in (
        ({"seed": "1", "X": "array"}, "seed was 0 and is 1"),
        ({"X": "array"}, "seed was 0 and is not there"),
    ):
        with pytest.raises(ValueError, match=f"is of another fit: {told}. Give what it was"), opened(tmp_path, other):
            pass
    (tmp_path / LOG).write_bytes(b"")  # nothing was learned
    with opened(tmp_path, {"seed": "1"}) as kept:
        kept.add(RECORDS[0])
    assert json.loads((tmp_path / FIT).read_text())["key"] == {"seed": "1"}


# -- sums ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["moments", "gradient"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_sums_go_on_to_the_same_bits(kind, dtype, library):
    xp = np if library == "numpy" else pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    blocks = [(rng.standard_normal((9, 2)).astype(dtype), rng.standard_normal((9, 1)), rng.random(9)) for _ in range(4)]
    chunks = [(k % 2, Rows(*map(xp.asarray, block))) for k, block in enumerate(blocks)]

    def slope(part, rows, features):
        return (part + 1) * features

    def made():
        return PartMoments(feature_map(), 1, 2) if kind == "moments" else PulledBack(feature_map(), slope)

    whole, part, rest = made(), made(), made()
    for chunk in chunks:
        whole.add(*chunk)
    for chunk in chunks[:3]:
        part.add(*chunk)
    rest.add(0, chunks[0][1].take(slice(0, 0)))  # which says where the rows are
    rest.restore(part.state())
    rest.add(*chunks[3])
    pairs = [(whole.total(), rest.total())] if kind == "gradient" else zip(whole.total(), rest.total(), strict=True)
    for one, other in pairs:
        assert type(one) is type(other)
        for name, value in vars(one).items():
            again = getattr(other, name)
            value, again = (value["scale"], again["scale"]) if name == "parameters" else (value, again)
            assert type(value) is type(again)
            np.testing.assert_array_equal(value, again)


def test_blocks_from_a_row_on():
    X = np.arange(20.0).reshape(10, 2)
    source = from_arrays(X, np.arange(10))
    for start in (0, 4, 8, 10):
        blocks = list(source.blocks(4, start))
        assert [block.start for block in blocks] == list(range(start, 10, 4))
        assert np.concatenate([np.empty((0, 2)), *(block.X for block in blocks)]).tolist() == X[start:].tolist()


def test_sums_are_saved_no_more_often_than_told(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])
    with opened(tmp_path, KEY) as kept:
        sums, saved = PartMoments(feature_map(), 1, 2), []
        monkeypatch.setattr(kept, "save", lambda name, arrays: saved.append((now[0], int(arrays["done"]))))
        assert kept.passes.resume(sums) == 0
        for done in range(1, 101):
            now[0] += 1
            if kept.passes.is_due(done, 100):
                kept.passes.keep(sums, done)
    assert saved == [(30, 30), (60, 60), (90, 90), (100, 100)]


# -- answers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("per_target", [False, True])
def test_an_answer_is_that_of_the_criterion(tmp_path, gradient, per_target):
    rows, phi = folds(), feature_map()

    def criterion(folds):
        return HeldOutError(folds, per_target=per_target)

    expected = criterion(rows).evaluate(phi, gradient=gradient)
    with opened(tmp_path, KEY) as kept:
        assert kept.logged(criterion)(rows).evaluate(phi, gradient=gradient).value == expected.value
    with opened(tmp_path, KEY) as kept:
        logged = kept.logged(criterion)(rows)
        found = logged.evaluate(phi, gradient=gradient)
        assert isinstance(found, Replayed)
        assert found.value == expected.value
        np.testing.assert_array_equal(found.log_alpha, expected.log_alpha)
        assert (found.gradient is None) == (not gradient)
        if gradient:
            np.testing.assert_array_equal(found.gradient.parameters["scale"], expected.gradient.parameters["scale"])
        np.testing.assert_array_equal(logged.fit(phi, found).coef, criterion(rows).fit(phi, expected).coef)
        predictions = criterion(rows).held_out(phi, expected).predictions
        np.testing.assert_array_equal(logged.held_out(phi, found).predictions, predictions)
        assert kept.evaluation(found) is found.evaluation
        assert not isinstance(logged.evaluate(feature_map(0.8), gradient=gradient), Replayed)


def test_without_a_checkpoint_nothing_changes():
    none = NoCheckpoint()
    assert none.logged(HeldOutError) is HeldOutError
    assert none.constant("seed", lambda: 5) == 5
    assert none.evaluation("found") == "found"
    assert none.passes.resume(None) == 0
    assert not none.passes.is_due(9, 9)
