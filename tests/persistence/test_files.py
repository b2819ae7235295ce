"""What a file of a model holds, what comes back from it, and what is refused."""

import json
import os
import pickle
import struct
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold

import bochner
from bochner import FourierFeatures, KernelClassifier, KernelRegressor, ModelFileError, MultipleKernelRegressor
from bochner.exact import GMKLRegressor
from bochner.kernels import Gaussian, Matern, RadialKernel
from bochner.persistence import files
from tests.persistence.models import answers, fitted, labels, make, rows, same, target

safetensors = pytest.importorskip("safetensors")


def header_of(path):
    with safetensors.safe_open(path, framework="np") as file:
        return json.loads(file.metadata()["bochner"])


def rewritten(path, change):
    """A file with another header, whose checksum is right."""
    from safetensors.numpy import save

    with safetensors.safe_open(path, framework="np") as file:
        header = json.loads(file.metadata()["bochner"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(header, arrays)
    text = json.dumps(header)
    path.write_bytes(save(arrays, {"bochner": text, "sha256": files.checksum(text, arrays)}))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.fixture
def saved(path):
    fitted("KernelRegressor", "gaussian").save(path)
    return path


# -- what comes back --------------------------------------------------------------------------------------------------


def test_the_header_says_where_a_model_comes_from(saved):
    header = header_of(saved)
    assert header["format"] == files.FORMAT
    assert header["bochner"] == bochner.__version__
    assert header["class"] == "KernelRegressor"
    assert header["columns"] == {"number": 3, "names": None}
    assert header["provenance"]["n_rows"] == 40
    assert header["provenance"]["seed"] == 0
    assert header["provenance"]["versions"]["numpy"] == np.__version__
    assert header["provenance"]["date"][:2] == "20"
    assert header["encoder"] is None


def test_names_of_columns(path):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(rows(), columns=["a", "b", "c"])
    model = KernelRegressor("gaussian", n_features=16, tol=0.1, random_state=0).fit(table, target(rows()))
    model.save(path)
    again = bochner.load(path)
    assert header_of(path)["columns"]["names"] == ["a", "b", "c"]
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    assert np.array_equal(again.predict(table), model.predict(table))
    with pytest.raises(ValueError, match="feature names"):
        again.predict(table[["b", "a", "c"]])
    model = MultipleKernelRegressor(
        [("one", "gaussian", ["a"]), ("two", "gaussian", ["b", "c"])], n_features=8, alpha=0.1, random_state=0
    )
    model.fit(table, target(rows())).save(path)
    assert np.array_equal(bochner.load(path).predict(table), model.predict(table))


VARIANTS = {
    "several targets": lambda X: KernelRegressor(n_features=16, tol=0.1, random_state=0).fit(X, X[:, :2]),
    "float32": lambda X: KernelRegressor(n_features=16, tol=0.1, random_state=0).fit(X.astype(np.float32), target(X)),
    "centres": lambda X: KernelRegressor("gaussian", finish="centres", n_centres=9, tol=0.1, random_state=0).fit(
        X, target(X)
    ),
    "mixture": lambda X: KernelRegressor("gaussian", n_features=16, spectrum="mixture", tol=0.1, random_state=0).fit(
        X, target(X)
    ),
    "per target": lambda X: KernelRegressor("gaussian", n_features=16, alpha="per-target", tol=0.1, random_state=0).fit(
        X, X[:, :2]
    ),
    "text": lambda X: KernelClassifier("gaussian", n_features=16, tol=0.1, random_state=0).fit(
        X, np.array(["no", "yes"])[labels(X)]
    ),
    "objects": lambda X: KernelClassifier("gaussian", n_features=16, tol=0.1, random_state=0).fit(
        X, labels(X).astype(str).astype(object)
    ),
    "bool": lambda X: KernelClassifier("gaussian", n_features=16, tol=0.1, random_state=0).fit(X, labels(X) == 1),
    "logistic": lambda X: KernelClassifier("gaussian", n_features=16, loss="logistic", tol=0.1, random_state=0).fit(
        X, labels(X, 3)
    ),
    "weights": lambda X: KernelClassifier(
        "cauchy", n_features=16, class_weight={0: 1.0, 1: 3.0}, tol=0.1, random_state=0
    ).fit(X, labels(X)),
    "joint": lambda X: make("MultipleKernelRegressor", "gaussian", refit="joint").fit(X, target(X)),
    "auto": lambda X: MultipleKernelRegressor(alpha=0.1, random_state=0).fit(X, target(X)),
    "phases": lambda X: FourierFeatures(Matern(nu=0.8), form="phase", n_features=15, random_state=0).fit(X),
    "scales": lambda X: FourierFeatures(Gaussian(scale=[1.0, 2.0, 3.0]), n_features=8, random_state=0).fit(X),
    "order": lambda X: FourierFeatures("chi2", order=3).fit(X),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_other_models_predict_the_same_too(path, name):
    X = rows(25, seed=1)
    model = VARIANTS[name](rows())
    model.save(path)
    assert same(answers(bochner.load(path), X), answers(model, X))


def test_sparse_rows_and_views(path):
    from scipy import sparse

    X = sparse.csr_matrix(rows())
    model = KernelRegressor("chi2", tol=0.1, random_state=0).fit(X, target(rows()))
    model.save(path)
    assert np.array_equal(bochner.load(path).predict(X), model.predict(X))
    for views in ({"b": rows()[:, :2], "a": rows()[:, 2:]}, [rows()[:, :2], rows()[:, 2:]]):
        many = MultipleKernelRegressor("gaussian", n_features=8, alpha=0.1, random_state=0).fit(views, target(rows()))
        many.save(path)
        assert np.array_equal(bochner.load(path).predict(views), many.predict(views))
    grams = [rows() @ rows().T, np.eye(40)]
    exact = GMKLRegressor("precomputed").fit(grams, target(rows()))
    exact.save(path)
    assert np.array_equal(bochner.load(path).predict(grams), exact.predict(grams))


def test_sums_are_left_out_unless_they_are_asked_for(path):
    X, y = rows(), target(rows())
    model = KernelRegressor("gaussian", n_features=40, tol=0.1, random_state=0).fit(X, y)
    model.save(path)
    small, without = path.stat().st_size, bochner.load(path)
    for call in (lambda: without.predict(X, return_std=True), lambda: without.partial_fit(X, y)):
        with pytest.raises(ValueError, match="compact=False"):
            call()
    model.save(path, compact=False)
    assert path.stat().st_size > small + 8 * 40**2
    again = bochner.load(path)
    assert np.array_equal(again.predict(X, return_std=True), model.predict(X, return_std=True))
    again.partial_fit(X[:5], y[:5] + 1)
    model.partial_fit(X[:5], y[:5] + 1)
    assert np.array_equal(again.predict(X), model.predict(X))


def test_paths_keep_their_norms(path):
    model = fitted("MultipleKernelRegressor", "gaussian")
    model.save(path)
    again = bochner.load(path).path_
    assert np.array_equal(again.norms, model.path_.norms)
    assert again.coef.shape[1] == 0
    model.save(path, compact=False)
    assert np.array_equal(bochner.load(path).path_.coef, model.path_.coef)


def test_a_model_of_4000_features_takes_less_than_4_mb(path):
    """Base points (100, 2000) and coefficients (4000, 1) are all that is large."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 100)).astype(np.float32)
    model = KernelRegressor("gaussian", n_features=4000, alpha=0.1, scale="shared", tol=0.5, random_state=0)
    model.fit(X, X[:, 0])
    assert model.moments_.gram.nbytes > 4e6
    model.save(path, dtype="float32")
    single = path.stat().st_size
    numbers = 100 * 2000 + 4000
    assert 4 * numbers < single < 4 * numbers + 100_000 < 4e6
    again = bochner.load(path)
    assert again.coef_.dtype == np.float64
    X = X.astype(np.float64)
    angles = (np.abs(model.standardiser_(X)) @ np.abs(model.feature_map_.frequencies)).max()
    bound = np.finfo(np.float32).eps * (angles + 1) * np.abs(model.coef_).sum() / 2000**0.5  # of base points, coefficients
    assert 0 < np.abs(again.predict(X) - model.predict(X)).max() < bound
    model.save(path)
    assert single < 0.55 * path.stat().st_size < path.stat().st_size < 4e6


def test_diagonal_matrices_are_stored_by_their_diagonals(path):
    X = np.random.default_rng(0).standard_normal((60, 40))
    model = KernelRegressor("gaussian", n_features=200, tol=0.5, random_state=0).fit(X, X[:, 0])
    model.save(path)
    with safetensors.safe_open(path, framework="np") as file:
        assert file.get_slice("metric_").get_shape() == [40]
    assert np.array_equal(bochner.load(path).metric_, model.metric_)
    rewritten(path, lambda header, arrays: header["attributes"].update(a_=[header["attributes"]["metric_"]] * 49))
    with pytest.raises(ModelFileError, match="too large for its size"):
        bochner.load(path)


def test_functions_that_choose_columns_are_left_out(path):
    X = rows()
    kernels = [("a", "gaussian", lambda table: [0, 1]), ("b", "gaussian", [2])]
    model = MultipleKernelRegressor(kernels, n_features=8, alpha=0.1, random_state=0).fit(X, target(X))
    with pytest.warns(UserWarning, match="kernels of MultipleKernelRegressor cannot be stored"):
        model.save(path)
    assert np.array_equal(bochner.load(path).predict(X), model.predict(X))


def test_an_array_is_stored_once(path):
    X = rows(200)
    model = GMKLRegressor([Gaussian(scale=s) for s in range(1, 6)]).fit(X, target(X))
    model.save(path)
    assert path.stat().st_size < 2 * X.nbytes + 10_000


def test_parameters_of_a_run_and_rows_are_not_stored(path):
    X = rows()
    model = KernelRegressor(
        "gaussian",
        n_features=16,
        tol=0.1,
        callback=print_nothing,
        max_memory="1GB",
        validation=KFold(3),
        random_state=np.random.default_rng(0),
    ).fit(X, target(X))
    with pytest.warns(UserWarning, match="validation of KernelRegressor cannot be stored"):
        model.save(path)
    again = bochner.load(path)
    assert again.callback is None
    assert again.max_memory is None
    assert again.validation is None
    assert set(header_of(path)["left_out"]) == {
        "callback", "checkpoint", "device", "max_memory", "random_state", "validation", "verbose",
    }  # fmt: skip
    assert same(answers(again, X), answers(model, X))


def print_nothing(record):
    pass


def test_a_file_is_there_as_a_whole_or_not_at_all(saved, monkeypatch):
    before = saved.read_bytes()

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        fitted("KernelRegressor", "cauchy").save(saved)
    assert saved.read_bytes() == before
    assert [each.name for each in saved.parent.iterdir()] == [saved.name]


def test_models_that_are_not_fitted_and_wrong_options_are_refused(path):
    with pytest.raises(NotFittedError):
        KernelRegressor().save(path)
    with pytest.raises(ModelFileError, match="dtype must be None"):
        fitted("KernelRegressor", "gaussian").save(path, dtype="float16")


# -- kernels of one's own ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Rational(RadialKernel):
    """A radial kernel with a field of its own; its law is not that of the profile, which does not matter here."""

    power: float = 2.0

    def quantile(self, u, n_columns):
        return np.sqrt(n_columns) * u * self.power

    def profile(self, t):
        return (1 + t * t) ** -self.power


def test_kernels_of_ones_own_are_stored_where_they_are_named(path):
    X = rows()
    model = FourierFeatures(Rational(power=3.0), n_features=16, random_state=0).fit(X)
    with pytest.raises(ModelFileError, match=r"classes=\[Rational\]") as told:
        model.save(path)
    assert "pickle" in str(told.value)
    assert not path.exists()
    model.save(path, classes=[Rational])
    with pytest.raises(ModelFileError, match=r"classes=\[Rational\]"):
        bochner.load(path)
    again = bochner.load(path, classes=[Rational])
    assert again.kernel_ == model.kernel_
    assert np.array_equal(again.transform(X), model.transform(X))
    with pytest.raises(ModelFileError, match="classes of kernels"):
        bochner.load(path, classes=[KernelRegressor])


class Opaque(Gaussian):
    """A kernel whose fields do not make it again."""

    def __init__(self, width):
        super().__init__(scale=1 / width)
        object.__setattr__(self, "width", width)


def test_kernels_that_are_not_made_of_their_fields_are_refused(path):
    model = FourierFeatures(Opaque(2.0), scale=None, n_features=16, random_state=0)
    model.kernel_, model.n_features_in_ = Opaque(2.0), 3
    with pytest.raises(ModelFileError, match="frozen dataclass"):
        model.save(path, classes=[Opaque])


# -- what is refused --------------------------------------------------------------------------------------------------


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
    with pytest.raises(ModelFileError, match=r"none that model.save"):
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


def test_the_package_does_without_safetensors():
    code = """
import sys
sys.modules["safetensors"] = None
import bochner
try:
    bochner.load(sys.executable)
except ImportError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert 'pip install "bochner[save]"' in run.stdout
