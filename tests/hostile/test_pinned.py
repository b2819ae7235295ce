"""Cases that once broke the rule: each is a line of text, as a failure prints it."""

import pytest

from tests.hostile.cases import Case
from tests.hostile.estimators import attempt

PINNED = """
"""
