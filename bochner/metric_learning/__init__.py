"""Kernel, metric and finish of one model, learned and chosen together.

The way through the modules: a ``plan`` says what is tried; the ``teacher`` learns scales and lets metrics grow from them
(``search``, which takes ``candidates`` through a ``centre_space`` of each size); in a ``contest`` they meet rows that none
of them has seen; and ``finish`` fits the winner on all rows. ``room`` is for devices that have none.
"""

from bochner.metric_learning.candidates import as_kind, base_of, can_have_metric
from bochner.metric_learning.contest import Choice, learn_metric_kernel, unseen_parts
from bochner.metric_learning.plan import EFFORTS, METRIC_FAMILIES, WAYS, MetricPlan
from bochner.metric_learning.teacher import Steps, Teacher, start_levels

__all__ = [
    "EFFORTS",
    "METRIC_FAMILIES",
    "WAYS",
    "Choice",
    "MetricPlan",
    "Steps",
    "Teacher",
    "as_kind",
    "base_of",
    "can_have_metric",
    "learn_metric_kernel",
    "start_levels",
    "unseen_parts",
]
