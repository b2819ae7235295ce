"""
Histograms and chi-squared kernels
==================================

Rows that count things are best compared bin by bin, relative to how much is in a bin: a difference of 3 means much
where there are 2 and little where there are 200. The kernels of histograms do so. Additive ones (``chi2``,
``intersection``, ``jensen_shannon``) have a few features for each bin that are not random at all; their exponentials
are like a Gaussian kernel of that distance.
"""

import numpy as np

from bochner import KernelClassifier
from bochner.plots import plot_learned_kernel

# %%
# Two kinds of texts of 200 words out of 60, which differ a little in how often words come. Words are bursty: one that
# has come once in a text comes again, so that most bins are empty and some are full.

rng = np.random.default_rng(0)
usual = np.geomspace(1, 0.002, 60)
usual /= usual.sum()
other = usual * np.exp(rng.normal(0, 0.7, 60))
other /= other.sum()
X = np.vstack([[rng.multinomial(200, rng.dirichlet(5 * kind)) for _ in range(600)] for kind in (usual, other)]) / 200
y = np.repeat(["usual", "other"], 600)
order = rng.permutation(len(y))
X, y = X[order], y[order]

# %%
# The same learner with kernels of differences and of histograms. One scale is shared by all bins: for a scale of
# each, 400 texts would be few.

for kernel in ("gaussian", "laplacian", "chi2", "intersection", "exponentiated_chi2"):
    features = None if kernel in ("chi2", "intersection") else 400
    model = KernelClassifier(kernel, n_features=features, scale="shared", random_state=0).fit(X[:400], y[:400])
    print(f"{kernel:20s} accuracy {model.score(X[400:], y[400:]):.3f} with {model.feature_map_.n_features} features")

# %%
# The last kernel between a bin that holds a tenth of the words and other bins, with all other bins alike.

plot_learned_kernel(model, columns=20, centre=0.1, reach=0.4)
