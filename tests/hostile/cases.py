"""Hostile but legal data: columns, targets, weights and layouts of memory, and hypothesis strategies over all of them.

A :class:`Case` is names and a seed, so that its text is all it takes to make the same data again. What is hostile about it
is told by the kinds of its columns, targets, weights and layout; each is a function of a random generator and a shape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

F32 = np.finfo(np.float32)
SIZES = (2, 3, 5, 8, 13, 30, 60)
MANY_ROWS = 150
"""Rows of which the default settings learn a metric, as they do of 100, also where a third has no weight."""
SIZES_OF = {"default-effort": (60, MANY_ROWS, MANY_ROWS)}
"""Sizes for variants of which fewer rows say little."""
IN_BLOCKS = ("blocks", "dask")
"""Engines that cut rows into parts by the hashes of their numbers, by chance of very different sizes where rows are few."""
SIZES_IN_BLOCKS = (13, 60, 60, 90)
"""Sizes there, of which the first may be refused."""
WIDTHS = (1, 2, 3, 7, 70)
MANY = 1000
"""Targets or classes where they are many."""
RATIO = 10_000
"""Rows of the larger class for each row of the smaller one."""


@dataclass(frozen=True)
class Case:
    """One fit: an estimator with its options, and hostile data. Columns of two kinds are joined by a plus sign."""

    estimator: str
    loss: str
    engine: str
    variant: str
    columns: str
    target: str
    weights: str
    layout: str
    dtype: str
    n: int
    m: int
    seed: int

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in asdict(self).items())

    @classmethod
    def parse(cls, text: str) -> Case:
        """The case that a line of text stands for."""
        given = dict(pair.split("=", 1) for pair in text.split())
        numbers = {field.name for field in fields(cls) if field.type == "int"}
        return cls(**{name: int(value) if name in numbers else value for name, value in given.items()})

    @property
    def kinds(self) -> list[str]:
        """What is hostile about it, as counted."""
        found = [f"columns: {kind}" for kind in self.columns.split("+")]
        found += [f"targets: {self.target}", f"weights: {self.weights}", f"layout: {self.layout}", f"dtype: {self.dtype}"]
        few = ["rows: fewer than columns"] if self.n < self.m else []
        return found + few + (["rows: two"] if self.n == 2 else [])


@dataclass(frozen=True)
class Data:
    """Rows, targets and weights as they are handed over."""

    X: Any
    y: Any
    weights: Any


Rng = np.random.Generator
COLUMNS: dict[str, Callable[[Rng, int, int], np.ndarray]] = {}
"""Columns (n, m) by what is hostile about them."""


def columns(name: str) -> Callable[[Callable[[Rng, int, int], np.ndarray]], Callable[[Rng, int, int], np.ndarray]]:
    """Add a kind of columns."""

    def add(make: Callable[[Rng, int, int], np.ndarray]) -> Callable[[Rng, int, int], np.ndarray]:
        COLUMNS[name] = make
        return make

    return add


def normal(rng: Rng, n: int, m: int) -> np.ndarray:
    """Nothing hostile."""
    return rng.standard_normal((n, m))


def whole(dtype: Any) -> Callable[[Rng, int, int], np.ndarray]:
    """Whole numbers of a dtype, its two extremes among them."""

    def make(rng: Rng, n: int, m: int) -> np.ndarray:
        info = np.iinfo(dtype)
        choices = np.array([info.min, info.max, info.max - 1, info.min + 1, 0, 1, 7], dtype=dtype)
        return rng.choice(choices, (n, m))

    return make


COLUMNS["plain"] = normal
COLUMNS["1e30"] = lambda rng, n, m: 1e30 * normal(rng, n, m)
COLUMNS["1e-30"] = lambda rng, n, m: 1e-30 * normal(rng, n, m)
COLUMNS["largest"] = lambda rng, n, m: rng.choice([-1.7e308, 1.7e308, 1e300, 1.0], (n, m))
COLUMNS["offset"] = lambda rng, n, m: 10.0 ** rng.integers(3, 15) + normal(rng, n, m)
COLUMNS["cauchy"] = lambda rng, n, m: rng.standard_cauchy((n, m))
COLUMNS["log-normal"] = lambda rng, n, m: rng.lognormal(0.0, 8.0, (n, m))
COLUMNS["zeros"] = lambda rng, n, m: normal(rng, n, m) * (rng.random((n, m)) < 1e-3)
COLUMNS["all-zero"] = lambda rng, n, m: np.zeros((n, m))
COLUMNS["negative-zero"] = lambda rng, n, m: rng.choice([0.0, -0.0], (n, m))
COLUMNS["denormal"] = lambda rng, n, m: rng.integers(-9, 9, (n, m)) * 5e-324
COLUMNS["denormal32"] = lambda rng, n, m: rng.integers(-9, 9, (n, m)) * 1e-44
COLUMNS["bool"] = lambda rng, n, m: rng.random((n, m)) < 0.3
COLUMNS["float16"] = lambda rng, n, m: rng.choice([6e4, -6e4, 6e-8, 1.0, 0.0], (n, m)).astype(np.float16)
COLUMNS["int8"] = whole(np.int8)
COLUMNS["int64"] = whole(np.int64)
COLUMNS["uint64"] = whole(np.uint64)


@columns("units")
def _units(rng: Rng, n: int, m: int) -> np.ndarray:
    """A unit for each column, from 1e-30 to 1e30."""
    return normal(rng, n, m) * 10.0 ** rng.integers(-30, 31, m)


@columns("mixed-sizes")
def _mixed_sizes(rng: Rng, n: int, m: int) -> np.ndarray:
    """Sizes from 1e-30 to 1e30 within every column."""
    return rng.choice([-1.0, 1.0], (n, m)) * 10.0 ** rng.uniform(-30, 30, (n, m))


@columns("duplicated")
def _duplicated(rng: Rng, n: int, m: int) -> np.ndarray:
    """One column over and over, and rows that come twice."""
    X = np.repeat(normal(rng, n, 1), m, axis=1)
    X[n // 2 :] = X[: n - n // 2]
    return X


@columns("collinear")
def _collinear(rng: Rng, n: int, m: int) -> np.ndarray:
    """Columns that are sums of two others, to the last bit or nearly."""
    near = 1e-14 * normal(rng, n, m) * rng.integers(0, 2, m)
    return normal(rng, n, 2) @ normal(rng, 2, m) + near


@columns("constant")
def _constant(rng: Rng, n: int, m: int) -> np.ndarray:
    """Constants of any size."""
    return np.tile(rng.choice([0.0, 1.0, -3.0, 0.1, 1e30, 1e-30, 1e10], m), (n, 1))


@columns("nearly-constant")
def _nearly_constant(rng: Rng, n: int, m: int) -> np.ndarray:
    """Constants but for one row, or for the last bit."""
    X = np.tile(rng.choice([0.0, 1.0, 0.1, 1e10], m), (n, 1))
    X[rng.integers(n)] = np.nextafter(X[0], 2 * X[0] + rng.choice([0.0, 1.0]))
    return X


@columns("one-hot")
def _one_hot(rng: Rng, n: int, m: int) -> np.ndarray:
    """Levels of which all but the first are rare."""
    level = np.where(rng.random(n) < 0.9, 0, rng.integers(0, m, n))
    return (level[:, None] == np.arange(m)).astype(float)


TARGETS: dict[str, Callable[[Rng, np.ndarray], np.ndarray]] = {
    "plain": lambda rng, t: t,
    "constant": lambda rng, t: np.full(len(t), rng.choice([3.0, 0.1, -1e30, 1e-30])),
    "zero": lambda rng, t: np.zeros(len(t)),
    "1e30": lambda rng, t: 1e30 * t,
    "1e-30": lambda rng, t: 1e-30 * t,
    "largest": lambda rng, t: np.sign(t) * 1.7e308,
    "denormal": lambda rng, t: np.round(5 * t) * 5e-324,
    "offset": lambda rng, t: 10.0 ** rng.integers(3, 15) + t,
    "cauchy": lambda rng, t: rng.standard_cauchy(len(t)),
    "log-normal": lambda rng, t: rng.lognormal(0.0, 8.0, len(t)),
    "outlier": lambda rng, t: t + 1e12 * (np.arange(len(t)) == len(t) // 2),
    "negative-zero": lambda rng, t: np.where(t > 0, 0.0, -0.0),
    "int64": lambda rng, t: np.where(t > 0, np.iinfo(np.int64).max, np.iinfo(np.int64).min),
    "uint64": lambda rng, t: np.where(t > 0, np.iinfo(np.uint64).max, np.uint64(0)),
    "int8": lambda rng, t: np.where(t > 0, 127, -128).astype(np.int8),
    "bool": lambda rng, t: t > 0,
    "float16": lambda rng, t: np.clip(3e4 * t, -6e4, 6e4).astype(np.float16),
    "several-units": lambda rng, t: t[:, None] * np.array([1e30, 1.0, 1e-30, 0.0]) + np.array([0.0, 1e6, 0.0, 1.0]),
    "1000-targets": lambda rng, t: t[:, None] * rng.standard_normal(MANY) + rng.standard_normal((len(t), MANY)),
}
"""Targets of regression, from a plain one t (n,)."""
LABELS: dict[str, Callable[[Rng, np.ndarray], np.ndarray]] = {
    "two": lambda rng, t: (t > np.median(t)).astype(int),
    "one-row-of-a-class": lambda rng, t: (t == t.max()).astype(int),
    "three": lambda rng, t: np.argsort(np.argsort(t)) * min(3, len(t)) // len(t),
    "every-row-its-own": lambda rng, t: rng.permutation(len(t)),
    "text": lambda rng, t: np.where(t > np.median(t), "yes", "no"),
    "int64": lambda rng, t: np.where(t > 0, np.iinfo(np.int64).max, np.iinfo(np.int64).min),
    "int8": lambda rng, t: np.where(t > 0, 127, -128).astype(np.int8),
    "bool": lambda rng, t: t > np.median(t),
    "one-class": lambda rng, t: np.ones(len(t), dtype=int),
    "ratio-10000": lambda rng, t: (np.arange(len(t)) == 0).astype(int),
    "1000-classes": lambda rng, t: np.arange(len(t)) % MANY,
}
"""Labels of classification, from a plain target t (n,)."""
ROWS = {"ratio-10000": RATIO + 1, "1000-classes": MANY}
"""Kinds of labels that take so many rows."""
WEIGHTS: dict[str, Callable[[Rng, int], np.ndarray | None]] = {
    "none": lambda rng, n: None,
    "ones": lambda rng, n: np.ones(n),
    "zeros": lambda rng, n: 1.0 * (np.arange(n) % 3 != 2),
    "two-rows": lambda rng, n: 1.0 * (np.arange(n) < 2),
    "1e12": lambda rng, n: 10.0 ** rng.integers(-6, 7, n),
    "1e-300": lambda rng, n: 1e-300 * rng.integers(1, 9, n),
    "1e300": lambda rng, n: 1e300 * rng.integers(1, 9, n),
    "float32": lambda rng, n: rng.random(n).astype(np.float32),
}
"""Weights of rows (n,)."""
NOT_NEGATIVE = ("chi2", "skewed_chi2")
"""Variants whose kernels are for numbers of zero or more."""
LAYOUTS = ("C", "F", "strided", "reversed", "read-only", "csr", "csc", "frame")
DTYPES = ("float64", "float32", "own")


def sizes_of(engine: str, variant: str) -> tuple[int, ...]:
    """Numbers of rows of the cases of an engine and a variant."""
    return SIZES_OF.get(variant, SIZES_IN_BLOCKS if engine in IN_BLOCKS else SIZES)


def data_of(case: Case, classifier: bool) -> Data:
    """The rows, targets and weights of a case."""
    rng = np.random.default_rng(case.seed)
    n = rows_of(case)
    X = _columns_of(case, rng, n)
    if case.variant in NOT_NEGATIVE:
        X = np.maximum(X, X.dtype.type(0))
    t = rng.standard_normal(n) + np.sign(X[:, 0].astype(float))
    y = (LABELS if classifier else TARGETS)[case.target](rng, t)
    weights = WEIGHTS[case.weights](rng, n)
    arrays = [each for each in (X, y, weights) if each is not None]
    X = _laid_out(X, case.layout)
    if case.layout == "read-only":
        for array in arrays:
            array.flags.writeable = False
    return Data(X, y, weights)


def rows_of(case: Case) -> int:
    """How many rows it has: some kinds of labels need many."""
    return ROWS.get(case.target, case.n)


def _columns_of(case: Case, rng: Rng, n: int) -> np.ndarray:
    """Columns (n, m) of its kinds, in its dtype; numbers that float32 has not are the nearest that it has."""
    kinds = case.columns.split("+")
    shares = np.array_split(np.arange(case.m), len(kinds))
    X = np.hstack([COLUMNS[kind](rng, n, len(share)) for kind, share in zip(kinds, shares, strict=True) if len(share)])
    if case.dtype == "own":
        return X
    X = X.astype(np.float64)
    return np.clip(X, F32.min, F32.max).astype(np.float32) if case.dtype == "float32" else X


def _laid_out(X: np.ndarray, layout: str) -> Any:
    """The same rows in another layout of memory, or as a sparse matrix or a table of pandas."""
    if layout == "F":
        return np.asfortranarray(X)
    if layout == "strided":
        wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]), dtype=X.dtype)
        wide[::2, 1::3] = X
        return wide[::2, 1::3]
    if layout == "reversed":
        return np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]
    if layout in ("csr", "csc"):
        return sparse.csr_array(X if X.dtype != np.float16 else X.astype(np.float32)).asformat(layout)
    if layout == "frame":
        import pandas as pd

        return pd.DataFrame(X, columns=[f"column {j}" for j in range(X.shape[1])])
    return X


def kinds_of_columns() -> st.SearchStrategy[str]:
    """One kind, or two side by side."""
    one = st.sampled_from(list(COLUMNS))
    return one | st.lists(one, min_size=2, max_size=2, unique=True).map("+".join)


def cases(learners: list[tuple[str, str, str, str]], is_classifier: Callable[[str], bool]) -> st.SearchStrategy[Case]:
    """Cases of (estimator, loss, engine, variant), all kinds of data alike."""

    def of(learner: tuple[str, str, str, str]) -> st.SearchStrategy[Case]:
        name, loss, engine, variant = learner
        kinds = LABELS if is_classifier(name) else TARGETS
        return st.builds(
            Case,
            estimator=st.just(name),
            loss=st.just(loss),
            engine=st.just(engine),
            variant=st.just(variant),
            columns=kinds_of_columns(),
            target=targets(kinds, seldom=(loss, engine, variant) == ("squared", "threads", "plain")),
            weights=st.sampled_from(list(WEIGHTS)),
            layout=st.sampled_from(LAYOUTS),
            dtype=st.sampled_from(DTYPES),
            n=st.sampled_from(sizes_of(engine, variant)),
            m=st.sampled_from(WIDTHS),
            seed=st.integers(0, 2**32 - 1),
        )

    return st.sampled_from(learners).flatmap(of)


def targets(kinds: dict[str, Any], seldom: bool) -> st.SearchStrategy[str]:
    """Kinds of targets; those that take long come ``seldom``, or never."""
    usual = [kind for kind in kinds if kind not in (*ROWS, "1000-targets")]
    slow = [kind for kind in kinds if kind not in usual]
    one = st.sampled_from(usual)
    return st.integers(0, 39).flatmap(lambda i: st.sampled_from(slow) if i == 0 else one) if seldom else one
