"""
On a GPU
========

``device="cuda"`` computes by PyTorch on a GPU; rows are checked on the host, and what is learned comes back as NumPy
arrays, so that the model can be used without one. The same lines run by PyTorch on the processor with
``device="cpu"``, which this page falls back to where no GPU is found.
"""

import time

import numpy as np

from bochner import KernelRegressor

try:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
except ImportError:  # pip install "bochner[torch]"
    device = None
print({"cuda": "computed on a GPU", "cpu": "no GPU here: computed by PyTorch on the processor"}.get(device, "by NumPy"))

# %%

rng = np.random.default_rng(0)
X = rng.standard_normal((6000, 20)).astype(np.float32)
y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(6000)

start = time.perf_counter()
model = KernelRegressor("gaussian", n_features=400, device=device, random_state=0).fit(X[:4000], y[:4000])
print(f"fitted in {time.perf_counter() - start:.1f} s, R² {model.score(X[4000:], y[4000:]):.3f}")
print(type(model.coef_).__module__, model.coef_.dtype)

# %%
# Without a device the same model comes out, up to the rounding of float32.

host = KernelRegressor("gaussian", n_features=400, random_state=0).fit(X[:4000], y[:4000])
print(f"largest difference of predictions: {np.abs(host.predict(X[4000:]) - model.predict(X[4000:])).max():.1e}")

# %%
# What the model looks at.

figure = model.plot()
