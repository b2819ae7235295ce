"""Trees of PASCAL VOC and folders of masks: what they hold, and what is said where something is missing or at odds."""

import re
import shutil

import numpy as np
import pytest
from PIL import Image

from bochner.vision.datasets import VOC_CLASSES, VOID, DataError, MaskFolder, VOCDataset, open_dataset
from tests.vision.trees import HEIGHT, PICTURES, WIDTH, picture, save_mask, voc_tree


@pytest.fixture
def year(tmp_path):
    return voc_tree(tmp_path)


def drawn(name):
    """The masks that a tree was made with."""
    rng = np.random.default_rng(0)
    return picture(PICTURES[name], rng)[1:]


def rejects(dataset, name, *words):
    with pytest.raises(DataError) as caught:
        dataset.truth(name)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


# -- PASCAL VOC ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("root", [".", "VOCdevkit", "VOCdevkit/VOC2012"])
def test_the_root_may_be_any_folder_above(tmp_path, year, root):
    dataset = VOCDataset(tmp_path / root)
    assert dataset.root == year
    assert dataset.names == tuple(PICTURES)
    assert dataset.classes == VOC_CLASSES


@pytest.mark.parametrize("name", PICTURES)
def test_images_and_truths(year, name):
    dataset = VOCDataset(year)
    classes, objects = drawn(name)
    truth = dataset.truth(name)
    assert dataset.image(name).shape == (HEIGHT, WIDTH, 3)
    assert dataset.size(name) == (HEIGHT, WIDTH)
    np.testing.assert_array_equal(truth.classes, classes)
    np.testing.assert_array_equal(truth.void, classes == VOID)
    np.testing.assert_array_equal(truth.objects, np.where(objects == VOID, 0, objects))
    found = truth.objects_of()
    assert [label for label, _ in found] == [label - 1 for label, *_ in PICTURES[name]]
    for number, (_, mask) in enumerate(found, start=1):
        np.testing.assert_array_equal(mask, objects == number)


def test_masks_are_reduced_with_their_images(tmp_path):
    two = picture(PICTURES["two"], np.random.default_rng(0))
    image, classes, objects = (some.repeat(3, axis=0).repeat(3, axis=1) for some in two)
    year = voc_tree(tmp_path)
    Image.fromarray(image).save(year / "JPEGImages" / "two.jpg")
    save_mask(year / "SegmentationClass" / "two.png", classes)
    save_mask(year / "SegmentationObject" / "two.png", objects)
    dataset = VOCDataset(year, longest=WIDTH)
    assert dataset.image("two").shape == (HEIGHT, WIDTH, 3)
    truth = dataset.truth("two")
    np.testing.assert_array_equal(truth.classes, classes[1::3, 1::3])
    np.testing.assert_array_equal(truth.objects, np.where(truth.void, 0, objects[1::3, 1::3]))


def test_a_mask_of_a_turned_picture_is_as_it_is_looked_at(year):
    image, classes, _ = picture(PICTURES["one"], np.random.default_rng(0))
    turned = Image.fromarray(image).transpose(Image.Transpose.ROTATE_90)
    exif = turned.getexif()
    exif[0x0112] = 6
    turned.save(year / "JPEGImages" / "one.jpg", exif=exif)
    dataset = VOCDataset(year)
    assert dataset.size("one") == dataset.image("one").shape[:2] == (HEIGHT, WIDTH)
    np.testing.assert_array_equal(dataset.truth("one").classes, classes)


def test_a_list_of_names_elsewhere_and_flags_of_a_class(tmp_path, year):
    (tmp_path / "mine.txt").write_text("two\n\none\n")
    assert VOCDataset(year, tmp_path / "mine.txt").names == ("two", "one")
    (year / "ImageSets" / "Main").mkdir()
    (year / "ImageSets" / "Main" / "cat_train.txt").write_text("one -1\ntwo  1\nsame  0\n")
    assert VOCDataset(year, "cat_train").names == ("two", "same")


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "empty"), ("\n\n", "empty"), ("one\none\n", "one twice"), ("../one\n", "letters"), ("a/b\n", "letters")],
)
def test_image_sets_that_are_refused(year, text, said):
    (year / "ImageSets" / "Segmentation" / "train.txt").write_text(text)
    with pytest.raises(DataError, match=rf"train\.txt: .*{said}"):
        VOCDataset(year)


def test_folders_and_sets_that_are_not_there(tmp_path, year):
    with pytest.raises(DataError, match="no image set 'test'; give one of train, or the path"):
        VOCDataset(year, "test")
    with pytest.raises(DataError, match="no such folder"):
        VOCDataset(tmp_path / "nowhere")
    with pytest.raises(DataError, match="neither JPEGImages"):
        VOCDataset(year / "JPEGImages")
    shutil.copytree(year, year.with_name("VOC2007"))
    with pytest.raises(DataError, match="several years: give one of VOC2007, VOC2012"):
        VOCDataset(tmp_path)
    assert VOCDataset(tmp_path / "VOCdevkit" / "VOC2007").names == tuple(PICTURES)


def test_files_that_are_missing_or_at_odds(year):
    dataset = VOCDataset(year)
    rejects(dataset, "nobody", "nobody.jpg", "missing")
    for kind in ("SegmentationObject", "SegmentationClass"):
        (year / kind / "one.png").unlink()
        rejects(dataset, "one", str(year / kind / "one.png"), "missing")
    save_mask(year / "SegmentationClass" / "two.png", np.zeros((WIDTH, HEIGHT)))
    rejects(dataset, "two", "two.png", f"mask is {WIDTH} x {HEIGHT} pixels", f"its image {HEIGHT} x {WIDTH}")
    save_mask(year / "SegmentationClass" / "same.png", np.full((HEIGHT, WIDTH), 21))
    rejects(dataset, "same", "same.png", "between 0 and 20, or be 255: found 21")


def test_an_object_without_a_class(year):
    save_mask(year / "SegmentationClass" / "one.png", np.zeros((HEIGHT, WIDTH)))
    rejects(VOCDataset(year), "one", "SegmentationObject", "object 1 has no class")


# -- folders of masks ----------------------------------------------------------------------------------------------------


@pytest.fixture
def folders(tmp_path, year):
    shutil.copytree(year / "JPEGImages", tmp_path / "data" / "images")
    shutil.copytree(year / "SegmentationClass", tmp_path / "data" / "masks")
    return tmp_path / "data"


def test_a_folder_of_masks_has_the_same_interface(folders, year):
    dataset, voc = MaskFolder(folders / "images", folders / "masks", VOC_CLASSES), VOCDataset(year)
    assert dataset.names == tuple(sorted(PICTURES))
    assert dataset.classes == VOC_CLASSES
    for name in dataset.names:
        np.testing.assert_array_equal(dataset.image(name), voc.image(name))
        found, expected = dataset.truth(name), voc.truth(name)
        np.testing.assert_array_equal(found.classes, expected.classes)
        np.testing.assert_array_equal(found.void, expected.void)
        # these objects are apart from each other: connected regions are the objects
        as_sets = [{(label, mask.tobytes()) for label, mask in truth.objects_of()} for truth in (found, expected)]
        assert as_sets[0] == as_sets[1]


def test_objects_from_a_folder_of_their_own(folders, year):
    shutil.copytree(year / "SegmentationObject", folders / "objects")
    dataset = open_dataset(folders)
    np.testing.assert_array_equal(dataset.truth("same").objects, VOCDataset(year).truth("same").objects)


def test_names_of_classes(folders):
    assert open_dataset(folders).classes == ("class 1", "class 2", "class 3")
    (folders / "classes.txt").write_text("cup\nplate\n\nspoon\n")
    assert open_dataset(folders).classes == ("cup", "plate", "spoon")
    assert MaskFolder(folders / "images", folders / "masks", ["a", "b", "c"]).classes == ("a", "b", "c")
    rejects(MaskFolder(folders / "images", folders / "masks", ["a"]), "two", "between 0 and 1")
    with pytest.raises(DataError, match="of their own, got a twice"):
        MaskFolder(folders / "images", folders / "masks", ["a", "a"])
    with pytest.raises(DataError, match="1 to 254 names, got 0"):
        MaskFolder(folders / "images", folders / "masks", [])


def test_folders_that_are_refused(folders, tmp_path):
    with pytest.raises(DataError, match=re.escape(f"{tmp_path / 'no'}: there is no such folder")):
        MaskFolder(tmp_path / "no", folders / "masks")
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="no images here"):
        MaskFolder(tmp_path / "none", folders / "masks")
    (folders / "masks" / "one.png").unlink()
    rejects(open_dataset(folders), "one", "one.png", "missing")
    with pytest.raises(DataError, match="no image 'nobody'"):
        open_dataset(folders).image("nobody")
    Image.new("RGB", (3, 3)).save(folders / "images" / "one.png")
    with pytest.raises(DataError, match="one twice"):
        open_dataset(folders)


def test_masks_without_any_object_need_names_of_classes(folders):
    for path in (folders / "masks").glob("*.png"):
        save_mask(path, np.zeros((HEIGHT, WIDTH)))
    with pytest.raises(DataError, match="give classes"):
        open_dataset(folders)
    assert MaskFolder(folders / "images", folders / "masks", ["a"]).truth("one").objects_of() == []


def test_image_sets_of_a_folder_of_ones_own(tmp_path):
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    for name in ("a", "b", "c"):
        Image.fromarray(np.zeros((5, 6, 3), dtype=np.uint8)).save(tmp_path / "images" / f"{name}.png")
        Image.fromarray(np.ones((5, 6), dtype=np.uint8)).save(tmp_path / "masks" / f"{name}.png")
    assert list(open_dataset(tmp_path).names) == ["a", "b", "c"]
    with pytest.raises(DataError, match=r"no image set 'val': write the names of its images, one a line, into .*val\.txt"):
        open_dataset(tmp_path, "val")
    (tmp_path / "train.txt").write_text("c\na\n")
    (tmp_path / "val.txt").write_text("b\n")
    assert list(open_dataset(tmp_path).names) == ["c", "a"]
    assert list(open_dataset(tmp_path, "val").names) == ["b"]
    (tmp_path / "other.txt").write_text("b\nz\n")
    with pytest.raises(DataError, match="there is no image of the name z"):
        open_dataset(tmp_path, tmp_path / "other.txt")
