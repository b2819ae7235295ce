"""The documentation site: it builds without a warning, every page is in it, and every example of the gallery runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bochner
from bochner import exact, kernels, plots
from tests.browsers import DESK, PHONE, chromium, opened

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples" / "gallery").glob("*.py"))
NEEDS = {"dask_cluster": "distributed"}
"""Examples of an optional library, without which they cannot run."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1")


def run(*arguments, folder, **variables):
    """A Python process with one thread of BLAS and the package of this folder."""
    environment = {**os.environ, **ONE_THREAD, "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_of_the_gallery_runs_without_a_warning(example, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip(NEEDS.get(example.stem, "numpy"))
    done = run("-W", "error", str(example), folder=tmp_path, BOCHNER_GALLERY_ROWS="5000")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout  # each says something
    assert list(tmp_path.iterdir()) == []  # and leaves nothing behind


def test_every_example_has_its_place():
    order = (ROOT / "docs" / "gallery_order.py").read_text(encoding="utf-8")
    assert {path.stem for path in EXAMPLES} == set(re.findall(r'^    "(\w+)",$', order, re.MULTILINE))


def toctree():
    """Pages that the index of the site leads to."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\{toctree\}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line and not line.startswith(":")]


def test_every_page_is_in_the_contents_once():
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    assert sorted(toctree()) == sorted({*pages, "auto_examples/index"})


def test_every_public_name_is_in_the_reference():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   (\w+)$", text, re.MULTILINE))
    public = {name for module in (bochner, exact, kernels, plots) for name in module.__all__}
    assert public - listed <= {"__version__", "kernels", "KERNELS", "Axes"}  # which are no classes and no functions


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built with warnings as errors from a copy of its sources; the gallery is not run, only shown."""
    for name in ("sphinx", "myst_parser", "furo", "sphinx_gallery", "sphinx_copybutton", "matplotlib"):
        pytest.importorskip(name)
    folder = tmp_path_factory.mktemp("site")
    ignored = shutil.ignore_patterns("auto_examples", "generated", "__pycache__")
    for name in ("docs", "examples", "bochner"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "CONTRIBUTING.md", folder)
    options = ("-W", "--keep-going", "-q", "-D", "plot_gallery=0")
    done = run("-m", "sphinx", *options, "docs", "html", folder=folder, PYTHONPATH=str(folder))
    assert done.returncode == 0, done.stderr[-4000:]
    return folder / "html"


def test_the_site_builds_without_a_warning(site):
    assert (site / "index.html").exists()
    for page in toctree():
        assert (site / f"{page}.html").exists()
    assert all((site / "auto_examples" / f"{path.stem}.html").exists() for path in EXAMPLES)


def test_docstrings_arrive_as_they_were_meant(site):
    """Bars, stars and underscores of plain text are text; references are links."""
    page = (site / "generated" / "bochner.kernels.Laplacian.html").read_text(encoding="utf-8")
    assert "|x_i - z_i|" in page
    page = (site / "generated" / "bochner.KernelRegressor.html").read_text(encoding="utf-8")
    assert "<strong>relevance_</strong>" in page
    assert "<strong>coef_, intercept_</strong>" in page
    assert 'href="bochner.open_rows.html' in page
    assert "problematic" not in page


def test_real_classes_are_shown(site):
    text = re.sub(r"<[^>]+>", "", (site / "extending.html").read_text(encoding="utf-8"))
    for name in ("Gaussian(RadialKernel)", "class SkewedChi2", "class Loss(Protocol)", "class DeviceFolds(Folds)"):
        assert name in text


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("page", ["index", "choosing", "mathematics", "api", "auto_examples/index"])
def test_pages_in_a_browser(site, browser, page, width):
    with opened(browser, site / f"{page}.html", width=width) as (shown, seen):
        assert seen.messages == []
        assert seen.requests == []
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        assert shown.locator("h1").count() == 1
