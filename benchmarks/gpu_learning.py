"""Part a of ``gpu.py``: evaluations of the criterion with its slopes, and whole descents, beside autograd and SVGP."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from gpu_common import Config, median_seconds, seconds_of, smooth_rows
from peers import Unavailable
from skl_common import SEED, gaussian_map, held_out_folds, say

from bochner import KernelRegressor
from bochner.criteria import HeldOutError
from bochner.descent import Plan
from bochner.engines.devices import on_device, tf32
from bochner.features import FeatureChoices, FeatureMap
from bochner.folds import FoldedRows
from bochner.kernels import Gaussian
from bochner.kernels.ties import SharedScales
from bochner.single_kernel import default_levels, learn_kernel

STEP = 0.05
"""How far the logarithms of scales go from one evaluation to the next, in length."""
FIXED_PENALTY = 1e-3
"""Penalty at which precisions, and PyTorch's own gradient, are compared."""
PRECISIONS: dict[str, tuple[Any, Callable[[], AbstractContextManager[None]]]] = {
    "float64": (np.float64, nullcontext),
    "float32": (np.float32, nullcontext),
    "TF32": (np.float32, tf32),
}
INDUCING, BATCH = 1000, 1024


def learning(config: Config) -> dict[str, Any]:
    """All measurements of part a; contestants that fail are entries with an error."""
    X, y = smooth_rows(config.rows, config.columns)
    folds = on_device(held_out_folds(X, y), config.device)
    feature_map = gaussian_map(config.columns, config.features)
    sizes = {"rows": config.rows, "columns": config.columns, "features": config.features}
    found: dict[str, Any] = {**sizes, "evaluations": config.evaluations, "precisions": {}, "whole": {}, "peers": {}}
    exact = None
    for name, (dtype, context) in PRECISIONS.items():
        say(f"a: {config.evaluations} evaluations, {name}")
        with context():
            some = folds.astype(dtype)
            point = fixed_point(some, feature_map)
            exact = point if exact is None else exact
            seconds = evaluations(some, feature_map, config)
        errors = {"value_error": relative(point[0], exact[0]), "gradient_error": relative(point[1], exact[1])}
        found["precisions"][name] = {"seconds": seconds, **errors}
        del some
    others = {
        ("whole", "schedule"): lambda: schedule(folds, config),
        ("whole", "fit"): lambda: whole_fit(X, y, config),
        ("peers", "PyTorch autograd"): lambda: autograd(folds, feature_map, config, exact),
        ("peers", "GPyTorch SVGP, one epoch"): lambda: svgp(folds, config),
    }
    for (kind, name), run in others.items():
        say(f"a: {name}")
        try:
            found[kind][name] = run()
        except (Unavailable, RuntimeError, ValueError, MemoryError) as error:  # also where memory of the device runs out
            found[kind][name] = {"error": [*str(error).splitlines(), type(error).__name__][0]}
    return found


def fixed_point(folds: FoldedRows, feature_map: FeatureMap) -> tuple[np.ndarray, np.ndarray]:
    """Value and slopes at one kernel and one penalty."""
    point = HeldOutError(folds, penalty=FIXED_PENALTY).evaluate(feature_map)
    return np.array(point.value), point.gradient.parameters["scale"]


def relative(one: np.ndarray, two: np.ndarray) -> float:
    """Difference in length, in units of the second."""
    return float(np.linalg.norm(one - two) / np.linalg.norm(two))


def evaluations(folds: FoldedRows, feature_map: FeatureMap, config: Config) -> float:
    """Seconds of evaluations with slopes of all scales, each at the kernel that the last one points to, penalty searched."""
    criterion = HeldOutError(folds)
    start = criterion.evaluate(feature_map)  # which also warms up

    def walk() -> None:
        kernel, point = feature_map.kernel, start
        for _ in range(config.evaluations):
            slopes = kernel.scale * point.gradient.parameters["scale"]
            kernel = kernel.replace(scale=kernel.scale * np.exp(-STEP * slopes / np.linalg.norm(slopes)))
            point = criterion.evaluate(feature_map.with_kernel(kernel), point.log_alpha)

    return seconds_of(walk, config.device)[0]


def schedule(folds: FoldedRows, config: Config) -> dict[str, float]:
    """A whole descent from small sizes to large, and the regression on all rows, of rows that are on the device."""
    levels = default_levels(config.rows, config.features, config.columns)
    plan = Plan(families=(Gaussian(),), levels=levels, ties=SharedScales(np.arange(config.columns)))
    choices = FeatureChoices(n_features=config.features)

    def learn() -> Any:
        return learn_kernel(folds, plan, np.random.default_rng(SEED), choices=choices)

    learn()  # warms up
    seconds, learned = seconds_of(learn, config.device)
    return {"seconds": seconds, "held_out_error": learned.value, "evaluations": len(learned.descent.history)}


def whole_fit(X: np.ndarray, y: np.ndarray, config: Config) -> dict[str, float]:
    """The same by the estimator: rows are checked, standardised and copied first, and relevances found after."""
    model = KernelRegressor(
        "gaussian", n_features=config.features, scale="per-column", device=config.device, random_state=SEED
    )
    seconds, fitted = seconds_of(lambda: model.fit(X, y), config.device)
    return {"seconds": seconds, "held_out_error": fitted.validation_error_, "evaluations": len(fitted.history_)}


def autograd(folds: Any, feature_map: FeatureMap, config: Config, exact: tuple[np.ndarray, np.ndarray]) -> dict[str, Any]:
    """The same value and slopes at one penalty as anyone would write them in PyTorch, in float64."""
    train, held = folds.parts
    points = torch.asarray(feature_map.points, device=config.device)
    scale = torch.asarray(feature_map.kernel.scales(config.columns), device=config.device).requires_grad_()
    n, weight = train.n, (1 / points.shape[1]) ** 0.5

    def features(X: Any) -> Any:
        angles = X @ (scale[:, None] * points)
        return weight * torch.cat([torch.cos(angles), torch.sin(angles)], dim=1)

    def evaluate() -> tuple[float, Any]:
        scale.grad = None
        some = features(train.X)
        mean, target_mean = some.mean(dim=0), train.targets.mean(dim=0)
        centred = some - mean
        matrix = centred.T @ centred + n * FIXED_PENALTY * torch.eye(centred.shape[1], dtype=some.dtype, device=some.device)
        coef = torch.cholesky_solve(centred.T @ (train.targets - target_mean), torch.linalg.cholesky(matrix))
        error = ((features(held.X) - mean) @ coef + target_mean - held.targets).square().mean()
        error.backward()
        return float(error.detach()), scale.grad

    seconds = median_seconds(evaluate, config.device, config.peer_evaluations)
    value, slopes = evaluate()
    errors = {"value": relative(np.array(value), exact[0]), "gradient": relative(slopes.cpu().numpy(), exact[1])}
    return {"seconds": seconds, "value_difference": errors["value"], "gradient_difference": errors["gradient"]}


def svgp(folds: Any, config: Config) -> dict[str, Any]:
    """One epoch of a sparse variational Gaussian process, a scale for each column, in float32, and its held-out error."""
    try:
        import gpytorch
    except ImportError:
        raise Unavailable("gpytorch is not installed") from None
    train, held = (part for part in folds.astype(np.float32).parts)
    torch.manual_seed(SEED)

    class Process(gpytorch.models.ApproximateGP):  # type: ignore[misc]
        def __init__(self, inducing: Any) -> None:
            distribution = gpytorch.variational.CholeskyVariationalDistribution(inducing.shape[0])
            super().__init__(gpytorch.variational.VariationalStrategy(self, inducing, distribution))
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=inducing.shape[1]))
            self.kernel.base_kernel.lengthscale = inducing.shape[1] ** 0.5

        def forward(self, X: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(X), self.kernel(X))

    model = Process(train.X[: min(INDUCING, train.n)].clone()).to(config.device)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(config.device)
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=train.n)
    optimiser = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.01)
    targets = train.targets[:, 0].float()

    def epoch() -> None:
        for some in torch.randperm(train.n, device=config.device).split(BATCH):
            optimiser.zero_grad()
            (-bound(model(train.X[some]), targets[some])).backward()
            optimiser.step()

    seconds, _ = seconds_of(epoch, config.device)
    model.eval()
    with torch.no_grad():
        predictions = torch.cat([model(some).mean for some in held.X.split(BATCH)])
        error = (predictions - held.targets[:, 0]).square().mean()
    return {"seconds": seconds, "held_out_error": float(error)}
