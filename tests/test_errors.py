"""The errors of bochner are one family, and every message says what was expected, what came, and what to type.

All ``raise`` statements are read. Those of what Python itself asks for (``NotImplementedError`` of a contract,
``AttributeError`` of a name) stay built in. Messages that calls of the public face provoke are in tests/provoked_errors.py.
"""

import ast
import builtins
import importlib
import inspect
import pkgutil
import re

import pytest

from bochner import errors
from tests.provoked_errors import CALLS, DATA, EXPECTED, REMEDY
from tests.raised_texts import PACKAGE, Source, raises, texts

BUILT_IN = {
    "AttributeError": "a name that is not there, of a module or of an estimator with other parameters",
    "NotImplementedError": "a contract that a class has not filled",
    "KeyboardInterrupt": "Ctrl-C, handed on",
    "TypeError": "caught by the function that raises it",
    "EOFError": "told again as UnreadableError",
    "TimeoutError": "told again as StateError",
    "argparse.ArgumentTypeError": "what argparse asks for",
    "typer.Exit": "how a command ends",
    "Interrupted": "Ctrl-C of a command, which no fit may take for its own",
}
"""What is raised beside the family, and why."""
MADE_BEFORE = {"_lost": "StateError", "better": "UnreadableError", "not_that_type": "UnreadableError"}
"""Functions and names that hold an error of the family."""


def statements():
    for source, _, node in raises():
        yield source.name, node


def raised(node):
    """The name of what a statement raises."""
    return ast.unparse(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)


def family():
    """All classes of the family, wherever they are, by name."""
    for module in pkgutil.walk_packages([str(PACKAGE)], "bochner."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found, new = set(), {errors.BochnerError}
    while new:
        found |= new
        new = {sub for cls in new for sub in cls.__subclasses__()} - found
    return {cls.__name__: cls for cls in found if cls.__module__.startswith("bochner.")}


def test_every_raise_is_of_the_family_or_listed():
    known = set(family()) | set(BUILT_IN) | set(MADE_BEFORE)
    others = [f"{path}:{node.lineno} raises {raised(node)}" for path, node in statements() if raised(node) not in known]
    assert not others, f"raise one of bochner.errors ({', '.join(errors.__all__)}): {others}"
    used = {raised(node) for _, node in statements()}
    assert set(BUILT_IN) | set(MADE_BEFORE) <= used, "take out of the lists what nothing raises any more"


def test_every_member_is_a_built_in_error_too():
    for name, cls in family().items():
        parents = [parent for parent in cls.__mro__ if parent.__module__ == "builtins"]
        plain = {parent.__name__ for parent in parents} - {"Exception", "BaseException", "object"}
        assert plain or name in ("BochnerError", "CommandError", "NotThatTypeError")
        assert all(hasattr(builtins, each) for each in plain)
        assert inspect.getdoc(cls)
    assert set(errors.__all__) <= set(family())
    assert issubclass(errors.NotEnoughMemoryError, MemoryError)
    assert issubclass(errors.NotEnoughMemoryError, ValueError)
    assert issubclass(errors.MissingFileError, FileNotFoundError)


TOLD_AGAIN = {
    "archives.py:read_arrays": "archives.py:read_made",
    "archives.py:check_archive": "archives.py:read_made",
    "archives.py:check_header": "reproduce/views.py:_from_npz",
    "archives.py:read_header": "rows/files.py:reading",
    "estimators/folds.py:listed_parts": "estimators/folds.py:listed_parts",
    "estimators/folds.py:_pair": "estimators/folds.py:listed_parts",
    "estimators/parts.py:by_number": "estimators/parts.py:_columns",
    "estimators/parts.py:_number": "estimators/parts.py:_columns",
    "estimators/parts.py:_columns": "estimators/parts.py:_columns",
    **{
        f"reproduce/mat_files.py:{name}": "reproduce/mat_files.py:read_mat"
        for name in ("_variables", "_elements", "_parts", "_numbers", "_cell", "_sparse", "_text", "take")
    },
    "vision/classifier.py:_of_arrays": "archives.py:read_made",
}
"""Functions whose errors are parts of a sentence, and one that catches them and says the whole."""
HANDED_ON = {
    "cli/fitting.py:_is_large": "of as_bytes",
    "cli/tasks.py:_refuse_mostly_numbers": "of Tally.in_words, which says what to do with the cells",
    "cli/tasks.py:_targets": "of cells_of",
    "estimators/block_by_block.py:_of_rows": "of the rows of a partition",
    "estimators/folds.py:about_validation_set": "of the checks of rows",
    "estimators/parts.py:check_rows": "of Kernel.check_rows",
    "estimators/parts.py:_kernel_of": "of get_kernel",
    "estimators/validation.py:check_block": "of the checks of rows",
    "estimators/views.py:_check_views": "of the checks of rows",
    "estimators/views.py:_check": "of the checks of rows",
    "persistence/files.py:load": "of read_header and _model",
    "persistence/files.py:_read": "of _what_it_is, which says what reads a file of another kind",
    "rows/json_lines.py:json_batches": "of NotThatTypeError, made by the caller",
    "rows/tables.py:placed": "of TableFile.place",
    "rows/tables.py:_chosen": "of Wanted.among",
    "rows/tables.py:_refuse_type": "of TableFile.about_text, which says how to encode",
    "tables/encoder.py:_cells": "of cells_of",
}
"""Functions that put a place before another message of the package, and which."""


def messages():
    """The place of each statement that raises an error of the family, and all texts that it can have."""
    for source, function, node in raises():
        if raised(node) not in BUILT_IN:
            yield f"{source.name}:{function.name if function else ''}", texts(node, source, function)


def test_every_written_message_says_what_to_type():
    """Whatever comes of its conditions; but for parts of sentences, and for messages that are handed on."""
    listed = {*TOLD_AGAIN, *HANDED_ON}
    without = {}
    for place, found in messages():
        if wrong := [text for text in found if not REMEDY.search(text)]:
            without.setdefault(place, set()).update(wrong)
    others = [f"{place} {text}" for place, found in without.items() if place not in listed for text in sorted(found)]
    assert not others, "\n".join(others)
    assert set(without) >= {*TOLD_AGAIN, *HANDED_ON}, "take out of the lists what has a remedy of its own"
    assert all(re.search(r"\{\}\.?( |$)", text) for place in HANDED_ON for text in without[place])


@pytest.mark.parametrize("place", sorted(set(TOLD_AGAIN.values())))
def test_what_is_told_again_is_told_with_what_to_type(place):
    """The error that was caught is among the words, and so is a remedy."""
    found = [text for other, all_of_it in messages() if other == place for text in all_of_it]
    assert any("{}" in text and REMEDY.search(text) for text in found), found


def test_texts_are_read_from_the_source():
    source = """
ADVICE = {1: "use one"}

def raiser(x, names):
    hint = f" Did you mean {names[0]}?" if names else ""
    told = "nothing" if x else f"{x!r}"
    raise InputError(f"got {told}.{hint}" + ADVICE[x])
"""
    tree = ast.parse(source)
    made = Source(PACKAGE / "made.py", tree, constants={"ADVICE": tree.body[0].value})
    found = texts(tree.body[1].body[-1], made, tree.body[1])
    assert found == {
        *("got nothing.use one", "got {}.use one"),
        *("got nothing. Did you mean {}?use one", "got {}. Did you mean {}?use one"),
    }


@pytest.mark.parametrize("name", CALLS)
def test_a_message_has_its_three_parts(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind, got, call = CALLS[name]
    with pytest.raises(kind) as caught:
        call(DATA)
    message = str(caught.value)
    assert isinstance(caught.value, errors.BochnerError)
    assert EXPECTED.search(message), f"what was expected? {message}"
    assert got in message, f"what came? {message}"
    assert REMEDY.search(message), f"what to type? {message}"


def test_the_calls_reach_every_public_class_of_the_family():
    assert {kind.__name__ for kind, _, _ in CALLS.values()} >= set(errors.__all__) - {"BochnerError", "StateError"} - {
        "FileAccessError",  # a disk that is full or closed: tests/test_checkpoint.py
        "MissingPackageError",  # tests/rows/test_errors.py, tests/persistence/test_onnx.py
    }


def test_the_parts_are_told_apart():
    assert EXPECTED.search("alpha must be positive")
    assert not EXPECTED.search("alpha: wrong")
    assert REMEDY.search("use alpha=1")
    assert REMEDY.search("alpha must be positive")
    assert REMEDY.search("it is damaged: copy it again")
    for text in (
        "that was wrong",
        "the text of the fit, which was set",
        "a name or a number",
        "its name must be read",
        "see there",
    ):
        assert not REMEDY.search(text), text
