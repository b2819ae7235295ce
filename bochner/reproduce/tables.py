"""Tables of rows, in Markdown and LaTeX; no number in them comes from anywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bochner.durable import replace_file, write_all

SPECIAL = str.maketrans(
    {
        "&": r"\&",
        "%": r"\%",
        "#": r"\#",
        "_": r"\_",
        "$": r"\$",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "±": r"$\pm$",
    }
)
"""Characters that LaTeX writes in other ways."""
MISSING = "-"
"""A cell without a number."""


@dataclass(frozen=True)
class Table:
    """A header and lines of cells; the first column is text."""

    name: str
    caption: str
    header: Sequence[str]
    lines: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """The table in Markdown, its caption below."""
        widths = [max(3, *(len(line[i]) for line in [self.header, *self.lines])) for i in range(len(self.header))]
        rule = ["-" * width if i == 0 else "-" * (width - 1) + ":" for i, width in enumerate(widths)]

        def line(cells: Sequence[str]) -> str:
            padded = [f"{cell:{'<' if i == 0 else '>'}{widths[i]}}" for i, cell in enumerate(cells)]
            return f"| {' | '.join(padded)} |"

        return "\n".join([line(self.header), line(rule), *map(line, self.lines), "", self.caption])

    def latex(self) -> str:
        """The table in LaTeX, to be included where booktabs is loaded."""
        body = [" & ".join(map(_escaped, cells)) + r" \\" for cells in self.lines]
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                rf"\begin{{tabular}}{{l{'r' * (len(self.header) - 1)}}}",
                r"\toprule",
                " & ".join(map(_escaped, self.header)) + r" \\",
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                rf"\caption{{{_escaped(self.caption)}}}",
                rf"\label{{t:{self.name}}}",
                r"\end{table}",
                "",
            ]
        )


def write_table(table: Table, folder: Path) -> None:
    """Write NAME.md and NAME.tex."""
    folder.mkdir(parents=True, exist_ok=True)
    for suffix, text in ((".md", table.markdown() + "\n"), (".tex", table.latex())):
        data = text.encode()
        replace_file(folder / f"{table.name}{suffix}", lambda file, data=data: write_all(file, data))  # type: ignore[misc]


def number(value: float | None, digits: int = 3) -> str:
    """A number as a cell."""
    return MISSING if value is None or value != value else f"{value:.{digits}f}"


def seconds(value: float | None) -> str:
    """Seconds as a cell."""
    if value is None:
        return MISSING
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _escaped(text: str) -> str:
    return "--" if text == MISSING else text.translate(SPECIAL)
