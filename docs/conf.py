"""The documentation site: ``make docs`` builds it to build/docs, with warnings as errors.

Pages are the Markdown files of this folder, which read well without the site too. The gallery is made of
examples/gallery, the reference of docstrings.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import matplotlib

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
matplotlib.use("Agg")

import bochner  # noqa: E402

project = "bochner"
author = "The bochner developers"
version = release = bochner.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["figures/reproduce/*.md", "auto_examples/*.md", "auto_examples/*.py.md5"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
templates_path = ["templates"]

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]  # which keeps the underscores of their names
napoleon_use_rtype = False

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples" / "gallery"),
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/",
    "within_subsection_order": "gallery_order.ExampleOrder",
    "download_all_examples": False,
    "show_signature": False,
    "capture_repr": (),
    "min_reported_time": 1e9,
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
}

suppress_warnings = ["ref.python"]  # words of a type that are names of several things

html_theme = "furo"
html_title = f"bochner {release}"
html_show_sourcelink = False
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"

# -- pages ----------------------------------------------------------------------------------------------------------------

OUTSIDE = re.compile(r"\[([^\]]*)\]\((?:CHANGELOG\.md|changes/[^)]*)\)")
"""Links of CONTRIBUTING.md to files that are no pages of the site."""


def read(_app: Any, page: str, source: list[str]) -> None:
    """CONTRIBUTING.md, which stands beside the README, is a page of the site too, and links to it lead there."""
    if page == "contributing":
        text = (HERE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
        source[0] = OUTSIDE.sub(r"\1", text.replace("](docs/", "]("))
    source[0] = source[0].replace("](../CONTRIBUTING.md", "](contributing.md")


# -- docstrings -----------------------------------------------------------------------------------------------------------

KEPT = re.compile(r"``.+?``|:[a-z:]+:`[^`]+`")
"""Parts of a docstring that are markup: literals and references. The rest is plain text."""
FIELDS = {"Parameters", "Attributes", "Returns", "Yields", "Raises"}


def plain(text: str) -> str:
    """Plain text for reStructuredText: |x|, s * h and names such as scale_ mean themselves."""
    text = re.sub(r"([*|`\\])", r"\\\1", text)
    return re.sub(r"(?<=\w)_(?!\w)", r"\\_", text)


def plain_line(line: str) -> str:
    """A line of a docstring with its markup as it is, and the rest as plain text."""
    kept = KEPT.findall(line)
    rest = [plain(part) for part in KEPT.split(line)]
    return "".join(part for pair in zip(rest, [*kept, ""], strict=True) for part in pair)


def escape(_app: Any, _what: str, _name: str, obj: Any, _options: Any, lines: list[str]) -> None:
    """Docstrings are plain text with a few references: escape what reStructuredText would take for more.

    Names of fields (at the margin of their section) stay as they are, and so do examples.
    """
    if str(getattr(obj, "__module__", "")).startswith("sklearn"):  # inherited: its first line will do
        lines[:] = [re.sub(r":ref:`(.+?) <.+?>`", r"\1", lines[0])] if lines else []
        return
    section, in_example = "", False
    result = []
    for i, line in enumerate(lines):
        if i + 1 < len(lines) and line and set(lines[i + 1].strip()) == {"-"}:
            section = line.strip()
        underline = set(line.strip()) == {"-"}
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        is_name = section in FIELDS and not line.startswith(" ")
        result.append(line if underline or in_example or is_name else plain_line(line))
    lines[:] = result


def setup(app: Any) -> None:
    """Pages that are elsewhere, and docstrings that are escaped before napoleon reads them."""
    app.connect("source-read", read)
    app.connect("autodoc-process-docstring", escape, priority=400)
