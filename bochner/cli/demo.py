"""``bochner demo``: a small table of made-up houses, and what a fit says of them."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np

CITIES = {"Bonn": 3.0, "Oslo": 6.0, "Rome": 4.0}
"""Price of a square metre."""


def houses(n: int = 600, seed: int = 0) -> Any:
    """A table of pyarrow's with numbers, a category, truth values, dates, gaps and a price."""
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    size, city = rng.uniform(30, 200, n).round(), rng.choice(list(CITIES), n)
    garden, day = rng.random(n) < 0.4, rng.integers(0, 365, n)
    age = rng.integers(0, 100, n).astype(float)
    price = size * np.array([CITIES[each] for each in city]) * (1 - 0.3 * np.sin(np.pi * age / 100)) + 60 * garden
    price = price + 30 * np.sin(2 * np.pi * day / 365) + 20 * rng.standard_normal(n)
    gaps = rng.random((2, n)) < 0.05
    begin = datetime.date(2025, 1, 1)
    return pa.table(
        {
            "size": [None if gap else float(v) for v, gap in zip(size, gaps[0], strict=True)],
            "age": age,
            "city": [None if gap else str(v) for v, gap in zip(city, gaps[1], strict=True)],
            "garden": garden,
            "sold": [begin + datetime.timedelta(days=int(d)) for d in day],
            "agent": rng.choice(["A", "B", "C", "D"], n).tolist(),
            "price": price.round(1),
        }
    )
