"""How commands end: exit codes, messages in place of tracebacks, Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NoReturn

from bochner.cli.wording import blames_an_option, in_options
from bochner.durable import SYSTEM
from bochner.errors import BochnerError

FAILED, USAGE, INTERRUPTED = 1, 2, 130
"""Exit codes beside 0: what was asked for could not be done; it was asked for wrongly; Ctrl-C."""
TRACE = "BOCHNER_TRACEBACK"
"""Environment variable that asks for the traceback of an error."""


class CommandError(BochnerError):
    """What a command says when it cannot go on, and its exit code."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


class Interrupted(BaseException):
    """Ctrl-C, and perhaps what to do: not a KeyboardInterrupt, which a fit takes for a wish to end early."""


def tell(message: str) -> None:
    """One line on the standard error stream."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command end with an exit code and a message, never with a traceback."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        import typer

        try:
            with interruptible(), plain_warnings():
                command(*args, **options)
                sys.stdout.flush()
        except BrokenPipeError:
            raise
        except CommandError as error:
            tell(f"Error: {error}")
            raise typer.Exit(error.code) from None
        except Interrupted as stopped:
            tell(" ".join(["Interrupted.", *stopped.args]))
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if os.environ.get(TRACE):
                raise
            told = in_words(error)
            tell(f"Error: {told}")
            _let_go_of_output()
            raise typer.Exit(USAGE if blames_an_option(told) else FAILED) from None

    return run


def _let_go_of_output() -> None:
    """Send what is left for standard output nowhere, where that takes no more: Python would try again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def in_words(error: Exception) -> str:
    """An error as a sentence for whoever typed the command."""
    if isinstance(error, OSError) and not isinstance(error, BochnerError) and error.errno in SYSTEM:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{SYSTEM[error.errno]}"
    if isinstance(error, MemoryError):
        return "There is not enough memory: give --max-memory, such as 2GB, or fewer --features."
    expected = isinstance(error, ValueError | OSError | ImportError | RuntimeError)
    text = in_options(str(error) or type(error).__name__)
    return text if expected else f"{type(error).__name__}: {text} (with {TRACE}=1 in the environment it says where)"


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end whatever runs, at once."""

    def stop(*_: Any) -> NoReturn:
        raise Interrupted

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Let warnings be lines that say no more than they do."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_args, **_options: tell(f"Warning: {in_options(str(message))}")
        yield
