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
from pathlib import Path

import pytest

import bochner
from bochner import errors
from tests.provoked_errors import CALLS, DATA, EXPECTED, REMEDY

PACKAGE = Path(bochner.__file__).parent
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
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and node.exc is not None:
                yield path.relative_to(PACKAGE), node


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


def template(node):
    """A message with {...} for its values; None where it is made elsewhere."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


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


def test_every_written_message_says_what_to_type():
    """But for fragments of other messages, which begin small and end without a point, and for those that end in a value."""
    without = []
    for path, node in statements():
        if raised(node) in BUILT_IN or not (isinstance(node.exc, ast.Call) and node.exc.args):
            continue
        text = template(node.exc.args[0])
        is_whole = text and (not text[:1].islower() or text.endswith(".")) and not re.search(r"\{\}\.?$", text)
        if is_whole and not REMEDY.search(text):
            without.append(f"{path}:{node.lineno} {text}")
    assert not without, "\n".join(without)


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
    assert not REMEDY.search("that was wrong")
