"""What the command says where it cannot go on."""

from __future__ import annotations

from bochner.errors import InputError


class ReproduceError(InputError):
    """One line: what was expected, what came, what to type instead."""
