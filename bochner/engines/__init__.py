"""Engines: the only loops over blocks of rows."""

from bochner.engines.passes import adjoint, forward

__all__ = ["adjoint", "forward"]
