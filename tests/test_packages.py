"""Wheel and sdist hold all that the package needs: they are built, installed into a clean environment, and used there."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytest.importorskip("setuptools", minversion="77")
COPIED = ("bochner", "pyproject.toml", "README.md", "LICENSE")
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, 'build_' + sys.argv[1])(sys.argv[2]))"
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


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """A Python with the wheel, and the packages of this one beside it."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", folder=folder)
    python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    own = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=folder).strip())
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    run(*pip, "--no-build-isolation", built[1], folder=folder)
    (own / "others.pth").write_text(sysconfig.get_path("purelib"))
    return python


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
