"""Models of tables with categories, dates and gaps, in files: the encoding goes with them."""

import json

import numpy as np
import pytest

import bochner
from bochner import KernelRegressor, MultipleKernelRegressor, export_onnx, load
from bochner.tables import TableEncoder
from tests.estimators.test_tables import FAMILIES, outputs, problem
from tests.tables.tables import LIBRARIES, cells, cells_for_onnx, make

pytest.importorskip("safetensors")


@pytest.mark.parametrize("learner", sorted(FAMILIES))
def test_saved_and_loaded(learner, tmp_path):
    X, y = problem(learner)
    model = FAMILIES[learner]().fit(X, y)
    model.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert again.encoder_.state() == model.encoder_.state()
    assert list(again.feature_names_in_) == list(X.columns)
    for library in LIBRARIES:
        np.testing.assert_array_equal(outputs(again, make(library, cells())), outputs(model, X))
    if hasattr(model, "relevance_by_name"):
        assert again.relevance_by_name(by="column") == model.relevance_by_name(by="column")


def test_views(tmp_path):
    X, y = problem()
    views = {"house": X[["age", "kind"]], "place": X[["city"]]}
    model = MultipleKernelRegressor("gaussian", n_features=10, random_state=0).fit(views, y)
    model.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "model.safetensors").predict(views), model.predict(views))


@pytest.mark.filterwarnings("ignore::bochner.tables.UnseenLevelsWarning")
@pytest.mark.parametrize("learner", sorted(FAMILIES))
def test_exported_with_the_encoding(learner, tmp_path):
    """A graph of ONNX takes the columns of the table, also levels that were not there in fit."""
    runtime = pytest.importorskip("onnxruntime")
    X, y = problem(learner)
    model = FAMILIES[learner]().fit(X, y)
    model.to_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    new = X.copy()
    new["city"] = new["city"].astype(object)
    new.loc[new.index[:3], "city"] = "nowhere before"
    given = cells_for_onnx(new, model.encoder_)
    assert {each.name for each in session.get_inputs()} == set(given)
    assert {each.type for each in session.get_inputs()} == {"tensor(double)", "tensor(string)"}
    found = session.run(None, given)[0]
    if "Classifier" in learner:
        np.testing.assert_array_equal(found, model.predict(new))
    else:
        np.testing.assert_allclose(found, model.predict(new), rtol=1e-9, atol=1e-9)


def test_views_exported_with_their_encodings(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    X, y = problem()
    views = {"house": X[["age", "kind"]], "place": X[["city"]]}
    model = MultipleKernelRegressor("gaussian", n_features=10, random_state=0).fit(views, y)
    model.to_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    given = {}
    for view, (name, table) in zip(model._views.tables, views.items(), strict=True):
        given |= cells_for_onnx(table, view.encoder_, f"{name}.")
    np.testing.assert_allclose(session.run(None, given)[0], model.predict(views), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("learner", sorted(FAMILIES))
def test_exported_for_encoded_rows(learner, tmp_path):
    """A graph of ONNX can take the encoded columns, and says how they are made."""
    runtime = pytest.importorskip("onnxruntime")
    X, y = problem(learner)
    model = FAMILIES[learner]().fit(X, y)
    export_onnx(model, tmp_path / "model.onnx", encoded=True)
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    about = session.get_modelmeta().custom_metadata_map
    encoder = TableEncoder.from_state(json.loads(about["encoder"]))
    assert json.loads(about["columns"]) == encoder.names_out
    found = session.run(None, {"X": encoder.transform(X)})[0]
    if "Classifier" in learner:
        np.testing.assert_array_equal(found, model.predict(X))
    else:
        np.testing.assert_allclose(found, model.predict(X), rtol=1e-9, atol=1e-9)


def test_a_table_and_default_settings(tmp_path):
    """A learned metric of encoded columns, finished on centres: saved, also in float32, and exported."""
    runtime = pytest.importorskip("onnxruntime")
    X, y = problem()
    X = X[["age", "city", "sold"]]
    model = KernelRegressor("gaussian", random_state=0).fit(X, y)
    assert model.finish_ == "centres"
    expected = model.predict(X)
    for dtype, off in ((None, 0.0), ("float32", 1e-6)):
        model.save(tmp_path / "model.safetensors", dtype=dtype)
        again = load(tmp_path / "model.safetensors")
        assert again.relevance_by_name(by="column") == model.relevance_by_name(by="column")
        np.testing.assert_allclose(again.predict(X), expected, rtol=0, atol=off * np.abs(expected).max())
    model.to_onnx(tmp_path / "model.onnx")
    found = runtime.InferenceSession(tmp_path / "model.onnx").run(None, cells_for_onnx(X, model.encoder_))[0]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_an_encoding_that_does_not_fit(tmp_path, monkeypatch):
    X, y = problem()
    model = FAMILIES["KernelRegressor"]().fit(X, y)
    model.encoder_ = TableEncoder().fit(X[["age", "city"]])
    model.save(tmp_path / "model.safetensors")
    with pytest.raises(bochner.ModelFileError):
        load(tmp_path / "model.safetensors")
