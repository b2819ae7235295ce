"""How models show themselves: a summary, pictures, a report, and what notebooks make of them."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path
from typing import Any

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from bochner.estimators.summary import summary


class Showing:
    """Methods of fitted models for people: ``summary``, ``plot``, ``report``.

    Pictures and reports are made in rooms above the estimators, which are imported when they are asked for.
    """

    def summary(self) -> str:
        """What was learned, in a few lines of text."""
        check_is_fitted(self)
        return summary(self)

    def plot(self, X: Any = None, y: Any = None) -> Any:
        """A figure of what was learned and how; given new rows X and their targets y, also of how well it predicts them.

        It is a figure of Matplotlib's, of the pictures in :mod:`bochner.plots` that suit the model.
        """
        check_is_fitted(self)
        from bochner.plots import plot_model

        return plot_model(self, X, y)

    def report(
        self,
        path: str | os.PathLike[str] = "report.html",
        X: Any = None,
        y: Any = None,
        *,
        sample_weight: Any = None,
        title: str | None = None,
    ) -> Path:
        """Write a page about this model to ``path`` and return it: see :func:`bochner.model_report.write_model_report`."""
        check_is_fitted(self)
        from bochner.model_report import write_model_report

        return write_model_report(self, path, X, y, sample_weight=sample_weight, title=title)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """What notebooks show: scikit-learn's diagram, and below it the summary of a fitted model."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        try:
            text = self.summary()
        except NotFittedError:
            return bundle
        bundle["text/plain"] += f"\n\n{text}"
        if "text/html" in bundle:
            style = "font-size:0.9em;line-height:1.4;overflow-x:auto;background:none;color:inherit"
            bundle["text/html"] += f'<pre style="{style}">{escape(text)}</pre>'
        return bundle
