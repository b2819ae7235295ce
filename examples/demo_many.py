"""The part of the demo on many kernels: views of images and views of noise, of which group lasso keeps those that count."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from demo_figures import TWO, themed
from demo_learning import scored
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from bochner import MultipleKernelClassifier
from bochner.plots import plot_kernel_weights, plot_path
from bochner.report import Section, Table, Text

FEATURES = 100
NOISE = 3


def many_kernels() -> Iterator[Section]:
    """Kernels on the quarters of digits, and on columns of noise."""
    print("Choosing among many kernels")
    X, y = load_digits(return_X_y=True)
    table, places = with_noise(X)
    split = train_test_split(table, y, test_size=0.5, random_state=0, stratify=y)
    kernels = [(name, "gaussian", columns) for name, columns in places.items()]
    model = MultipleKernelClassifier(kernels, n_features=FEATURES, l1_ratio=1.0, random_state=0)
    average = MultipleKernelClassifier(kernels, n_features=FEATURES, l1_ratio=0.0, random_state=0)
    one = MultipleKernelClassifier([("all columns", "gaussian", slice(None))], n_features=700, random_state=0)
    with threadpool_limits(1, user_api="blas"):
        scores = [
            scored("MultipleKernelClassifier, group lasso", model, split),
            scored("plain average of the kernels", average, split),
            scored("one kernel on all columns", one, split),
        ]
    yield Section(
        "Many kernels",
        [
            Text(
                f"The digits again, {len(split[0])} rows to fit: a kernel on each quarter of the images, and {NOISE} "
                "kernels on columns of pure noise. Group lasso on the features of all kernels gives "
                f"{int(np.sum(model.kernel_weights_[-NOISE:] == 0))} of the latter a weight of zero; the average and the "
                "kernel on all columns cannot tell them apart."
            ),
            Table(["method", "accuracy on test rows", "time"], scores),
            themed(
                lambda ax: plot_kernel_weights(model, ax), "Weights of the kernels", "What each kernel counts for", size=TWO
            ),
            themed(
                lambda ax: plot_path(model, ax),
                "Weights of the kernels along the path",
                "How kernels come in as the penalty falls; the dotted line is the penalty that held-out rows chose",
                size=TWO,
            ),
        ],
    )


def with_noise(X: np.ndarray) -> tuple[np.ndarray, dict[str, list[int]]]:
    """Images of 8 x 8 with columns of noise beside them, and the columns of each quarter and each piece of noise."""
    rows, columns = np.divmod(np.arange(64), 8)
    sides = {"top": rows < 4, "low": rows >= 4}
    halves = {"left": columns < 4, "right": columns >= 4}
    places = {f"{a} {b}": np.flatnonzero(sides[a] & halves[b]).tolist() for a in sides for b in halves}
    noise = np.random.default_rng(0).standard_normal((len(X), 16 * NOISE))
    places |= {f"noise {k}": list(range(64 + 16 * k, 80 + 16 * k)) for k in range(NOISE)}
    return np.hstack([X, noise]), places
