"""The command ``bochner``: it finds a command and hands over, and imports what that needs no sooner."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import bochner

CLOSED_PIPE = 141
"""The exit code of commands whose reader has seen enough, as of all that SIGPIPE ends."""


@dataclass(frozen=True)
class Command:
    """Where a command is: a module with ``main(arguments, prog) -> exit code``."""

    module: str
    help: str
    extra: str
    """The extra of the package that it needs."""
    needs: tuple[str, ...]
    """Modules of that extra."""


APART = {
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
"""Commands that read their own options."""
APP = Command("bochner.cli.app", "", "cli", ("typer", "rich", "pyarrow", "safetensors"))
OF_APP = {
    "fit": "learn a model from a file of rows, and say how good it is",
    "predict": "predict the rows of a file by a model",
    "report": "write a page about a model",
    "inspect": "say what a model file holds",
    "export": "write a model as a graph of ONNX",
    "demo": "make a small table, fit it, and show what came of it",
}
"""Commands that need the extra ``cli``, and what they do."""
COMMANDS = {**OF_APP, **{name: command.help for name, command in APART.items()}}
"""All commands, and what they do."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 is returned where all went well."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = next((each for each in given if not each.startswith("-")), None)
    try:
        if given and given[0] in APART:
            return _handed_over(APART[given[0]], f"bochner {given[0]}", given[1:])
        if importlib.util.find_spec("typer") is None and name not in OF_APP:
            return _plain(given)
        try:
            return _handed_over(APP, "bochner" if name is None else f"bochner {name}", given)
        except KeyboardInterrupt:  # before a command was there to say more
            return 130
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE


def _handed_over(command: Command, prog: str, arguments: list[str]) -> int:
    """Run what a module has to run, or say what to install."""
    try:
        module = importlib.import_module(command.module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if missing not in command.needs:
            raise
        sys.stderr.write(f"{prog} needs {missing}, which is not installed: pip install bochner[{command.extra}]\n")
        return 1
    return int(module.main(arguments, prog))


def _plain(arguments: list[str]) -> int:
    """Help and version where the extra ``cli`` is not installed."""
    lines = "\n".join(f"  {name:<10} {text}" for name, text in COMMANDS.items())
    top = argparse.ArgumentParser(
        prog="bochner",
        description="Kernel machines that learn their own kernel.",
        epilog=f"commands:\n{lines}\n\n{', '.join(OF_APP)} need more: pip install bochner[cli]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"bochner {bochner.__version__}")
    top.add_argument("command", nargs="?", choices=COMMANDS, metavar="COMMAND", help="one of those below")
    top.parse_args(arguments)
    top.print_help(sys.stderr)
    return 2
