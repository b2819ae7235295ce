"""Files that are no models, or not whole, or not those of this version."""

import json
import pickle
import struct

import numpy as np
import pytest

import bochner
from bochner import ModelFileError, MultipleKernelRegressor
from bochner.persistence import files
from tests.persistence.models import fitted, rows, target
from tests.persistence.stored import rewritten

safetensors = pytest.importorskip("safetensors")


def test_damage_anywhere_is_found(saved):
    good = saved.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(8, len(good), 60):
        bad = bytearray(good)
        bad[place] ^= 1 << int(rng.integers(8))
        saved.write_bytes(bad)
        with pytest.raises(ModelFileError, match="cannot be loaded"):
            bochner.load(saved)


def test_files_that_are_cut_short_are_refused(saved):
    good = saved.read_bytes()
    for n in (0, 1, 8, 9, 100, len(good) // 2, len(good) - 1):
        saved.write_bytes(good[:n])
        with pytest.raises(ModelFileError, match=r"cut short|empty"):
            bochner.load(saved)
    saved.write_bytes(good + b"\0")
    with pytest.raises(ModelFileError):
        bochner.load(saved)


def test_foreign_files_are_refused_by_name(path):
    from safetensors.numpy import save_file

    save_file({"weight": np.ones(3)}, path)
    with pytest.raises(ModelFileError, match=r"safetensors, but not of bochner"):
        bochner.load(path)
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ModelFileError, match="a pickle"):
        bochner.load(path)
    np.savez(path.with_suffix(".npz"), a=np.ones(3))
    with pytest.raises(ModelFileError, match="zip"):
        bochner.load(path.with_suffix(".npz"))
    path.write_text("colour,shape\n1,2\n")
    with pytest.raises(ModelFileError, match="do not begin as"):
        bochner.load(path)
    with pytest.raises(FileNotFoundError):
        bochner.load(path.with_name("nothing"))


def test_files_of_later_versions_are_refused(saved):
    rewritten(saved, lambda header, _: header.update(format=files.FORMAT + 1, bochner="9.9"))
    with pytest.raises(ModelFileError, match=r"bochner 9\.9 in format 2.*pip install --upgrade"):
        bochner.load(saved)


def test_headers_of_earlier_formats_are_brought_up_to_date(saved, monkeypatch):
    rewritten(saved, lambda header, _: header.update(title=header.pop("class")))

    def upgraded(header):
        return {**header, "class": header["title"], "format": 2}

    monkeypatch.setattr(files, "FORMAT", 2)
    monkeypatch.setitem(files.UPGRADES, 1, upgraded)
    assert np.array_equal(bochner.load(saved).predict(rows()), fitted("KernelRegressor", "gaussian").predict(rows()))


CHANGES = {
    "another class": lambda header, _: header.update({"class": "Pipeline"}),
    "a class of Python's": lambda header, _: header["attributes"].update(a_={"$class": "Popen", "fields": {}}),
    "an unknown parameter": lambda header, _: header["parameters"].update(shell=True),
    "a method": lambda header, _: header["attributes"].update(predict="no"),
    "a method of its own": lambda header, _: header["attributes"].update(_outputs=1),
    "a dunder": lambda header, _: header["attributes"].update(__class__="no"),
    "no coefficients": lambda header, _: header["attributes"].pop("coef_"),
    "text for coefficients": lambda header, _: header["attributes"].update(coef_="many"),
    "other coefficients": lambda header, arrays: arrays.update(coef_=arrays["coef_"][:-1]),
    "other columns": lambda header, _: header["columns"].update(number=5),
    "very many columns": lambda header, _: header["columns"].update(number=10**12),
    "names that are a text": lambda header, _: header["columns"].update(names="abc"),
    "names without columns": lambda header, _: header["columns"].update(names=["a"]),
    "very many columns of a map": lambda header, _: fields_of(header).update(n_columns=10**12),
    "a map of something else": lambda header, _: fields_of(header).update(kernel=3),
    "a kernel without scale": lambda header, _: fields_of(header)["kernel"]["fields"].update(scale=-1.0),
    "no array": lambda header, arrays: arrays.pop("feature_map_.points"),
    "whole numbers": lambda header, arrays: arrays.update({"coef_": arrays["coef_"].astype(np.int64)}),
    "an array of nothing": lambda header, arrays: arrays.update({"feature_map_.points": np.zeros((3, 0))}),
    "deep nests": lambda header, _: header["attributes"].update(a_=nested(200)),
    "an unknown kind": lambda header, _: header["attributes"].update(a_={"$code": "1 + 1"}),
    "no header": lambda header, _: header.clear(),
    "many uses": lambda header, _: header["attributes"].update(a_=[{"$array": "feature_map_.points"}] * 60),
}


def fields_of(header):
    return header["attributes"]["feature_map_"]["fields"]


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("name", CHANGES)
def test_headers_that_do_not_fit_are_refused(saved, name):
    rewritten(saved, CHANGES[name])
    with pytest.raises(ModelFileError, match="cannot be loaded"):
        bochner.load(saved)


@pytest.mark.parametrize("name", ["KernelClassifier", "MultipleKernelClassifier", "GMKLClassifier"])
def test_fewer_classes_than_scores_are_refused(path, name):
    """A prediction of the missing class would be an error later."""
    fitted(name, "gaussian").save(path)
    rewritten(path, lambda _, arrays: arrays.update(classes_=arrays["classes_"][:1]))
    with pytest.raises(ModelFileError, match="classes_ are not as many"):
        bochner.load(path)


def test_views_have_names_or_numbers_and_stand_in_their_place(path):
    views = {"a": rows()[:, :2], "b": rows()[:, 2:]}
    model = MultipleKernelRegressor("gaussian", n_features=8, alpha=0.1, random_state=0).fit(views, target(rows()))
    model.save(path)
    good = path.read_bytes()
    rewritten(path, lambda header, _: header["attributes"]["_views"]["fields"].update(labels={"$tuple": [0.5, "b"]}))
    with pytest.raises(ModelFileError, match="views have no names"):
        bochner.load(path)
    path.write_bytes(good)
    rewritten(path, lambda header, _: header["attributes"].update(a_={"$class": "View", "fields": {}}))
    with pytest.raises(ModelFileError, match="'View', which is not among"):
        bochner.load(path)


def test_json_bombs_are_refused(path):
    for text in (
        "[" * 100_000,
        '{"format": 1, "a": ' + "[" * 500 + "]" * 500 + "}",
        '{"format": NaN}',
        '{"a": 1, "a": 2}',
        "1",
    ):
        body = json.dumps({"__metadata__": {"bochner": text, "sha256": ""}}).encode()
        path.write_bytes(struct.pack("<Q", len(body)) + body)
        with pytest.raises(ModelFileError):
            bochner.load(path)
