"""A fixed selection: every estimator meets every kind of hostile data once, with its losses, engines and options in turn.

The whole suite, of 10,000 generated cases, is ``make bench-hostile``.
"""

import numpy as np
import pytest
from hypothesis import given, settings

from tests.hostile.cases import (
    COLUMNS,
    DTYPES,
    LABELS,
    LAYOUTS,
    NOT_NEGATIVE,
    TARGETS,
    WEIGHTS,
    WIDTHS,
    Case,
    cases,
    data_of,
    sizes_of,
)
from tests.hostile.estimators import ESTIMATORS, attempt, is_classifier, learners, losses_of

TAKE_LONG = ("ratio-10000", "1000-classes")
"""Kinds of labels of which one estimator alone is asked here."""


def selected(name):
    """Cases of an estimator: as many as there are kinds of columns, and all other kinds among them."""
    mine = [each for each in learners() if each[0] == name]
    targets = [kind for kind in (LABELS if is_classifier(name) else TARGETS) if kind not in TAKE_LONG]
    order = np.random.default_rng(0).permutation(len(mine))
    for i, columns in enumerate(COLUMNS):
        _, loss, engine, variant = mine[order[i % len(mine)]]
        sizes = sizes_of(engine, variant)
        yield Case(
            estimator=name,
            loss=loss,
            engine=engine,
            variant=variant,
            columns=columns,
            target=targets[i % len(targets)],
            weights=list(WEIGHTS)[i % len(WEIGHTS)],
            layout=LAYOUTS[(i + i // len(LAYOUTS)) % len(LAYOUTS)],
            dtype=DTYPES[i % len(DTYPES)],
            n=sizes[i % len(sizes)],
            m=WIDTHS[i % len(WIDTHS)],
            seed=i,
        )


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_kind_of_hostile_data(name):
    failures = [(outcome.message, str(case)) for case in selected(name) if (outcome := attempt(case)).result == "failed"]
    assert not failures, "\n".join(f"{message}\n    {case}" for message, case in failures)


def test_the_selection_has_every_kind():
    for name in ESTIMATORS:
        mine = list(selected(name))
        labels = LABELS if is_classifier(name) else TARGETS
        assert {case.columns for case in mine} == set(COLUMNS)
        assert {case.target for case in mine} | set(TAKE_LONG) >= set(labels)
        assert {case.weights for case in mine} == set(WEIGHTS)
        assert {case.layout for case in mine} == set(LAYOUTS)
        assert {case.dtype for case in mine} == set(DTYPES)


def test_rows_with_nothing_hostile_are_answered():
    """Options that do not go together would end every case in an error, which counts as right."""
    refused = {}
    for name, loss, engine, variant in learners():
        if engine != "threads":
            continue
        case = Case(
            estimator=name,
            loss=loss,
            engine=engine,
            variant=variant,
            columns="bool" if variant in NOT_NEGATIVE else "plain",
            target="three" if is_classifier(name) else "plain",
            weights="none",
            layout="C",
            dtype="float64",
            n=30,
            m=3,
            seed=0,
        )
        outcome = attempt(case)
        if outcome.result != "finite":
            refused[str(case)] = outcome.message
    assert refused == {}


def test_losses_are_found_unasked():
    assert losses_of("KernelClassifier") == ("squared", "logistic", "multinomial")
    assert losses_of("GMKLRegressor") == ("epsilon-insensitive", "squared")
    assert losses_of("KernelRegressor") == ("squared",)


@pytest.mark.parametrize("kind", TAKE_LONG)
def test_many_rows_of_one_class_and_many_classes(kind):
    given = {"estimator": "GMKLClassifier", "loss": "squared", "engine": "threads", "variant": "plain", "columns": "plain"}
    case = Case(**given, target=kind, weights="none", layout="C", dtype="float64", n=3, m=2, seed=0)
    assert kind == "1000-classes" or attempt(case).result == "error"  # which says that so many rows do not fit
    classifier = Case(**{**vars(case), "estimator": "MultipleKernelClassifier"})
    assert kind == "1000-classes" or attempt(classifier).result == "finite"


@settings(max_examples=40)
@given(case=cases(learners(), is_classifier))
def test_a_case_is_its_text(case):
    assert Case.parse(str(case)) == case
    one, two = (data_of(Case.parse(str(case)), is_classifier(case.estimator)) for _ in range(2))
    for a, b in ((one.X, two.X), (one.y, two.y)):
        a, b = (each.toarray() if hasattr(each, "toarray") else np.asarray(each) for each in (a, b))
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()
