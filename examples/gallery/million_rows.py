"""
A million rows
==============

Rows in a file, more than memory is wanted for. They are gone over in blocks: kernels are tried on a sample, and the
regression is fitted to all rows in one more pass. Time grows with the rows, memory does not.

This page is made with 30,000 rows; ``BOCHNER_GALLERY_ROWS=1000000`` in the environment makes it what the title says,
with the same lines.
"""

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from bochner import KernelRegressor, open_rows
from bochner.plots import plot_learned_kernel

n_rows = int(os.environ.get("BOCHNER_GALLERY_ROWS", "30000"))
folder = tempfile.TemporaryDirectory()
rows, targets = Path(folder.name) / "rows.npy", Path(folder.name) / "targets.npy"

# %%
# The files are written block by block too.

rng = np.random.default_rng(0)
X = np.lib.format.open_memmap(rows, mode="w+", dtype=np.float32, shape=(n_rows, 10))
y = np.lib.format.open_memmap(targets, mode="w+", dtype=np.float32, shape=(n_rows,))
for start in range(0, n_rows, 10_000):
    block = slice(start, min(start + 10_000, n_rows))
    X[block] = rng.standard_normal((block.stop - start, 10))
    y[block] = np.sin(X[block, 0] + X[block, 1]) + 0.1 * rng.standard_normal(block.stop - start)
X.flush()
y.flush()
print(f"{n_rows:,} rows, {rows.stat().st_size / 1e6:.0f} MB")

# %%
# ``max_memory`` is what the fit may hold.

source = open_rows(rows, target=targets)
start = time.perf_counter()
model = KernelRegressor("gaussian", n_features=400, max_memory="200MB", random_state=0).fit(source)
print(f"fitted in {time.perf_counter() - start:.1f} s")
print(model.summary())

# %%
# New rows may come in blocks as well; here they fit in memory.

new = rng.standard_normal((2000, 10))
truth = np.sin(new[:, 0] + new[:, 1])
print(f"R² on new rows without noise: {model.score(new, truth):.4f}")

# %%
# The kernel of the two columns that count.

plot_learned_kernel(model, columns=("x0", "x1"))

# %%
folder.cleanup()
