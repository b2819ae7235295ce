"""The four learners of the paper on n training rows: what each finds, and the seconds that it takes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bochner.arrays import Array
from bochner.estimators.multiple import MultipleKernelRegressor
from bochner.estimators.regressors import KernelRegressor
from bochner.exact import GMKLRegressor, KernelRidgeGD
from bochner.reproduce.accuracy import accuracy_of, mean_accuracy
from bochner.reproduce.errors import ReproduceError
from bochner.reproduce.kernel_inputs import (
    Columns,
    cross_gram,
    distance_of,
    kernels_of,
    roots_of,
    squared_distance,
    training_gram,
    widths_of,
)
from bochner.reproduce.options import GMKL, KRR_GD, LABELLING, RFF_GL, RFF_SKL, ExactSingleKernel, GroupLasso, SingleKernel
from bochner.reproduce.protocol import Problem, Training
from bochner.reproduce.rows import Row, Run


@dataclass
class Measured:
    """What a run has found. Seconds stand apart, as they are all that differs when it is run again."""

    result: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Bench:
    """What a learner is run with."""

    problem: Problem
    run: Run
    seed: int
    device: str | None
    row_of: Callable[[Run], Row]
    """The row of another run, which is made if it is not there."""
    folder: Path
    """Where pictures go."""

    @contextmanager
    def timing(self, found: Measured, name: str) -> Iterator[None]:
        """Take the seconds of what is inside; convergence warnings are noted, not shown.

        On the host they are those of the processor, over all threads, so that other programs on the machine do not count;
        on a device they are those of the clock, which are kept in either case under the name with _clock.
        """
        start, spent = time.perf_counter(), time.process_time()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        found.seconds[f"{name}_clock"] = time.perf_counter() - start
        found.seconds[name] = time.process_time() - spent if self.device is None else found.seconds[f"{name}_clock"]
        rough = [str(one.message) for one in caught if issubclass(one.category, ConvergenceWarning)]
        if rough:
            found.result.setdefault("warnings", []).extend(sorted(set(rough))[:3])

    def means(self, found: Measured, learn: Callable[[Measured, int], Array | None], draws: int) -> None:
        """Note the mean accuracy and seconds over several draws, each with a seed of its own, of what ``learn`` scores."""
        each = []
        for draw in range(draws):
            one = Measured()
            scores = learn(one, self.seed + draw)
            if scores is not None:
                each.append(accuracy_of(self.problem.test_labels, scores))
            for name, spent in one.seconds.items():
                found.seconds[name] = found.seconds.get(name, 0.0) + spent / draws
            found.result |= one.result  # its warnings
        if each:
            found.result |= mean_accuracy(each).plain()
        if len(each) > 1:
            found.result["draws"] = [_digits(one.mean) for one in each]

    def tell(self, found: Measured, scores: Array) -> None:
        """Note the accuracy of scores (n, c) of the test rows."""
        found.result |= accuracy_of(self.problem.test_labels, scores).plain()


def single_kernel(bench: Bench) -> Measured:
    """RFF-SKL, and KRR-GD by its side: the same columns, the same halves of the images, the same targets."""
    options: SingleKernel | ExactSingleKernel = bench.run.options
    training, columns = bench.problem.training(bench.run.n), Columns.of(bench.problem, options.components)
    X, Z = columns(training.rows), columns(bench.problem.test)
    views = columns.names(training.rows)
    found, models = Measured({"n": training.rows.n}), []

    def learn(one: Measured, seed: int) -> Array:
        model = _one_kernel(options, views, training.folds(options.folds), seed, bench.device)
        models.append(model)
        with bench.timing(one, "total"):
            model.fit(X, training.targets, training.weights)
        with bench.timing(one, "predict"):
            return model.predict(Z)

    bench.means(found, learn, options.draws if isinstance(options, SingleKernel) else 1)
    first = np.unique(views, return_index=True)
    found.result["scales"] = {str(name): _digits(models[0].scale_[i]) for name, i in zip(*first, strict=True)}
    found.result |= {"alpha": _digits(models[0].alpha_), "validation_error": _digits(models[0].validation_error_)}
    found.result["evaluations"] = len(models[0].history_)
    return found


def _one_kernel(options: Any, views: Array, folds: Any, seed: int, device: str | None) -> Any:
    """The estimator of RFF-SKL or of KRR-GD, whose columns of one view share a scale, or of a metric of all columns."""
    shared: dict[str, Any] = {"validation": folds, "standardize": False, "random_state": seed}
    if isinstance(options, ExactSingleKernel):
        return KernelRidgeGD("gaussian", max_iter=options.max_iter, scale=views.tolist(), **shared)
    shared |= {"keep_moments": False, "device": device}
    if options.metric != "diagonal":
        return KernelRegressor(metric=options.metric, finish="centres", n_centres=options.n_features, **shared)
    shared |= {"n_features": options.n_features, "schedule": options.schedule}
    return KernelRegressor("gaussian", scale=views.tolist(), **shared)


def group_lasso(bench: Bench) -> Measured:
    """RFF-GL: all classes in one run, each with weights of its own, on the features of one kernel for each view."""
    options: GroupLasso = bench.run.options
    training = bench.problem.training(bench.run.n)
    targets = training.targets[:, :1] if options.one_class else training.targets
    few = options.roots_from is None or training.rows.n < options.roots_from
    n_features = options.few_features if few and options.few_features is not None else options.n_features
    found, models = Measured({"n": training.rows.n, "n_features": n_features}), []
    on_roots = not few and bench.problem.histograms
    distance = squared_distance if on_roots else distance_of(bench.problem)

    def learn(one: Measured, seed: int) -> Array | None:
        with bench.timing(one, "total"):
            rows = roots_of(training.rows) if on_roots else training.rows
            model = MultipleKernelRegressor(
                kernels_of(widths_of(rows, distance), distance),
                n_features=n_features,
                n_coordinates=options.n_coordinates,
                l1_ratio="auto" if options.refit else 1.0,
                refit="auto" if options.refit else None,
                shared_weights=False,
                n_alphas=options.n_alphas,
                smallest=options.smallest,
                tol=options.tol,
                validation=training.split(),
                standardize=False,
                device=bench.device,
                random_state=seed,
            ).fit(dict(rows.tables), targets, training.weights)
        models.append(model)
        if options.one_class:
            return None
        with bench.timing(one, "predict"):
            test = roots_of(bench.problem.test) if on_roots else bench.problem.test
            return model.predict(dict(test.tables))

    bench.means(found, learn, options.draws if few else 1)
    model = models[0]
    found.result |= _weights(list(model.kernel_names_), model.kernel_weights_)
    found.result |= {"alpha": _digits(model.alpha_), "l1_ratio": model.l1_ratio_, "refit": model.refit_}
    found.result["validation_error"] = _digits(model.validation_error_)
    return found


def gmkl(bench: Bench) -> Measured:
    """GMKL on kernel matrices of the same kernels and rows; its cost is that of the penalty RFF-GL has chosen."""
    options = bench.run.options
    like = bench.row_of(Run(learner=RFF_GL, n=bench.run.n, options=options.like))
    training = bench.problem.training(bench.run.n)
    cost = float(2**0.5 / (like["result"]["alpha"] * training.rows.n))
    found = Measured({"n": training.rows.n, "C": _digits(cost)})
    distance = distance_of(bench.problem)
    with bench.timing(found, "kernels"):
        widths = widths_of(training.rows, distance)
        grams = {name: training_gram(distance, t, widths[name]) for name, t in training.rows.tables.items()}
    models, seconds = [], []
    for target in training.targets.T[: 1 if options.one_class else None]:
        one = Measured()
        model = GMKLRegressor("precomputed", loss="squared", C=cost, tol=options.tol, max_iter=options.max_iter)
        with bench.timing(one, "fit"):
            models.append(model.fit(grams, target, training.weights))
        seconds.append(one.seconds["fit"])
        if "warnings" in one.result:
            found.result.setdefault("warnings", []).extend(one.result["warnings"])
    found.seconds |= {"classes": seconds, "total": found.seconds["kernels"] + sum(seconds)}
    names = list(models[0].kernel_names_)
    found.result |= _weights(names, np.stack([model.kernel_weights_ for model in models], axis=1))
    if not options.one_class:
        with bench.timing(found, "predict"):
            scores = _gmkl_scores(bench.problem, training, widths, models)
        bench.tell(found, scores)
    return found


def _gmkl_scores(problem: Problem, training: Training, widths: dict[str, float], models: list[Any]) -> Array:
    """Scores (n, c) of the test rows, one kernel after the other."""
    scores = np.stack([np.full(problem.test.n, model.intercept_[0]) for model in models], axis=1)
    distance = distance_of(problem)
    for t, name in enumerate(models[0].kernel_names_):
        duals = np.stack([model.dual_coef_[:, 0] * model.kernel_weights_[t] for model in models], axis=1)
        if duals.any():
            scores += cross_gram(distance, problem.test.tables[name], training.rows.tables[name], widths[name]) @ duals
    return scores


def expected_seconds(run: Run, rows: list[Row]) -> float | None:
    """What a run of an exact learner will take, from the largest smaller one of the same kind; None without one."""
    power = POWERS.get(run.learner)
    mine = asdict(run.options)
    before = [row for row in rows if row["run"]["learner"] == run.learner and "result" in row]
    before = [row for row in before if row["run"]["n"] < run.n and _same_but_classes(row["run"]["options"], mine)]
    if power is None or not before:
        return None
    last = max(before, key=lambda row: row["run"]["n"])
    spent = last["seconds"]
    total = spent["total"]
    if run.learner == GMKL and mine["one_class"]:
        total = spent["kernels"] + float(np.mean(spent["classes"]))
    return float(total * (run.n / last["run"]["n"]) ** power)


def _same_but_classes(one: dict[str, Any], other: dict[str, Any]) -> bool:
    apart = {name for name in {**one, **other} if one.get(name) != other.get(name)}
    return apart <= {"one_class", "limit"} and not (one.get("one_class") and not other.get("one_class"))


def _weights(names: list[str], weights: Array) -> dict[str, Any]:
    """Kernel weights d (r, c) as they stand in a row."""
    return {"kernels": [str(name) for name in names], "weights": [[_digits(d) for d in one] for one in np.asarray(weights)]}


def _digits(value: float) -> float:
    """A number to six digits: beyond them results depend on the order of sums."""
    return float(f"{float(value):.6g}")


def labelling(bench: Bench) -> Measured:
    """Labels of pixels from the scores of segments, measured as PASCAL VOC does."""
    if bench.problem.images is None:
        raise ReproduceError("labellings need images: give --data in place of --views.")
    from bochner.reproduce.labelling import label_images

    found = Measured()
    label_images(bench, found)
    return found


POWERS = {KRR_GD: 3.0, GMKL: 2.5}
"""Powers of n with which the seconds of the exact learners are taken to grow."""
LEARNERS: dict[str, Callable[[Bench], Measured]] = {
    RFF_SKL: single_kernel,
    KRR_GD: single_kernel,
    RFF_GL: group_lasso,
    GMKL: gmkl,
    LABELLING: labelling,
}
