"""Collect the fragments of changes/ under the version of the package at the top of CHANGELOG.md.

    python tools/changelog.py            move the fragments
    python tools/changelog.py --check    only look: every fragment has a known kind and a sentence in it

A release also keeps the list of all that is public, which later lists are compared with: see tools/public_api.py.
A fragment is a file changes/NAME.KIND.md that holds one sentence or a short paragraph; KIND is one of KINDS.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = {"added": "Added", "changed": "Changed", "fixed": "Fixed", "removed": "Removed"}
MARK = "<!-- releases -->"


def main() -> int:
    """Check the fragments, and move them unless told only to look."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing")
    only_look = parser.parse_args().check
    fragments = sorted(path for path in (ROOT / "changes").glob("*.md") if path.name != "README.md")
    faults = [fault for path in fragments if (fault := fault_of(path))]
    if faults or only_look:
        print("\n".join(faults) or f"changes/: {len(fragments)} fragments, all well formed")
        return bool(faults)
    if not fragments:
        print("changes/ holds no fragments: nothing to collect.")
        return 0
    changelog = ROOT / "CHANGELOG.md"
    old = changelog.read_text(encoding="utf-8")
    before, after = old.split(MARK)
    changelog.write_text(f"{before}{MARK}\n\n{entry(fragments).strip()}\n{after}", encoding="utf-8")
    for path in fragments:
        path.unlink()
    shutil.copyfile(ROOT / "tools" / "public_api.txt", ROOT / "tools" / "public_api_released.txt")
    print(f"Moved {len(fragments)} fragments to CHANGELOG.md")
    return 0


def fault_of(path: Path) -> str | None:
    """What is wrong with a fragment, if anything."""
    parts = path.name.split(".")
    if len(parts) != 3 or parts[1] not in KINDS:
        return f"{path.relative_to(ROOT)}: the name must be NAME.KIND.md, KIND one of {', '.join(KINDS)}."
    if not path.read_text(encoding="utf-8").strip():
        return f"{path.relative_to(ROOT)}: is empty; say what changed for a user."
    return None


def entry(fragments: list[Path]) -> str:
    """The section of this version: a heading, then the fragments by kind."""
    lines = [f"## {version()} ({date.today().isoformat()})", ""]
    for kind, title in KINDS.items():
        chosen = [path for path in fragments if path.name.split(".")[1] == kind]
        if chosen:
            lines += [f"### {title}", ""]
            lines += ["- " + " ".join(path.read_text(encoding="utf-8").split()) for path in chosen]
            lines.append("")
    return "\n".join(lines)


def version() -> str:
    """The version in bochner/__init__.py, read without importing the package."""
    found = re.search(r'__version__ = "([^"]+)"', (ROOT / "bochner" / "__init__.py").read_text(encoding="utf-8"))
    if found is None:
        raise ValueError('bochner/__init__.py must hold a line __version__ = "...".')
    return found.group(1)


if __name__ == "__main__":
    sys.exit(main())
