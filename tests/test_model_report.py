"""Reports of models: they say the numbers of the model, need no rows, and are whole pages in a real browser."""

from __future__ import annotations

import copy
import io
import pickle
import re
import shlex
import sys

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss, mean_absolute_error, precision_score, r2_score

import bochner
from bochner import FourierFeatures, KernelClassifier, KernelRegressor, MultipleKernelClassifier, MultipleKernelRegressor
from bochner.descent import typed_name
from bochner.estimators import summary
from bochner.exact import GMKLClassifier, KernelRidgeGD
from bochner.report import Code, Figure, Table, Text
from bochner.scores import class_scores, scores
from tests.browsers import DESK, PHONE, chromium, opened
from tests.default_models import default_classifier, default_regressor, default_rows

pytest.importorskip("matplotlib").use("Agg")
pytest.importorskip("pandas")

import matplotlib.figure  # noqa: E402

from bochner.model_report import model_page, write_model_report  # noqa: E402
from bochner.plots import plot_relevance  # noqa: E402

KERNELS = [
    ("acids", "gaussian", ["malic_acid", "ash"]),
    ("phenols", "gaussian", ["total_phenols", "flavanoids"]),
    ("looks", "gaussian", ["color_intensity", "hue"]),
]


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True, as_frame=True)
    return X[::2], y[::2], X[1::2], y[1::2]


@pytest.fixture(scope="module")
def models(wine):
    """Fitted models by their names, with rows and targets that they have not seen."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    train, labels, test, truth = wine
    numbers = X[1::2], y[1::2].to_numpy()
    rows = np.random.default_rng(0).standard_normal((240, 4))
    sines = np.sin(rows[:, 0] + rows[:, 1])
    views, two = {"first": rows[:, :2], "second": rows[:, 2:]}, np.stack([sines, -2 * sines], axis=1)
    free = KernelRegressor("gaussian", n_features=32, spectrum="free", random_state=0)
    return {
        "regressor": (KernelRegressor(n_features=64, random_state=0).fit(X[::2], y[::2]), *numbers),
        "metric": (KernelRegressor("gaussian", metric="full", random_state=0).fit(rows[::2], sines[::2]), rows, sines),
        "exact": (KernelRidgeGD("gaussian", max_iter=3, random_state=0).fit(X[:60], y[:60]), *numbers),
        "classifier": (KernelClassifier("gaussian", n_features=64, random_state=0).fit(train, labels), test, truth),
        "many": (MultipleKernelClassifier(KERNELS, n_features=32, random_state=0).fit(train, labels), test, truth),
        "sum": (GMKLClassifier(KERNELS).fit(train, labels), test, truth),
        "histograms": (KernelClassifier("chi2", random_state=0).fit(train, labels), test, truth),
        "views": (MultipleKernelRegressor("gaussian", n_features=20, random_state=0).fit(views, sines), views, sines),
        "two targets": (free.fit(rows, two), rows, two),
        "features": (FourierFeatures(random_state=0).fit(X), None, None),
        "default": (default_regressor(), *default_rows(seed=1)),
        "default classes": (default_classifier(), default_rows(seed=1)[0], np.repeat(["low", "high"], 60)),
    }


def blocks(page, title, kind):
    return [
        block for section in page.sections if section.title == title for block in section.blocks if isinstance(block, kind)
    ]


NAMES = ("regressor", "metric", "exact", "classifier", "many", "sum", "histograms", "views", "two targets", "features")
DEFAULTS = ("default", "default classes")
"""Models of the default settings: a metric, on centres."""


@pytest.mark.parametrize("name", [*NAMES, *DEFAULTS])
def test_every_estimator_has_a_report_with_rows_and_without(models, name):
    model, X, y = models[name]
    page = model_page(model, X, y)
    found = [section.title for section in page.sections]
    assert found[0] == "In short"
    assert {"What was learned", "How to load it"} <= set(found)
    assert dict(blocks(page, "In short", Table)[0].rows)  # a line at least
    assert all(
        block.dark is not None and block.dark != block.image
        for s in page.sections
        for block in s.blocks
        if isinstance(block, Figure)
    )
    again = model_page(pickle.loads(pickle.dumps(model)))  # from a file, without rows
    assert blocks(again, "In short", Table) == blocks(page, "In short", Table)


def test_scores_of_numbers_are_those_of_scikit_learn(models):
    model, X, y = models["regressor"]
    found = [float(value.rstrip("%")) for _, value in scores(model, X, y)]
    predicted, deviation = model.predict(X, return_std=True)
    expected = [
        r2_score(y, predicted),
        np.sqrt(np.mean((predicted - y) ** 2)),
        mean_absolute_error(y, predicted),
        100 * np.mean(np.abs(predicted - y) <= 2 * deviation),
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_scores_of_classes_are_those_of_scikit_learn(models):
    model, X, y = models["classifier"]
    predicted, probabilities = model.predict(X), model.predict_proba(X)
    found = [float(value) for _, value in scores(model, X, y)]
    brier = np.mean(np.sum((probabilities - np.eye(3)[y]) ** 2, axis=1))
    expected = [accuracy_score(y, predicted), balanced_accuracy_score(y, predicted), log_loss(y, probabilities), brier]
    np.testing.assert_allclose(found, expected, atol=6e-5)
    rows = class_scores(model, X, y)
    assert [row[0] for row in rows] == ["0", "1", "2"]
    precision = precision_score(y, predicted, average=None)
    np.testing.assert_allclose([float(row[3].rstrip("%")) / 100 for row in rows], precision, atol=6e-4)


def test_the_error_of_classes_is_beside_that_of_a_constant(models):
    model = models["classifier"][0]
    told = blocks(model_page(model), "How good it is", Text)[0].text
    beside = "(mean squared loss), where 1 is what predicting the shares of the classes scores. Kernel"
    assert f"{model.validation_error_:.4g} {beside}" in told


def test_bars_are_spoken_of_where_there_are_any(models):
    model, X, y = models["regressor"]
    captions = []
    for moments in (model.moments_, None):
        again = pickle.loads(pickle.dumps(model))
        again.moments_ = moments
        captions.append(next(each.caption for each in blocks(model_page(again, X, y), "How good it is", Figure)))
    assert ["bars are" in caption for caption in captions] == [True, False]


def test_a_class_without_rows_has_a_dash(models):
    model, X, y = models["classifier"]
    first = class_scores(model, X[(y == 1).to_numpy()], y[y == 1])[0]
    assert first[1] == "0"
    assert first[4] == "\u2013"


def test_what_it_relies_on_are_relevances_and_scales(models):
    model, X, y = models["regressor"]
    (table,) = blocks(model_page(model, X, y), "What it relies on", Table)
    assert [row[0] for row in table.rows] == list(model.relevance_by_name())
    assert [float(row[1]) for row in table.rows] == pytest.approx(list(model.relevance_by_name().values()), abs=5e-4)


def test_scales_are_in_units_of_spreads():
    """Those of dates in seconds are one in a million or less."""
    import pandas as pd

    rng = np.random.default_rng(0)
    seconds = 1e7 * rng.standard_normal(80)
    table = pd.DataFrame({"when": seconds, "size": rng.standard_normal(80)})
    model = KernelRegressor("gaussian", n_features=20, tol=0.1, random_state=0).fit(table, np.sin(seconds / 1e7))
    (found,) = blocks(model_page(model), "What it relies on", Table)
    shown = {row[0]: float(row[2]) for row in found.rows}
    assert shown["when"] == pytest.approx(model.scale_[0] * seconds.std(), abs=6e-4)
    assert shown["when"] > 0.1
    assert "one standard deviation of the column" in found.caption
    as_they_are = KernelRegressor("chi2", tol=0.1, random_state=0).fit(table.abs(), table["size"])
    (found,) = blocks(model_page(as_they_are), "What it relies on", Table)
    assert "the narrower the kernel in units of the column." in found.caption


def test_the_page_says_which_rows_are_scored(models):
    model, X, y = models["regressor"]
    said = "They were measured on a Monday."
    assert Text(said) in blocks(model_page(model, X, y, about_rows=said), "How good it is", Text)
    told = [block.text for block in blocks(model_page(model, X, y), "How good it is", Text)]
    assert any("if some of these are among them, the scores are too good" in text for text in told)


def test_columns_that_were_encoded_stand_below_those_of_the_table():
    """The command line and the report show the same columns in the same order, and parts add up to the whole."""
    import pandas as pd

    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.standard_normal(80), "city": rng.choice(["Bonn", "Oslo", "Rome"], 80)})
    y = table["size"] + 2.0 * (table["city"] == "Oslo") - (table["city"] == "Rome")
    model = KernelRegressor("gaussian", n_features=20, tol=0.1, random_state=0).fit(table, y)
    (found,) = blocks(model_page(model), "What it relies on", Table)
    whole = model.relevance_by_name(by="column")
    assert [row[0] for row in found.rows if not row[0].startswith("\u2003")] == list(whole)
    parts = {row[0].strip(): float(row[1]) for row in found.rows if row[0].startswith("\u2003")}
    assert set(parts) == {"city=Bonn", "city=Oslo", "city=Rome"}
    assert sum(parts.values()) == pytest.approx(whole["city"], abs=2e-3)
    at = [row[0] for row in found.rows].index("city")
    assert {row[0].strip() for row in found.rows[at + 1 : at + 4]} == set(parts)
    assert found.rows[at][2] == "\u2013"  # a scale is one of an encoded column
    assert "city=" not in dict(blocks(model_page(model), "In short", Table)[0].rows)["relies on"]
    ax = matplotlib.figure.Figure().subplots()
    assert [label.get_text() for label in plot_relevance(model, ax).get_yticklabels()] == list(whole)


def test_how_it_was_chosen_has_families_and_trials(models):
    model = models["regressor"][0]
    families = blocks(model_page(model), "How it was chosen", Table)[0]
    assert {row[0] for row in families.rows} == {typed_name(name) for name in model.families_}
    errors = [float(row[1]) for row in families.rows]
    assert errors == sorted(errors)
    many = models["many"][0]
    trials = blocks(model_page(many), "How it was chosen", Table)[0]
    assert float(trials.rows[0][4]) == pytest.approx(min(trial["error"] for trial in many.trials_), rel=1e-3)


@pytest.mark.parametrize("name", DEFAULTS)
def test_candidates_have_one_line_each_and_the_chosen_one_is_first(models, name):
    model = models[name][0]
    table = blocks(model_page(model), "How it was chosen", Table)[0]
    errors: dict[str, list[float]] = {}
    for r in model.selection_:
        if r["stage"] == "unseen rows":
            errors.setdefault(f"{typed_name(r['kernel'])}, {r['start']}, {r['metric']}, {r['finish']}", []).append(
                r["error"]
            )
    shown = [str(row[0]).removesuffix(" (chosen)") for row in table.rows]
    assert len(set(shown)) == len(shown) == min(12, len(errors))
    for row, candidate in zip(table.rows, shown, strict=True):
        assert float(row[1]) == pytest.approx(np.mean(errors[candidate]), rel=1e-3)
        assert row[2] == len(errors[candidate])
    most = max(len(some) for some in errors.values())
    everywhere = {candidate: np.mean(some) for candidate, some in errors.items() if len(some) == most}
    assert most == 3
    assert table.rows[0][0] == f"{min(everywhere, key=everywhere.get)} (chosen)"
    assert sum(str(row[0]).endswith("(chosen)") for row in table.rows) == 1
    cut = f", first 12 of {len(errors)}" if len(errors) > 12 else ""
    assert table.caption == f"Compared on unseen rows{cut}: kernel, start, metric, finish"


def test_words_of_candidates_are_explained_and_the_last_fit_is_told(models):
    model = models["default"][0]
    words, last = blocks(model_page(model), "How it was chosen", Text)
    for record in model.selection_:
        assert f"{record['start']}: " in words.text
        assert f"{record['metric']}: " in words.text
    assert "units: " not in words.text  # a start of many columns
    parts = {row[2] for row in blocks(model_page(model), "How it was chosen", Table)[0].rows}
    assert ("among the best of every part" in words.text) == (len(parts) > 1)
    finish = model.selection_[-1]
    assert finish["stage"] == "finish"
    assert f"on 120 rows with 120 centres: mean squared error {finish['error']:.4g}" in last.text


def test_families_are_shown_where_scales_were_all_that_was_learned(models):
    captions = {
        name: [t.caption for t in blocks(model_page(models[name][0]), "How it was chosen", Table)] for name in models
    }
    assert "Kernel families" in captions["regressor"]
    assert all("Kernel families" not in captions[name] for name in DEFAULTS)


def test_a_search_is_timed_by_its_steps(models):
    """Steps are those of the records, and add up to the whole."""
    model = models["default"][0]
    (table,) = blocks(model_page(model), "How long it took", Table)
    steps = {row[0]: (row[1], float(row[2].removesuffix(" s"))) for row in table.rows}
    n = {stage: sum(r["stage"] == stage for r in model.selection_) for stage in ("search 1", "unseen rows", "finish")}
    assert steps["scales"][0] == len(model.history_)
    assert steps["metrics"][0] == n["search 1"]
    assert steps["comparison on unseen rows"][0] == n["unseen rows"]
    assert steps["last fit, on all rows"][0] == n["finish"] == 1
    assert sum(seconds for _, seconds in steps.values()) == pytest.approx(model.fit_seconds_, rel=0.1)
    assert steps["scales"][1] == pytest.approx(model.history_[-1]["seconds"], rel=0.06)


def test_steps_of_a_search_that_ended_in_scales_on_random_features(models):
    """What the last fit tried is then in history_, and the scales of the search are not."""
    model = copy.copy(models["default"][0])
    model.selection_ = [record for record in model.selection_ if record["stage"] != "finish"]
    found = {step: n for step, n, _ in summary.steps(model)}
    assert found["last fit, on all rows"] == len(model.history_)
    assert "scales" not in found
    assert "scales and metrics" in found
    told = [text.text for text in blocks(model_page(model), "How it was chosen", Text)]
    assert not any("was then fitted" in text for text in told)


def test_kernels_have_their_weights_and_shares(models):
    model = models["many"][0]
    table = blocks(model_page(model), "What was learned", Table)[0]
    by_name = {row[0]: row for row in table.rows}
    weights = dict(zip(model.kernel_names_, model.kernel_weights_[:, 0], strict=True))
    assert {name: float(row[2]) for name, row in by_name.items()} == pytest.approx(weights, rel=6e-3)


def test_parameters_that_are_not_the_default(models):
    model = models["metric"][0]
    table = blocks(model_page(model), "How it was chosen", Table)[-1]
    assert sorted(map(tuple, table.rows)) == [("kernel", "'gaussian'"), ("metric", "'full'"), ("random_state", "0")]


def test_the_snippet_loads_the_model(models, tmp_path, monkeypatch):
    model, X, _ = models["regressor"]
    (code,) = blocks(model_page(model), "How to load it", Code)
    monkeypatch.chdir(tmp_path)
    variables = {"model": model, "rows": X}
    exec(code.text, variables)
    np.testing.assert_array_equal(variables["model"].predict(X), model.predict(X))
    assert variables["model"] is not model


@pytest.mark.parametrize("name", ["price.safetensors", 'my "best" model.safetensors'])
def test_the_snippet_names_the_file_of_the_model(models, tmp_path, monkeypatch, name):
    """One that was saved, and one that was loaded; the name of the folder stays out of it."""
    model, X, _ = copy.copy(models["regressor"][0]), *models["regressor"][1:]
    (tmp_path / "secret").mkdir()
    model.save(tmp_path / "secret" / name)
    monkeypatch.chdir(tmp_path / "secret")
    for known in (model, bochner.load(tmp_path / "secret" / name)):
        code, shell = (block.text for block in blocks(model_page(known), "How to load it", Code))
        assert "secret" not in code + shell
        variables = {"rows": X}
        exec(code, variables)
        np.testing.assert_array_equal(variables["model"].predict(X), model.predict(X))
        assert shlex.split(shell) == ["bochner", "predict", name, "new.csv", "-o", "predictions.csv"]
    assert ('bochner.load("price.safetensors")' in code) == (name == "price.safetensors")
    model.partial_fit(X, np.ones(len(X)))  # it is another one now
    assert "model.save(" in blocks(model_page(model), "How to load it", Code)[0].text


def test_transformers_and_views_have_no_line_for_a_shell(models, tmp_path):
    for name in ("features", "views"):
        model = copy.copy(models[name][0])
        model.save(tmp_path / "m.safetensors")
        assert len(blocks(model_page(model), "How to load it", Code)) == 1


def test_rows_that_the_model_holds_are_told_of_and_not_shown(models):
    for name, rows in (("default", "holds 120 rows"), ("exact", "holds 60 rows"), ("regressor", None)):
        told = " ".join(text.text for text in blocks(model_page(models[name][0]), "How to load it", Text))
        assert ("n_features=" in told) == (rows is not None)
        assert rows is None or rows in told


def test_a_page_of_one_column_and_one_row(wine):
    X, y, _, _ = wine
    model = KernelClassifier("gaussian", n_features=20, random_state=0).fit(X[["ash"]], y)
    model.test_scores_ = {"scores": {"KernelClassifier": {"accuracy": 1.0}}, "n_rows": 1, "refitted": False}
    page = model_page(model)
    assert page.lead == "A fitted KernelClassifier on rows of 1 column."
    assert blocks(page, "How good it is", Table)[0].caption == "When it was fitted, on 1 row that was held out"
    assert "Rows are a table of pandas, polars or pyarrow with this column: ash." in [
        text.text for text in blocks(page, "How to load it", Text)
    ]


def test_the_method_of_a_model_writes_the_same_page(models, tmp_path):
    model, X, y = models["regressor"]
    path = model.report(tmp_path / "new" / "page.html", X, y, title="A <title>")
    text = path.read_text(encoding="utf-8")
    assert "A &lt;title&gt;" in text
    assert re.findall(r'(?:src|href|srcset)="(?!#|data:)', text) == []  # nothing from elsewhere
    assert "<script" not in text
    assert "@import" not in text
    assert "url(" not in text


def test_pictures_are_drawn_without_pyplot(models, monkeypatch):
    """Its list of open figures and its current style are the user's: a report leaves both alone."""
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    before = dict(matplotlib.rcParams)
    model, X, y = models["metric"]
    assert any(isinstance(block, Figure) for section in model_page(model, X, y).sections for block in section.blocks)
    assert dict(matplotlib.rcParams) == before


def test_a_model_that_is_not_fitted_has_none():
    from sklearn.exceptions import NotFittedError

    for method in ("summary", "plot", "report"):
        with pytest.raises(NotFittedError):
            getattr(KernelRegressor(), method)()


# -- in a browser -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module", params=["metric", "many", "default"])
def page(request, models, tmp_path_factory):
    model, X, y = models[request.param]
    path = tmp_path_factory.mktemp("report") / "report.html"
    return write_model_report(model, path, X, y, title="ATitleOfOneLongWordThatHasNoPlaceToBreakAtAll")


def test_the_page_uses_its_width(browser, page):
    """Tables are as wide as the page, or go beside a picture."""
    with opened(browser, page, width=1000) as (shown, _):
        right = "els => Math.max(...els.map(e => e.getBoundingClientRect().right))"
        assert shown.eval_on_selector_all("table", right) > 960
        assert shown.eval_on_selector_all("table", "els => Math.min(...els.map(e => e.getBoundingClientRect().width))") > 450
        assert shown.eval_on_selector_all("p, figure", right) > 850


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_errors_no_requests_and_no_scrolling_sideways(browser, page, width, scheme):
    with opened(browser, page, width=width, scheme=scheme) as (shown, seen):
        assert seen.messages == []
        assert seen.requests == []
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        widths = shown.evaluate("[...document.images].map(image => image.naturalWidth)")
        assert len(widths) == page.read_text(encoding="utf-8").count("<img ") >= 3
        assert min(widths) > 0  # every picture is there
        assert shown.locator("h2").count() == shown.locator("nav a").count()


def test_the_dark_scheme_is_dark_and_has_pictures_of_its_own(browser, page):
    colours, pictures, pixels = {}, {}, {}
    for scheme in ("light", "dark"):
        with opened(browser, page, scheme=scheme) as (shown, _):
            colours[scheme] = shown.evaluate("getComputedStyle(document.body).backgroundColor")
            pictures[scheme] = shown.evaluate("document.images[0].currentSrc")
            pixels[scheme] = brightness(shown.screenshot())
    assert colours == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}
    assert pictures["light"] != pictures["dark"]
    assert pixels["light"] > 200 > 80 > pixels["dark"]


def brightness(png):
    """Mean of the pixels of a picture."""
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(png)).convert("L")
    return float(np.mean(np.asarray(image)))


def test_the_judge_of_requests_can_tell(browser, tmp_path):
    """A page that asks for a picture from elsewhere, and has an error, is found out."""
    bad = tmp_path / "bad.html"
    bad.write_text('<img src="https://example.org/a.png"><script>throw new Error("no")</script>', encoding="utf-8")
    with opened(browser, bad) as (_, seen):
        assert seen.requests == ["https://example.org/a.png"]
        assert any("no" in message for message in seen.messages)
