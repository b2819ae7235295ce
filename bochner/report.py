"""Reports: one HTML page that holds its own pictures and needs nothing else.

A page is plain data: :class:`Page` holds sections, a :class:`Section` holds blocks (:class:`Text`, :class:`Table`,
:class:`Figure`, :class:`Code`, :class:`Link`). :func:`render` turns it into HTML and :func:`write` puts it on disk. Text is
escaped, pictures are embedded, no script runs; the page adapts to narrow screens and to light and dark schemes.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

from bochner.durable import replace_file, writing
from bochner.errors import InputError

_SIGNATURES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"<?xml", "image/svg+xml"), (b"<svg", "image/svg+xml"))


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Table:
    """A table: a header (none, if its names are empty) and rows of cells.

    Cells that look like numbers, with or without a unit, are set to the right.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""
    links: bool = False
    """Whether the first cell of each row leads to the section of that title."""
    prose: bool = False
    """Whether cells are sentences, which go on in the next line where there is no room."""


@dataclass(frozen=True)
class Figure:
    """A picture: the bytes of a PNG or SVG file, and perhaps a second one for dark screens.

    ``alt`` says in words what it shows. Several figures that follow each other share a line where there is room;
    ``small`` ones share it even on a phone, ``wide`` ones with few others.
    """

    image: bytes
    alt: str
    caption: str = ""
    dark: bytes | None = None
    small: bool = False
    wide: bool = False

    def __post_init__(self) -> None:
        _kind(self.image)
        if self.dark is not None:
            _kind(self.dark)


@dataclass(frozen=True)
class Code:
    """Lines of a program, as they are."""

    text: str


@dataclass(frozen=True)
class Link:
    """A paragraph that leads to another file, by its address relative to the page."""

    text: str
    address: str


Block = Text | Table | Figure | Code | Link


@dataclass(frozen=True)
class Section:
    """A title and blocks under it."""

    title: str
    blocks: Sequence[Block] = ()


@dataclass(frozen=True)
class Page:
    """A title, an opening line, and sections."""

    title: str
    lead: str = ""
    sections: Sequence[Section] = ()
    footer: str = ""


def figure_bytes(figure: Any, *, kind: str = "png", dpi: int = 160) -> bytes:
    """A Matplotlib figure as the bytes of a PNG or SVG file with a transparent background."""
    buffer = BytesIO()
    figure.savefig(buffer, format=kind, dpi=dpi, transparent=True)
    return buffer.getvalue()


def render(page: Page) -> str:
    """The page as HTML.

    Examples
    --------
    >>> from bochner.report import Page, Section, Table, render
    >>> page = Page("Errors", sections=[Section("All", [Table(["kernel", "error"], [["a < b", 0.25]])])])
    >>> "<td>a &lt; b</td>" in render(page)
    True
    """
    anchors = _anchors(page.sections)
    contents = "".join(f'<a href="#{anchors[i]}">{escape(s.title)}</a>' for i, s in enumerate(page.sections))
    titles = {section.title: anchors[i] for i, section in reversed(list(enumerate(page.sections)))}
    sections = "".join(
        f'<section id="{anchors[i]}"><h2>{escape(section.title)}</h2>{_blocks(section.blocks, titles)}</section>\n'
        for i, section in enumerate(page.sections)
    )
    lead = f'<p class="lead">{escape(page.lead)}</p>' if page.lead else ""
    navigation = f'<nav aria-label="Sections">{contents}</nav>' if len(page.sections) > 1 else ""
    footer = f"<footer>{escape(page.footer)}</footer>" if page.footer else ""
    return _PAGE.format(title=escape(page.title), style=_STYLE, body=f"{lead}{navigation}\n{sections}{footer}")


def write(page: Page, path: str | os.PathLike[str]) -> Path:
    """Write the page to ``path`` and return it; the folder is made, and no reader ever sees half a page."""
    path = Path(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, lambda file: file.write(render(page).encode()))
    return path


def _blocks(blocks: Sequence[Block], titles: dict[str, str]) -> str:
    parts: list[str] = []
    for i, block in enumerate(blocks):
        if isinstance(block, Figure):
            first = i == 0 or not isinstance(blocks[i - 1], Figure)
            last = i + 1 == len(blocks) or not isinstance(blocks[i + 1], Figure)
            parts.append(('<div class="figures">' if first else "") + _figure(block) + ("</div>" if last else ""))
        elif isinstance(block, Table):
            parts.append(_table(block, titles))
        elif isinstance(block, Code):
            parts.append(f'<pre tabindex="0"><code>{escape(block.text)}</code></pre>')
        elif isinstance(block, Link):
            parts.append(f'<p><a href="{escape(block.address)}">{escape(block.text)}</a></p>')
        else:
            parts.append(f"<p>{escape(block.text)}</p>")
    return "".join(parts)


def _table(table: Table, titles: dict[str, str]) -> str:
    def cell(value: Any, column: int) -> str:
        text = str(value)
        shown = escape(text).replace("_", "_<wbr>")
        if table.links and column == 0 and text in titles:
            shown = f'<a href="#{titles[text]}">{shown}</a>'
        is_number = _NUMBER.fullmatch(text) and not table.prose
        return f'<td class="number">{shown}</td>' if is_number else f"<td>{shown}</td>"

    numeric = [
        not table.prose and all(_NUMBER.fullmatch(str(row[j])) for row in table.rows) for j in range(len(table.header))
    ]
    header = "".join(
        f'<th scope="col"{" class=number" if numeric[j] and table.rows else ""}>{escape(name)}</th>'
        for j, name in enumerate(table.header)
    )
    rows = "".join("<tr>" + "".join(cell(value, j) for j, value in enumerate(row)) + "</tr>" for row in table.rows)
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    head = f"<thead><tr>{header}</tr></thead>" if any(table.header) else ""
    inside = f"{caption}{head}<tbody>{rows}</tbody>"
    kind = ' class="prose"' if table.prose else ""
    return f'<div class="scroll" tabindex="0"><table{kind}>{inside}</table></div>'


def _figure(figure: Figure) -> str:
    image = f'<img src="{_data_address(figure.image)}" alt="{escape(figure.alt)}">'
    if figure.dark is not None:
        source = f'<source media="(prefers-color-scheme: dark)" srcset="{_data_address(figure.dark)}">'
        image = f"<picture>{source}{image}</picture>"
    caption = f"<figcaption>{escape(figure.caption)}</figcaption>" if figure.caption else ""
    kinds = ["small"] * figure.small + ["wide"] * figure.wide + ["paper"] * (figure.dark is None)
    return f'<figure class="{" ".join(kinds)}">{image}{caption}</figure>'


def _data_address(image: bytes) -> str:
    return f"data:{_kind(image)};base64,{base64.b64encode(image).decode('ascii')}"


def _kind(image: bytes) -> str:
    for signature, kind in _SIGNATURES:
        if image[:64].lstrip().startswith(signature):
            return kind
    raise InputError(
        f"a figure must be the bytes of a PNG or SVG file, got bytes that begin with {image[:8]!r}: save it as one."
    )


def _anchors(sections: Sequence[Section]) -> list[str]:
    """A distinct address for each section, made from its title."""
    anchors: list[str] = []
    for section in sections:
        base = re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-") or "section"
        anchors.append(base if base not in anchors else f"{base}-{len(anchors)}")
    return anchors


_NUMBER = re.compile(r"[-+\u2212]?\d[\d,. ]*(?:e[-+]?\d+)?(?:\s?(?:%|\u00d7|[mµn]?s))?|\u2013")  # 1.5e-3, 12 ms, 3 %, a dash

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body><main><h1>{title}</h1>
{body}
</main></body>
</html>
"""

_STYLE = """
:root{--paper:#fff;--ink:#1c2430;--soft:#5b6675;--line:#dfe4ea;--band:#f5f7f9;--link:#0b62b0}
@media (prefers-color-scheme:dark){
:root{--paper:#14181d;--ink:#e3e7ec;--soft:#9ba6b3;--line:#2d353f;--band:#1b2027;--link:#7fb8f0}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:68rem;margin:0 auto;padding:1.5rem 1rem 3rem}
h1{font-size:clamp(1.35rem,6.2vw,1.8rem);overflow-wrap:anywhere;line-height:1.2;margin:.5rem 0}
h2{font-size:1.25rem;margin:0 0 .5rem}
p{max-width:56rem;overflow-wrap:break-word;margin:.5rem 0}
.lead{font-size:1.1rem;color:var(--soft)}
a{color:var(--link)}
nav{display:flex;flex-wrap:wrap;gap:.3rem 1rem;margin:1rem 0;font-size:.9rem}
section{border-top:1px solid var(--line);padding:1.4rem 0 1rem;display:flex;flex-wrap:wrap;align-items:flex-start;
column-gap:1.5rem}
section>*{flex:1 1 100%;min-width:0}
section>.figures:has(>figure:only-child){flex-basis:22rem}
section>.figures:has(>figure:only-child)+.scroll{flex-basis:30rem}
.scroll{overflow-x:auto;margin:.8rem 0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.92rem;min-width:100%}
caption{text-align:left;color:var(--soft);padding:.2rem 0 .5rem}
th,td{text-align:left;padding:.35rem .8rem;border-bottom:1px solid var(--line);white-space:nowrap}
thead th{border-bottom-width:2px;font-weight:600}
.prose td{white-space:normal;overflow-wrap:anywhere}
.prose td:first-child{color:var(--soft);white-space:nowrap;vertical-align:top}
tbody tr:nth-child(even){background:var(--band)}
.number{text-align:right}
pre{overflow-x:auto;margin:.8rem 0;padding:.8rem 1rem;background:var(--band);border:1px solid var(--line);border-radius:4px;
font:.88rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.figures{display:flex;flex-wrap:wrap;gap:1rem;margin:.8rem 0}
figure{flex:1 1 15rem;max-width:min(100%,34rem);margin:0}
figure.wide{flex-basis:19rem}
figure.small{flex:.75 1 9.5rem;max-width:min(100%,18rem)}
figure.paper img{background:#fff;border-radius:4px}
img{display:block;width:100%;height:auto}
figcaption{color:var(--soft);font-size:.85rem;text-align:center;padding-top:.3rem}
footer{border-top:1px solid var(--line);padding-top:1rem;color:var(--soft);font-size:.85rem}
@media (max-width:40rem){table{font-size:.85rem}th,td{padding:.3rem .45rem}th,td:first-child{white-space:normal}}
@media print{section{break-inside:avoid}}
"""
