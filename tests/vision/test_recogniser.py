"""What was found in a single picture, in words."""

import numpy as np
import pytest

from bochner.vision.pool import SegmentPool
from bochner.vision.recogniser import Recognised


def test_classes_that_are_there_the_largest_first():
    labels = np.array([[0, 1, 3, 3], [0, 0, 3, 3]], dtype=np.uint8)
    pool = SegmentPool(labels, np.eye(4, dtype=bool)[1:])
    scores = np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.1], [0.0, 0.1, 0.6]])
    found = Recognised(np.zeros((2, 4, 3), dtype=np.uint8), pool, scores, labels, ("cat", "dog", "cow"))
    assert found.found() == [("cow", 0.5, 0.6), ("cat", pytest.approx(1 / 8), 0.9)]
    nothing = Recognised(found.image, pool.take(slice(0)), np.zeros((0, 3)), np.zeros_like(labels), found.classes)
    assert nothing.found() == []
