"""List the benchmarks: the name of every script of benchmarks/ and the first line of its docstring."""

from __future__ import annotations

import ast
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"


def main() -> None:
    """Print one line a benchmark; modules that only help others (no ``__main__``) are left out."""
    lines = []
    for path in sorted(FOLDER.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "__main__" in text:
            lines.append((path.stem, (ast.get_docstring(ast.parse(text)) or "no description").splitlines()[0]))
    width = max((len(name) for name, _ in lines), default=0)
    for name, line in lines:
        print(f"  make bench-{name:<{width}}  {line}")
    if not lines:
        print("There are no benchmarks in benchmarks/.")


if __name__ == "__main__":
    main()
