"""Vocabularies: descriptors become words, the nearest of some centres, and places become counts of words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bochner.archives import read_made
from bochner.arrays import Array
from bochner.durable import replace_file
from bochner.errors import InputError
from bochner.vision.options import DescriptorOptions
from bochner.vision.sift import SiftOptions, dense, normalised, opponent

BATCH = 4096
"""Descriptors of a step of k-means."""


@dataclass(frozen=True)
class Vocabulary:
    """Words (W, q) of float32: the word of a descriptor x is the number of the w that is nearest, |x - w| smallest."""

    words: Array

    @property
    def n_words(self) -> int:
        """Number of words W."""
        return len(self.words)

    def assign(self, descriptors: Array) -> Array:
        """The word of each descriptor (n, q): (n,)."""
        scores = descriptors @ self.words.T
        scores -= 0.5 * np.einsum("wq,wq->w", self.words, self.words)
        return scores.argmax(axis=1)

    @classmethod
    def fit(cls, descriptors: Array, n_words: int, random_state: int) -> Vocabulary:
        """Centres of k-means, from small batches of descriptors (n, q)."""
        from sklearn.cluster import MiniBatchKMeans

        if len(descriptors) < n_words:
            raise InputError(
                f"{n_words} words need as many descriptors, from more images or points: got {len(descriptors)}; "
                "give more images, or ask for fewer words."
            )
        means = MiniBatchKMeans(n_words, batch_size=BATCH, n_init=1, random_state=random_state)
        means.fit(np.asarray(descriptors, dtype=np.float32))
        return cls(means.cluster_centers_.astype(np.float32))


@dataclass(frozen=True)
class Vocabularies:
    """The words of gray and of colour descriptors, and the options of the descriptors that they are words of."""

    sift: SiftOptions
    gray: Vocabulary
    colour: Vocabulary

    @classmethod
    def fit(cls, images: Iterable[Array], options: DescriptorOptions, random_state: int) -> Vocabularies:
        """Vocabularies learned from some descriptors of each image."""
        rng = np.random.default_rng(random_state)
        samples = [_sample(image, options, rng) for image in images]
        if not samples:
            raise InputError("A vocabulary needs at least one image, got none; give some.")
        gray, colour = (np.concatenate(some) for some in zip(*samples, strict=True))
        return cls(
            options.sift,
            Vocabulary.fit(gray, options.n_words, random_state),
            Vocabulary.fit(colour, options.n_colour_words, random_state),
        )

    def counts(self, image: Array, labels: Array, n_labels: int) -> tuple[Array, Array]:
        """How often each gray word (P, W) and each colour word (P, V) stands on each of P superpixels (h, w)."""
        flat = np.asarray(labels).ravel()
        gray, colour, places = [], [], []
        for raw, pixels in dense(opponent(image), self.sift):
            gray.append(self.gray.assign(normalised(raw[:, 0])))
            colour.append(self.colour.assign(normalised(raw)))
            places.append(flat[pixels])
        where = np.concatenate(places)
        return (
            _counts(where, np.concatenate(gray), (n_labels, self.gray.n_words)),
            _counts(where, np.concatenate(colour), (n_labels, self.colour.n_words)),
        )

    def arrays(self) -> dict[str, Array]:
        """The words and their options as arrays."""
        return {"gray": self.gray.words, "colour": self.colour.words, "sift": np.array(json.dumps(asdict(self.sift)))}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Vocabularies:
        """The vocabularies of such arrays."""
        options = json.loads(str(arrays["sift"]))
        options["widths"] = tuple(options["widths"])
        return cls(SiftOptions(**options), Vocabulary(arrays["gray"]), Vocabulary(arrays["colour"]))

    def save(self, path: str | Path) -> None:
        """Write the words to a file of NumPy arrays (npz) that is there as a whole or not at all."""
        replace_file(Path(path), lambda file: np.savez(file, **self.arrays()))

    @classmethod
    def load(cls, path: str | Path) -> Vocabularies:
        """The vocabularies that :meth:`save` wrote."""
        return read_made(path, "vocabularies", cls.from_arrays)


def _sample(image: Array, options: DescriptorOptions, rng: np.random.Generator) -> tuple[Array, Array]:
    """Some gray and colour descriptors of an image, at random places and scales."""
    raw = np.concatenate([some for some, _ in dense(opponent(image), options.sift)])
    raw = raw[rng.permutation(len(raw))[: options.n_points]]
    return normalised(raw[:, 0]), normalised(raw)


def _counts(places: Array, words: Array, shape: tuple[int, int]) -> Array:
    """How often each word stands at each place, of float32."""
    found = np.bincount(places * shape[1] + words, minlength=shape[0] * shape[1])
    return found.reshape(shape).astype(np.float32)
