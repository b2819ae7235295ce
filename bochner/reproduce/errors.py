"""What the command says where it cannot go on."""

from __future__ import annotations


class ReproduceError(ValueError):
    """One line: what was expected, what came, what to type instead."""
