"""
Many machines
=============

Rows that are spread over the workers of a `Dask <https://docs.dask.org>`_ cluster stay there: every partition becomes
a sum on the worker that has it. Here two workers are threads of this program; with ``Client("scheduler:8786")`` they
are machines.
"""

import dask.array as da
import numpy as np
from distributed import Client

from bochner import KernelRegressor
from bochner.plots import plot_relevance

client = Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0")

# %%
# A collection of Dask's, in partitions of 2000 rows. Nothing is computed yet.

rows = da.random.default_rng(0).standard_normal((8000, 6), chunks=(2000, 6))
targets = da.sin(2 * rows[:, 0]) + rows[:, 1] * rows[:, 2]

# %%
# The lines are those for arrays in memory.

model = KernelRegressor("gaussian", n_features=300, random_state=0).fit(rows, targets)
predictions = model.predict(rows)
print(type(predictions).__name__, predictions.shape)
print(f"R² of all rows: {model.score(rows, targets):.3f}")

# %%
# What was learned is on this side, and small: the sums have the same bits for any number of workers.

print(f"most relevant columns: {list(model.relevance_by_name())[:3]}")
print(np.round(model.scale_, 2))

# %%
plot_relevance(model)

# %%
client.close()
