"""
A kernel of your own
====================

A kernel is its formula and the law of its frequencies. Write both down, and features, learning, gradients and
pictures are there.
"""

import numpy as np

from bochner import FourierFeatures, KernelRegressor
from bochner.kernels import ProductKernel
from bochner.plots import plot_frequencies, plot_kernel

# %%
# Frequencies that follow the logistic law, whose characteristic function is πt / sinh(πt).


class Logistic(ProductKernel):
    """k(x, z) = prod_i t_i / sinh(t_i), with t_i = pi s_i (x_i - z_i)."""

    def quantile(self, u):
        """The inverse distribution function of one frequency."""
        return np.log(u / (1 - u))

    def profile(self, t):
        """The kernel of one column."""
        t = np.pi * np.clip(np.abs(t), 1e-9, 200)  # one at zero, and no overflow far away
        return t / np.sinh(t)


# %%
# The kernel of one column, and 100 features of it.

features = FourierFeatures(Logistic(), n_features=100, sampling="qmc", random_state=0).fit(np.zeros((2, 1)))
plot_kernel(features.kernel_, features.feature_map_)

# %%
# Learning takes it like any other.

rng = np.random.default_rng(0)
X = rng.standard_normal((600, 4))
y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(600)
model = KernelRegressor(Logistic(scale=0.5), n_features=200, random_state=0).fit(X[:300], y[:300])
print(f"{type(model.kernel_).__name__}, scales {np.round(model.scale_, 2)}, R² {model.score(X[300:], y[300:]):.3f}")

# %%
# The frequencies of the learned model, beside the law.

plot_frequencies(model, column=0)
