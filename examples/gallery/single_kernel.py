"""
One kernel, learned
===================

A regression in which three columns of eight count, in units that have nothing to do with each other. No scale, no
penalty and no grid is given: all are learned by the gradient of the error on rows that a fit has not seen.
"""

import numpy as np

from bochner import KernelRegressor

rng = np.random.default_rng(0)
X = rng.standard_normal((1200, 8)) * [1, 100, 0.01, 1, 5, 5, 5, 5]
y = np.sin(2 * X[:, 0]) + X[:, 1] / 100 * X[:, 2] / 0.01 + 0.2 * rng.standard_normal(1200)
train, test = slice(0, 600), slice(600, None)

model = KernelRegressor(n_features=400, random_state=0).fit(X[train], y[train])
print(model.summary())
print(f"share of the variance of new rows that is predicted: {model.score(X[test], y[test]):.3f}")

# %%
# The best possible share is that without the noise:

print(f"{1 - 0.2**2 / np.var(y):.3f}")

# %%
# One figure of all that suits the model. New rows add how well they are predicted.

figure = model.plot(X[test], y[test])

# %%
# Every prediction comes with a standard deviation, of the noise and of the coefficients together. It grows away from
# the rows that the model has seen.

near, far = np.zeros((1, 8)), np.zeros((1, 8))
far[0, 0] = 10.0
for name, row in (("near", near), ("far", far)):
    prediction, deviation = model.predict(row, return_std=True)
    print(f"{name:5s} {prediction[0]:6.2f} ± {deviation[0]:.2f}")
