"""Sizes that several modules of this room go by."""

from __future__ import annotations

FEW_ROWS = 2000
"""Below it one part that is set aside says little: several are, in turn."""
TRIAL_ROWS = 10_000
"""Rows of them on which width, metric and penalty are searched once more: all rows take a few factorisations then."""
AT_ONCE = 20_000
"""Rows up to which the search goes on with all of them."""
