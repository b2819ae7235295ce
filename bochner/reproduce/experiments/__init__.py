"""The experiments by name, in the order of the paper."""

from __future__ import annotations

from bochner.reproduce.experiments import figure_a, figure_b, figure_c, figure_d, ours, table_a, table_b
from bochner.reproduce.experiments.base import SIZES, Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT for module in (figure_a, table_a, figure_b, figure_c, table_b, figure_d, ours)
}

__all__ = ["EXPERIMENTS", "SIZES", "Experiment"]
