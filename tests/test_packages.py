"""Wheel and sdist hold all that the package needs: they are built, installed into a clean environment, and used there.

An environment sees the packages that pyproject.toml declares, with what these declare in turn, and no others: links lead to
those of this Python, as there need not be a network. So what is imported and not declared is not found.
"""

import importlib.metadata
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytest.importorskip("setuptools", minversion="77")
requirements = pytest.importorskip("packaging.requirements")
COPIED = ("bochner", "pyproject.toml", "README.md", "LICENSE")
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, 'build_' + sys.argv[1])(sys.argv[2]))"
CORE = """
import pickle, sys
import numpy as np, bochner
from bochner import exact
from bochner.errors import MissingPackageError
X = np.random.default_rng(0).random((60, 3)); y = X[:, 0] * X[:, 1]
for make in (bochner.KernelRegressor, bochner.MultipleKernelRegressor):
    model = make(n_features=32, random_state=0).fit(X, y)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
for make in (bochner.KernelClassifier, bochner.MultipleKernelClassifier):
    model = make(n_features=32, random_state=0).fit(X, y > 0.2)
    assert model.predict(X).shape == (60,)
assert bochner.FourierFeatures(n_features=8).fit_transform(X).shape == (60, 8)
assert exact.KernelRidgeGD("gaussian").fit(X, y).predict(X).shape == (60,)
model = bochner.KernelRegressor(random_state=0).fit(X, y)
print(model.summary())
for call, package in ((lambda: model.save("m"), "safetensors"), (lambda: model.to_onnx("m"), "onnx")):
    try:
        call()
    except MissingPackageError as error:
        assert package in str(error) and "pip install" in str(error), error
    else:
        raise AssertionError(f"{package} is no part of the core")
optional = {"torch", "pandas", "pyarrow", "matplotlib", "safetensors", "onnx", "dask", "typer"}
for name in optional:
    try:
        __import__(name)
    except ImportError:
        continue
    raise AssertionError(f"{name} is seen, and not declared")
print(bochner.__file__)
"""
USE = """
import numpy as np, bochner
X = np.random.default_rng(0).random((60, 3)); y = X[:, 0] * X[:, 1]
model = bochner.KernelRegressor(n_features=32, tol=0.1, random_state=0).fit(X, y)
model.save("m.safetensors")
assert np.array_equal(bochner.load("m.safetensors").predict(X), model.predict(X))
model.report("page.html", X=X, y=y)
X = np.random.default_rng(1).random((120, 3)); y = X[:, 0] * X[:, 1]
model = bochner.KernelRegressor("gaussian", random_state=0).fit(X, y)
assert model.finish_ == "centres"
model.save("m.safetensors")
assert np.array_equal(bochner.load("m.safetensors").predict(X), model.predict(X))
print(bochner.__file__)
"""
TYPED = """
import bochner
reveal_type(bochner.KernelRegressor().fit([[0.0]], [0.0]))
reveal_type(bochner.FourierFeatures)
bochner.KernelRegressor(n_feature=3)
"""


def run(*command, folder, **variables):
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environment = {**kept, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg", **variables}
    done = subprocess.run(list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def files_of(folder):
    """What the package should hold."""
    found = (path for path in (folder / "bochner").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix() for path in found}


def build(kind, source, target):
    target.mkdir(exist_ok=True)
    return target / run(sys.executable, "-c", BUILD, kind, target, folder=source).split()[-1]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist of a clean copy, and the wheel that is built from the sdist alone."""
    folder = tmp_path_factory.mktemp("packages")
    (folder / "copy").mkdir()
    for name in COPIED:
        run("cp", "-r", ROOT / name, folder / "copy", folder=folder)
    sdist = build("sdist", folder / "copy", folder / "dist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return sdist, build("wheel", folder / sdist.name.removesuffix(".tar.gz"), folder / "dist")


def declared(extras=()):
    """The names of the packages that pyproject.toml asks for, and of those that these ask for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(each for extra in extras for each in project["optional-dependencies"][extra])]
    waiting, found = [requirements.Requirement(each) for each in asked], set()
    seen = set()
    while waiting:
        wanted = waiting.pop()
        if (wanted.name, frozenset(wanted.extras)) in seen:
            continue
        seen.add((wanted.name, frozenset(wanted.extras)))
        about = importlib.metadata.distribution(wanted.name)
        assert wanted.specifier.contains(about.version, prereleases=True), wanted
        found.add(wanted.name)
        for each in map(requirements.Requirement, about.requires or ()):
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)):
                waiting.append(each)
    return found


def link(names, folder):
    """Links to all files of packages, and nothing else, in a folder."""
    for name in names:
        about = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in about.files if file.parts[0] not in ("..", "__pycache__")}:
            if not (folder / top).exists():
                (folder / top).symlink_to(Path(about.locate_file(top)).resolve())


def environment(folder, packed, names):
    """A Python with a wheel or sdist of this package, and the named packages."""
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", folder=folder)
    python = folder / "venv" / "bin" / "python"
    own = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=folder).strip())
    link(names, own)
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    run(*pip, "--no-build-isolation", packed, folder=folder)
    return python


NO_LINKS = "Windows makes links for administrators only"


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """A Python with the wheel, and what it declares with the extras for the command and for pictures."""
    if os.name == "nt":
        pytest.skip(NO_LINKS)
    return environment(tmp_path_factory.mktemp("environment"), built[1], declared(["cli", "plots"]))


@pytest.mark.skipif(os.name == "nt", reason=NO_LINKS)
@pytest.mark.parametrize("which", ["sdist", "wheel"])
def test_the_core_works_with_what_is_declared_for_it(which, built, tmp_path):
    """No extra is there: what needs one says so, and all else works."""
    builders = {"setuptools"} if which == "sdist" else set()  # declared in [build-system]
    python = environment(tmp_path, built[which == "wheel"], declared() | builders)
    (tmp_path / "place").mkdir()
    told = run(python, "-c", CORE, folder=tmp_path / "place").splitlines()
    assert Path(told[-1]).is_relative_to(tmp_path)


def test_what_is_declared_is_followed():
    found = declared()
    assert {"numpy", "scipy", "scikit-learn", "array-api-compat", "threadpoolctl", "joblib"} <= found
    assert not {"pandas", "matplotlib", "pytest"} & found
    assert found | {"pyarrow", "typer", "matplotlib", "kiwisolver"} <= declared(["cli", "plots"])


def test_both_hold_every_file_of_the_package(built):
    sdist, wheel = built
    expected = files_of(ROOT)
    assert "bochner/py.typed" in expected
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    about = {name for name in names if ".dist-info/" in name}
    assert names - about == expected
    assert any(name.endswith("licenses/LICENSE") for name in about)
    with tarfile.open(sdist) as archive:
        packed = {name.split("/", 1)[-1] for name in archive.getnames()}
    assert expected | {"pyproject.toml", "README.md", "LICENSE"} <= packed


def test_the_wheel_works_outside_the_checkout(installed, tmp_path):
    place = run(installed, "-c", USE, folder=tmp_path).split()[-1]
    assert Path(place).is_relative_to(installed.parents[1])
    command = installed.parent / "bochner"
    assert "fit" in run(command, "--help", folder=tmp_path)
    (tmp_path / "rows.csv").write_text("a,b,y\n" + "".join(f"{i % 7},{i % 5},{i % 7 + i % 5}\n" for i in range(60)))
    run(command, "fit", "rows.csv", "--target", "y", "--features", "32", "-o", "rows.safetensors", folder=tmp_path)
    assert (tmp_path / "rows.safetensors").exists()


def test_mypy_sees_the_types_of_the_installed_package(installed, tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "use.py").write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--python-executable", installed, "--follow-imports=silent", "use.py"]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    told = subprocess.run(
        list(map(str, command)), cwd=tmp_path, env=kept, capture_output=True, text=True, timeout=300
    ).stdout
    assert 'Revealed type is "bochner.estimators.regressors.KernelRegressor"' in told, told
    assert 'Unexpected keyword argument "n_feature" for "KernelRegressor"' in told
    assert "py.typed" not in told
