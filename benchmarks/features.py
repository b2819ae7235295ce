"""Rows per second of FourierFeatures.transform beside scikit-learn's samplers.

    python benchmarks/features.py            all sizes, a few minutes
    python benchmarks/features.py --quick    a twentieth of the rows, results in features-quick.json
    python benchmarks/features.py --table    no run: rewrite the tables of README.md and docs/benchmarks.md

Every race runs its contestants in turn in one process, on the same rows and cores. The floor of a dense Fourier map is what
no implementation of it can do without: the product X W with one column per frequency, into memory that is already there, and
one write of the output into fresh memory, by all threads. The cosines themselves are not in the floor. Rates and ratios to
the peer are of median times, ratios to the floor of best times: the first write to fresh memory can take ten times longer
while the system finds that memory. A ratio to the floor above one is impossible; it means that the floor was disturbed, and
the tables then say so instead of giving it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
from harness import (
    PACKAGES,
    ROOT,
    TimerOptions,
    describe,
    manifest,
    markdown_table,
    read_results,
    replace_table,
    time_in_turn,
    write_results,
)
from scipy import sparse
from sklearn.kernel_approximation import AdditiveChi2Sampler, RBFSampler, SkewedChi2Sampler
from threadpoolctl import threadpool_info

from bochner import FourierFeatures
from bochner.kernels import Chi2, Gaussian, Kernel, SkewedChi2

SEED = 0
FIT_ROWS = 1000
ERROR_ROWS = 256
PRODUCT, WRITE, REFILL = "product, {f} columns", "write, fresh memory", "write, second time"
DTYPES: tuple[str, ...] = ("float32", "float64")


@dataclass(frozen=True, kw_only=True)
class Race:
    """Contestants on the same rows.

    ``maps`` holds what takes rows to features: the first is the peer, the others are ours. ``frequencies`` gives the columns
    of the matrix product that each needs, where the race has a floor; ``kernel`` is what all of them approximate.
    """

    name: str
    rows: Any
    kernel: Kernel
    maps: dict[str, Callable[[Any], Any]]
    frequencies: dict[str, int] = field(default_factory=dict)


def gaussian(n: int, dtype: str) -> Race:
    """RBFSampler, and FourierFeatures in both forms, on 100 dense columns: d = 3000."""
    X = np.random.default_rng(SEED).standard_normal((n, 100), dtype=np.dtype(dtype))
    d, kernel = 3000, Gaussian(scale=200**-0.5)
    peer = RBFSampler(gamma=kernel.scale**2 / 2, n_components=d, random_state=SEED).fit(X[:FIT_ROWS])
    maps = {"RBFSampler": peer.transform, **_forms(kernel, d, X)}
    frequencies = {"RBFSampler": d, "FourierFeatures": d // 2, "FourierFeatures, phase form": d}
    return Race(name="gaussian", rows=X, kernel=kernel, maps=maps, frequencies=frequencies)


def skewed_chi2(n: int, dtype: str) -> Race:
    """SkewedChi2Sampler and FourierFeatures on 100 dense columns of positive values: d = 3000."""
    X = np.random.default_rng(SEED).standard_gamma(2.0, (n, 100), dtype=np.dtype(dtype))
    d, kernel = 3000, SkewedChi2(scale=0.5, c=5.0)  # at c = 5 the kernel is well above zero, so that errors tell
    peer = SkewedChi2Sampler(skewedness=kernel.c, n_components=d, random_state=SEED).fit(X[:FIT_ROWS])
    return Race(
        name="skewed chi2", rows=X, kernel=kernel, maps={"SkewedChi2Sampler": peer.transform, **_forms(kernel, d, X)}
    )


def additive_chi2(n: int, dtype: str) -> Race:
    """AdditiveChi2Sampler and FourierFeatures of order 2, both 5 features a column, on 100 dense columns."""
    X = np.random.default_rng(SEED).standard_gamma(2.0, (n, 100), dtype=np.dtype(dtype))
    kernel, order = Chi2(), 2
    peer = AdditiveChi2Sampler(sample_steps=order + 1).fit(X[:FIT_ROWS])
    ours = FourierFeatures(kernel, order=order).fit(X[:FIT_ROWS])
    maps = {"AdditiveChi2Sampler": peer.transform, "FourierFeatures": ours.transform}
    return Race(name="additive chi2, order 2", rows=X, kernel=kernel, maps=maps)


def sparse_gaussian(n: int, dtype: str) -> Race:
    """RBFSampler and FourierFeatures on 1000 columns in CSR form, one value in twenty not zero: d = 2000."""
    rng = np.random.default_rng(SEED)
    X = sparse.random_array((n, 1000), density=0.05, format="csr", rng=rng, data_sampler=rng.standard_normal).astype(dtype)
    d, kernel = 2000, Gaussian(scale=0.1)
    peer = RBFSampler(gamma=kernel.scale**2 / 2, n_components=d, random_state=SEED).fit(X[:FIT_ROWS])
    return Race(
        name="gaussian, sparse rows", rows=X, kernel=kernel, maps={"RBFSampler": peer.transform, **_forms(kernel, d, X)}
    )


def torch_gaussian(n: int, dtype: str) -> Race:
    """PyTorch tensors on the CPU: RBFSampler on their NumPy view, FourierFeatures on the tensors themselves: d = 3000."""
    import torch

    X = torch.from_numpy(np.random.default_rng(SEED).standard_normal((n, 100), dtype=np.dtype(dtype)))
    d, kernel = 3000, Gaussian(scale=200**-0.5)
    peer = RBFSampler(gamma=kernel.scale**2 / 2, n_components=d, random_state=SEED).fit(X[:FIT_ROWS].numpy())
    maps = {"RBFSampler": lambda rows: peer.transform(rows.numpy()), **_forms(kernel, d, X)}
    return Race(name="gaussian, PyTorch tensors", rows=X, kernel=kernel, maps=maps)


RACES: tuple[tuple[Callable[[int, str], Race], int], ...] = (
    (gaussian, 100_000),
    (skewed_chi2, 50_000),
    (additive_chi2, 50_000),
    (sparse_gaussian, 20_000),
    *(((torch_gaussian, 50_000),) if find_spec("torch") else ()),
)
"""Each race and its number of rows."""


def _forms(kernel: Kernel, d: int, X: Any) -> dict[str, Callable[[Any], Any]]:
    """FourierFeatures in its paired form (the default) and in its phase form."""
    forms = {"FourierFeatures": "paired", "FourierFeatures, phase form": "phase"}
    return {
        name: FourierFeatures(kernel, n_features=d, form=form, random_state=SEED).fit(X[:FIT_ROWS]).transform
        for name, form in forms.items()
    }


def run_race(race: Race, options: TimerOptions) -> dict[str, Any]:
    """Times, rates and ratios of every contestant of a race."""
    sample = {name: transform(race.rows[:ERROR_ROWS]) for name, transform in race.maps.items()}
    calls = {name: _bind(transform, race.rows) for name, transform in race.maps.items()}
    widths = {name: features.shape[1] for name, features in sample.items()}
    floors = _floor_calls(race, max(widths.values())) if race.frequencies else {}
    timings = time_in_turn({**calls, **floors}, options)
    peer = next(iter(race.maps))
    n, m = race.rows.shape
    contestants = {}
    for name in race.maps:
        entry = {
            **timings[name].to_dict(),
            "features": widths[name],
            "rows_per_s": n / timings[name].median,
            "ratio_to_peer": timings[peer].median / timings[name].median,
            "ratio_to_peer_best": timings[peer].best / timings[name].best,
            "kernel_rms_error": _kernel_error(race, sample[name]),
        }
        if race.frequencies:
            product = timings[PRODUCT.format(f=race.frequencies[name])]
            entry["floor_s"] = product.best + timings[WRITE].best
            entry["ratio_to_floor"] = entry["floor_s"] / entry["best_s"]
        contestants[name] = entry
    return {
        "race": race.name,
        "dtype": str(race.rows.dtype).removeprefix("torch."),
        "rows": n,
        "columns": m,
        "peer": peer,
        "contestants": contestants,
        "floors": {name: timings[name].to_dict() for name in floors},
    }


def _bind(transform: Callable[[Any], Any], rows: Any) -> Callable[[], Any]:
    return lambda: transform(rows)


def _floor_calls(race: Race, d: int) -> dict[str, Callable[[], object]]:
    """The bare product at each number of frequencies, and two writes of the output: fresh memory, then the same again."""
    X = race.rows
    n, m = X.shape
    memory = np.zeros(n * d, dtype=X.dtype)
    threads = max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)

    def fill(out: np.ndarray) -> np.ndarray:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda part: part.fill(1.0), np.array_split(out, threads)))
        return out

    def product(f: int) -> Callable[[], object]:
        W = np.random.default_rng(SEED).standard_normal((m, f), dtype=X.dtype)
        out = memory[: n * f].reshape(n, f)
        return lambda: np.matmul(X, W, out=out)

    products = {PRODUCT.format(f=f): product(f) for f in sorted(set(race.frequencies.values()))}
    return {**products, WRITE: lambda: fill(np.empty(n * d, dtype=X.dtype)), REFILL: lambda: fill(memory)}


def _kernel_error(race: Race, features: Any) -> float:
    """Root mean square of phi(x) . phi(z) - k(x, z) over all pairs of distinct rows of a sample."""
    rows = race.rows[:ERROR_ROWS]
    rows = rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
    features = np.asarray(features, dtype=np.float64)
    error = features @ features.T - race.kernel(rows.astype(np.float64))
    return float(np.sqrt(np.mean(error[np.triu_indices(len(rows), k=1)] ** 2)))


def full_table(results: list[dict[str, Any]]) -> str:
    """Every contestant of every race, with ratios to the peer (the first of its race) and to the floor."""
    header = [
        "race",
        "contestant",
        "features",
        "rows/s",
        "ratio to peer",
        "ratio of best times",
        "ratio to floor",
        "RMS error",
    ]
    rows = []
    for race in results:
        title = f"{race['race']}, {race['dtype']}, {race['rows']} x {race['columns']}"
        for name, entry in race["contestants"].items():
            ratios = [_ratio(entry["ratio_to_peer"]), _ratio(entry["ratio_to_peer_best"]), _floor_ratio(entry)]
            error = f"{entry['kernel_rms_error']:.4f}"
            rows.append([title, name, str(entry["features"]), f"{entry['rows_per_s']:,.0f}", *ratios, error])
    return markdown_table(header, rows, n_text=2)


def floor_table(results: list[dict[str, Any]]) -> str:
    """What the floors are made of."""
    header = ["race", "part of the floor", "median s", "best s"]
    rows = [
        [f"{race['race']}, {race['dtype']}", name, f"{entry['median_s']:.3f}", f"{entry['best_s']:.3f}"]
        for race in results
        for name, entry in race["floors"].items()
    ]
    return markdown_table(header, rows, n_text=2)


def short_table(results: list[dict[str, Any]]) -> str:
    """The default form beside RBFSampler: one row a dtype."""
    header = ["dense rows", "RBFSampler, rows/s", "FourierFeatures, rows/s", "ratio", "ratio to floor"]
    rows = []
    for race in (race for race in results if race["race"] == "gaussian"):
        peer, ours = race["contestants"]["RBFSampler"], race["contestants"]["FourierFeatures"]
        title = f"{race['dtype']}, {race['rows']} x {race['columns']} to {ours['features']} features"
        rates = [f"{entry['rows_per_s']:,.0f}" for entry in (peer, ours)]
        rows.append([title, *rates, _ratio(ours["ratio_to_peer"]), _floor_ratio(ours)])
    return markdown_table(header, rows)


def _ratio(value: float) -> str:
    return f"{value:.2f}"


def _floor_ratio(entry: Mapping[str, Any]) -> str:
    """The ratio to the floor; nothing where a race has no floor, and "disturbed" where nothing can be that fast."""
    if "ratio_to_floor" not in entry:
        return ""
    return _ratio(entry["ratio_to_floor"]) if entry["ratio_to_floor"] <= 1 else "disturbed"


def write_tables() -> None:
    """Rewrite the tables of the documentation from the file of results."""
    results, about = read_results("features")
    replace_table(
        ROOT / "docs" / "benchmarks.md",
        "features",
        f"{full_table(results)}\n\n{floor_table(results)}\n\n{describe(about)}",
    )
    replace_table(ROOT / "README.md", "features", f"{short_table(results)}\n\n{describe(about)}")


def main() -> None:
    """Parse the options, run the races one by one, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the rows and two repeats")
    parser.add_argument("--table", action="store_true", help="rewrite the tables from the last full run, without running")
    arguments = parser.parse_args()
    if arguments.table:
        write_tables()
        return
    options = TimerOptions(repeats=2 if arguments.quick else 15)
    about: Mapping[str, Any] = manifest(SEED, (*PACKAGES, "torch"))
    results = []
    for race, n in RACES:
        for dtype in DTYPES:
            results.append(run_race(race(n // 20 if arguments.quick else n, dtype), options))
            print(full_table(results[-1:]), flush=True)
    print(f"\n{floor_table(results)}\n\n{describe(about)}")
    print(write_results("features-quick" if arguments.quick else "features", results, about).relative_to(ROOT))


if __name__ == "__main__":
    main()
