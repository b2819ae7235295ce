"""Ask the package index for known faults of every locked package, by pages that mirrors of the index have too.

    python tools/audit.py            needs the network; ends with 1 where a locked package has a known fault

The page of a version tells the faults of that version, and it is what pip-audit asks for. Mirrors may lack it and have the
page of the project alone, which tells those of the newest version: an older one that is locked is then told as unknown.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("requirements/dev.lock", "requirements/torch.lock")
INDEX = "https://pypi.org/pypi"
PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\+]+)", re.MULTILINE)

Page = Callable[[str], dict[str, Any] | None]


def main() -> int:
    """Print what is known of all locked packages."""
    packages = sorted({pinned for lock in LOCKS for pinned in PINNED.findall((ROOT / lock).read_text(encoding="utf-8"))})
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda pinned: faults_of(*pinned, page), packages))
    faults = [
        f"{name} {version}: {fault}" for (name, version), some in zip(packages, found, strict=True) for fault in some or ()
    ]
    unknown = [" ".join(pinned) for pinned, some in zip(packages, found, strict=True) if some is None]
    print("\n".join(faults) or f"{len(packages) - len(unknown)} of {len(packages)} locked packages: no known fault.")
    if unknown:
        print(f"{len(unknown)} are not the newest of theirs, and the index here tells of these alone: {', '.join(unknown)}.")
    return bool(faults)


def page(address: str) -> dict[str, Any] | None:
    """A page of the index; None where it has none."""
    try:
        with urlopen(f"{INDEX}/{address}/json", timeout=60) as answer:
            return json.load(answer)
    except HTTPError as error:
        if error.code == 404:
            return None
        raise


def faults_of(name: str, version: str, page: Page) -> list[str] | None:
    """The names of the faults that are known of a version, by its own page or the project's; None: they tell nothing."""
    told = page(f"{name}/{version}") or page(name)
    if told is None or told["info"]["version"] != version or "vulnerabilities" not in told:
        return None
    return [fault["id"] for fault in told["vulnerabilities"] if not fault.get("withdrawn")]


if __name__ == "__main__":
    sys.exit(main())
