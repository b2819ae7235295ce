"""The loop over blocks of rows on the cores of one machine; it lies below, as products of matrices run in it too."""

from bochner.threads import map_blocks, row_blocks

__all__ = ["map_blocks", "row_blocks"]
