"""List all that is public, names and signatures, in tools/public_api.txt.

    python tools/public_api.py             write the list anew, after a change that is meant
    python tools/public_api.py --check     only look: the list is that of the code

Public is what docs/api.md names, bochner.__all__, and what BESIDE lists. At a release (tools/changelog.py) the list is
copied to tools/public_api_released.txt; from then on whatever differs from it needs a fragment in changes/: a `removed` or
`changed` one for a line that is gone, an `added` or `changed` one for a line that is new. Before the first release there is
nothing to compare with, and the list is what later ones are compared with.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import inspect
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BESIDE: dict[str, tuple[str, ...] | None] = {
    "bochner.engines": ("SmallerBlocksWarning",),
    "bochner.tables": ("TableEncoder", "UnseenLevelsWarning"),
    "bochner.vision": None,
}
"""Names that other pages of the documentation have, by module; None for all of its __all__."""
LISTED, RELEASED = ROOT / "tools" / "public_api.txt", ROOT / "tools" / "public_api_released.txt"


def main() -> int:
    """Write the list, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing")
    only_look = parser.parse_args().check
    sys.path.insert(0, str(ROOT))
    found = listing()
    old = LISTED.read_text(encoding="utf-8") if LISTED.exists() else ""
    changes = list(difflib.unified_diff(old.splitlines(), found.splitlines(), lineterm="", n=0))[2:]
    if only_look:
        faults = [*changes, *lacking(found, released(), kinds())]
        print("\n".join(faults) or f"{LISTED.name}: {len(found.splitlines())} lines, as in the code")
        return bool(faults)
    LISTED.write_text(found, encoding="utf-8")
    print("\n".join([*changes, f"Wrote {LISTED.relative_to(ROOT)}"]))
    return 0


def listing(without: Collection[str] = ()) -> str:
    """A line for every public name and every public method and property of it; ``without`` some modules of BESIDE."""
    lines = [line for module, name in public_names(without) for line in described(module, name)]
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))


def public_names(without: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Pairs (module, name) of bochner.__all__, docs/api.md and BESIDE."""
    package = importlib.import_module("bochner")
    yield from (("bochner", name) for name in package.__all__ if not name.startswith("__") and name != "kernels")
    for block in re.findall(r"```\{eval-rst\}\n(.*?)```", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.DOTALL):
        module = re.search(r"currentmodule:: (\S+)", block)
        yield from ((module[1], name) for name in re.findall(r"^ {3}(\w+)$", block, re.MULTILINE) if module)
    for beside, names in ((module, names) for module, names in BESIDE.items() if module not in without):
        yield from ((beside, name) for name in names or importlib.import_module(beside).__all__)


def described(module: str, name: str) -> Iterator[str]:
    """The lines of one name."""
    thing, full = getattr(importlib.import_module(module), name), f"{module}.{name}"
    if not isinstance(thing, type):
        yield f"{full}{signature(thing)}" if callable(thing) else full
        return
    bases = [base.__name__ for base in thing.__mro__[1:] if base.__module__ in ("builtins", "bochner.errors")]
    yield f"class {full}({', '.join(bases)})" if issubclass(thing, Exception) else f"class {full}{signature(thing)}"
    for attribute in sorted(dir(thing)):
        value = inspect.getattr_static(thing, attribute)
        if not attribute.startswith("_") and _is_ours(thing, attribute):
            plain = isinstance(value, property) or not callable(getattr(thing, attribute, None))
            yield f"{full}.{attribute}" + ("" if plain else signature(getattr(thing, attribute)))


def _is_ours(cls: type, attribute: str) -> bool:
    owner = next(base for base in cls.__mro__ if attribute in vars(base))
    return owner.__module__.startswith("bochner")


def signature(function: Any) -> str:
    """Parameters and defaults; types are checked elsewhere, and addresses in memory left out."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return "(...)"
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in found.parameters.values()]
    text = str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def released() -> str | None:
    """The list of the last release, if there was one."""
    return RELEASED.read_text(encoding="utf-8") if RELEASED.exists() else None


def kinds() -> set[str]:
    """The kinds of fragments in changes/."""
    return {path.name.split(".")[1] for path in (ROOT / "changes").glob("*.*.md")}


def lacking(found: str, old: str | None, fragments: Iterable[str]) -> list[str]:
    """What a changelog must tell of the differences between two lists and does not."""
    if old is None:
        return []
    now, before, there = set(found.splitlines()), set(old.splitlines()), set(fragments)
    faults = []
    if before - now and not there & {"removed", "changed"}:
        faults.append(f"Write changes/NAME.removed.md or NAME.changed.md: {sorted(before - now)[0]} is gone.")
    if now - before and not there & {"added", "changed"}:
        faults.append(f"Write changes/NAME.added.md or NAME.changed.md: {sorted(now - before)[0]} is new.")
    return faults


if __name__ == "__main__":
    sys.exit(main())
