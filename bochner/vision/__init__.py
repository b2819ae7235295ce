"""Object recognition on images: segments, their descriptors, what classifiers make of them. Needs ``bochner[vision]``."""

from bochner.vision.classifier import SegmentClassifier
from bochner.vision.datasets import MaskFolder, Truth, VOCDataset, open_dataset
from bochner.vision.descriptors import DESCRIPTORS, describe
from bochner.vision.images import ImageError, read_image
from bochner.vision.pool import SegmentPool
from bochner.vision.proposals import ProposalOptions, propose
from bochner.vision.ranking import SegmentRanker
from bochner.vision.recogniser import Recogniser
from bochner.vision.words import Vocabularies

__all__ = [
    "DESCRIPTORS",
    "ImageError",
    "MaskFolder",
    "ProposalOptions",
    "Recogniser",
    "SegmentClassifier",
    "SegmentPool",
    "SegmentRanker",
    "Truth",
    "VOCDataset",
    "Vocabularies",
    "describe",
    "open_dataset",
    "propose",
    "read_image",
]
