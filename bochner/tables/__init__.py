"""Tables of pandas, polars and pyarrow as columns of numbers: categories, dates, truth values, gaps."""

from bochner.tables.columns import UnseenLevelsWarning
from bochner.tables.encoder import MOST_LEVELS, TableEncoder
from bochner.tables.frames import is_table, needs_encoding, table_names

__all__ = ["MOST_LEVELS", "TableEncoder", "UnseenLevelsWarning", "is_table", "needs_encoding", "table_names"]
