"""A report of one fitted model: a page of HTML that needs nothing else, no scripts, and of rows what the model holds."""

from __future__ import annotations

import inspect
import os
import platform
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import bochner
from bochner.descent import family_name, typed_name
from bochner.estimators.encoding import PLACES, column_names, origin_names, table_columns
from bochner.estimators.provenance import file_name, tested
from bochner.estimators.summary import (
    beside_shares,
    counted,
    facts,
    held_out_rows,
    held_rows,
    kernel_in_words,
    seconds_in_words,
    spectra,
    steps,
)
from bochner.plots.overview import Picture, has_full_metric, pictures
from bochner.plots.selection import compared, in_words
from bochner.plots.spectrum import visible_directions
from bochner.plots.themes import theme
from bochner.report import Block, Code, Figure, Page, Section, Table, Text, figure_bytes, write
from bochner.scores import class_scores, scores

SIZE = (4.4, 3.4)
"""Width and height of a picture, in inches."""
ROOMY, ROW = 9, 0.22
"""Bars that a picture of that height has room for, and inches for each of more of them."""
MOST_ROWS = 30
"""Rows of a table, of those that may have thousands."""
MOST_TRIALS = 12
DASH = "\u2013"
"""What stands where there is no number."""
MOST_CLASSES = 50
MAYBE_FITTED = "Rows of the fit are predicted better than others: if some of these are among them, the scores are too good."
"""What is said of rows of which nothing is known."""
MOST_PARTS = 6
"""Encoded columns that are shown below a column of the table."""
INDENT = "\u2003"


def write_model_report(
    model: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    y: Any = None,
    title: str | None = None,
    *,
    sample_weight: Any = None,
    about_rows: str | None = None,
) -> Path:
    """Write a page about a fitted model to ``path`` and return it.

    What was learned, how good it is, what it relies on, how it was chosen, how long it took, and how to load it. The page
    holds its own pictures, has a light and a dark scheme, and is readable on a phone. It needs Matplotlib,
    ``pip install bochner[plots]``.

    Parameters
    ----------
    model : a fitted estimator of bochner's
        Also one that was loaded from a file.
    path : str or Path
        The file; its folder is made if it is not there.
    X, y : rows and targets, optional
        Of rows that the model has not seen: the page then says how well it predicts them.
    title : str, optional
    sample_weight : (n,), optional
        Weights of these rows in the scores.
    about_rows : str, optional
        A sentence that says which rows they are, such as that they were held out from the fit.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from bochner import KernelRegressor
    >>> from bochner.model_report import write_model_report
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = KernelRegressor("gaussian", n_features=32, random_state=0).fit(X[::2], y[::2])
    >>> with TemporaryDirectory() as folder:
    ...     path = write_model_report(model, Path(folder) / "report.html", X[1::2], y[1::2], title="Diabetes")
    ...     "Diabetes" in path.read_text(encoding="utf-8")
    True
    """
    return write(model_page(model, X, y, sample_weight=sample_weight, title=title, about_rows=about_rows), path)


def model_page(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    sample_weight: Any = None,
    title: str | None = None,
    about_rows: str | None = None,
) -> Page:
    """The page of :func:`write_model_report`, before it is written."""
    name = type(model).__name__
    drawn = pictures(model, X, y)
    made: list[tuple[str, Iterable[Block]]] = [
        ("In short", [Table(["", ""], facts(model), prose=True)]),
        ("How good it is", [*_tested(model), *_quality(model, X, y, sample_weight, about_rows or MAYBE_FITTED, drawn)]),
        ("What was learned", _learned(model, drawn)),
        ("What it relies on", _relies(model, drawn)),
        ("How it was chosen", _choice(model, drawn)),
        ("How long it took", _time(model)),
        ("How to load it", _loading(model)),
    ]
    sections = [Section(heading, blocks) for heading, some in made if (blocks := list(some))]
    of = counted(model.n_features_in_, "column") if hasattr(model, "n_features_in_") else "several views"
    return Page(
        title=title or name,
        lead=f"A fitted {name} on rows of {of}.",
        sections=sections,
        footer=(
            f"bochner {bochner.__version__}, NumPy {np.__version__}, Python {platform.python_version()}, "
            f"{platform.system()} {platform.machine()}."
        ),
    )


def themed(draw: Callable[[Any], object], alt: str, caption: str = "", size: tuple[float, float] = SIZE) -> Figure:
    """What ``draw`` draws on axes, for light screens and for dark ones."""
    return Figure(_drawn(draw, "light", size), alt, caption, dark=_drawn(draw, "dark", size), wide=True)


def _drawn(draw: Callable[[Any], object], name: str, size: tuple[float, float]) -> bytes:
    from matplotlib import rc_context
    from matplotlib.figure import Figure as Canvas

    style: Any = theme(name)
    with rc_context(style):
        canvas = Canvas(figsize=size, layout="constrained")
        draw(canvas.subplots())
        return figure_bytes(canvas)


def _figures(drawn: list[Picture], *titles: str) -> Iterator[Figure]:
    """Some of the pictures of a model, by their titles, the high ones last."""
    chosen = [picture for picture in drawn if picture.title in titles]
    for picture in sorted(chosen, key=lambda picture: max(picture.rows - ROOMY, 0)):
        size = SIZE[0], SIZE[1] + ROW * max(picture.rows - ROOMY, 0)
        yield themed(picture.draw, picture.title, picture.caption, size)


# -- sections -------------------------------------------------------------------------------------------------------------


def _tested(model: Any) -> Iterator[Block]:
    """What the fit itself scored, of models that remember it."""
    found = tested(model)
    if found is None:
        return
    measures = list(next(iter(found.scores.values())))
    rows = [[name, *(f"{some.get(measure, np.nan):.4f}" for measure in measures)] for name, some in found.scores.items()]
    yield Table(["", *measures], rows, caption=f"When it was fitted, on {held_out_rows(found.n_rows)}")
    if found.refitted:
        yield Text("These are the scores of the fit before; then all rows were fitted again, those that were held out too.")


def _quality(model: Any, X: Any, y: Any, weight: Any, about: str, drawn: list[Picture]) -> Iterator[Block]:
    error = getattr(model, "validation_error_", None)
    if error is not None:
        yield Text(
            "The held-out error of the fit, of rows that were not fitted when they were predicted, is "
            f"{error:.4g}{_unit(model)} Kernel and penalty were chosen by it: it is too good, the more the fewer the rows."
        )
    if X is not None and hasattr(model, "predict"):
        found = scores(model, X, y, weight)
        yield Table(["measure", "on the rows given here"], [["rows", f"{np.shape(y)[0]:,}"], *found])
        yield Text(about)
        if hasattr(model, "classes_") and len(model.classes_) <= MOST_CLASSES:
            header = ["class", "rows", "predicted", "of these right", "of its rows found"]
            yield Table(header, class_scores(model, X, y, weight), caption="Class by class")
    elif hasattr(model, "predict"):
        yield Text("No rows were given to this report: write it with X and y of rows that the model has not seen for more.")
    yield from _figures(
        drawn, "predicted against true", "calibration", "error with fewer features", "error with fewer centres"
    )


def _unit(model: Any) -> str:
    """What a held-out error is a number of, to the end of the sentence."""
    if hasattr(model, "classes_") or getattr(model, "loss", "squared") != "squared":
        return f" (mean {getattr(model, 'loss', 'squared')} loss){beside_shares(model)}."
    return f" of the variance of the target: {1 - model.validation_error_:.1%} of it is predicted."


def _learned(model: Any, drawn: list[Picture]) -> Iterator[Block]:
    if hasattr(model, "kernel_weights_"):
        yield from _kernel_table(model)
    if hasattr(model, "kernel_"):
        yield Text(f"The kernel is {dict(facts(model))['kernel']}.")
    if has_full_metric(model):
        yield Table(
            ["direction", "share", "strength", "weights of standardised columns"],
            [
                [i + 1, f"{each['share']:.1%}", f"{each['strength']:.3g}", _signed(each["weights"])]
                for i, each in enumerate(visible_directions(model, 3))
            ],
            caption="Leading directions of the metric",
        )
    yield from _figures(
        drawn,
        "weights of the kernels",
        "kernel of one column",
        "kernel of two columns",
        "metric",
        "leading directions",
        "frequencies",
    )


def _signed(weights: dict[str, float], top: int = 4) -> str:
    named = [(name, value) for name, value in list(weights.items())[:top] if abs(value) >= 0.005]
    return ", ".join(f"{name} {value:+.2f}".replace("-", "\u2212") for name, value in named)


def _kernel_table(model: Any) -> Iterator[Block]:
    names = [str(name) for name in model.kernel_names_]
    weights = np.asarray(model.kernel_weights_).reshape(len(names), -1)
    shares = getattr(model, "explained_variance_", None)
    kernels = getattr(model, "kernels_", [None] * len(names))
    order = np.argsort(-weights.max(axis=1), kind="stable")[:MOST_ROWS]
    rows = []
    for i in order:
        family = "" if kernels[i] is None else kernel_in_words(kernels[i], max(np.size(kernels[i].scale), 1)).split(", ")[0]
        low, high = weights[i].min(), weights[i].max()
        shown = f"{high:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        rows.append([names[i], family, shown, *([] if shares is None else [f"{np.mean(np.asarray(shares)[i]):.1%}"])])
    header = ["kernel", "family", "weight", *([] if shares is None else ["share of the predictions"])]
    more = len(names) - len(rows)
    rest = f"{more} {'is' if more == 1 else 'are'} not shown"
    yield Table(header, rows, caption=f"The first of {len(names)} kernels, {rest}" if more else "")


def _relies(model: Any, drawn: list[Picture]) -> Iterator[Block]:
    if not hasattr(model, "relevance_"):
        return
    whole, parts = model.relevance_by_name(by="column"), _encoded_columns(model)
    rows: list[list[str]] = []
    for name in list(whole)[:MOST_ROWS]:
        alone = len(parts[name]) == 1
        rows.append([name, f"{whole[name]:.3f}", parts[name][0][2] if alone else DASH])
        rows += [] if alone else parts[name][:MOST_PARTS]
        if len(parts[name]) > MOST_PARTS:
            rows.append([f"{INDENT}and {len(parts[name]) - MOST_PARTS} more", DASH, DASH])
    several = any(len(some) > 1 for some in parts.values())
    yield from _figures(drawn, "relevance of the columns")
    yield Table(
        ["column", "relevance", "scale"],
        rows,
        caption=(
            "Relevance: how much predictions change, in root mean square, where the column has the values of other rows. "
            f"Scale: the larger, the narrower the kernel{_unit_of_scales(model)}."
            + (" A column that was encoded as several has the sum of theirs, which stand below it." if several else "")
            + (f" {counted(len(whole) - MOST_ROWS, 'more column')}." if len(whole) > MOST_ROWS else "")
        ),
    )


def _spreads(model: Any) -> Any:
    """Standard deviations of the columns that a kernel sees; ones where it sees them as they are."""
    standardiser = getattr(model, "standardiser_", None)
    return 1.0 if standardiser is None else np.asarray(standardiser.spread)


def _unit_of_scales(model: Any) -> str:
    if getattr(model.kernel_, "origin", None) is not None:
        return "; only their ratios count, as the kernel sees rows brought to one length"
    if np.all(_spreads(model) == 1):
        return " in units of the column"
    return "; at 1 it falls off over about one standard deviation of the column, at 0.1 over ten"


def _encoded_columns(model: Any) -> dict[str, list[list[str]]]:
    """For each column of the table, rows of those that it was encoded as, most relevant first: name, relevance, scale.

    Relevances are in units of the largest sum over a column of the table, so that they add up to that of theirs. Scales
    are in units of spreads: a kernel's own are as small as the seconds of dates are many.
    """
    origins, relevance = np.array(origin_names(model), dtype=object), np.asarray(model.relevance_)
    largest = max((float(relevance[origins == name].sum()) for name in set(origins)), default=0.0) or 1.0
    parts: dict[str, list[list[str]]] = {name: [] for name in origins}
    names, scales = column_names(model), model.scale_ * _spreads(model)
    for i in np.argsort(-relevance, kind="stable"):
        parts[origins[i]].append([f"{INDENT}{names[i]}", f"{relevance[i] / largest:.3f}", f"{scales[i]:.3f}"])
    return parts


def _choice(model: Any, drawn: list[Picture]) -> Iterator[Block]:
    families = sorted((getattr(model, "families_", None) or {}).items(), key=lambda item: item[1]["criterion"])
    if len(families) > 1 and not getattr(model, "selection_", None):  # which compares more than scales on few features
        rows = [
            [typed_name(name), f"{best['criterion']:.4g}", best.get("n_features", DASH), best["n_rows"]]
            for name, best in families
        ]
        yield Table(["family", "lowest held-out error", "features", "rows"], rows, caption="Kernel families")
    yield from _candidates(model)
    yield from _trials(model)
    changed = _changed(model)
    if changed:
        yield Table(["parameter", "given as"], changed, caption="Parameters that are not the default", prose=True)
    yield from _figures(drawn, "path of penalties", "history", "candidates")


def _candidates(model: Any) -> Iterator[Block]:
    """What was compared on unseen rows: kernels with metrics and finishes, and learned frequencies."""
    found = compared(model)
    if found:
        rows = [
            [each.name + (" (chosen)" if each.chosen else ""), f"{each.mean:.4g}", len(each.errors)]
            for each in found[:MOST_TRIALS]
        ]
        error = "log loss" if hasattr(model, "classes_") else "mean squared error"
        first = f", first {len(rows)} of {len(found)}" if len(rows) < len(found) else ""
        caption = f"Compared on unseen rows{first}: kernel, start, metric, finish"
        yield Table(["candidate", error, "parts"], rows, caption=caption)
        yield Text(in_words(found))
        yield from _as_fitted(model)
    if spectra(model):
        rows = []
        for r in spectra(model):
            strength = f"{r['strength']:g}" if np.isfinite(r["strength"]) else DASH
            rows.append([r["spectrum"], strength, f"{r['error']:.4g}", "yes" if r["chosen"] else ""])
        yield Table(["frequencies", "strength of the penalty", "error", "chosen"], rows, caption="Learned frequencies")


def _as_fitted(model: Any) -> Iterator[Text]:
    """The last record of a search: the chosen candidate on all rows."""
    last = model.selection_[-1]
    if last["stage"] == "finish":
        error = "log loss" if hasattr(model, "classes_") else "mean squared error"
        yield Text(
            f"The chosen one was then fitted on {last['n_rows']:,} rows with {counted(last['n_centres'], 'centre')}: "
            f"{error} {last['error']:.4g} on parts that were held out, by which its width and penalty were searched once "
            "more."
        )
    elif any(
        record["chosen"] and record["finish"] == "fourier" and record["start"] == "scales" for record in model.selection_
    ):
        family = typed_name(family_name(model.kernel_))
        yield Text(f"Scales were then learned anew, on all rows and more features, for every family: {family} was the best.")


def _trials(model: Any) -> Iterator[Block]:
    """What was compared on held-out rows on the way to the weights of kernels."""
    trials = sorted(getattr(model, "trials_", None) or [], key=lambda trial: trial["error"])
    if not trials:
        return
    rows = [
        [
            f"{t['alpha']:.3g}",
            f"{t['l1_ratio']:g}",
            t["refit"] or "none",
            DASH if t["kernels_in"] is None else f"{t['kernels_in']:g}",
            f"{t['error']:.4g}",
            f"{t['standard_error']:.2g}",
        ]
        for t in trials[:MOST_TRIALS]
    ]
    inside = "kernels in" if np.shape(model.kernel_weights_)[-1] == 1 else "kernels in, over targets"
    header = ["penalty", "share on lengths", "refit", inside, "held-out error", "standard error"]
    yield Table(header, rows, caption=f"The best of {len(trials)} that were compared on held-out rows")


def _changed(model: Any) -> list[list[str]]:
    """Parameters of a model that differ from their defaults, and their values in short."""
    defaults = {name: each.default for name, each in inspect.signature(type(model).__init__).parameters.items()}
    given = {name: value for name, value in model.get_params(deep=False).items() if repr(value) != repr(defaults.get(name))}
    return [[name, text if len(text := repr(value)) <= 200 else f"{text[:197]}..."] for name, value in given.items()]


def _time(model: Any) -> Iterator[Block]:
    seconds = getattr(model, "fit_seconds_", None)
    if seconds is not None:
        yield Text(f"The fit took {seconds_in_words(seconds)}.")
    history = getattr(model, "history_", None)
    if getattr(model, "selection_", None) and seconds is not None:
        rows = [[step, n or DASH, seconds_in_words(time)] for step, n, time in steps(model)]
        yield Table(["step", "kernels tried", "time"], rows, caption="Steps of the fit")
    elif history:
        rows, start = [], 0.0
        for level in sorted({record["level"] for record in history}):
            some = [record for record in history if record["level"] == level]
            end = max(record["seconds"] for record in some)
            size = some[0].get("n_features", DASH), some[0]["n_rows"]
            rows.append([level, *size, len(some), seconds_in_words(end - start)])
            start = end
        yield Table(
            ["level", "features", "rows", "kernels tried", "time"], rows, caption="Learning, from small sizes to large"
        )


def _loading(model: Any) -> Iterator[Block]:
    here, file = "  # where it was fitted", file_name(model)
    if file is not None:
        lines = ["import bochner", "", f"model = bochner.load({_quoted(file)})"]
    elif hasattr(model, "save") and hasattr(bochner, "load"):
        lines = ["import bochner", "", f'model.save("model.safetensors"){here}', 'model = bochner.load("model.safetensors")']
    else:
        lines = ["import joblib", "", f'joblib.dump(model, "model.joblib"){here}', 'model = joblib.load("model.joblib")']
    verb = "predict" if hasattr(model, "predict") else "transform"
    yield Code("\n".join([*lines, f"model.{verb}(rows)"]))
    if file is not None and verb == "predict" and hasattr(model, "n_features_in_"):
        header = " --no-header" if hasattr(model, PLACES) else ""
        yield Text("Or, in a shell, of the rows of a file:")
        yield Code(f"bochner predict {shlex.quote(file)} new.csv{header} -o predictions.csv")
    names = table_columns(model) if hasattr(model, "feature_names_in_") or hasattr(model, "encoder_") else None
    if names is not None and len(names) <= MOST_ROWS:
        order = "" if hasattr(model, "encoder_") else ", in this order and without others"
        which = "this column" if len(names) == 1 else f"these columns{order}"
        yield Text(f"Rows are a table of pandas, polars or pyarrow with {which}: {', '.join(map(str, names))}.")
    elif hasattr(model, "n_features_in_"):
        order = ", in the order of those of the fit" if model.n_features_in_ > 1 else ""
        yield Text(f"Rows have {counted(model.n_features_in_, 'column')}{order}.")
    if held_rows(model):
        yield Text(
            f"The model holds {counted(held_rows(model), 'row')} of its fit, and so does its file: share it as you would "
            "these rows. This page shows none of them. A KernelRegressor or KernelClassifier with finish='fourier' or "
            "n_features= holds none."
        )


def _quoted(name: str) -> str:
    """Text as Python has it, in double quotes where it needs nothing else."""
    return f'"{name}"' if name.isprintable() and not set(name) & {'"', "\\"} else repr(name)
