"""Graphs of ONNX predict what the models predict: in onnxruntime, for every estimator and kernel."""

import copy
import functools
import json

import numpy as np
import pytest

import bochner
from bochner import KernelClassifier, KernelRegressor, MultipleKernelClassifier, MultipleKernelRegressor
from bochner.exact import GMKLClassifier, GMKLRegressor, KernelRidgeGD
from bochner.features import CentreMap
from bochner.kernels import KERNELS, Matern, MetricKernel, ProductKernel
from tests.default_models import default_classifier, default_regressor, default_rows
from tests.persistence.models import PAIRS, fitted, labels, rows, target

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

METHODS = {
    "predictions": "predict",
    "label": "predict",
    "probabilities": "predict_proba",
    "decisions": "decision_function",
    "features": "transform",
}
AGREE = 1e-5
"""How far a graph may be from the model, in units of the largest prediction: what is promised."""


def run(model, path, inputs, dtype="float64"):
    """What a graph says, by the name of the output."""
    bochner.export_onnx(model, path, dtype=dtype)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert {each.name for each in session.get_inputs()} == set(inputs)
    outputs = session.run(None, {name: values.astype(dtype) for name, values in inputs.items()})
    return dict(zip([each.name for each in session.get_outputs()], outputs, strict=True))


def clear_decisions(decisions):
    """Rows whose class is decided by more than rounding: decisions of hinge losses may be equal for two classes."""
    if decisions.ndim == 1:
        return np.abs(decisions) > AGREE
    best = np.sort(decisions, axis=1)
    return best[:, -1] - best[:, -2] > AGREE


def check(model, path, inputs, X):
    found = run(model, path, inputs)
    for name, values in found.items():
        expected = getattr(model, METHODS[name])(X)
        assert values.shape == expected.shape
        if name == "label":
            clear = clear_decisions(model.decision_function(X))
            assert clear.any()
            assert values[clear].tolist() == expected[clear].tolist()
        else:
            assert np.abs(values - expected).max() <= AGREE * np.abs(expected).max()
    return found


@pytest.mark.parametrize(("name", "kernel"), PAIRS)
def test_every_estimator_and_kernel(tmp_path, name, kernel):
    X = rows(25, seed=1)
    found = check(fitted(name, kernel), tmp_path / "model.onnx", {"X": X}, X)
    assert set(found) == {
        "FourierFeatures": {"features"},
        "KernelClassifier": {"label", "probabilities"},
        "MultipleKernelClassifier": {"label", "probabilities"},
        "GMKLClassifier": {"label", "decisions"},
    }.get(name, {"predictions"})


RADIAL = [name for name, make in KERNELS.items() if make().geometry == "radial"]
"""Kernels that models have at data centres."""


@functools.cache
def centred(kernel):
    model = KernelRegressor(kernel, finish="centres", metric="diagonal", n_centres=12, tol=0.1, random_state=0)
    return model.fit(rows(), target(rows()))


@pytest.mark.parametrize("kernel", RADIAL)
def test_data_centres(tmp_path, kernel):
    model = centred(kernel)
    assert model.finish_ == "centres"
    check(model, tmp_path / "model.onnx", {"X": rows(25, seed=1)}, rows(25, seed=1))


@pytest.mark.parametrize("kernel", RADIAL)
def test_directions(tmp_path, kernel):
    metric = np.random.default_rng(2).standard_normal((3, 2))
    X = rows(25, seed=1)
    model = copy.copy(centred("gaussian"))
    seen = MetricKernel(KERNELS[kernel](scale=1.5), metric, origin=model.standardiser_(X)[0])
    model.feature_map_ = CentreMap(seen, model.feature_map_.centres)
    check(model, tmp_path / "model.onnx", {"X": X}, X)
    model.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(bochner.load(tmp_path / "model.safetensors").predict(X), model.predict(X))


@pytest.mark.parametrize("kernel", [*RADIAL, "laplacian", "cauchy"])
def test_metrics(tmp_path, kernel):
    metric = MetricKernel(KERNELS[kernel](), np.random.default_rng(2).standard_normal((3, 2)))
    X = rows(25, seed=1)
    check(bochner.FourierFeatures(metric, n_features=16, random_state=0).fit(X), tmp_path / "features.onnx", {"X": X}, X)
    model = copy.copy(centred("gaussian"))
    model.feature_map_ = CentreMap(metric, model.feature_map_.centres)
    check(model, tmp_path / "model.onnx", {"X": X}, X)


def test_a_learned_metric(tmp_path):
    X = rows(200)
    model = KernelRegressor("gaussian", metric="full", finish="centres", n_centres=20, tol=0.1, random_state=0)
    model.fit(X, target(X))
    assert isinstance(model.kernel_, MetricKernel)
    check(model, tmp_path / "model.onnx", {"X": rows(25, seed=1)}, rows(25, seed=1))


def test_several_targets_and_classes_of_text(tmp_path):
    X = rows(60) * [1, 10, 100] + [5, -3, 0]
    Y = np.stack([target(rows(60)), X[:, 1]], axis=1)
    check(KernelRegressor(n_features=16, tol=0.1, random_state=0).fit(X, Y), tmp_path / "a.onnx", {"X": X}, X)
    y = np.array(["low", "middle", "high"])[labels(rows(60), 3)]
    model = KernelClassifier(n_features=16, tol=0.1, random_state=0).fit(X, y)
    assert set(check(model, tmp_path / "b.onnx", {"X": X}, X)["label"]) <= {"low", "middle", "high"}
    check(GMKLClassifier("gaussian").fit(X, y), tmp_path / "c.onnx", {"X": X}, X)
    check(
        KernelClassifier(n_features=16, loss="multinomial", tol=0.1, random_state=0).fit(X, y), tmp_path / "d", {"X": X}, X
    )


def test_float_and_bool_labels(tmp_path):
    X = rows()
    for y in (labels(X) + 1.0, labels(X) == 1):
        check(KernelClassifier("gaussian", n_features=16, tol=0.1, random_state=0).fit(X, y), tmp_path / "m", {"X": X}, X)


def test_views_are_inputs_of_their_own(tmp_path):
    X = rows()
    named = {"shape": X[:, :2], "colour": X[:, 2:]}
    regressor = MultipleKernelRegressor({"shape": "gaussian", "colour": "chi2"}, n_features=16, n_alphas=5, random_state=0)
    check(regressor.fit(named, target(X)), tmp_path / "a.onnx", named, named)
    listed = [X[:, :2], X[:, 2:]]
    classifier = MultipleKernelClassifier("gaussian", n_features=16, n_alphas=5, random_state=0).fit(listed, labels(X, 3))
    check(classifier, tmp_path / "b.onnx", {"view0": listed[0], "view1": listed[1]}, listed)
    check(GMKLRegressor("gaussian").fit(named, target(X)), tmp_path / "c.onnx", named, named)


def test_one_joint_kernel_of_all(tmp_path):
    X = rows(60)
    model = MultipleKernelRegressor(
        [("a", "gaussian", [0, 2]), ("b", "gaussian", [1, 2])], n_features=16, refit="joint", random_state=0
    ).fit(X, target(X))
    check(model, tmp_path / "model.onnx", {"X": X}, X)


def test_phases(tmp_path):
    X = rows()
    model = bochner.FourierFeatures("gaussian", n_features=15, form="phase", random_state=0).fit(X)
    check(model, tmp_path / "model.onnx", {"X": X}, X)


def test_float32_graphs(tmp_path):
    """Features of float32 are right to a thousand roundings of angles as large as ten or so."""
    X = rows().astype(np.float32)
    model = bochner.FourierFeatures("gaussian", n_features=16, random_state=0).fit(X)
    found = run(model, tmp_path / "model.onnx", {"X": X}, dtype="float32")["features"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, model.transform(X), atol=1000 * np.finfo(np.float32).eps)
    bochner.export_onnx(model, tmp_path / "double.onnx")
    assert (tmp_path / "model.onnx").stat().st_size < (tmp_path / "double.onnx").stat().st_size
    classifier = fitted("KernelClassifier", "gaussian")
    found = run(classifier, tmp_path / "model.onnx", {"X": X}, dtype="float32")
    np.testing.assert_allclose(found["probabilities"], classifier.predict_proba(X), atol=1e-4)


def test_default_settings(tmp_path):
    X = default_rows(seed=1)[0]
    check(default_regressor(), tmp_path / "model.onnx", {"X": X}, X)
    check(default_classifier(), tmp_path / "model.onnx", {"X": X}, X)


def test_float32_graphs_at_centres_add_up_in_float64(tmp_path):
    """Rows and results are float32, and nothing is lost but their roundings, however large coefficients are."""
    import onnx

    X = default_rows(seed=1)[0].astype(np.float32)
    regressor = default_regressor()
    assert np.finfo(np.float32).eps * np.abs(regressor._at_centres).sum() > 1e-2
    exact = KernelRidgeGD("gaussian", alpha=1e-10, tol=0.1).fit(*default_rows())
    for model in (regressor, exact):
        found = run(model, tmp_path / "model.onnx", {"X": X}, dtype="float32")["predictions"]
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, model.predict(X.astype(np.float64)), rtol=4 * np.finfo(np.float32).eps)
    classifier = default_classifier()
    found = run(classifier, tmp_path / "model.onnx", {"X": X}, dtype="float32")
    np.testing.assert_allclose(found["probabilities"], classifier.predict_proba(X), atol=4 * np.finfo(np.float32).eps)
    assert found["label"].tolist() == classifier.predict(X).tolist()
    graph = onnx.load(tmp_path / "model.onnx").graph
    assert {each.type.tensor_type.elem_type for each in graph.input} == {onnx.TensorProto.FLOAT}


def test_names_of_columns_are_in_the_metadata(tmp_path):
    import onnx

    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(rows(), columns=["a", "b", "c"])
    model = KernelRegressor("gaussian", n_features=16, tol=0.1, random_state=0).fit(table, target(rows()))
    model.to_onnx(tmp_path / "model.onnx")
    about = {each.key: each.value for each in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert json.loads(about["columns"]) == ["a", "b", "c"]
    assert about["bochner_class"] == "KernelRegressor"


class Bump(ProductKernel):
    """A kernel that the export has not heard of."""

    def quantile(self, u):
        return np.log(u / (1 - u))

    def profile(self, t):
        t = np.pi * np.where(t == 0, 1e-9, t)
        return t / np.sinh(t)


def test_kernels_of_ones_own_on_features(tmp_path):
    X = rows()
    model = bochner.FourierFeatures(Bump(), n_features=16, random_state=0).fit(X)
    check(model, tmp_path / "model.onnx", {"X": X}, X)


def test_what_onnx_cannot_say_is_refused(tmp_path):
    X = rows()
    own = KernelRidgeGD(Bump(), tol=0.1, random_state=0)
    with pytest.raises(bochner.ModelFileError, match="Bump has no form in ONNX"):
        bochner.export_onnx(own.fit(X, target(X)), tmp_path / "m.onnx")
    rough = KernelRegressor(Matern(nu=0.8), finish="centres", metric="diagonal", n_centres=12, tol=0.1, random_state=0)
    with pytest.raises(bochner.ModelFileError, match=r"nu=0.5, 1.5 or 2.5"):
        bochner.export_onnx(rough.fit(X, target(X)), tmp_path / "m.onnx")
    grams = GMKLRegressor("precomputed").fit([X @ X.T], target(X))
    with pytest.raises(bochner.ModelFileError, match="kernel matrices"):
        bochner.export_onnx(grams, tmp_path / "m.onnx")
    with pytest.raises(bochner.ModelFileError, match="'float64' or 'float32'"):
        bochner.export_onnx(grams, tmp_path / "m.onnx", dtype="float16")
    assert not list(tmp_path.iterdir())
