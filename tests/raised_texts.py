"""What a ``raise`` statement can say: every text that its source can make, with {} for the values that only a run knows."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import bochner

PACKAGE = Path(bochner.__file__).parent
VALUE = "{}"
MOST = 500
"""Texts of one statement; a statement with more counts as one that cannot be read."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Source:
    """A file of the package: its constants and functions by name, and in which function each node is."""

    path: Path
    tree: ast.Module
    constants: dict[str, ast.expr] = field(default_factory=dict)
    functions: dict[str, list[Function]] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Module and name of what is imported from the package."""

    @property
    def name(self) -> str:
        return str(self.path.relative_to(PACKAGE))


def _read(path: Path) -> Source:
    source = Source(path, ast.parse(path.read_text()))
    for node in source.tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            source.constants |= {each.id: node.value for each in targets if isinstance(each, ast.Name)}
    for node in ast.walk(source.tree):
        if isinstance(node, Function):
            source.functions.setdefault(node.name, []).append(node)
        if isinstance(node, ast.ClassDef):
            source.classes[node.name] = node
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bochner."):
            source.imported |= {each.asname or each.name: (node.module, each.name) for each in node.names}
    return source


SOURCES = {source.name: source for source in map(_read, sorted(PACKAGE.rglob("*.py")))}


def raises() -> Iterator[tuple[Source, Function | None, ast.Raise]]:
    """All ``raise`` statements that name what they raise, with the function around each."""
    for source in SOURCES.values():
        yield from ((source, function, node) for function, node in _within(source.tree, None))


def _within(node: ast.AST, function: Function | None) -> Iterator[tuple[Function | None, ast.Raise]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Raise) and child.exc is not None:
            yield function, child
        yield from _within(child, child if isinstance(child, Function) else function)


def texts(node: ast.Raise, source: Source, function: Function | None) -> set[str]:
    """All texts of a statement: of the last argument of its error that has words of its own."""
    return _of_error(node.exc, source, function) if isinstance(node.exc, ast.Call) else {VALUE}


def _of_error(made: ast.Call, source: Source, function: Function | None) -> set[str]:
    """The texts of an error: of its class, where that has words; of a function that returns it; or of its arguments."""
    name = made.func.id if isinstance(made.func, ast.Name) else ""
    if name in source.classes and (own := _of_class(source.classes[name], source)):
        return own
    returned = [
        (node.value, each)
        for each in source.functions.get(name, [])
        for node in ast.walk(each)
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Call)
    ]
    if returned:
        return set().union(*(_of_error(value, source, each) for value, each in returned))
    found = [_texts(each, source, function, 0) for each in made.args]
    return next((each for each in reversed(found) if any(text.strip("{} ") for text in each)), {VALUE})


def _of_class(made: ast.ClassDef, source: Source) -> set[str]:
    """What the constructor of an error says in words of its own."""
    for node in ast.walk(made):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "super().__init__" and node.args:
            found = _texts(node.args[0], source, None, 0)
            if any(text.strip("{} ") for text in found):
                return found
    return set()


def _texts(node: ast.expr, source: Source, function: Function | None, depth: int) -> set[str]:
    def again(each: ast.expr) -> set[str]:
        return _texts(each, source, function, depth + 1)

    if depth > 8:
        return {VALUE}
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) else {VALUE}
    if isinstance(node, ast.JoinedStr):
        return _joined([again(part) for part in node.values])
    if isinstance(node, ast.FormattedValue):
        return {VALUE} if node.conversion == ord("r") else again(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _joined([again(node.left), again(node.right)])
    if isinstance(node, ast.IfExp):
        return again(node.body) | again(node.orelse)
    if isinstance(node, ast.BoolOp):
        return set().union(*map(again, node.values))
    if isinstance(node, ast.Subscript):
        return again(node.value)
    if isinstance(node, ast.Dict):
        return set().union(*map(again, node.values))
    if isinstance(node, ast.Name):
        return _of_name(node.id, source, function, depth)
    if isinstance(node, ast.Call):
        return _of_call(node, source, function, depth)
    return {VALUE}


def _joined(parts: list[set[str]]) -> set[str]:
    return {"".join(each) for each in itertools.islice(itertools.product(*parts), MOST)}


def _of_name(name: str, source: Source, function: Function | None, depth: int) -> set[str]:
    """A name: what the function assigns to it, or the constant of the file, or of another file of the package."""
    found: set[str] = set()
    for node in ast.walk(function) if function else ():
        if not isinstance(node, ast.Assign | ast.AugAssign):
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for to, value in pairs:
                if isinstance(to, ast.Name) and to.id == name:
                    found |= _texts(value, source, function, depth + 1)
    if found:
        return found
    if name in source.constants:
        return _texts(source.constants[name], source, None, depth + 1)
    if name in source.imported and (other := _file_of(source.imported[name][0])):
        return _of_name(source.imported[name][1], other, None, depth + 1)
    return {VALUE}


def _of_call(node: ast.Call, source: Source, function: Function | None, depth: int) -> set[str]:
    """A call: of a method of texts, which keeps the words, or of a function, which returns them."""
    called = node.func
    if isinstance(called, ast.Name) and called.id in ("in_options",):
        return _texts(node.args[0], source, function, depth + 1)
    name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
    if name in source.functions:
        return _returned(source.functions[name], source, depth)
    if name in source.imported and (other := _file_of(source.imported[name][0])):
        return _returned(other.functions.get(source.imported[name][1], []), other, depth)
    if isinstance(called, ast.Attribute) and name in ("rstrip", "strip", "format", "get", "capitalize"):
        defaults = [_texts(each, source, function, depth + 1) for each in node.args if name == "get"][1:]
        return _texts(called.value, source, function, depth + 1).union(*defaults)
    return {VALUE}


def _returned(functions: list[Function], source: Source, depth: int) -> set[str]:
    found: set[str] = set()
    for each in functions:
        for node in ast.walk(each):
            if isinstance(node, ast.Return) and node.value is not None:
                found |= _texts(node.value, source, each, depth + 1)
    return found or {VALUE}


def _file_of(module: str) -> Source | None:
    name = module.removeprefix("bochner.").replace(".", "/")
    return SOURCES.get(f"{name}.py") or SOURCES.get(f"{name}/__init__.py")
