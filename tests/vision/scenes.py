"""Made-up images with known objects: textured ellipses and polygons on a textured ground."""

import cv2
import numpy as np


def texture(rng, shape, colour, *, grain=2.0, contrast=12.0):
    noise = cv2.GaussianBlur(rng.standard_normal((*shape, 3)).astype(np.float32), (0, 0), grain)
    return np.array(colour) + contrast * noise / noise.std()


def scene(seed=0, shape=(120, 160)):
    """An image (h, w, 3) of uint8 and the masks (3, h, w) of an ellipse, a triangle and a rectangle."""
    rng = np.random.default_rng(seed)
    h, w = shape
    drawn = np.zeros((3, h, w), dtype=np.uint8)
    cv2.ellipse(drawn[0], (w // 4, h // 3), (w // 7, h // 5), 20, 0, 360, 1, -1)
    corners = np.array([[0.55 * w, 0.5 * h], [0.95 * w, 0.55 * h], [0.7 * w, 0.95 * h]]).astype(np.int32)
    cv2.fillPoly(drawn[1], [corners], 1)
    cv2.rectangle(drawn[2], (int(0.6 * w), int(0.08 * h)), (int(0.85 * w), int(0.35 * h)), 1, -1)
    masks = drawn.astype(bool)
    image = texture(rng, shape, (60, 110, 60))
    for mask, colour, grain in zip(masks, ((200, 70, 50), (50, 70, 190), (210, 200, 90)), (1.0, 3.0, 1.5), strict=True):
        image = np.where(mask[..., None], texture(rng, shape, colour, grain=grain), image)
    image = cv2.GaussianBlur(image.astype(np.float32), (0, 0), 0.6)
    return np.clip(image, 0, 255).astype(np.uint8), masks
