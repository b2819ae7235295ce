"""Contact sheets: an image, its boundaries, its best segments with their overlaps, and its labels, side by side."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from scipy import ndimage

from bochner.arrays import Array
from bochner.durable import replace_file, write_all
from bochner.report import Figure, Page, Section, write
from bochner.vision.boundaries import boundaries_of
from bochner.vision.datasets import Truth
from bochner.vision.pool import SegmentPool
from bochner.vision.recognition import colours
from bochner.vision.targets import GOOD, class_overlaps, object_overlaps

WIDTH, CAPTION, GAP, COLUMNS = 240, 16, 6, 4
"""Pixels of a panel, of the line below it and between panels; panels side by side."""
INK, PAPER, MARK = (30, 36, 48), (255, 255, 255), (255, 0, 128)
MOST_SEGMENTS = 6
NOT_IN_FILES = re.compile(r'[\\/:*?"<>|]')
"""What the name of a class may have, and the name of a file may not."""
NAMED = 0.002
"""The least part of an image that a region must have to bear its name."""


@dataclass(frozen=True)
class Panel:
    """A picture (h, w, 3) of uint8 with a line below it."""

    picture: Array
    caption: str


@dataclass(frozen=True)
class Shown:
    """What there is to show of an image; None where it is not there."""

    name: str
    image: Array
    pool: SegmentPool | None = None
    truth: Truth | None = None
    scores: Array | None = None
    """(s, c)."""
    labels: Array | None = None
    """(h, w)."""


def panels_of(shown: Shown, classes: Sequence[str], n_segments: int = MOST_SEGMENTS) -> list[Panel]:
    """The panels of an image."""
    strength = boundaries_of(shown.image).strength
    gray = (255 * (1 - np.clip(strength, 0, 1))).astype(np.uint8)
    panels = [Panel(shown.image, shown.name), Panel(np.repeat(gray[..., None], 3, axis=2), "boundaries")]
    if shown.truth is not None:
        panels.append(Panel(tinted(shown.image, shown.truth.classes), f"truth: {_named(shown.truth.classes, classes)}"))
    if shown.labels is not None:
        panels.append(Panel(tinted(shown.image, shown.labels), f"labels: {_named(shown.labels, classes)}"))
    if shown.pool is not None:
        best = best_segments(shown, classes, n_segments)
        panels += [Panel(outlined(shown.image, shown.pool.mask(i)), caption) for i, caption in best]
    return panels


def best_segments(shown: Shown, classes: Sequence[str], most: int) -> list[tuple[int, str]]:
    """Numbers of the best segments, each with its line: by score, or else by overlap, or else in their order.

    By overlap, the best segment of every object comes before the second best of any.
    """
    pool, truth, scores = shown.pool, shown.truth, shown.scores
    if pool is None or not pool.n_segments:
        return []
    overlaps = None if truth is None else class_overlaps(pool, truth, len(classes))
    if scores is not None:
        order = np.argsort(-scores.max(axis=1), kind="stable")
    elif truth is not None and truth.objects_of():
        order = _distinct(np.argsort(-object_overlaps(pool, truth), axis=0, kind="stable").ravel(), most)
    else:
        order = np.arange(pool.n_segments)
    found = []
    for i in order[:most]:
        words = [f"segment {i}"]
        if scores is not None:
            words.append(f"{classes[int(scores[i].argmax())]} {scores[i].max():.2f}")
        if overlaps is not None and overlaps[i].any():
            words.append(f"overlap {overlaps[i].max():.2f} {classes[int(overlaps[i].argmax())]}")
        found.append((int(i), ", ".join(words)))
    return found


def tinted(image: Array, labels: Array) -> Array:
    """The image with the colours of labels (h, w) over it; background as it is."""
    layer = colours(256)[np.asarray(labels, dtype=np.uint8)]
    mixed = (image.astype(np.uint16) + 2 * layer.astype(np.uint16)) // 3
    return np.where((labels > 0)[..., None], mixed, image).astype(np.uint8)


def outlined(image: Array, mask: Array) -> Array:
    """The image with what is outside a mask (h, w) faded, and a line along its border."""
    edge = mask.copy()
    edge[1:-1, 1:-1] &= ~np.all(_neighbours(mask), axis=0)
    faded = np.where(mask[..., None], image, 170 + image // 3)
    return np.where(edge[..., None], np.array(MARK, dtype=np.uint8), faded).astype(np.uint8)


def labelled(image: Array, labels: Array, classes: Sequence[str]) -> Array:
    """The image with the colours of labels (h, w), a line around each region, and the name of its class on it."""
    height, width = labels.shape
    mixed = tinted(image, labels)
    inner = np.zeros(labels.shape, dtype=bool)
    inner[1:-1, 1:-1] = np.all([labels[1:-1, 1:-1] == some for some in _neighbours(labels)], axis=0)
    mixed[(labels > 0) & ~inner] = 255
    canvas = Image.fromarray(mixed)
    draw = ImageDraw.Draw(canvas)
    size = max(10, min(height, width) // 18)
    for label in np.unique(labels[(labels > 0) & (labels <= len(classes))]).tolist():
        regions, _ = ndimage.label(labels == label)
        areas = np.bincount(regions.ravel())[1:]
        for k in np.flatnonzero(areas >= NAMED * labels.size):
            y, x = ndimage.center_of_mass(regions == k + 1)
            style = {"anchor": "mm", "font_size": size, "stroke_width": 2, "stroke_fill": INK}
            draw.text((float(x), float(y)), classes[label - 1], fill=PAPER, **style)
    return np.asarray(canvas)


def png(picture: Array) -> bytes:
    """A picture (h, w, 3) as the bytes of a PNG file."""
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture)).save(buffer, format="PNG")
    return buffer.getvalue()


def sheet(panels: Sequence[Panel]) -> bytes:
    """The panels in rows, as the bytes of a PNG file."""
    height = max(_height(panel) for panel in panels)
    n_rows = -(-len(panels) // COLUMNS)
    n_columns = min(COLUMNS, len(panels))
    step_x, step_y = WIDTH + GAP, height + CAPTION + GAP
    canvas = Image.new("RGB", (n_columns * step_x + GAP, n_rows * step_y + GAP), PAPER)
    draw = ImageDraw.Draw(canvas)
    for k, panel in enumerate(panels):
        x, y = GAP + (k % COLUMNS) * step_x, GAP + (k // COLUMNS) * step_y
        picture = Image.fromarray(np.ascontiguousarray(panel.picture))
        canvas.paste(picture.resize((WIDTH, _height(panel)), Image.Resampling.BILINEAR), (x, y))
        draw.text((x, y + height + 2), _fitting(panel.caption, draw), fill=INK)
    return png(np.asarray(canvas))


def write_sheets(folder: Path, sheets: dict[str, bytes], lead: str) -> Path:
    """Write a PNG for each of them, and index.html with all of them; returns the page."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in sheets.items():
        replace_file(folder / f"{NOT_IN_FILES.sub('_', name)}.png", lambda file, picture=picture: write_all(file, picture))  # type: ignore[misc]
    sections = [Section(name, [Figure(picture, f"contact sheet of {name}")]) for name, picture in sheets.items()]
    return write(Page("Segments", lead, sections), folder / "index.html")


def pool_summary(pool: SegmentPool, truth: Truth) -> tuple[int, int, float]:
    """Objects of an image, those with a segment of overlap GOOD or more, and the sum of their best overlaps."""
    best = object_overlaps(pool, truth).max(axis=0, initial=0.0)
    return len(best), int((best >= GOOD).sum()), float(best.sum())


def _neighbours(labels: Array) -> list[Array]:
    """Labels above, below, left and right of all pixels but those at the edge."""
    return [labels[:-2, 1:-1], labels[2:, 1:-1], labels[1:-1, :-2], labels[1:-1, 2:]]


def _height(panel: Panel) -> int:
    h, w = panel.picture.shape[:2]
    return max(1, min(2 * WIDTH, round(h * WIDTH / w)))


def _fitting(text: str, draw: ImageDraw.ImageDraw) -> str:
    """As much of a text as fits below a panel."""
    text = text.encode("ascii", "replace").decode()
    while text and draw.textlength(text) > WIDTH:
        text = text[:-1]
    return text


def _named(labels: Array, classes: Sequence[str]) -> str:
    found = [int(label) for label in np.unique(labels) if 0 < label <= len(classes)]
    return ", ".join(classes[label - 1] for label in found) or "background"


def _distinct(numbers: Array, most: int) -> Array:
    """The first few different numbers, in their order."""
    _, first = np.unique(numbers, return_index=True)
    return numbers[np.sort(first)][:most]
