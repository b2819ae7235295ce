"""
A page about a model
====================

``model.report`` writes one file of HTML: what was learned, how good it is, what it relies on, how it was chosen. It
needs nothing but itself, in a mail or on a server without network.
"""

import tempfile
from pathlib import Path

from sklearn.datasets import load_wine

from bochner import KernelClassifier
from bochner.plots import plot_calibration

X, y = load_wine(return_X_y=True, as_frame=True)
model = KernelClassifier("gaussian", n_features=200, random_state=0).fit(X[::2], y[::2])

with tempfile.TemporaryDirectory() as folder:
    path = model.report(Path(folder) / "wine.html", X[1::2], y[1::2], title="Wine")
    print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")

# %%
# In a notebook the model says the most important of it by itself.

print(model.summary())

# %%
# Single pictures are functions of ``bochner.plots``.

plot_calibration(model, X[1::2], y[1::2])
