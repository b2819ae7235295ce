"""Exact Gaussian processes with a length scale for each column, by GPyTorch: a contestant of ``uci.py``.

The marginal likelihood is that of Cholesky factors in float64, without GPyTorch's approximations. Its parameters take STEPS
steps of Adam; of more rows than LEARNED_FROM, these are taken on so many of them, drawn at random, and predictions come
from all rows. Kernels are Gaussian or Matern 3/2, with an amplitude, a mean and noise that are learned as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

STEPS, RATE = 100, 0.1
LEARNED_FROM = 10_000
LEAST_NOISE = 1e-8


class ExactGP:
    """A fitted process: means of new rows."""

    def __init__(self, model: Any, likelihood: Any) -> None:
        self.model, self.likelihood = model, likelihood

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Means of the predictive distribution."""
        import torch

        like = self.model.train_inputs[0]
        with torch.no_grad(), _exactly():
            return np.asarray(self.model(torch.as_tensor(X).to(like)).mean.cpu())


def fit_process(X: np.ndarray, y: np.ndarray, seed: int, smoothness: float | None) -> tuple[ExactGP, dict[str, Any]]:
    """The process of the largest marginal likelihood that Adam finds; ``smoothness`` None: a Gaussian kernel."""
    import gpytorch
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows, targets = (torch.as_tensor(each, dtype=torch.float64, device=device) for each in (X, y))
    some = torch.as_tensor(np.random.default_rng(seed).permutation(len(X))[:LEARNED_FROM], device=device)
    noise = gpytorch.constraints.GreaterThan(LEAST_NOISE)
    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=noise).to(rows)
    likelihood.noise = 0.1
    model = _process(rows[some], targets[some], likelihood, smoothness).to(rows)
    likelihood_of = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    model.train()
    with _exactly():
        for _ in range(STEPS):
            optimizer.zero_grad()
            value = -likelihood_of(model(rows[some]), targets[some])
            value.backward()
            optimizer.step()
    if len(some) < len(rows):
        model.set_train_data(rows, targets, strict=False)
    model.eval()
    settings = {"negative_log_likelihood": float(value.detach()), "device": str(device), "learned_from": len(some)}
    return ExactGP(model, likelihood), settings


def _process(rows: Any, targets: Any, likelihood: Any, smoothness: float | None) -> Any:
    """GPyTorch's model of a constant mean and a scaled kernel."""
    import gpytorch

    class Process(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(rows, targets, likelihood)
            m = rows.shape[1]
            kernels = gpytorch.kernels
            base = (
                kernels.RBFKernel(ard_num_dims=m)
                if smoothness is None
                else kernels.MaternKernel(nu=smoothness, ard_num_dims=m)
            )
            base.lengthscale = m**0.5
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = kernels.ScaleKernel(base)

        def forward(self, X: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))

    return Process()


def _exactly() -> Any:
    """Cholesky factors for everything, however large; no variances."""
    from contextlib import ExitStack

    import gpytorch

    stack = ExitStack()
    stack.enter_context(gpytorch.settings.fast_computations(covar_root_decomposition=False, log_prob=False, solves=False))
    stack.enter_context(gpytorch.settings.max_cholesky_size(10**6))
    stack.enter_context(gpytorch.settings.skip_posterior_variances())
    stack.enter_context(gpytorch.settings.cholesky_max_tries(6))
    return stack
