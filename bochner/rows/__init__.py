"""Rows of a data set in blocks, from disk or memory: the only room that knows file formats."""

from bochner.rows.encoded import EncodedRows
from bochner.rows.files import FileMark, UnreadableError
from bochner.rows.memory import from_arrays, from_blocks
from bochner.rows.opening import open_rows
from bochner.rows.source import Block, RowSource, Sample

__all__ = [
    "Block",
    "EncodedRows",
    "FileMark",
    "RowSource",
    "Sample",
    "UnreadableError",
    "from_arrays",
    "from_blocks",
    "open_rows",
]
