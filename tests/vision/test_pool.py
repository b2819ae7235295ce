"""Pools of segments: everything that is one matrix product, against masks counted pixel by pixel."""

import numpy as np
import pytest

from bochner.vision.pool import SegmentPool


def pool(h=13, w=17, P=11, s=19, seed=0):
    rng = np.random.default_rng(seed)
    return SegmentPool(rng.integers(0, P, (h, w)), rng.random((s, P)) < 0.4)


def naive_overlap(first, second, seen):
    both = union = 0
    for y, x in np.ndindex(first.shape):
        if seen[y, x]:
            both += first[y, x] and second[y, x]
            union += first[y, x] or second[y, x]
    return both / union if union else 0.0


@pytest.mark.parametrize("with_void", [False, True])
def test_overlaps_are_those_of_the_masks_pixel_by_pixel(with_void):
    rng, found = np.random.default_rng(1), pool()
    truths = rng.random((3, 13, 17)) < 0.3
    truths[2] = False
    void = rng.random((13, 17)) < 0.2 if with_void else None
    seen = ~void if with_void else np.ones((13, 17), dtype=bool)
    expected = [[naive_overlap(found.mask(i), truth, seen) for truth in truths] for i in range(found.n_segments)]
    np.testing.assert_array_equal(found.overlaps(truths, void), expected)


def test_a_segment_of_void_alone_overlaps_nothing():
    found = SegmentPool(np.array([[0, 1]]), np.array([[True, False], [False, True]]))
    truth, void = np.array([[[True, True]]]), np.array([[True, False]])
    np.testing.assert_array_equal(found.overlaps(truth, void), [[0.0], [1.0]])


def test_no_truth_gives_no_column():
    assert pool().overlaps(np.zeros((0, 13, 17), dtype=bool)).shape == (19, 0)


def test_masks_areas_and_sizes_count_pixels():
    found = pool()
    masks = np.array([found.mask(i) for i in range(found.n_segments)])
    np.testing.assert_array_equal(found.areas(), masks.sum(axis=(1, 2)))
    assert found.sizes().sum() == 13 * 17
    for i, y, x in np.ndindex(masks.shape):
        assert masks[i, y, x] == found.members[i, found.labels[y, x]]


@pytest.mark.parametrize(("given", "expected"), [(np.float32, np.float32), (np.float64, np.float64), (np.int64, np.float64)])
def test_histograms_are_sums_over_superpixels(given, expected):
    found = pool()
    values = np.random.default_rng(2).integers(0, 100, (11, 5)).astype(given)
    sums = found.pool_histograms(values)
    assert sums.dtype == expected
    np.testing.assert_array_equal(sums, [values[row].sum(axis=0) for row in found.members])


@pytest.mark.parametrize(
    "index", [slice(2, 9, 3), [5, 0, 5], np.arange(19) % 2 == 0, []], ids=["slice", "numbers", "mask", "none"]
)
def test_take(index):
    found = pool()
    some = found.take(index)
    np.testing.assert_array_equal(some.members, found.members[index])
    np.testing.assert_array_equal(some.labels, found.labels)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (13, 17, 11, 19), (5, 5, 70_000, 2), (3, 4, 2, 0)])
def test_save_and_load(tmp_path, shape):
    found = pool(*shape)
    found.save(tmp_path / "pool.npz")
    again = SegmentPool.load(tmp_path / "pool.npz")
    for one, other in ((found.labels, again.labels), (found.members, again.members)):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    assert [path.name for path in tmp_path.iterdir()] == ["pool.npz"]


@pytest.mark.parametrize("label", [-1, 11])
def test_labels_out_of_range_are_refused(label):
    labels = pool().labels.copy()
    labels[0, 0] = label
    with pytest.raises(ValueError, match=r"between 0 and P - 1 = 10"):
        SegmentPool(labels, pool().members)


def test_masks_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"\(k, 13, 17\): got \(2, 5, 5\)"):
        pool().overlaps(np.zeros((2, 5, 5), dtype=bool))


def test_shapes_are_checked():
    with pytest.raises(ValueError, match=r"labels must be \(h, w\)"):
        SegmentPool(np.zeros(5, dtype=int), np.ones((1, 1), dtype=bool))
