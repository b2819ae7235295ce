"""
A learned metric
================

The target depends on two directions that are those of no column: a sum of three columns, and a difference of two. Scales
alone, one for each column, cannot say that. If nothing is said of features or effort, a fit learns a metric too.
"""

import numpy as np

from bochner import KernelRegressor
from bochner.plots import plot_directions, plot_selection

rng = np.random.default_rng(0)
X = rng.standard_normal((1200, 6))
y = np.sin(X[:, 0] + X[:, 1] + X[:, 2]) + (X[:, 3] - X[:, 4]) ** 2 / 4 + 0.1 * rng.standard_normal(1200)
train, test = slice(0, 200), slice(200, None)

model = KernelRegressor("gaussian", random_state=0).fit(X[train], y[train])
scales = KernelRegressor("gaussian", effort="fast", random_state=0).fit(X[train], y[train])
for name, each in (("scales alone", scales), ("a metric", model)):
    print(f"{name:12s} R² {each.score(X[test], y[test]):.3f}")

# %%
# Its leading directions are those of the target, each column by its weight. The sixth column counts in none.

plot_directions(model)

# %%
# It was chosen on rows that were set aside: every line is a way to learn, every dot one part of the rows. What was not
# among the best of every part could not be chosen, and comes last.

plot_selection(model)

# %%
# The model is made of rows of the fit, its *centres*, and a file of it holds these rows. With ``finish="fourier"`` it would
# be made of random features, which hold none.

print(model.summary())
