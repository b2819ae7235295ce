"""Sizes that several modules of this room go by."""

from __future__ import annotations

FEW_ROWS = 2000
"""Rows below which one part that is set aside says little: several are, in turn."""
ROWS_A_NUMBER = 5
"""Rows for each number of a full metric from which they say enough of it, though they be few."""
TRIAL_ROWS = 10_000
"""Rows on which width, metric and penalty are searched once more where every row is to be a centre, which takes a few
factorisations."""
AT_ONCE = 20_000
"""Rows up to which that search has all rows."""
