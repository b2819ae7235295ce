"""What is typed wrongly before a command can run, in one line: what was expected, what came, what to type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from bochner.cli import COMMANDS
from bochner.cli.data import PIPE, in_words, named, read_batches, style_of
from bochner.cli.wording import in_options
from bochner.errors import BochnerError, nearest


def in_one_line(error: Any, arguments: Sequence[str], expected: Mapping[str, str]) -> str:
    """A sentence in place of what Typer says; ``expected`` has in words what options may be."""
    told, option = error.format_message().rstrip("."), _option(error)
    name = next((each for each in arguments if not each.startswith("-")), "")
    command = f"bochner {name}" if name in COMMANDS else "bochner"
    if told.startswith("Missing option"):
        return f"{command} needs {option}{_columns(error.ctx.params)}"
    if told.startswith("Missing argument"):
        about = error.param.help.rstrip(".")
        return f"{command} needs {error.param.metavar}, {about[0].lower()}{about[1:]}: see {command} --help."
    if told.startswith("No such command"):
        hint = f" Did you mean {near[0]!r}?" if (near := nearest(name, COMMANDS)) else ""
        return f"There is no command {name!r}.{hint} Use one of {', '.join(COMMANDS)}."
    if told.startswith("No such option"):
        near = nearest(error.option_name, error.possibilities or ())
        hint = f" Did you mean {near[0]}?" if near else ""
        return f"{command} has no option {error.option_name}.{hint} See {command} --help."
    if option in expected:
        given = _given(option, arguments)
        return f"{option} must be {expected[option]}, got {'nothing' if given is None else repr(given)}."
    return f"{told.replace('Value error, ', '')}: see {command} --help."


def _option(error: Any) -> str:
    """The long name of the option that an error is about, or nothing."""
    options = getattr(getattr(error, "param", None), "opts", None) or [getattr(error, "option_name", None) or ""]
    return max(options, key=len)


def _given(option: str, arguments: Sequence[str]) -> str | None:
    """What was typed for an option, the last time that it was; None where it ends the line."""
    found = None
    for each, value in zip_longest(arguments, arguments[1:]):
        if each == option:
            found = value
        elif each.startswith(f"{option}="):
            found = each.removeprefix(f"{option}=")
    return found


def _columns(given: Mapping[str, Any]) -> str:
    """The columns of the file that was named, for one of them is needed, to the end of the sentence."""
    path = given.get("data")
    if path in (None, PIPE):
        return ", the name of a column: give one."
    try:
        first = next(read_batches(path, style_of(given.get("delimiter"), bool(given.get("no_header")))), None)
    except BochnerError as error:
        return f", the name of a column. {in_options(str(error))}"
    names = [] if first is None else first.schema.names
    return f", the name of a column. {named(path)} has {in_words(names)}: give one of them."
