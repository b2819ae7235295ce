"""The order of the examples in the gallery."""

from __future__ import annotations

from pathlib import Path

ORDER = (
    "single_kernel",
    "learned_metric",
    "many_descriptors",
    "histograms",
    "feature_selection",
    "report",
    "million_rows",
    "gpu",
    "dask_cluster",
    "own_kernel",
    "from_other_libraries",
)
"""Examples of the gallery, in the order in which they are shown."""


class ExampleOrder:
    """The key by which examples are sorted: their place in ORDER, others after them."""

    def __init__(self, folder: str) -> None:
        pass

    def __call__(self, name: str) -> tuple[int, str]:
        """The place of an example, by the name of its file."""
        stem = Path(name).stem
        return (ORDER.index(stem) if stem in ORDER else len(ORDER), stem)

    def __repr__(self) -> str:
        return "ExampleOrder"
