"""Limited-memory BFGS for few parameters and costly gradients, with a memory that outlives one problem.

Curvature learned on a small problem serves a larger one of the same parameters: the memory of one call can be handed to
the next, so that a handful of steps at full size are quasi-Newton steps from the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bochner.arrays import Array
from bochner.solvers.result import Result

ARMIJO = 1e-4
FIRST_STEP, LONGEST_STEP = 0.5, 1.5
"""Largest change of any one parameter in the first step, and in any other; parameters are logarithms here."""


@dataclass
class Memory:
    """Pairs (step, change of gradient) of the latest iterations."""

    pairs: list[tuple[Array, Array]] = field(default_factory=list)
    size: int = 12

    def add(self, step: Array, change: Array) -> None:
        """Keep a pair, unless the curvature along it is not clearly positive."""
        if step @ change > 1e-10 * np.linalg.norm(step) * np.linalg.norm(change):
            self.pairs = [*self.pairs, (step, change)][-self.size :]

    def direction(self, gradient: Array) -> Array:
        """Minus the inverse Hessian estimate times the gradient; a step of fixed length while nothing is known."""
        if not self.pairs:
            return -gradient * (FIRST_STEP / max(float(np.max(np.abs(gradient))), 1e-300))
        q, weights = gradient.copy(), []
        for step, change in reversed(self.pairs):
            weight = (step @ q) / (step @ change)
            q -= weight * change
            weights.append(weight)
        step, change = self.pairs[-1]
        q *= (step @ change) / (change @ change)
        for (step, change), weight in zip(self.pairs, reversed(weights), strict=True):
            q += step * (weight - (change @ q) / (step @ change))
        return -q


def minimise(
    function: Callable[[Array], tuple[float, Array]],
    start: Array,
    *,
    bounds: tuple[Array, Array],
    max_iter: int,
    tol: float = 1e-5,
    memory: Memory | None = None,
) -> Result:
    """Minimise ``function`` (value and gradient) from ``start`` inside a box.

    Stops when a step promises to lower the value by less than ``tol`` of it, or after ``max_iter`` steps; ``memory`` is
    read and extended in place. The result is the best point seen, so that stopping early never loses ground.
    """
    memory = Memory() if memory is None else memory
    low, high = bounds
    x = np.clip(start, low, high)
    value, gradient = function(x)
    converged = False
    steps = 0
    while steps < max_iter:
        free = _free(x, gradient, bounds)
        direction = _shortened(free * memory.direction(free * gradient))
        promise = _promise(x, gradient, direction, bounds)
        if (promise <= 0 or direction @ gradient >= 0) and memory.pairs:
            memory.pairs.clear()
            direction = _shortened(memory.direction(free * gradient))
            promise = _promise(x, gradient, direction, bounds)
        if not (np.isfinite(value) and np.isfinite(promise)):
            break
        if promise <= tol * abs(value):
            converged = True
            break
        accepted = _search(function, x, value, gradient, direction, bounds)
        if accepted is None:
            if not memory.pairs:
                break
            memory.pairs.clear()  # a memory of another problem may mislead: try once more without it
            continue
        new_x, new_value, new_gradient = accepted
        memory.add(new_x - x, new_gradient - gradient)
        x, value, gradient = new_x, new_value, new_gradient
        steps += 1
    violation = float(np.max(np.abs(gradient * _free(x, gradient, bounds)), initial=0.0))
    return Result(x, value, violation, steps, converged)


def _free(x: Array, gradient: Array, bounds: tuple[Array, Array]) -> Array:
    """Parameters that a step downhill can move: not those at a bound that the gradient presses against."""
    low, high = bounds
    return ((x > low) | (gradient < 0)) & ((x < high) | (gradient > 0))


def _shortened(direction: Array) -> Array:
    """A direction in which no parameter moves by more than the longest step."""
    return direction * min(1.0, LONGEST_STEP / max(float(np.max(np.abs(direction))), 1e-300))


def _promise(x: Array, gradient: Array, direction: Array, bounds: tuple[Array, Array]) -> float:
    """By how much a step in a direction lowers the value to first order."""
    return -float((np.clip(x + direction, *bounds) - x) @ gradient)


def _search(
    function: Callable[[Array], tuple[float, Array]],
    x: Array,
    value: float,
    gradient: Array,
    direction: Array,
    bounds: tuple[Array, Array],
) -> tuple[Array, float, Array] | None:
    """Backtracking line search with quadratic interpolation; None when six trials find no descent."""
    size = 1.0
    for _ in range(6):
        trial = np.clip(x + size * direction, *bounds)
        slope = min(float(gradient @ (trial - x)), 0.0)
        new_value, new_gradient = function(trial)
        if np.isfinite(new_value) and np.isfinite(new_gradient).all() and new_value <= value + ARMIJO * slope:
            return trial, new_value, new_gradient
        curvature = 2 * (new_value - value - slope) if np.isfinite(new_value) else np.inf
        size *= float(np.clip(-slope / curvature if curvature > 0 else 0.1, 0.1, 0.5))
    return None
