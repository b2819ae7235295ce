"""
From scikit-learn, falkon, GPyTorch and MKLpy
=============================================

The same problem in the words of other libraries, and in ours. What is theirs stands as a comment, but for
scikit-learn, which is here and runs.
"""

import numpy as np
from sklearn.datasets import load_diabetes, load_wine
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bochner import KernelRegressor, MultipleKernelClassifier
from bochner.plots import plot_kernel_weights, plot_predictions

X, y = load_diabetes(return_X_y=True)
train, test = slice(0, 300), slice(300, None)

# %%
# scikit-learn: a sampler, a linear model, and a grid over width and penalty.

grid = GridSearchCV(
    make_pipeline(StandardScaler(), RBFSampler(n_components=300, random_state=0), Ridge()),
    {"rbfsampler__gamma": [0.001, 0.003, 0.01, 0.03, 0.1], "ridge__alpha": [0.01, 0.1, 1.0, 10.0]},
)
print(f"scikit-learn  R² {grid.fit(X[train], y[train]).score(X[test], y[test]):.3f}, one width for all columns, 100 fits")

# %%
# Here both are learned: by gradient, with a width for each column where rows are enough to tell them apart.

model = KernelRegressor("gaussian", n_features=300, random_state=0).fit(X[train], y[train])
print(
    f"bochner       R² {model.score(X[test], y[test]):.3f}, {len(model.history_)} kernels tried, penalty {model.alpha_:.2g}"
)

# %%
# falkon: kernel ridge regression on data centres, with a width and a penalty that you choose.
#
# .. code-block:: python
#
#    kernel = falkon.kernels.GaussianKernel(sigma=3.0)
#    model = falkon.Falkon(kernel=kernel, penalty=1e-5, M=200)
#    model.fit(torch.from_numpy(X), torch.from_numpy(y)[:, None])
#
# A length scale sigma is 1 / scale. Its penalty stands beside a mean loss, as ours does. Centres are a *finish* here,
# and kernel, widths and penalty are learned for them:

centres = KernelRegressor("gaussian", metric="diagonal", finish="centres", n_centres=200, random_state=0)
centres.fit(X[train], y[train])
print(f"on {centres.feature_map_.n_features} centres R² {centres.score(X[test], y[test]):.3f}")

# %%
# GPyTorch: a Gaussian process with a length scale for each column (ARD), by gradient steps on the marginal
# likelihood.
#
# .. code-block:: python
#
#    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=10))
#    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
#    for step in range(100):
#        loss = -likelihood_of_training_rows(model(X), y)
#        ...
#    prediction, deviation = model(new).mean, model(new).stddev
#
# Here the held-out error takes the place of the likelihood, and deviations come from the same sums:

prediction, deviation = model.predict(X[test], return_std=True)
inside = np.mean(np.abs(prediction - y[test]) < 2 * deviation)
print(f"{inside:.0%} of new rows are within two standard deviations")
plot_predictions(model, X[test], y[test])

# %%
# MKLpy: a list of kernel matrices, and weights of them.
#
# .. code-block:: python
#
#    KL = [rbf_kernel(X[:, columns], gamma=0.1) for columns in groups]
#    model = MKLpy.algorithms.EasyMKL(lam=0.1).fit(KL, y)
#    weights = model.solution.weights
#
# No matrix of all pairs of rows is made here, and penalties are chosen on held-out rows:

table, kinds = load_wine(return_X_y=True, as_frame=True)
groups = {"acids": slice(1, 4), "phenols": slice(5, 9), "looks": slice(9, 12)}
kernels = [(name, "gaussian", columns) for name, columns in groups.items()]
many = MultipleKernelClassifier(kernels, n_features=100, random_state=0).fit(table[::2], kinds[::2])
print({name: round(float(weight), 2) for name, weight in many.kernel_weights_by_name().items()})
print(f"accuracy {many.score(table[1::2], kinds[1::2]):.3f}")
plot_kernel_weights(many)
