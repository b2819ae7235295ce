"""Metrics from gradients of fits on centres: formulas, invariances, limits."""

from dataclasses import replace

import numpy as np
import pytest

from bochner.criteria import HeldOutError
from bochner.engines.devices import on_device
from bochner.engines.gradients import outer_product
from bochner.features import CentreMap
from bochner.folds import Folds, Rows
from bochner.full_ridge import FullHeldOutError
from bochner.iterated_ridge import IteratedHeldOutError
from bochner.kernels import Gaussian, Matern, MetricKernel, get_kernel
from bochner.metric_learning.candidates import Candidate, as_kind, brought_together, moved, rescaled, with_metric
from bochner.metric_learning.centre_space import CentreSpace
from bochner.metric_learning.plan import EFFORTS, MetricPlan
from bochner.metric_learning.search import Starts, best_of, search
from bochner.metric_learning.stages import Stage
from bochner.metric_learning.teacher import Teacher


def made(n=240, m=4, parts=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, m))
    y = np.sin(2 * (X[:, 0] + X[:, 1])) + 0.05 * rng.standard_normal(n)
    rows = [Rows(X[k::parts], y[k::parts, None], np.ones(len(X[k::parts]))) for k in range(parts)]
    return Folds(tuple(rows), tuple(range(parts)))


def space(folds, n_centres=180, **options):
    return CentreSpace(folds, Stage(folds.n, n_centres, 1, 1), HeldOutError, np.random.default_rng(0), **options)


def test_full_metric_is_the_root_of_the_outer_product():
    G = np.cov(np.random.default_rng(0).standard_normal((4, 50)))
    kernel = with_metric(Gaussian(scale=3.0), G, "full")
    np.testing.assert_allclose(kernel.outer, G, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(with_metric(kernel, G, "diagonal").scales(4) ** 2, np.diagonal(G), rtol=1e-12)
    low = with_metric(kernel, G, "low-rank", rank=2)
    values = np.sort(np.linalg.eigvalsh(G))[::-1]
    np.testing.assert_allclose(np.sort(np.linalg.eigvalsh(low.outer))[::-1][:2], values[:2], rtol=1e-10)
    assert np.linalg.matrix_rank(low.outer) == 2


def test_low_rank_of_all_columns_is_the_full_metric():
    G = np.cov(np.random.default_rng(1).standard_normal((3, 50)))
    X = np.random.default_rng(2).standard_normal((20, 3))
    low, full = with_metric(Gaussian(), G, "low-rank", rank=3), with_metric(Gaussian(), G, "full")
    np.testing.assert_allclose(low(X), full(X), rtol=1e-10)


def test_rank_keeps_nearly_all_of_the_trace():
    G = np.diag([4.0, 1.0, 1e-9, 1e-9])
    assert with_metric(Gaussian(), G, "low-rank").metric.shape == (4, 2)


def test_a_direction_of_two_columns_is_found():
    found = search(
        made(),
        Starts((get_kernel("gaussian"),), {"isotropic": np.ones(4)}),
        (Stage(240, 180, 3, keep=1),),
        ("diagonal", "full"),
        criterion=lambda stage: HeldOutError,
        rng=np.random.default_rng(0),
    )
    assert found[0].kind == "full"
    directions, _ = found[0].kernel.directions(1)
    np.testing.assert_allclose(np.abs(directions[0]), np.array([1, 1, 0, 0]) / np.sqrt(2), atol=0.1)


@pytest.mark.parametrize(("kind", "rank"), [("diagonal", None), ("full", None), ("low-rank", 2)])
def test_the_gradient_of_the_held_out_error_in_a_metric(kind, rank):
    rng = np.random.default_rng(3)
    some = space(made(120), n_centres=40)
    start = as_kind(MetricKernel(Gaussian(), 0.5 * rng.standard_normal((4, 4))), kind, 4, rank)
    change = 0.3 * rng.standard_normal(4 if kind == "diagonal" else start.metric.shape[1] ** 2)

    def error(change, log_alpha, *, gradient):
        kernel, back = moved(start, change)
        bounds = (np.exp(log_alpha), np.exp(log_alpha))
        found = some.criterion.evaluate(CentreMap(kernel, some.centres), log_alpha, gradient=gradient, bounds=bounds)
        return back(kernel.unconstrain(found.gradient.named().parameters)) if gradient else found.value

    slopes = error(change, -5.0, gradient=True)
    for k in range(len(change)):
        step = 1e-5 * np.eye(len(change))[k]
        near = [error(change + sign * step, -5.0, gradient=False) for sign in (1, -1)]
        assert slopes[k] == pytest.approx((near[0] - near[1]) / 2e-5, rel=1e-4, abs=1e-7)


def test_a_kernel_of_a_kind_has_the_same_distances():
    X = np.random.default_rng(0).standard_normal((10, 3))
    kernel = Gaussian(scale=np.array([1.0, 0.5, 0.1]))
    np.testing.assert_allclose(as_kind(kernel, "full", 3)(X), kernel(X), rtol=1e-12)
    np.testing.assert_allclose(as_kind(as_kind(kernel, "full", 3), "diagonal", 3)(X), kernel(X), rtol=1e-12)
    strongest = Gaussian(scale=np.array([1.0, 0.5, 1e-12]))
    np.testing.assert_allclose(as_kind(kernel, "low-rank", 3, 2)(X), strongest(X), rtol=1e-9)


@pytest.mark.parametrize("way", ["gradient", "both"])
def test_a_direction_of_two_columns_is_found_along_the_gradient(way):
    some = space(made())
    start = some.best_width(Candidate(Gaussian(scale=np.ones(4)), "isotropic", "given"), 2.0)
    found = some.improve(start, "full", 3, way=way)
    assert found.value < (start.value if way == "gradient" else 1.0001 * some.improve(start, "full", 3).value)
    directions, _ = found.kernel.directions(1)
    np.testing.assert_allclose(np.abs(directions[0]), np.array([1, 1, 0, 0]) / np.sqrt(2), atol=0.1)


@pytest.mark.parametrize("name", ["gaussian", "matern12", "matern32"])
def test_predictions_of_a_full_metric_do_not_depend_on_a_rotation_of_the_columns(name):
    folds = made()
    Q = np.linalg.qr(np.random.default_rng(3).standard_normal((4, 4)))[0]
    turned = Folds(tuple(Rows(part.X @ Q, part.targets, part.weights) for part in folds.parts), folds.validated)
    values = []
    for each in (folds, turned):
        here = space(each)
        start = here.evaluate(Candidate(get_kernel(name).replace(scale=np.full(4, 0.5)), "isotropic", "given"))
        values.append(here.improve(start, "full", 2).value)
    np.testing.assert_allclose(*values, rtol=1e-6)


def test_gradients_come_from_a_fit_that_has_not_seen_the_part_it_predicts():
    folds = made()
    here = space(folds)
    start = Candidate(Gaussian(scale=np.full(4, 0.5)), "isotropic", "given")
    k = folds.validated[0]
    others = tuple(
        Rows(part.X, part.targets * (10.0 if j == k else 1.0), part.weights) for j, part in enumerate(folds.parts)
    )
    changed = space(Folds(others, folds.validated))
    alpha = here.evaluate(start).log_alpha
    fixed = [
        CentreSpace(
            each.folds,
            Stage(240, 180, 1, 1),
            lambda f: HeldOutError(f, penalty=float(np.exp(alpha))),
            np.random.default_rng(0),
        )
        for each in (here, changed)
    ]
    products = [each.gradient_products(each.evaluate(start)) for each in fixed]
    np.testing.assert_allclose(*products, rtol=1e-8)


def test_rows_count_by_their_weights_in_the_outer_product():
    rng = np.random.default_rng(1)
    parts = tuple(Rows(part.X, part.targets, rng.uniform(0.1, 4.0) * np.ones(part.n)) for part in made().parts)
    here = space(Folds(parts, (0,)))
    found = here.evaluate(Candidate(Gaussian(scale=np.full(4, 0.5)), "isotropic", "given"))
    feature_map, coef = here.criterion.fitted(found.feature_map, found.evaluation)
    rows = Rows.stack(list(here.folds.parts))
    expected = outer_product(feature_map, rows.X, coef, rows.weights)
    np.testing.assert_allclose(here.gradient_products(found), expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())


def test_width_goes_down_the_error():
    here = space(made())
    narrow = Candidate(Gaussian(scale=np.full(4, 8.0)), "isotropic", "given")
    assert here.best_width(narrow, 2.0).value < here.evaluate(narrow).value


def test_the_search_for_a_width_ends_where_it_hardly_helps(monkeypatch):
    here, tried = space(made()), []

    def evaluate(candidate, *, gradient=False):
        step = float(np.log2(candidate.kernel.scale[0]))
        tried.append(step)
        return replace(candidate, value=values[round(step)])

    monkeypatch.setattr(here, "evaluate", evaluate)
    start = Candidate(Gaussian(scale=np.ones(4)), "isotropic", "given")
    values = {0: 1.0, 1: 0.9, 2: 0.8995, 3: 0.5, -1: 2.0}
    assert here.best_width(start, 2.0).value == 0.8995
    assert tried == [0, 1, 2]
    tried.clear()
    values = {0: 1.0, 1: 1.0, -1: 0.9, -2: 0.95}
    assert here.best_width(start, 2.0).value == 0.9
    assert tried == [0, 1, -1, -2]


def test_a_penalty_falls_as_rows_grow():
    candidate = Candidate(Gaussian(), "isotropic", "given", log_alpha=np.log(1e-3), n_rows=1000)
    assert np.exp(candidate.penalty_for(4000)) == pytest.approx(1e-3 / 4)
    assert replace(candidate, n_rows=None).penalty_for(4000) == candidate.log_alpha
    assert Candidate(Gaussian(), "isotropic", "given").penalty_for(10) is None
    here, starts = space(made()), []
    evaluate = here.criterion.evaluate
    here.criterion.evaluate = lambda feature_map, start, **more: starts.append(start) or evaluate(feature_map, start, **more)
    assert here.evaluate(candidate).n_rows == here.folds.n
    assert starts == [np.log(1e-3) + np.log(1000 / here.folds.n)]


@pytest.mark.parametrize(
    ("change", "iterates"),
    [
        ({}, True),
        ({"n_centres": 49}, False),
        ({"n_rows": 99}, False),
        ({"targets": 2}, False),
        ({"targets": 2, "n_centres": 100, "n_rows": 240}, True),
        ({"way": "gradient"}, False),
        ({"iterated": None}, False),
        ({"device": True}, False),
    ],
)
def test_large_stages_are_solved_by_iterations(change, iterates, monkeypatch):
    monkeypatch.setattr("bochner.metric_learning.teacher.ITERATED_CENTRES", 50)
    made_of = {"n_rows": 240, "n_centres": 50, "targets": 1, "way": "products", "iterated": IteratedHeldOutError, **change}
    folds = made()
    folds = replace(
        folds, parts=tuple(replace(p, targets=np.repeat(p.targets, made_of["targets"], axis=1)) for p in folds.parts)
    )
    metric = MetricPlan((Gaussian(),), ("full",), ("centres",), EFFORTS["default"], way=made_of["way"])
    shared = {"plan": None, "metric": metric, "rng": None, "criterion": HeldOutError, "choices": None, "place": None}
    teacher = Teacher(**shared, iterated=made_of["iterated"])
    some = on_device(folds, "cpu") if "device" in change else folds
    stage = Stage(made_of["n_rows"], made_of["n_centres"], 1, 1)
    expected = IteratedHeldOutError if iterates else HeldOutError
    assert teacher.criterion_on_centres(some, stage) is expected


def test_rescaled_kernels_see_distances_times_a_number():
    X = np.random.default_rng(0).standard_normal((5, 2))
    for kernel in (Gaussian(scale=0.7), MetricKernel(Gaussian(), np.array([[1.0], [0.5]]))):
        np.testing.assert_allclose(rescaled(kernel, 2.0)(X), kernel(2 * X), rtol=1e-12)


def test_the_best_of_each_recipe_stays_and_clearly_worse_ones_go():
    def candidate(value, start="isotropic", kind="full"):
        return Candidate(Gaussian(), start, kind, value)

    many = [candidate(1.0), candidate(1.2), candidate(1.1, "scales"), candidate(9.0, "evidence")]
    assert [each.value for each in best_of(many, 3)] == [1.0, 1.1]


def test_metrics_of_one_family_that_came_to_the_same_are_one():
    def candidate(value, start, kind="full", family=Gaussian):
        return Candidate(family(), start, kind, value)

    many = [
        candidate(1.0, "isotropic"),
        candidate(1.01, "scales"),
        candidate(1.015, "evidence", "given"),
        candidate(1.016, "scales", "given"),
        candidate(1.018, "scales", family=Matern),
        candidate(1.05, "evidence"),
    ]
    assert [each.value for each in best_of(many, 6, alike=0.02)] == [1.0, 1.015, 1.016, 1.018, 1.05]
    assert [each.value for each in best_of(many, 2, alike=0.02)] == [1.0]
    assert len(best_of(many, 6)) == 6


def test_centres_are_rows_that_are_not_predicted_unless_the_fit_is_the_last():
    folds = made()
    here = space(folds, n_centres=1000)
    predicted = here.folds.parts[here.folds.validated[0]].X
    assert not np.isin(here.centres[:, 0], predicted[:, 0]).any()
    assert len(space(folds, n_centres=1000, last=True).centres) == folds.n


def test_where_every_row_is_a_centre_gradients_are_those_of_the_same_fit():
    folds = made(120)
    start = Candidate(Gaussian(scale=np.full(4, 0.5)), "isotropic", "given")
    full = CentreSpace(folds, Stage(120, 120, 1, 1), FullHeldOutError, np.random.default_rng(0), every_row=True)
    tried = full.evaluate(start)
    fixed = CentreSpace(
        folds,
        Stage(120, 90, 1, 1),
        lambda f: HeldOutError(f, penalty=float(np.exp(tried.log_alpha))),
        np.random.default_rng(0),
    )
    same = fixed.evaluate(start)
    assert len(fixed.centres) == 90  # all rows but those that are predicted
    assert tried.value == pytest.approx(same.value, rel=1e-7)
    np.testing.assert_allclose(full.gradient_products(tried), fixed.gradient_products(same), rtol=1e-5)


def test_candidates_are_compared_by_the_measure_of_the_space():
    folds = made()
    start = Candidate(Gaussian(scale=np.full(4, 0.5)), "isotropic", "given")

    def worst(held_out):
        return float(np.abs(held_out.rows.targets - held_out.predictions).max())

    tried = space(folds, measure=worst).evaluate(start)
    plain = space(folds).evaluate(start)
    assert tried.error == plain.error == plain.value
    assert tried.value == worst(space(folds).criterion.held_out(plain.feature_map, plain.evaluation))
    wide = space(folds, measure=lambda held_out: -float(np.mean(held_out.predictions**2)))
    assert wide.best_width(start, 2.0).value <= wide.evaluate(start).value


def test_columns_are_brought_together_by_how_they_vary_together():
    rng = np.random.default_rng(0)
    base = rng.standard_normal((500, 2))
    X = np.column_stack([base[:, 0], base[:, 0] + 0.5 * rng.standard_normal(500), base[:, 1], np.zeros(500)])
    units = np.array([2.0, 1.0, 3.0, 1.0])
    r = np.corrcoef(X[:, :3], rowvar=False)
    expected = np.zeros((4, 4))
    for i in range(3):
        for j in range(3):
            expected[i, j] = units[i] * r[i, j] ** 4 / sum(r[k, j] ** 4 for k in range(3))
    np.testing.assert_allclose(brought_together(X, units), expected, rtol=1e-10, atol=1e-12)


def test_a_start_may_be_a_metric_for_radial_families():
    metric = np.tri(4)
    metrics = {"together": MetricKernel(base=Gaussian(), metric=metric)}
    starts = Starts((get_kernel("gaussian"), get_kernel("cauchy")), {"isotropic": np.ones(4)}, metrics)
    found = [each.recipe for each in starts.candidates()]
    assert found == [
        ("Gaussian", "isotropic", "given"),
        ("Cauchy", "isotropic", "given"),
        ("Gaussian", "together", "given"),
    ]
    (only,) = starts.only(("Gaussian", "together", "full")).candidates()
    np.testing.assert_array_equal(only.kernel.metric, metric)
