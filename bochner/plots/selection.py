"""What was compared on unseen rows on the way to kernel, metric and finish: each candidate, and a picture of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bochner.descent import typed_name
from bochner.errors import InputError
from bochner.plots.axes import Axes, given_or_new
from bochner.plots.learned import require

STARTS = {
    "isotropic": "all equal",
    "scales": "learned by the gradient of the held-out error",
    "evidence": "of the largest evidence of a Gaussian process",
    "smooth evidence": "the same for a Gaussian kernel",
    "units": "columns as they came",
    "together": "averages of columns that vary together",
    "directions": "the same, of rows brought to one length",
    "earlier": "of the fit before",
}
"""Where kernels begin, in words."""
METRICS = {
    "given": "none, the scales stay",
    "diagonal": "scales that fit better",
    "low-rank": "a few directions",
    "full": "any directions",
}
"""What becomes of them."""


@dataclass(frozen=True)
class Compared:
    """A candidate, and its errors on the parts of the rows that were set aside."""

    kernel: str
    start: str
    metric: str
    finish: str
    errors: tuple[float, ...]
    """Mean squared errors, or log losses of classifiers; one for each part on which it was judged."""
    chosen: bool

    @property
    def mean(self) -> float:
        return float(np.mean(self.errors))

    @property
    def name(self) -> str:
        """The candidate in words."""
        return f"{typed_name(self.kernel)}, {self.start}, {self.metric}, {self.finish}"


def compared(model: Any) -> list[Compared]:
    """The candidates of a fitted model, as the choice ranks them: the chosen one, then by their mean errors.

    Those that were not judged on every part come last, since they could not be chosen.
    """
    records: dict[tuple[str, str, str, str], list[dict[str, Any]]] = {}
    for each in getattr(model, "selection_", []):
        if each["stage"] == "unseen rows":
            records.setdefault((each["kernel"], each["start"], each["metric"], each["finish"]), []).append(each)
    found = [
        Compared(*recipe, errors=tuple(each["error"] for each in some), chosen=any(each["chosen"] for each in some))
        for recipe, some in records.items()
    ]
    return sorted(found, key=lambda each: (not each.chosen, -len(each.errors), each.mean))


def in_words(found: list[Compared]) -> str:
    """What the starts and metrics of candidates are called."""
    starts, metrics = ({getattr(each, name) for each in found} for name in ("start", "metric"))
    began = "; ".join(f"{name}: {what}" for name, what in STARTS.items() if name in starts)
    grew = "; ".join(f"{name}: {what}" for name, what in METRICS.items() if name in metrics)
    some = len({len(each.errors) for each in found}) > 1
    return (
        "Errors are means over the parts of the rows that were set aside in turn."
        + (" Only candidates that were among the best of every part could be chosen." if some else "")
        + f" A kernel starts with some scales ({began}), and distances become those of a metric that grows from them "
        f"({grew})."
    )


def plot_selection(model: Any, ax: Axes | None = None, top: int = 12) -> Axes:
    """What was compared on unseen rows on the way to kernel, metric and finish: root mean squared errors, best at the top.

    Of classifiers, log losses. Each dot is one candidate on one part of the rows, each line their mean, by which
    candidates are ranked; the chosen one is filled. Those that were not judged on every part come last.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import KernelRegressor
    >>> from bochner.plots import plot_selection
    >>> X = np.random.default_rng(0).standard_normal((120, 2))
    >>> model = KernelRegressor("gaussian", metric="full", random_state=0).fit(X, np.sin(X[:, 0] + X[:, 1]))
    >>> plot_selection(model).get_xlabel()
    'error on unseen rows'
    """
    require(model, "selection_", "KernelRegressor or KernelClassifier")
    found = compared(model)[:top]
    if not found:
        raise InputError(
            "plot_selection draws what was compared, and this model compared nothing: its effort was 'fast', its rows few, "
            "or its parameters left nothing to choose. Fit with effort='default' on 100 rows or more, or use plot_history."
        )
    ax, classes = given_or_new(ax), hasattr(model, "classes_")
    power = 1.0 if classes else 0.5
    for row, each in enumerate(found):
        errors = np.array(each.errors) ** power
        ax.plot(errors, [row] * len(errors), "o", color="C0", fillstyle="full" if each.chosen else "none", markersize=6)
        ax.plot([each.mean**power], [row], "|", color="C0", markersize=14)
    ax.set_yticks(range(len(found)), [each.name for each in found])
    ax.set_ylim(len(found) - 0.5, -0.5)
    ax.set_xlabel("log loss on unseen rows" if classes else "error on unseen rows", loc="right")  # names leave little room
    return ax
