"""The command ``bochner``: it finds a command and hands over, and imports what that needs no sooner."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import bochner
from bochner.progress import note


@dataclass(frozen=True)
class Command:
    """Where a command is: a module with ``main(arguments, prog) -> exit code``."""

    module: str
    help: str
    extra: str
    """The extra of the package that it needs."""
    needs: tuple[str, ...]
    """Modules of that extra."""


COMMANDS = {
    "voc": Command(
        "bochner.vision.command",
        "recognise objects: segments of images, their descriptors, a classifier, its measures",
        "vision",
        ("PIL", "cv2", "skimage", "maxflow"),
    ),
    "reproduce": Command(
        "bochner.reproduce.command",
        "run the experiments of the paper, and write its tables and figures",
        "vision",
        ("PIL", "cv2", "skimage", "maxflow"),
    ),
}


def parser() -> argparse.ArgumentParser:
    """The command line, down to the name of a command."""
    lines = "\n".join(f"  {name:<10} {command.help}" for name, command in COMMANDS.items())
    top = argparse.ArgumentParser(
        prog="bochner",
        description="Kernel machines that learn their own kernel.",
        epilog=f"commands:\n{lines}\n\nbochner COMMAND --help says more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"bochner {bochner.__version__}")
    top.add_argument("command", nargs="?", choices=COMMANDS, metavar="COMMAND", help=f"one of: {', '.join(COMMANDS)}")
    top.add_argument("arguments", nargs=argparse.REMAINDER, help="what the command takes")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 is returned where all went well."""
    top = parser()
    asked = top.parse_args(arguments)
    if asked.command is None:
        top.print_help(sys.stderr)
        return 2
    command = COMMANDS[asked.command]
    try:
        module = importlib.import_module(command.module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if missing not in command.needs:
            raise
        note(f"bochner {asked.command} needs {missing}, which is not installed: pip install bochner[{command.extra}]")
        return 1
    try:
        return int(module.main(asked.arguments, f"bochner {asked.command}"))
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
