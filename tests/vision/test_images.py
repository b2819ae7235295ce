"""Images of every kind become red, green and blue; broken ones an error of one line with the name of the file."""

import tracemalloc

import numpy as np
import pytest
from PIL import Image, ImageOps

from bochner.vision.images import ImageError, full_size, image_size, label_values, read_image, read_labels, reduced

ORIENTATION = 0x0112


@pytest.fixture
def pixels(rng):
    return rng.integers(0, 256, (17, 23, 3), dtype=np.uint8)


def smooth(height, width):
    """A picture that JPEG keeps well."""
    y, x = np.mgrid[:height, :width]
    return np.stack([255 * y // height, 255 * x // width, 255 * (x + y) // (height + width)], axis=2).astype(np.uint8)


def test_png_comes_back_as_it_was(tmp_path, pixels):
    Image.fromarray(pixels).save(tmp_path / "a.png")
    found = read_image(tmp_path / "a.png")
    np.testing.assert_array_equal(found, pixels)
    assert found.dtype == np.uint8
    assert found.flags.writeable


def test_jpeg_and_cmyk_are_near(tmp_path):
    picture = smooth(64, 48)
    Image.fromarray(picture).save(tmp_path / "a.jpg", quality=95)
    Image.fromarray(picture).convert("CMYK").save(tmp_path / "b.jpg", quality=95)
    for name in ("a.jpg", "b.jpg"):
        found = read_image(tmp_path / name).astype(int)
        assert found.shape == picture.shape
        assert np.abs(found - picture).mean() < 4  # of 255


@pytest.mark.parametrize("mode", ["L", "1"])
def test_gray_is_three_equal_colours(tmp_path, pixels, mode):
    gray = Image.fromarray(pixels).convert(mode)
    gray.save(tmp_path / "a.png")
    expected = np.asarray(gray.convert("L"))
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), np.repeat(expected[..., None], 3, axis=2))


def test_palette_gives_its_colours(tmp_path):
    indices = np.arange(12, dtype=np.uint8).reshape(3, 4) % 3
    image = Image.frombytes("P", (4, 3), indices.tobytes())
    colours = np.array([[10, 20, 30], [200, 100, 0], [1, 2, 3]], dtype=np.uint8)
    image.putpalette(colours.ravel().tolist())
    image.save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), colours[indices])


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bits_keep_the_upper_eight(tmp_path, rng, suffix):
    values = rng.integers(0, 65536, (5, 7), dtype=np.uint16)
    Image.fromarray(values).save(tmp_path / f"a.{suffix}")
    found = read_image(tmp_path / f"a.{suffix}")
    np.testing.assert_array_equal(found, np.repeat((values // 256)[..., None], 3, axis=2))


def test_transparent_pixels_lie_on_white(tmp_path, pixels):
    alpha = np.zeros(pixels.shape[:2], dtype=np.uint8)
    alpha[:5] = 255
    Image.fromarray(np.dstack([pixels, alpha])).save(tmp_path / "a.png")
    found = read_image(tmp_path / "a.png")
    np.testing.assert_array_equal(found[:5], pixels[:5])
    assert (found[5:] == 255).all()


def test_gray_with_alpha_and_a_transparent_palette(tmp_path):
    Image.new("LA", (4, 3), (50, 255)).save(tmp_path / "a.png")
    assert (read_image(tmp_path / "a.png") == 50).all()
    palette = Image.new("P", (4, 3), 1)
    palette.putpalette([0, 0, 0, 9, 8, 7])
    palette.save(tmp_path / "b.png", transparency=1)
    assert (read_image(tmp_path / "b.png") == 255).all()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("longest", [None, 40])
def test_turned_pictures_are_upright(tmp_path, orientation, longest):
    image = Image.fromarray(smooth(64, 48))
    exif = image.getexif()
    exif[ORIENTATION] = orientation
    image.save(tmp_path / "a.png", exif=exif)
    with Image.open(tmp_path / "a.png") as stored:
        expected = np.asarray(ImageOps.exif_transpose(stored))
    found = read_image(tmp_path / "a.png", longest)
    assert found.shape[:2] == image_size(tmp_path / "a.png", longest)
    assert full_size(tmp_path / "a.png") == expected.shape[:2]
    if longest is None:
        np.testing.assert_array_equal(found, expected)
    else:
        small = np.asarray(Image.fromarray(expected).resize(found.shape[1::-1], Image.Resampling.BOX))
        np.testing.assert_allclose(found.astype(int), small, atol=2)  # rounding of two steps


def test_one_pixel(tmp_path):
    Image.new("RGB", (1, 1), (1, 2, 3)).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").tolist() == [[[1, 2, 3]]]
    Image.new("L", (3000, 1)).save(tmp_path / "b.png")
    assert read_image(tmp_path / "b.png").shape == (1, 1000, 3)


@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_a_hundred_million_pixels(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    Image.new("L", (10_000, 10_000), 77).save(path, compress_level=1)
    tracemalloc.start()
    found = read_image(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.shape == (1000, 1000, 3)
    assert (found == 77).all()
    assert peak < 50e6  # NumPy never sees the large image


def test_too_many_pixels_are_refused(tmp_path):
    Image.new("1", (20_000, 20_000)).save(tmp_path / "a.png", compress_level=1)
    with pytest.raises(ImageError, match=r"a\.png: the image has too many pixels"):
        read_image(tmp_path / "a.png")


def test_reduced_sizes():
    assert reduced((500, 375), 500) == (500, 375)
    assert reduced((4000, 3000), 1000) == (1000, 750)
    assert reduced((5000, 2), 1000) == (1000, 1)
    with pytest.raises(ValueError, match="longest"):
        reduced((5, 5), 0)


# -- what cannot be read -------------------------------------------------------------------------------------------------


def broken_files(folder, rng):
    Image.fromarray(smooth(200, 200)).save(folder / "whole.jpg")
    Image.fromarray(rng.integers(0, 256, (60, 60, 3), dtype=np.uint8)).save(folder / "whole.png")
    whole = {suffix: (folder / f"whole.{suffix}").read_bytes() for suffix in ("jpg", "png")}
    flipped = bytearray(whole["png"])
    flipped[len(flipped) // 2] ^= 255
    return {
        "cut.jpg": whole["jpg"][: len(whole["jpg"]) // 2],
        "cut.png": whole["png"][: len(whole["png"]) // 2],
        "flipped.png": bytes(flipped),
        "empty.jpg": b"",
        "text.jpg": b"this is no picture",
        "header.png": whole["png"][:30],
    }


@pytest.mark.parametrize("name", ["cut.jpg", "cut.png", "flipped.png", "empty.jpg", "text.jpg", "header.png"])
def test_broken_files_are_named_in_one_line(tmp_path, rng, name):
    path = tmp_path / name
    path.write_bytes(broken_files(tmp_path, rng)[name])
    with pytest.raises(ImageError) as caught:
        read_image(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_jpeg_cut_anywhere_is_read_or_refused(tmp_path):
    Image.fromarray(smooth(40, 40)).save(tmp_path / "a.jpg")
    data = (tmp_path / "a.jpg").read_bytes()
    refused = 0
    for size in range(0, len(data), 13):
        (tmp_path / "b.jpg").write_bytes(data[:size])
        try:
            assert read_image(tmp_path / "b.jpg").shape == (40, 40, 3)
        except ImageError:
            refused += 1
    assert refused > len(data) // 13 - 3


def test_a_missing_file_a_folder_and_floating_point(tmp_path):
    with pytest.raises(ImageError, match="no such file"):
        read_image(tmp_path / "a.jpg")
    with pytest.raises(ImageError, match="cannot be read"):
        read_image(tmp_path)
    Image.fromarray(np.ones((3, 3), dtype=np.float32)).save(tmp_path / "f.tif")
    with pytest.raises(ImageError, match="floating point"):
        read_image(tmp_path / "f.tif")


# -- masks ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_labels_come_back(tmp_path, rng, dtype):
    labels = rng.integers(0, 250, (6, 9)).astype(dtype)
    Image.fromarray(labels).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_labels(tmp_path / "a.png"), labels)
    np.testing.assert_array_equal(label_values(tmp_path / "a.png"), np.unique(labels))


def test_labels_of_a_palette_are_its_indices(tmp_path, rng):
    labels = rng.integers(0, 21, (6, 9), dtype=np.uint8)
    image = Image.frombytes("P", (9, 6), labels.tobytes())
    image.putpalette([255 - k // 3 for k in range(768)])
    image.save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_labels(tmp_path / "a.png"), labels)


def test_reduced_labels_are_copies_of_those_under_the_centres(tmp_path):
    labels = np.kron(np.arange(12).reshape(3, 4), np.ones((10, 10))).astype(np.uint8)
    Image.fromarray(labels).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_labels(tmp_path / "a.png", (3, 4)), np.arange(12).reshape(3, 4))


def test_a_mask_of_colours_is_refused(tmp_path, pixels):
    Image.fromarray(pixels).save(tmp_path / "a.png")
    with pytest.raises(ImageError, match=r"a\.png: a mask must hold one label a pixel.*RGB"):
        read_labels(tmp_path / "a.png")


def test_other_formats_are_no_images(tmp_path):
    """Decoders that nobody asked for are out of reach of a file, whatever it is called."""
    Image.new("RGB", (4, 4)).save(tmp_path / "picture.jpg", format="TGA")
    with Image.open(tmp_path / "picture.jpg") as image:
        assert image.format == "TGA"
    with pytest.raises(ImageError, match="not an image"):
        read_image(tmp_path / "picture.jpg")
