"""Draw learned kernels, and every kernel beside its approximation: report/index.html.

The page is a list of sections, made in this order:

1. learning (demo_learning.py): a regression, a classification, and three columns that count among twenty;
2. many kernels (demo_many.py): views of images and of noise, of which group lasso keeps those that count;
3. kernels (demo_kernels.py): each kernel exact and through features, with the error and the time of both;
4. cost (demo_kernels.py): time against the number of rows.

Beside it is report/model.html, what one model says of itself (demo_learning.py).

Pictures are drawn by demo_figures.py. Data comes with scikit-learn, or is made here. A new section is a new function in
SECTIONS. Run it with ``make demo``, or ``python examples/demo.py --output somewhere/index.html``.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import sklearn
from demo_kernels import cost, kernels
from demo_learning import learning, write_model
from demo_many import many_kernels

import bochner
from bochner.report import Link, Page, Section, write

MODEL = "model.html"
"""The report of one model, beside the page."""
SECTIONS: list[Callable[[], Iterator[Section]]] = [learning, many_kernels, kernels, cost]
"""The page, from top to bottom."""


def main() -> None:
    """Make the page and say where it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("report/index.html"), help="where the page goes")
    output = parser.parse_args().output
    start = time.perf_counter()
    sections = [section for make in SECTIONS for section in make()]
    sections.append(Section("A model by itself", [Link("What one model says of itself: model.report(...)", MODEL)]))
    page = Page(
        title="Kernels and their features",
        lead="Kernels learned from data, and each kernel of bochner computed exactly and through features.",
        sections=sections,
        footer=(
            f"bochner {bochner.__version__}, NumPy {np.__version__}, scikit-learn {sklearn.__version__}, "
            f"Python {platform.python_version()}, {platform.system()} {platform.machine()}. "
            f"Times are those of the fastest of several calls on this machine. "
            f"Made in {time.perf_counter() - start:.0f} seconds."
        ),
    )
    path = write(page, output)
    write_model(path.with_name(MODEL))
    print(f"\nThe report is ready, open it in a browser: {path.resolve().as_uri()}")


if __name__ == "__main__":
    main()
