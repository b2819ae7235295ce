"""Hostile data under the settings that a model has if nothing is said: a metric is learned, on data centres.

``attempt`` asks of every case of the variant "default-effort" that finish and metric were chosen where they are due.
"""

import numpy as np
import pytest

from bochner.metric_learning import sizes
from tests.hostile.cases import MANY_ROWS, Case, data_of
from tests.hostile.estimators import attempt, fitted, is_classifier, refuse_other_finish
from tests.hostile.judge import BrokenRuleError

LINE = (
    "estimator={} loss={} engine={} variant=default-effort columns={} target={} weights={} layout={} dtype={} "
    f"n={MANY_ROWS} m={{}} seed=0"
)
ON_CENTRES = (
    "KernelRegressor squared threads units 1e30 none C own 3",
    "KernelRegressor squared threads cauchy+constant log-normal zeros F float32 7",
    "KernelRegressor squared torch duplicated outlier 1e12 C float64 3",
    "KernelRegressor squared threads one-hot several-units none frame float64 7",
    "KernelClassifier squared threads mixed-sizes+all-zero three none C float64 3",
    "KernelClassifier squared threads collinear one-row-of-a-class 1e300 strided float64 3",
)
ON_FEATURES = (
    "KernelRegressor squared threads offset plain two-rows C float64 3",
    "KernelRegressor squared threads zeros plain none csr float64 3",
    "KernelRegressor squared threads log-normal plain none C float64 1",
    "KernelClassifier logistic threads plain two none C float64 3",
)
"""Where there is nothing to choose a metric by: few rows of any weight, sparse rows, one column, another loss."""


def case_of(text):
    return Case.parse(LINE.format(*text.split()))


@pytest.mark.parametrize("text", ON_CENTRES + ON_FEATURES)
def test_the_rule_holds(text):
    outcome = attempt(case_of(text))
    assert outcome.result == "finite", outcome.message


def test_the_judge_sees_another_finish():
    """Which is why those cases show what they are about."""
    case = case_of(ON_FEATURES[0])
    data = data_of(case, is_classifier(case.estimator))
    model, _ = fitted(case, data)
    refuse_other_finish(model, case, data)
    for finish, selection in (("centres", []), ("fourier", [{}]), ("centres", [{}])):
        model.finish_, model.selection_ = finish, selection
        with pytest.raises(BrokenRuleError, match="where fourier is due"):
            refuse_other_finish(model, case, data)


def test_the_stages_of_many_rows_on_hostile_columns(monkeypatch):
    """Of 2000 rows and more: three sizes, and random features among what is compared on unseen rows."""
    monkeypatch.setattr(sizes, "FEW_ROWS", MANY_ROWS // 2)
    case = case_of("KernelRegressor squared threads cauchy+units outlier none C own 3")
    data = data_of(case, classifier=False)
    model, X = fitted(case, data)
    assert np.isfinite(model.predict(X)).all()
    assert {row["stage"] for row in model.selection_} == {"search 1", "search 2", "search 3", "unseen rows", "finish"}
    assert {row["finish"] for row in model.selection_ if row["stage"] == "unseen rows"} == {"centres", "fourier"}
