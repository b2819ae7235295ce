"""learn_kernel: sizes, records, and a regression that is the best one on the features it has learned."""

from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from bochner import descent
from bochner.criteria import HeldOutError
from bochner.descent import FARTHEST, Level, Plan
from bochner.engines import forward
from bochner.features import FeatureChoices
from bochner.folds import Folds, Rows
from bochner.held_out_loss import HeldOutLoss
from bochner.kernels import KERNELS, Cauchy, Gaussian, Matern
from bochner.kernels.ties import SharedScales
from bochner.losses import LOSSES
from bochner.penalties import SCALE_PENALTIES
from bochner.single_kernel import default_levels, learn_kernel
from tests.cases import BUILT_IN, each, rows

EPS = float(np.finfo(float).eps)
SMALL = (Level(32, 60, 15),)


def folds_of(X, targets, weights=None, parts=3):
    whole = Rows(X, targets, np.ones(len(X)) if weights is None else weights)
    return Folds(tuple(whole.take(slice(k, None, parts)) for k in range(parts)), tuple(range(parts)))


def sine(n=60, m=3, noise=0.1, seed=0):
    """A function of the first column, and noise."""
    rng = np.random.default_rng([seed, n, m])
    X = rng.standard_normal((n, m))
    return X, np.sin(2 * X[:, :1]) + noise * rng.standard_normal((n, 1))


def plan_of(*families, m=3, levels=SMALL, groups=None, **options):
    ties = SharedScales(np.arange(m) if groups is None else np.asarray(groups))
    return Plan(families=families or (Gaussian(),), levels=levels, ties=ties, **options)


def learn(folds, plan, seed=0, **options):
    return learn_kernel(folds, plan, np.random.default_rng(seed), **options)


@each(BUILT_IN)
def test_coefficients_are_those_of_ridge_on_the_learned_features(kernel):
    X = rows(kernel, 60, 3)
    targets = np.stack([np.sin(2 * X[:, 0]), X[:, 1] + 0.3 * np.random.default_rng(0).standard_normal(60)], axis=1)
    weights = np.random.default_rng(1).gamma(2.0, 0.5, 60)
    learned = learn(folds_of(X, targets, weights), plan_of(kernel))
    features = forward(learned.feature_map, X)
    expected = Ridge(alpha=weights.sum() * learned.alpha, solver="svd").fit(features, targets, sample_weight=weights)
    # Predictions err by n eps times the condition, at most 1 + |Phi|^2 / alpha.
    tolerance = 60 * EPS * (1 + float(np.max(np.sum(features**2, axis=1))) / learned.alpha)
    assert tolerance < 1e-2
    predictions = features @ learned.fit.coef + learned.fit.intercept
    np.testing.assert_allclose(predictions, expected.predict(features), rtol=0, atol=tolerance)


@each(BUILT_IN)
def test_the_criterion_falls(kernel):
    X = rows(kernel, 60, 3)
    targets = np.sin(2 * X[:, :1]) + 0.1 * np.random.default_rng(0).standard_normal((60, 1))
    learned = learn(folds_of(X, targets), plan_of(kernel))
    first, reached = (
        learned.descent.history[0]["criterion"],
        learned.descent.families[next(iter(learned.descent.families))]["criterion"],
    )
    assert reached <= first
    assert reached == min(record["criterion"] for record in learned.descent.history)
    # The same map at the same kernel; the penalty may leave the cap that it has while scales are learned.
    assert learned.value == pytest.approx(reached, rel=1e-3)


def test_more_features_than_rows():
    X, targets = sine(n=20)
    learned = learn(folds_of(X, targets), plan_of(levels=(Level(64, 20, 10),)))
    assert learned.fit.coef.shape == (64, 1)
    expected = Ridge(alpha=20 * learned.alpha, solver="svd").fit(forward(learned.feature_map, X), targets)
    tolerance = 20 * EPS * (1 + 1 / learned.alpha)
    assert tolerance < 1e-2
    predictions = forward(learned.feature_map, X) @ learned.fit.coef + learned.fit.intercept
    np.testing.assert_allclose(predictions, expected.predict(forward(learned.feature_map, X)).reshape(-1, 1), atol=tolerance)


def test_held_out_predictions_make_the_criterion():
    X, targets = sine()
    learned = learn(folds_of(X, targets), plan_of())
    error = np.mean((learned.held_out.predictions - learned.held_out.rows.targets) ** 2)
    assert learned.value == pytest.approx(error, rel=1e-6)
    assert learned.held_out.predictions.shape == (60, 1)


def test_history_and_callback():
    records = []
    X, targets = sine()
    levels = (Level(16, 30, 4, keep=2), Level(32, 60, 3))
    learned = learn(
        folds_of(X, targets), plan_of(Gaussian(), Cauchy(), Matern(nu=1.5), levels=levels, callback=records.append)
    )
    assert set(map(id, learned.descent.history)) == set(map(id, records))
    fields = {"kernel", "n_features", "n_rows", "criterion", "gradient_norm", "alpha", "seconds"}
    assert all(fields <= set(record) for record in records)
    assert {(r["n_features"], r["n_rows"]) for r in records} == {(16, 30), (32, 60)}
    assert all(np.isfinite([r["criterion"], r["gradient_norm"], r["alpha"]]).all() and r["seconds"] >= 0 for r in records)


def test_every_family_is_reported_and_the_best_goes_on(monkeypatch):
    monkeypatch.setattr(descent, "CLEARLY_WORSE", np.inf)
    X, targets = sine()
    levels = (Level(16, 30, 4, keep=2), Level(32, 60, 3))
    learned = learn(folds_of(X, targets), plan_of(Gaussian(), Cauchy(), Matern(nu=1.5), levels=levels))
    assert len(learned.descent.families) == 3
    sizes = sorted(summary["n_features"] for summary in learned.descent.families.values())
    assert sizes == [16, 32, 32]
    name = min(
        (k for k, s in learned.descent.families.items() if s["n_features"] == 32),
        key=lambda k: learned.descent.families[k]["criterion"],
    )
    assert name.startswith(type(learned.feature_map.kernel).__name__)


@pytest.mark.parametrize("groups", [[0, 0, 0], [0, 1, 0], [1, 0, 0]])
def test_groups_share_a_scale(groups):
    X, targets = sine()
    learned = learn(folds_of(X, targets), plan_of(groups=groups))
    scale = learned.feature_map.kernel.scale
    for a in range(3):
        for b in range(a):
            assert (scale[a] == scale[b]) == (groups[a] == groups[b])


@pytest.mark.parametrize("name", SCALE_PENALTIES)
def test_scale_penalty_lowers_the_scales(name):
    X, targets = sine()
    free, bound = (
        learn(folds_of(X, targets), plan_of(scale_penalty=SCALE_PENALTIES[n](10.0))).feature_map.kernel.scale
        for n in ("none", name)
    )
    if name == "none":
        np.testing.assert_array_equal(free, bound)
    else:  # ten times the error of a constant for each unit of scale
        penalty = SCALE_PENALTIES[name](10.0)
        assert penalty.value(bound) < 0.1 * penalty.value(free)


def test_scales_stay_near_their_start():
    """A column of pure noise: its scale falls, by FARTHEST in the logarithm at most."""
    X, targets = sine(noise=0.0)
    learned = learn(folds_of(X, targets), plan_of(levels=(Level(64, 60, 60),)))
    spread = np.log(np.max(learned.feature_map.kernel.scale) / np.min(learned.feature_map.kernel.scale))
    assert 0 < spread <= 2 * FARTHEST + 1e-9


@pytest.mark.parametrize("name", ["skewed_chi2", "skewed_intersection"])
def test_an_offset_never_leaves_rows_outside_the_domain(name):
    kernel = BUILT_IN[name]
    X = rows(kernel, 60, 3)
    X[0, 0] = -0.99
    learned = learn(folds_of(X, np.log(X[:, :1] + 1)), plan_of(kernel))
    assert learned.feature_map.kernel.lower < X.min()
    assert np.isfinite(learned.fit.coef).all()


def test_the_same_seed_gives_the_same_kernel():
    X, targets = sine()
    one, two, other = (learn(folds_of(X, targets), plan_of(), seed=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(one.fit.coef, two.fit.coef)
    assert one.feature_map.kernel == two.feature_map.kernel
    assert one.feature_map.kernel != other.feature_map.kernel


@pytest.mark.parametrize("parts", [2, 60])
def test_the_start_does_not_depend_on_the_number_of_parts(parts):
    """Parts of one row have no distances: the first scale comes from rows of all parts."""
    X, targets = sine()
    learned = learn(folds_of(1000 * X, targets, parts=parts), plan_of(levels=(Level(32, 60, 0),)))
    # Distances are about 1000 sqrt(6), and the start is the inverse of their median times one of 2, 1, ..., 0.1.
    assert 0.05 < 1000 * learned.feature_map.kernel.scale[0] < 2


@pytest.mark.parametrize("name", [name for name in KERNELS if BUILT_IN[name].geometry == "additive"])
def test_additive_kernels_have_the_features_of_their_columns(name):
    kernel = BUILT_IN[name]
    X = rows(kernel, 60, 3)
    learned = learn(folds_of(X, X[:, :1] - X[:, 1:2]), plan_of(kernel))
    assert learned.feature_map.n_features == 15
    assert {record["n_features"] for record in learned.descent.history} == {15}
    with pytest.raises(ValueError, match="leave n_features out and set order"):
        learn(folds_of(X, X[:, :1]), plan_of(kernel), choices=FeatureChoices(n_features=32))


def test_a_criterion_of_ones_own():
    calls = []

    class CountingError(HeldOutError):
        def evaluate(self, *args, **options):
            calls.append(options)
            return super().evaluate(*args, **options)

    X, targets = sine()
    learned = learn(folds_of(X, targets), plan_of(), criterion=CountingError)
    assert len(calls) > len(learned.descent.history) > 0


@pytest.mark.parametrize("n_features", [32, 256, 512, 1024, 4000])
@pytest.mark.parametrize("n_rows", [10, 10_000, 10_000_000])
def test_default_levels(n_rows, n_features):
    levels = default_levels(n_rows, n_features, 10)
    assert (levels[-1].n_features, levels[-1].keep) == (n_features, 1)
    assert levels[-1].n_rows == n_rows or n_rows * n_features**2 >= 5e10  # large sizes take their last steps on fewer rows
    sizes = [level.n_features for level in levels]
    assert sizes == sorted(sizes)
    assert [level.keep for level in levels] == sorted((level.keep for level in levels), reverse=True)
    assert levels[-1].max_iter >= 1
    steps = [default_levels(n, n_features, 10)[-1].max_iter for n in (1000, 10**6, 10**8)]
    assert steps == sorted(steps, reverse=True)


def noiseless(n=80):
    X = np.random.default_rng(0).uniform(-1, 1, (n, 3))
    return X, np.sin(X[:, :1]) * X[:, 1:2]


def test_the_lowest_penalty_falls_with_the_error():
    """Its bound is J / (100 n) at the error J reached so far, not at the one that the level began with."""
    X, targets = noiseless()
    levels = (Level(64, 80, 30),)
    learned = learn(folds_of(X, targets / targets.std()), plan_of(Gaussian(scale=1.0), levels=levels, tol=1e-4))
    assert learned.alpha < 0.1 / (descent.LARGEST_VARIANCE * 80)
    assert learned.alpha >= 0.99 * learned.descent.best.error / (descent.LARGEST_VARIANCE * 80)


def test_the_scale_penalty_does_not_raise_the_lowest_penalty():
    X, targets = noiseless()
    levels = (Level(64, 80, 30),)
    plan = plan_of(Gaussian(scale=1.0), levels=levels, scale_penalty=SCALE_PENALTIES["squared"](0.1), tol=1e-4)
    learned = learn(folds_of(X, targets / targets.std()), plan)
    assert learned.descent.best.value > 1.5 * learned.descent.best.error
    assert learned.alpha < learned.descent.best.value / (descent.LARGEST_VARIANCE * 80)


def test_levels_without_steps_take_no_gradient():
    X, targets = sine()
    learned = learn(folds_of(X, targets), plan_of(Gaussian(scale=1.0), levels=(Level(16, 60, 0), Level(16, 60, 1))))
    norms = [record["gradient_norm"] for record in learned.descent.history]
    assert norms[0] is None
    assert norms[-1] > 0


def test_levels_by_the_squared_error_and_the_last_by_the_loss():
    X, targets = sine()
    labels = np.sign(targets)
    levels = (Level(16, 60, 3, squared=True), Level(16, 60, 2))
    criterion = partial(HeldOutLoss, loss=LOSSES["logistic"])
    learned = learn(folds_of(X, labels), plan_of(Gaussian(scale=1.0), levels=levels), criterion=criterion)
    folds = folds_of(X, labels)
    first = learned.descent.history[0]["criterion"]
    assert learned.value == pytest.approx(criterion(folds).evaluate(learned.feature_map, gradient=False).value, rel=1e-3)
    assert first != pytest.approx(learned.value, rel=0.1)


def test_ties_that_predict_unseen_rows_best():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 40))
    targets = np.tanh(X.sum(axis=1, keepdims=True) / 8) + 0.2 * rng.standard_normal((120, 1))
    learned = learn(folds_of(X, targets), plan_of(Gaussian(), m=40), other_ties=SharedScales(np.zeros(40, dtype=int)))
    assert np.ptp(learned.feature_map.kernel.scale) == 0


def test_a_family_that_is_clearly_worse_goes_no_further(monkeypatch):
    monkeypatch.setattr(descent, "CLEARLY_WORSE", 1.0)
    X, targets = sine()
    levels = (Level(16, 30, 4, keep=3), Level(32, 60, 3))
    learned = learn(folds_of(X, targets), plan_of(Gaussian(), Cauchy(), Matern(nu=1.5), levels=levels))
    first = {r["kernel"]: r["criterion"] for r in learned.descent.history if r["level"] == 1}
    assert len(first) == 3
    assert len({r["kernel"] for r in learned.descent.history if r["level"] == 2}) == 1


def test_of_several_draws_the_one_of_least_error_is_kept():
    X, targets = sine(n=90)
    folds, size = folds_of(X, targets), 8  # so few features that draws differ
    spied = []

    class SpiedError(HeldOutError):
        def evaluate(self, feature_map, log_alpha, *, gradient, bounds):
            found = super().evaluate(feature_map, log_alpha, gradient=gradient, bounds=bounds)
            spied.append((found.value, feature_map.points))
            return found

    plan = plan_of(Gaussian(), levels=(Level(size, 90, 0, draws=4),), n_starts=0)
    learned = learn(folds, plan, criterion=SpiedError)
    values = [value for value, _ in spied[:4]]
    assert len(set(values)) == 4
    np.testing.assert_array_equal(learned.feature_map.points, spied[int(np.argmin(values))][1])
