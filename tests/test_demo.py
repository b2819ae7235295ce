"""The demo at small sizes: its sections make a page."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from bochner.report import Figure, Page, Table, render

pytest.importorskip("matplotlib")
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture
def demo(monkeypatch):
    """The demo, as its script sees it, on few rows and features."""
    monkeypatch.syspath_prepend(EXAMPLES)
    import demo
    import demo_kernels

    monkeypatch.setattr(demo_kernels, "KERNELS", ["gaussian", "chi2"])
    monkeypatch.setattr(demo_kernels, "COST_ROWS", (10, 20, 40))
    monkeypatch.setattr(demo_kernels, "COST_EXACT_ROWS", 20)
    monkeypatch.setattr(demo_kernels, "best_time", lambda function: function() is None or 0.001)
    yield demo
    for name in [name for name in sys.modules if name.split("_")[0] == "demo"]:
        monkeypatch.delitem(sys.modules, name)


def pictures(section):
    return [block for block in section.blocks if isinstance(block, Figure)]


def test_a_section_for_every_kernel_and_one_of_cost(demo):
    sections = [section for make in (demo.kernels, demo.cost) for section in make()]
    assert [section.title for section in sections] == ["Summary", "gaussian", "chi2", "Cost"]
    assert [len(pictures(section)) for section in sections] == [0, 4, 4, 1]
    (table,) = [block for block in sections[0].blocks if isinstance(block, Table)]
    assert [row[0] for row in table.rows] == ["gaussian", "chi2"]
    assert render(Page("Demo", sections=sections)).count("<section") == 4


def test_figures_have_a_version_for_dark_screens_and_matrices_have_none(demo):
    import demo_figures

    lines = demo_figures.themed(lambda ax: ax.plot([0, 1]), "A line")
    assert lines.dark is not None
    assert lines.dark != lines.image
    assert demo_figures.matrix(np.eye(2), "Two", "").dark is None


def test_the_page_goes_where_it_is_told(demo, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(demo, "SECTIONS", [demo.cost])
    monkeypatch.setattr(sys, "argv", ["demo.py", "--output", str(tmp_path / "new" / "page.html")])
    demo.main()
    page = tmp_path / "new" / "page.html"
    assert "Kernels and their features" in page.read_text(encoding="utf-8")
    assert 'href="model.html"' in page.read_text(encoding="utf-8")
    assert "What it relies on" in page.with_name("model.html").read_text(encoding="utf-8")
    assert page.as_uri() in capsys.readouterr().out
