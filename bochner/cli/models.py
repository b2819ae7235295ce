"""``bochner predict``, ``report``, ``inspect`` and ``export``: what is done with a model in a file."""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.cli.columns import batches_for, rows_for, text_columns
from bochner.cli.data import PIPE, by_number, check_ending, find_column, read_table, write_batches
from bochner.cli.fitting import PAGE, check_apart, check_pictures, check_place, write_report
from bochner.cli.running import USAGE, CommandError, tell
from bochner.cli.showing import new_console, print_json, print_scores, print_table
from bochner.cli.tasks import Asked, Problem, make_problem
from bochner.descent import family_name, typed_name
from bochner.estimators import summary as words
from bochner.estimators.encoding import table_columns
from bochner.estimators.provenance import fitted_on, tested
from bochner.rows.batches import SUFFIXES_OF_TABLES
from bochner.rows.csv_files import CsvStyle
from bochner.tables.columns import UnseenLevelsWarning

READ = 6
"""Digits of predictions on a terminal, where people read them; files and pipes get all, which are needed to go on with."""
ARRAYS = {
    "feature_map_.centres": "columns of centres",
    "feature_map_.points": "base points of features",
    "coef_": "coefficients",
    "moments_.gram": "sums over rows for predict --std",
}
"""What arrays of a file are."""


def load_model(path: str) -> Any:
    """The model in a file."""
    import bochner

    if not os.path.exists(path):
        raise CommandError(f"There is no file {path}: give the one that bochner fit wrote.")
    if os.path.isdir(path):
        raise CommandError(f"{path} is a folder: give the file that bochner fit wrote.")
    return bochner.load(path)


def predict(model_path: str, data: str, output: str, *, std: bool, proba: bool, keep: Sequence[str], style: CsvStyle) -> int:
    """Predict all rows of a file, batch by batch, and write them; how many there were."""
    check_apart({"-o": output}, {"the model": model_path, "the data": data})
    if output != PIPE:
        check_ending(output, SUFFIXES_OF_TABLES, "-o", "predictions.csv")
    model = load_model(model_path)
    name = type(model).__name__
    if proba and not hasattr(model, "predict_proba"):
        raise CommandError(f"--proba is for classifiers, and {model_path} is a {name}: leave it out.", code=USAGE)
    if std and not hasattr(model, "_deviations"):
        raise CommandError(f"--std is for KernelRegressor, and {model_path} is a {name}: leave it out.", code=USAGE)
    if std and not model.knows_deviations:
        raise CommandError(f"{model_path} has not what --std needs: fit it with bochner fit --std.")
    if output != PIPE and not os.path.exists(output):
        check_place(output)
    unseen, by_place = Unseen(model), style.header is False
    digits = READ if output == PIPE and sys.stdout.isatty() else None
    batches = (unseen.noted(batch) for batch in batches_for(model, data, style) if batch.num_rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenLevelsWarning)  # told of once, at the end
        rows = write_batches(
            output, (_predicted(model, batch, data, std, proba, _kept(keep, batch, by_place), digits) for batch in batches)
        )
    unseen.tell()
    return rows


def _kept(keep: Sequence[str], batch: Any, by_place: bool) -> list[str]:
    """Names of columns to keep, which a file without names may have numbers for."""
    return [by_number(name, batch.schema.names) if by_place else name for name in keep]


class Unseen:
    """Levels of the rows that a model has not seen, counted over batches."""

    def __init__(self, model: Any) -> None:
        self.encoder = getattr(model, "encoder_", None)
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, str] = {}

    def noted(self, batch: Any) -> Any:
        """The same batch, after a look at its levels."""
        for name, levels in {} if self.encoder is None else self.encoder.unseen(batch).items():
            self.counts[name] += len(levels)
            self.examples.setdefault(name, levels[0])
        return batch

    def tell(self) -> None:
        """A line for each column that has any."""
        for name, n in self.counts.items():
            tell(
                f"Warning: column {name!r} has levels that the fit did not see in {words.counted(n, 'row')}, such as "
                f"{self.examples[name]!r}: they count as none of its levels."
            )


def _predicted(
    model: Any, batch: Any, data: str, std: bool, proba: bool, keep: Sequence[str], digits: int | None = None
) -> Any:
    """A batch of predictions beside the columns that are kept; numbers with so many digits, or all that they have."""
    import pyarrow as pa

    names = batch.schema.names
    kept = {name: batch.column(find_column(name, names, data, "--keep")) for name in keep}
    X = rows_for(model, pa.Table.from_batches([batch]), data)
    target = getattr(model, "target_name_", "prediction")
    target = f"{target} (predicted)" if target in kept else target
    results: dict[str, Any] = {}
    if std:
        predicted, deviations = model.predict(X, return_std=True)
        results |= _columns(target, predicted) | _columns(f"{target} (std)", deviations)
    else:
        results |= _columns(target, model.predict(X))
    if proba:
        shares = model.predict_proba(X)
        results |= {f"{target}={label}": shares[:, i] for i, label in enumerate(model.classes_.tolist())}
    return pa.record_batch({**kept, **{name: _arrow(values, digits) for name, values in results.items()}})


def _columns(name: str, values: Array) -> dict[str, Array]:
    return {name: values} if values.ndim == 1 else {f"{name} {i}": values[:, i] for i in range(values.shape[1])}


def _arrow(values: Array, digits: int | None = None) -> Any:
    import pyarrow as pa

    if digits is not None and values.dtype.kind == "f":
        values = np.array([float(f"{value:.{digits}g}") for value in values])
    return pa.array(values.tolist() if values.dtype.kind in "OUT" else values)


# -- report, inspect, export ------------------------------------------------------------------------------------------


def report(model_path: str, data: str | None, output: str, target: str | None, style: CsvStyle) -> str:
    """Write the page about a model; its path."""
    check_apart({"-o": output}, {"the model": model_path, "--data": data})
    check_ending(output, PAGE, "-o", "report.html")
    check_pictures()
    model = load_model(model_path)
    check_place(output)
    test = None
    target = target or getattr(model, "target_name_", None)
    if data is not None:
        if target is None:
            raise CommandError("The model does not know the name of its target: give --target.", code=USAGE)
        task = "classification" if hasattr(model, "classes_") else "regression"
        table = read_table(data, style, text_columns(model))
        names = table.schema.names
        weight = getattr(model, "weight_name_", None)  # by which rows are scored where they have it
        target = find_column(by_number(target, names) if style.header is False else target, names, data, "--target")
        made = make_problem(table, Asked(target, weight if weight in names else None, task=task), data)
        test = Problem(rows_for(model, made.X, data), made.y, made.weight, task)
    about = _about_rows(model, data)
    if about is not None:
        tell(f"Note: {about}")
    title = None if target is None else f"{Path(model_path).stem}: {target}"
    write_report(model, output, test, title, about)
    return output


def _about_rows(model: Any, data: str | None) -> str | None:
    """That rows are those of the fit, and what was scored on others, where the model knows; None if it does not."""
    if data is None or not fitted_on(model, data):
        return None
    text = (
        f"{data} is the file that the model was fitted on, and rows of a fit are predicted better: these scores are too good"
    )
    found = tested(model)
    if found is None:
        return f"{text}."
    measure, score = next(iter(next(iter(found.scores.values())).items()))
    return f"{text}; on the {words.held_out_rows(found.n_rows)} {measure} was {score:.4f}."


def show_page(path: str) -> None:
    """Open a page in the browser that ``BROWSER`` names, or in the usual one."""
    import webbrowser

    if not webbrowser.open(Path(path).resolve().as_uri()):
        tell(f"Note: no browser was found: open {path} in one, or name one by BROWSER.")


def facts(model_path: str) -> dict[str, Any]:
    """What a model file holds."""
    from bochner.persistence.files import read_header

    model = load_model(model_path)
    header, arrays = read_header(Path(model_path))
    provenance = header.get("provenance", {})
    found: dict[str, Any] = {
        "file": model_path,
        "bytes": os.path.getsize(model_path),
        "estimator": type(model).__name__,
        "target": getattr(model, "target_name_", None),
        "bochner": header.get("bochner"),
        "date": provenance.get("date"),
        "columns": table_columns(model) or getattr(model, "n_features_in_", None),
        "encoded_columns": None if header.get("encoder") is None else len(model.encoder_.names_out),
        "classes": model.classes_.tolist() if hasattr(model, "classes_") else None,
        "rows": provenance.get("n_rows"),
        **_scores(model),
        "validation_error": float(getattr(model, "validation_error_", np.nan)),
        "validation_error_in_words": dict(words.facts(model)).get("held-out error"),
        "numbers": int(sum(array.size for array in arrays.values())),
        "arrays": {name: list(array.shape) for name, array in arrays.items()},
    }
    if hasattr(model, "relevance_by_name"):
        found |= {"kernel": typed_name(family_name(model.kernel_)), "relevance": model.relevance_by_name(by="column")}
    elif hasattr(model, "kernel_weights_by_name"):
        found["kernel_weights"] = {
            name: np.ravel(weight).tolist() for name, weight in model.kernel_weights_by_name().items()
        }
    found |= _made_of(model)
    given = {name: value for name, value in model.get_params(deep=False).items() if not callable(value)}
    return {**found, "parameters": {name: value for name, value in given.items() if value != _default(model, name)}}


def _scores(model: Any) -> dict[str, Any]:
    """What the fit scored, if the model remembers it."""
    found = tested(model)
    if found is None:
        return {}
    return {"scores": found.scores, "tested": found.n_rows, "scored_before_refit": found.refitted}


def _made_of(model: Any) -> dict[str, Any]:
    """What predictions are sums of, how many there are, and the penalty; rows of the fit that the file holds."""
    found: dict[str, Any] = {"finish": getattr(model, "finish_", None)}
    if hasattr(model, "feature_map_"):
        found["centres" if hasattr(model.feature_map_, "centres") else "features"] = int(model.feature_map_.n_features)
    alpha = getattr(model, "alpha_", None)
    penalty = None if alpha is None else np.asarray(alpha, dtype=float).tolist()
    return {**found, "penalty": penalty, "rows_held": words.held_rows(model)}


def _default(model: Any, name: str) -> Any:
    import inspect

    return inspect.signature(type(model)).parameters[name].default


def inspect(model_path: str, as_json: bool) -> None:
    """Say what a model file holds."""
    found = facts(model_path)
    if as_json:
        print_json(found)
        return
    console = new_console()
    apart = ("relevance", "kernel_weights", "parameters", "scores", "tested", "scored_before_refit", "arrays")
    parts = {name: found.pop(name, None) for name in apart}
    n_rows = found["rows"]
    found["validation_error"] = found.pop("validation_error_in_words") or found["validation_error"]
    if n_rows and parts["tested"] and not parts["scored_before_refit"]:
        n, were = parts["tested"], "was" if parts["tested"] == 1 else "were"
        found["rows"] = f"{n_rows:,}, and {n:,} more that {were} held out to score it"
    found["numbers"] = f"{found['numbers']:,}, {_largest(parts['arrays'])}"
    if (held := found["rows_held"]) and held < (n_rows or 0):
        found["rows_held"] = f"{held:,} of the {n_rows:,}: of rows that are equal one, and of very many some"
    rows = [[name.replace("_", " "), _short(value)] for name, value in found.items() if value is not None]
    rows += [[f"{name} (given)", _short(value)] for name, value in (parts["parameters"] or {}).items()]
    print_table(console, "", ["", ""], rows)
    if parts["scores"]:
        print_scores(console, parts["scores"], parts["tested"], "fit before" if parts["scored_before_refit"] else "fit")
    shown = parts["relevance"] or {}
    print_table(console, "Most relevant columns", ["", ""], [[name, f"{v:.3f}"] for name, v in list(shown.items())[:10]])
    weights = parts["kernel_weights"] or {}
    print_table(console, "Weights of the kernels", ["", ""], [[n, _short(v)] for n, v in list(weights.items())[:10]])


def _largest(arrays: dict[str, list[int]]) -> str:
    """What the most numbers of a file are."""
    name, shape = max(arrays.items(), key=lambda item: np.prod(item[1]))
    return f"most of them {ARRAYS.get(name, name)} ({' x '.join(map(str, shape))})"


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        shown = ", ".join(_short(each) for each in value[:8])
        return shown + (f" and {len(value) - 8} more" if len(value) > 8 else "")
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def export(model_path: str, output: str) -> None:
    """Write a model as a graph of ONNX."""
    check_ending(output, [".onnx"], "OUTPUT", "model.onnx")
    model = load_model(model_path)
    check_place(output)
    import bochner

    bochner.export_onnx(model, output)
