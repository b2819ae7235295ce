"""Peers that live in environments of their own: how these are made, and what is said where a peer cannot be had."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness import ROOT
from skl_common import say

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""What a process reads to know how many threads it may have."""


class Unavailable(Exception):  # noqa: N818
    """A peer that cannot run here, and why."""


def peer_python(name: str, option: str) -> str:
    """The interpreter of build/NAME-venv, which is made from requirements/NAME.txt if it is not there.

    ``option`` is what to type where that fails.
    """
    folder, packages = ROOT / "build" / f"{name}-venv", ROOT / "requirements" / f"{name}.txt"
    python, ready = folder / "bin" / "python", folder / packages.name
    wanted = packages.read_text(encoding="utf-8")
    if not ready.exists() or ready.read_text(encoding="utf-8") != wanted:
        say(f"making {folder.relative_to(ROOT)} from {packages.relative_to(ROOT)}")
        for command in _commands(folder, python, packages):
            if subprocess.run(command).returncode:
                raise Unavailable(f"{' '.join(command)} failed; name an interpreter that has it with {option}")
        ready.write_text(wanted, encoding="utf-8")
    return str(python)


def _commands(folder: Path, python: Path, packages: Path) -> tuple[list[str], list[str]]:
    make = [sys.executable, "-m", "venv", "--clear", str(folder)]
    return make, [str(python), "-m", "pip", "install", "--quiet", "--requirement", str(packages)]
