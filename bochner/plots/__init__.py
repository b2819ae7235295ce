"""Pictures of kernels, of their approximations and of learned models: axes in, axes out.

Every function draws on ``ax``, or on a new figure where it is left out, and returns the axes. Colours follow Matplotlib's
current style. Matplotlib is imported only when something is drawn: ``pip install bochner[plots]``.
"""

from bochner.plots.axes import Axes, rms_error
from bochner.plots.kernels import plot_approximation, plot_convergence, plot_gram, plot_kernel
from bochner.plots.learned import (
    plot_calibration,
    plot_history,
    plot_metric,
    plot_predictions,
    plot_relevance,
)
from bochner.plots.overview import plot_model
from bochner.plots.selection import plot_selection
from bochner.plots.sizes import plot_feature_error
from bochner.plots.spectrum import plot_directions, plot_frequencies, plot_learned_kernel
from bochner.plots.weights import plot_kernel_weights, plot_path

__all__ = [
    "Axes",
    "plot_approximation",
    "plot_calibration",
    "plot_convergence",
    "plot_directions",
    "plot_feature_error",
    "plot_frequencies",
    "plot_gram",
    "plot_history",
    "plot_kernel",
    "plot_kernel_weights",
    "plot_learned_kernel",
    "plot_metric",
    "plot_model",
    "plot_path",
    "plot_predictions",
    "plot_relevance",
    "plot_selection",
    "rms_error",
]
