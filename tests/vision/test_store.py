"""One file an image, whole or not there, of one configuration."""

import shutil
from dataclasses import dataclass

import numpy as np
import pytest

import bochner
from bochner.vision.datasets import VOCDataset
from bochner.vision.store import Store, StoreError, configuration_of, key_of
from tests.vision.trees import voc_tree


@dataclass(frozen=True)
class Options:
    n_words: int = 300
    widths: tuple[int, ...] = (4, 6)


def opened(folder, stale="refuse", **options):
    return Store(folder, configuration_of(options=Options(**options)), stale)


ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([True, False])}


def test_arrays_come_back_and_are_there_for_the_next_program(tmp_path):
    store = opened(tmp_path / "deep" / "folder")
    assert not store.has("one")
    store.save("one", ARRAYS)
    for again in (store, opened(store.folder), Store.existing(store.folder)):
        assert again.has("one")
        found = again.load("one")
        assert found.keys() == ARRAYS.keys()
        for name, expected in ARRAYS.items():
            np.testing.assert_array_equal(found[name], expected)
            assert found[name].dtype == expected.dtype


def test_configurations_have_keys_of_their_own(monkeypatch):
    first = configuration_of(options=Options(), seed=1)
    assert key_of(first) == key_of(configuration_of(seed=1, options=Options()))
    assert first["options"] == {"n_words": 300, "widths": [4, 6]}
    others = [configuration_of(options=Options(n_words=1), seed=1), configuration_of(options=Options(), seed=2)]
    monkeypatch.setattr(bochner, "__version__", "99")
    others.append(configuration_of(options=Options(), seed=1))
    assert len({key_of(some) for some in [first, *others]}) == 4


def test_another_configuration_is_refused_and_what_differs_is_said(tmp_path):
    opened(tmp_path).save("one", ARRAYS)
    with pytest.raises(StoreError, match=r"another configuration: options\.n_words was 300 and is 7\. ") as caught:
        opened(tmp_path, n_words=7)
    assert "\n" not in str(caught.value)
    assert opened(tmp_path).has("one")


def test_another_configuration_is_redone_where_that_is_asked_for(tmp_path):
    first = opened(tmp_path)
    first.save("one", ARRAYS)
    first.save("two", ARRAYS)
    store = opened(tmp_path, "redo", n_words=7)
    assert store.replaces == "options.n_words was 300 and is 7"
    assert not store.has("one")
    with pytest.raises(StoreError, match=r"one\.npz: the file is of another configuration"):
        store.load("one")
    store.save("one", ARRAYS)
    again = opened(tmp_path, n_words=7)  # the rest is still to be redone
    assert again.replaces is None
    assert again.has("one")
    assert not again.has("two")


def test_files_of_an_unknown_configuration_are_refused(tmp_path):
    np.savez(tmp_path / "one.npz", **ARRAYS)
    with pytest.raises(StoreError, match="not known of which"):
        opened(tmp_path)
    assert not opened(tmp_path, "redo").has("one")


def test_damaged_and_missing_files_count_as_not_there(tmp_path):
    store = opened(tmp_path)
    store.save("one", ARRAYS)
    data = store.path("one").read_bytes()
    for size in range(0, len(data), 50):
        store.path("one").write_bytes(data[:size])
        assert not store.has("one")
        with pytest.raises(StoreError, match="damaged"):
            store.load("one")
    with pytest.raises(StoreError, match="has not been computed"):
        store.load("two")
    with pytest.raises(StoreError, match="nothing has been computed"):
        Store.existing(tmp_path / "elsewhere")


def test_files_of_other_images_of_the_same_names_do_not_count(tmp_path):
    first, second = (VOCDataset(voc_tree(tmp_path / str(seed), seed=seed)) for seed in (1, 2))
    store = opened(tmp_path / "store")
    own, other = store.of_images(first), store.of_images(second)
    own.save("one", ARRAYS)
    assert own.has("one")
    assert not other.has("one")
    with pytest.raises(StoreError, match="or image"):
        other.load("one")
    assert store.has("one")  # who does not say where the images are is not asked
    assert own.load("one").keys() == store.load("one").keys() == ARRAYS.keys()
    shutil.copytree(first.root, tmp_path / "moved")
    assert store.of_images(VOCDataset(tmp_path / "moved")).has("one")
    first.image_path("one").unlink()
    assert not own.has("one")


def test_one_program_at_a_time(tmp_path):
    pytest.importorskip("fcntl")
    store = opened(tmp_path)
    (tmp_path / "one.npz.part").write_bytes(b"half")
    with store.writing() as log:
        log.add({"name": "two", "reason": "broken"})
        assert not (tmp_path / "one.npz.part").exists()
        with pytest.raises(StoreError, match="another program"), opened(tmp_path).writing():
            pass
    with store.writing() as log:
        assert log.records == []


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write here"):
        opened(tmp_path / "file" / "folder")
    with pytest.raises(ValueError, match="stale"):
        opened(tmp_path, "perhaps")
