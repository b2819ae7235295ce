"""The documentation tells the truth: its Python blocks run, its outputs are those shown, its links lead somewhere."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from bochner.kernels import KERNELS

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "changes" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DECIMAL = re.compile(r"\d+\.\d+")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def name(path):
    return str(path.relative_to(ROOT))


def words(text):
    """A text without its decimal numbers."""
    return DECIMAL.sub("#", text)


def numbers(text):
    """The decimal numbers of a text."""
    return [float(number) for number in DECIMAL.findall(text)]


def python_blocks(text):
    """Each Python block of a page: its code at its own line numbers, and the output shown right after it."""
    found = list(BLOCK.finditer(text))
    for i, block in enumerate(found):
        if block[1] == "python":
            following = found[i + 1] if i + 1 < len(found) else None
            adjacent = following is not None and not text[block.end() : following.start()].strip()
            shown = following[2] if adjacent and following[1] == "text" else ""
            yield "\n" * text.count("\n", 0, block.start(2)) + block[2], shown


@pytest.mark.parametrize("page", [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")], ids=name)
def test_python_blocks_run_and_print_what_is_shown(page, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    variables = {"__name__": "__main__"}
    for code, shown in python_blocks(page.read_text(encoding="utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec", dont_inherit=True), variables)
        assert words(printed.getvalue()) == words(shown)
        assert numbers(printed.getvalue()) == pytest.approx(numbers(shown), rel=0.02)  # a score may move by a row or two


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_to_files_and_headings_lead_somewhere(page):
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        file, _, heading = link.partition("#")
        target = page.parent / file if file else page
        assert target.exists(), f"{name(page)} links to {file}, which is not there"
        if heading:
            assert heading in headings(target.read_text(encoding="utf-8")), f"{name(page)} links to #{heading}"


def headings(text):
    """Addresses of the headings of a page, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", BLOCK.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_is_in_the_tables(kernel):
    assert f"`{kernel}`" in (ROOT / "README.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
    assert re.search(rf"^### .*\b{kernel}\b", page, re.MULTILINE)
    assert f"figures/kernel_{kernel}.png" in page
