"""Options of the steps of ``bochner voc``."""

from __future__ import annotations

import argparse
import os

from bochner.vision.classifier import LEARNERS
from bochner.vision.options import DescriptorOptions
from bochner.vision.proposals import ProposalOptions


def whole_number(text: str) -> int:
    """The number of an option: 1 or more."""
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"must be a whole number of 1 or more, got {text!r}")
    return int(text)


def add_number(step: argparse.ArgumentParser, flag: str, default: int, help_text: str) -> None:
    """An option that is a whole number, its default told."""
    step.add_argument(flag, metavar="N", type=whole_number, default=default, help=f"{help_text} ({default})")


def _seed(step: argparse.ArgumentParser, of: str) -> None:
    step.add_argument("--seed", metavar="N", type=int, default=0, help=f"seed of {of} (0)")


def add_run(step: argparse.ArgumentParser) -> None:
    """Options of a step that goes over images."""
    add_number(step, "--jobs", cores(), "processes side by side")
    told = "what to do with results of other options: refuse, or make them again (refuse)"
    step.add_argument("--stale", choices=("refuse", "redo"), default="refuse", help=told)


def add_segments(step: argparse.ArgumentParser) -> None:
    """Options of segments."""
    add_run(step)
    add_number(step, "--segments", 100, "segments of an image that are kept, at most")
    add_number(step, "--superpixels", ProposalOptions().n_superpixels, "superpixels of an image")
    _seed(step, "the ranker")
    step.add_argument("--unranked", action="store_true", help="keep the first proposals, and learn no ranker")


def add_describe(step: argparse.ArgumentParser) -> None:
    """Options of describe."""
    add_run(step)
    options = DescriptorOptions()
    add_number(step, "--words", options.n_words, "words of gray descriptors")
    add_number(step, "--colour-words", options.n_colour_words, "words of colour descriptors")
    _seed(step, "the vocabularies")


def add_train(step: argparse.ArgumentParser) -> None:
    """Options of train."""
    told = "segments of a class at most, half of them of other things (all segments)"
    step.add_argument("--per-class", metavar="N", type=whole_number, help=told)
    step.add_argument("--learner", choices=LEARNERS, default=LEARNERS[0], help=f"how kernels are learned ({LEARNERS[0]})")
    _seed(step, "the features")


def add_show(step: argparse.ArgumentParser) -> None:
    """Options of show."""
    add_number(step, "--images", 20, "how many images")
    step.add_argument("--image", metavar="NAME", action="append", help="this one; may be given several times")


def add_nothing(step: argparse.ArgumentParser) -> None:
    """No options of its own."""


def cores() -> int:
    """Cores that this program may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        return os.cpu_count() or 1
