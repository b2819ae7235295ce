"""Feature maps that a thread draws before they are asked for, while a device computes with others."""

from __future__ import annotations

import copy
import pickle
from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from bochner.features.base import FeatureMap
from bochner.features.build import FeatureChoices, build_map
from bochner.kernels import Kernel


@dataclass(frozen=True)
class _Drawn:
    """A map, and the state of the generator before and after it was drawn."""

    feature_map: FeatureMap
    before: Mapping[str, Any]
    after: Mapping[str, Any]


class DrawnAhead:
    """Maps of one family of kernels, some of them foreseen.

    A map that comes as foreseen is the one that would be drawn now, since it was drawn by a copy of the generator, which
    goes on from the same state. The first one that comes otherwise is drawn now, and all that was foreseen is forgotten.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._thread = ThreadPoolExecutor(1)
        self._foreseen: deque[tuple[FeatureChoices, Future[_Drawn]]] = deque()

    def foresee(self, kernel: Kernel, n_columns: int, choices: Iterable[FeatureChoices]) -> None:
        """Begin to draw the maps that will be asked for next, in this order."""
        rng = copy.deepcopy(self._rng)
        self._foreseen.extend((each, self._thread.submit(_draw, kernel, n_columns, each, rng)) for each in choices)

    def build(self, kernel: Kernel, n_columns: int, choices: FeatureChoices) -> FeatureMap:
        """The map of a kernel of the family, as by :func:`build_map`."""
        if self._foreseen:
            expected, future = self._foreseen.popleft()
            if choices == expected:
                drawn = future.result()
                if pickle.dumps(self._rng.bit_generator.state) == pickle.dumps(drawn.before):
                    self._rng.bit_generator.state = drawn.after
                    return drawn.feature_map.with_kernel(kernel)
            self.forget()
        return build_map(kernel, n_columns, choices, self._rng)

    def forget(self) -> None:
        """Draw no more ahead."""
        self._foreseen.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)


def _draw(kernel: Kernel, n_columns: int, choices: FeatureChoices, rng: np.random.Generator) -> _Drawn:
    before = rng.bit_generator.state
    feature_map = build_map(kernel, n_columns, choices, rng)
    return _Drawn(feature_map, before, rng.bit_generator.state)
