"""Which columns are X, targets and weights, and errors for those that cannot be."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bochner.errors import InputError
from bochner.rows.files import suggest

Column = str | int


@dataclass(frozen=True)
class Choice:
    """Positions of columns in a file: those of X, of the targets (None: no targets) and of the weight."""

    X: tuple[int, ...]
    targets: tuple[int, ...] | None = None
    weight: int | None = None
    one_target: bool = True
    """Whether y is (k,), not (k, c)."""

    @property
    def used(self) -> tuple[int, ...]:
        """All of them."""
        return (*self.X, *(self.targets or ()), *(() if self.weight is None else (self.weight,)))


@dataclass(frozen=True)
class Wanted:
    """The columns that were asked for, by name or by number (negative from the end)."""

    columns: Any = None
    target: Any = None
    weight: Any = None

    def among(self, names: Sequence[str] | int, where: str, left_out: Sequence[str] = ()) -> Choice:
        """The same as positions among the names of a file, or a number of columns; all others are X if none were asked for.

        ``left_out`` are names of columns that are X only where they are asked for.
        """
        targets = None if self.target is None else [position(c, names, where, "target") for c in as_list(self.target)]
        weight = None if self.weight is None else position(self.weight, names, where, "weight")
        apart = {*(targets or ()), weight}
        if self.columns is None:
            out = set(left_out)
            n = names if isinstance(names, int) else len(names)
            chosen = [i for i in range(n) if i not in apart and (isinstance(names, int) or names[i] not in out)]
        else:
            chosen = [position(c, names, where, "columns") for c in as_list(self.columns)]
        for i in chosen:
            if i in apart:
                role = "weight" if i == weight else "target"
                raise InputError(
                    f"{label(i, names)} is the {role} and also among columns: take it out of columns=, or change {role}=."
                )
        if targets is not None and weight in targets:
            raise InputError(f"{label(targets[0], names)} is both target and weight: give another weight=.")
        _refuse_twice([*chosen], names, "columns")
        _refuse_twice([*(targets or ())], names, "target")
        if not chosen:
            raise InputError(
                f"{where} has no columns left for X: its columns are {shown(names)}. Name fewer of them as target= "
                "and weight=."
            )
        return Choice(tuple(chosen), None if targets is None else tuple(targets), weight, not is_list(self.target))


def position(column: Any, names: Sequence[str] | int, where: str, role: str) -> int:
    """Position of a column given by name or number."""
    n = names if isinstance(names, int) else len(names)
    if isinstance(column, numbers.Integral) and not isinstance(column, bool):
        if not -n <= int(column) < n:
            raise InputError(f"{role}={column} is no column of {where}, which has {n}: give a number from 0 to {n - 1}.")
        return int(column) % n
    if isinstance(column, str) and not isinstance(names, int):
        found = next((i for i, name in enumerate(names) if name == column), None)
        if found is not None:
            return found
        hint = suggest(column, names)
        raise InputError(
            f"{where} has no column {column!r} (asked for by {role}=).{hint} Its columns are {shown(names)}. Name one "
            "of these."
        )
    expected = "a number" if isinstance(names, int) else "a name or a number"
    reason = ": its columns have no names" if isinstance(names, int) else ""
    raise InputError(f"{role} must be {expected} of a column of {where}{reason}, got {column!r}.")


def label(i: int, names: Sequence[str] | int) -> str:
    """A column as errors call it."""
    return f"Column {i}" if isinstance(names, int) else f"Column {names[i]!r}"


def shown(names: Sequence[str] | int) -> str:
    """The names of columns, the first ten of them."""
    if isinstance(names, int):
        return f"numbers from 0 to {names - 1}" if names else "none"
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return (", ".join(repr(name) for name in list(names)[:10]) + more) or "none"


def is_list(value: Any) -> bool:
    """Whether several columns were given (even if they are one)."""
    return value is not None and not isinstance(value, str | numbers.Integral) and hasattr(value, "__iter__")


def as_list(value: Any) -> list[Any]:
    """One or several columns as a list."""
    return list(value) if is_list(value) else [value]


def _refuse_twice(chosen: list[int], names: Sequence[str] | int, role: str) -> None:
    seen: set[int] = set()
    for i in chosen:
        if i in seen:
            raise InputError(f"{label(i, names)} is given twice in {role}=: give it once.")
        seen.add(i)
