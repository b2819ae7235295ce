"""All public estimators, from one list in one place."""

import bochner
from bochner import exact

ESTIMATORS = {
    name: cls
    for room in (bochner, exact)
    for name in room.__all__
    if isinstance(cls := getattr(room, name), type) and hasattr(cls, "fit")
}
"""All public estimators by name."""
