"""
Which columns count
===================

A sparse penalty on the scales takes columns out of the kernel that are not needed. What remains is a kernel of the
others, which predicts better where rows are few, and is easier to believe.
"""

import numpy as np
from matplotlib import pyplot

from bochner import KernelRegressor
from bochner.plots import plot_relevance

rng = np.random.default_rng(0)
X = rng.standard_normal((1400, 25))
y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(1400)
train, test = slice(0, 400), slice(400, None)

plain = KernelRegressor("gaussian", n_features=400, random_state=0).fit(X[train], y[train])
sparse = KernelRegressor("gaussian", n_features=400, scale_penalty="sparse", random_state=0).fit(X[train], y[train])

for name, model in (("no penalty", plain), ("sparse", sparse)):
    out = int(np.sum(model.relevance_ == 0))
    print(f"{name:10s}  R² {model.score(X[test], y[test]):.3f}, {out} of 25 columns out")

# %%

figure, axes = pyplot.subplots(1, 2, figsize=(9, 5), layout="constrained")
for ax, model, name in zip(axes, (plain, sparse), ("no penalty", "a sparse penalty"), strict=True):
    plot_relevance(model, ax, top=25)
    ax.set_title(name)

# %%
# scikit-learn's own tools take it from there, for instance to give the columns that count to another model.

kept = np.flatnonzero(sparse.relevance_ > 0)
again = KernelRegressor("gaussian", n_features=400, random_state=0).fit(X[train][:, kept], y[train])
print(f"columns {kept.tolist()} alone: R² {again.score(X[test][:, kept], y[test]):.3f}")
