"""Nothing asks the network: every socket but those of this machine's own files is refused by Python's audit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GUARD = """
import socket, sys
LOCAL = {getattr(socket, "AF_UNIX", None)}
def refuse(event, arguments):
    if event == "socket.__new__" and arguments[1] not in LOCAL:
        raise OSError(f"a socket of family {arguments[1]} was asked for")
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "urllib.Request", "http.client.connect"):
        raise OSError(f"{event} was asked for: {arguments[:2]}")
sys.addaudithook(refuse)
"""
USE = """
import numpy as np, bochner
from bochner import exact
X = np.random.default_rng(0).random((60, 3)); y = X[:, 0] * X[:, 1]
model = bochner.KernelRegressor(n_features=32, tol=0.1, random_state=0).fit(X, y)
model.save("model.safetensors")
assert np.array_equal(bochner.load("model.safetensors").predict(X), model.predict(X))
model.to_onnx("model.onnx")
model.report("page.html", X=X, y=y)
bochner.KernelClassifier(n_features=32, tol=0.1, random_state=0).fit(X, y > 0.2).predict_proba(X)
X = np.random.default_rng(1).random((120, 3)); y = X[:, 0] * X[:, 1]
model = bochner.KernelRegressor("gaussian", random_state=0).fit(X, y)
assert model.finish_ == "centres"
model.save("default.safetensors")
assert np.array_equal(bochner.load("default.safetensors").predict(X), model.predict(X))
model.to_onnx("default.onnx")
model.report("default.html", X=X, y=y)
kernels = [("a", "gaussian", [0]), ("b", "gaussian", [1, 2])]
bochner.MultipleKernelRegressor(kernels, n_features=16, n_alphas=5, random_state=0).fit(X, y)
exact.GMKLRegressor("gaussian").fit(X, y).predict(X)
bochner.FourierFeatures(random_state=0).fit_transform(X)
from bochner.cli import main
sys.argv = ["bochner", "demo", "--quiet"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
sys.argv = ["bochner", "predict", "bochner-demo/houses.safetensors", "bochner-demo/houses.csv", "-o", "out.csv"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""
DEMO = """
sys.path.insert(0, sys.argv[1])
import demo, demo_kernels
demo_kernels.KERNELS = ["gaussian"]
demo_kernels.COST_ROWS, demo_kernels.COST_EXACT_ROWS = (10, 20), 10
sys.argv = ["demo.py", "--output", "demo.html"]
demo.SECTIONS = [demo.kernels, demo.cost]
demo.main()
"""


def run(code, folder, *arguments):
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", GUARD + code, *arguments]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300, check=False)


def test_importing_fitting_saving_predicting_and_reporting(tmp_path):
    for name in ("safetensors", "onnx", "matplotlib", "typer", "pyarrow"):
        pytest.importorskip(name)
    done = run(USE, tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "page.html").exists()
    assert (tmp_path / "out.csv").exists()


def test_the_demo(tmp_path):
    pytest.importorskip("matplotlib")
    done = run(DEMO, tmp_path, str(ROOT / "examples"))
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "demo.html").exists()


@pytest.mark.parametrize("code", ["socket.socket()", "__import__('urllib.request').request.urlopen('http://127.0.0.1:9')"])
def test_the_guard_refuses(tmp_path, code):
    done = run(code, tmp_path)
    assert done.returncode != 0
    assert "was asked for" in done.stderr
