"""
Kernels of several descriptors
==============================

Images are described in several ways, and nobody knows which descriptions are of use. Each gets a kernel; group lasso
on the features of all kernels keeps those that count, and leaves noise out.
"""

import numpy as np
from sklearn.datasets import load_digits

from bochner import MultipleKernelClassifier
from bochner.plots import plot_kernel_weights, plot_path

images, labels = load_digits(return_X_y=True)
squares = images.reshape(-1, 8, 8)
rng = np.random.default_rng(0)
views = {
    "pixels": images,
    "row sums": squares.sum(axis=2),
    "column sums": squares.sum(axis=1),
    "edges": np.abs(np.diff(squares, axis=2)).reshape(len(images), -1),
    "noise": rng.standard_normal((len(images), 10)),
}
train = {name: table[::2] for name, table in views.items()}
test = {name: table[1::2] for name, table in views.items()}

# %%
# ``shared_weights=False`` gives each class weights of its own; ``l1_ratio=1`` asks for the group lasso alone.

model = MultipleKernelClassifier("gaussian", n_features=100, shared_weights=False, l1_ratio=1.0, random_state=0)
model.fit(train, labels[::2])
print(f"accuracy on the other half: {model.score(test, labels[1::2]):.3f}")
print(f"largest weight of the noise: {model.kernel_weights_[list(views).index('noise')].max():.4f}")

# %%
# The weights, class by class.

plot_kernel_weights(model)

# %%
# How the kernels of the digit 0 come in as the penalty falls. The dotted line is the penalty that held-out rows
# chose.

plot_path(model, target=0)
