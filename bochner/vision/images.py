"""Images and masks from files: eight bits of red, green and blue as they are looked at, or one line that says why not."""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from bochner.arrays import Array
from bochner.errors import FileContentError, InputError

LONGEST = 1000
"""Longest side of an image in pixels; larger ones are reduced to it as they are read."""
ORIENTATION = 0x0112
"""The EXIF tag that says how a picture is turned."""
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What brings the pixels upright. From 5 on, height and width change places."""
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
"""What is read: the fewer decoders a file can reach, the better."""
Image.init()  # so that no file makes Pillow look for its decoders
SIXTEEN_BITS = ("I;16", "I;16L", "I;16B", "I;16N")
LABEL_MODES = ("1", "L", "P", "I", *SIXTEEN_BITS)
BROKEN = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    struct.error,
    zlib.error,
    OverflowError,
)
"""What decoders raise on files that are cut or damaged."""


class ImageError(FileContentError):
    """A file that cannot be read as an image: one line with its name and the reason."""


def read_image(path: str | Path, longest: int | None = LONGEST) -> Array:
    """The pixels of an image: (h, w, 3) of uint8.

    Gray, palette, 16-bit and CMYK images become red, green and blue; what is transparent lies on white; a picture that its
    camera turned is upright. One whose longer side has more than ``longest`` pixels is reduced to that (None: never).
    """
    with _opened(path) as image:
        turn = _orientation(image)
        width, height = image.size
        stored = (height, width) if longest is None else reduced((height, width), longest)
        image.draft("RGB", stored[::-1])  # of a JPEG, reads no more than is needed
        image.load()
        pixels = _on_white(_eight_bits(image, path))
        if pixels.size != stored[::-1]:
            pixels = pixels.resize(stored[::-1], Image.Resampling.BOX)
        return np.array(pixels.transpose(TURNS[turn]) if turn in TURNS else pixels, dtype=np.uint8)


def image_size(path: str | Path, longest: int | None = LONGEST) -> tuple[int, int]:
    """Height and width that :func:`read_image` gives, from the header of the file alone."""
    size = full_size(path)
    return size if longest is None else reduced(size, longest)


def full_size(path: str | Path) -> tuple[int, int]:
    """Height and width of an image as it is looked at, before it is reduced."""
    with _opened(path) as image:
        width, height = image.size
        return (width, height) if _orientation(image) >= 5 else (height, width)


def read_labels(path: str | Path, size: tuple[int, int] | None = None) -> Array:
    """The labels of a mask: (h, w) of int32, the indices of a palette or the values of gray.

    With ``size`` it is brought to that height and width, each pixel a copy of one of the mask's.
    """
    with _opened_mask(path) as image:
        labels = np.asarray(image)
        if size is not None and labels.shape != size:
            rows, columns = (_centres(old, new) for old, new in zip(labels.shape, size, strict=True))
            labels = labels[np.ix_(rows, columns)]
        return labels.astype(np.int32)


def label_values(path: str | Path) -> Array:
    """The labels that a mask has, in ascending order."""
    with _opened_mask(path) as image:
        if image.mode in ("L", "P"):
            return np.flatnonzero(image.histogram())
        return np.unique(np.asarray(image).astype(np.int32))


def reduced(size: tuple[int, int], longest: int) -> tuple[int, int]:
    """Height and width in the same proportion, the longer of them ``longest`` at most and the other one at least."""
    if longest < 1:
        raise InputError(f"longest must be one pixel or more, got {longest}.")
    largest = max(size)
    if largest <= longest:
        return size
    height, width = (max(1, round(side * longest / largest)) for side in size)
    return height, width


def _orientation(image: Image.Image) -> int:
    """How the picture is turned, from 1 (not at all) to 8."""
    found = image.getexif().get(ORIENTATION)
    return found if isinstance(found, int) and found in TURNS else 1


@contextmanager
def _opened(path: str | Path) -> Iterator[Image.Image]:
    """The open file; whatever its decoder raises becomes one line that names the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large images, which are reduced, and of odd headers, which do no harm
            with Image.open(path, formats=FORMATS) as image:
                yield image
    except ImageError:
        raise
    except FileNotFoundError as error:
        raise ImageError(f"{path}: there is no such file; give the path of an image.") from error
    except UnidentifiedImageError as error:
        raise ImageError(
            f"{path}: this is not an image, or its beginning is damaged; save it again, as PNG or JPEG."
        ) from error
    except Image.DecompressionBombError as error:
        raise ImageError(f"{path}: the image has too many pixels to be read; reduce it first.") from error
    except MemoryError as error:
        raise ImageError(f"{path}: the image does not fit in memory; reduce it first.") from error
    except BROKEN as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ImageError(f"{path}: the image cannot be read: {reason}; check the file, or save it again.") from error


@contextmanager
def _opened_mask(path: str | Path) -> Iterator[Image.Image]:
    """A mask whose pixels are in memory."""
    with _opened(path) as image:
        if image.mode not in LABEL_MODES:
            raise ImageError(
                f"{path}: a mask must hold one label a pixel (palette or gray), and this one is {image.mode}; "
                "save it as gray."
            )
        image.load()
        yield image


def _eight_bits(image: Image.Image, path: str | Path) -> Image.Image:
    """Modes of more than eight bits brought to eight."""
    if image.mode in SIXTEEN_BITS or image.mode == "I":
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise ImageError(
                f"{path}: gray values must lie between 0 and 65535: these go from {values.min()} to {values.max()}; "
                "save the image with 8 bits."
            )
        return Image.fromarray((values >> 8).astype(np.uint8))
    if image.mode == "F":
        raise ImageError(
            f"{path}: pixels must be whole numbers of 8 or 16 bits, and these are of floating point; save it with 8 bits."
        )
    return image


def _on_white(image: Image.Image) -> Image.Image:
    """Red, green and blue; transparent pixels on white."""
    if not image.has_transparency_data:
        return image if image.mode == "RGB" else image.convert("RGB")
    coloured = image.convert("RGBA")
    paper = Image.new("RGB", coloured.size, (255, 255, 255))
    paper.paste(coloured, mask=coloured.getchannel("A"))
    return paper


def _centres(old: int, new: int) -> Array:
    """Which of ``old`` pixels each of ``new`` is a copy of: the one under its centre."""
    return ((2 * np.arange(new) + 1) * old // (2 * new)).astype(np.intp)
