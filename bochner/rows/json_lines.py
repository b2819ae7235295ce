"""JSON lines: one object a line, in batches of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from typing import Any

from bochner.rows.files import need

JSON_SUFFIXES = (".jsonl", ".ndjson")
JSON_BYTES = 2**22
"""What is read at a time, up to the end of a line."""


def json_batches(stream: Any, text: Sequence[str], not_that_type: Callable[[str, str], Exception]) -> Iterator[Any]:
    """Record batches of a stream of lines; columns named in ``text`` as text.

    Each batch has the columns of those before it, empty where it has none, and the types that its own values tell: whole
    numbers may be followed by others. Text after something else is ``not_that_type(column, what is told)``.
    """
    pa, json = need("pyarrow", "JSON lines"), need("pyarrow.json", "JSON lines")
    given = pa.schema([(name, pa.string()) for name in text])
    known: dict[str, Any] = {}
    for lines in _lines(stream):
        table = json.read_json(
            BytesIO(lines),
            json.ReadOptions(block_size=len(lines) + 1),
            json.ParseOptions(explicit_schema=given, unexpected_field_behavior="infer"),
        )
        for field in table.schema:
            before = known.get(field.name, pa.null())
            if not _may_follow(pa.types, before, field.type):
                raise not_that_type(field.name, f"{field.type} after {before}")
            known[field.name] = before if pa.types.is_null(field.type) else field.type
        for name, kind in known.items():
            if name not in table.schema.names:
                table = table.append_column(name, pa.nulls(table.num_rows, kind))
        yield from table.select(list(known)).combine_chunks().to_batches()


def _may_follow(types: Any, before: Any, kind: Any) -> bool:
    """Whether a column may have one type in a batch and another in the next."""
    if types.is_null(before) or types.is_null(kind):
        return True
    number = types.is_integer, types.is_floating
    return bool(before == kind or (any(f(before) for f in number) and any(f(kind) for f in number)))


def _lines(stream: Any) -> Iterator[bytes]:
    """Whole lines of a stream, many at a time."""
    rest = b""
    while piece := stream.read(JSON_BYTES):
        whole, end, after = piece.rpartition(b"\n")
        if end:
            yield rest + whole + end
            rest = after
        else:
            rest += piece
    if rest.strip():
        yield rest
