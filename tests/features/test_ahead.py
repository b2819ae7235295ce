"""Maps drawn ahead: the same as those drawn when they are asked for, whatever was foreseen."""

import numpy as np
import pytest

from bochner.features import DrawnAhead, FeatureChoices, build_map
from bochner.kernels import Gaussian, Laplacian, Matern

M = 12
SIZES = 8, 8, 20, 40
KERNELS = [Gaussian(scale=0.3), Matern(nu=1.5), Laplacian()]
GENERATORS = np.random.PCG64, np.random.MT19937


def sized(n, **options):
    return FeatureChoices(n_features=n, **options)


def drawn_now(kernel, choices, rng):
    return [build_map(kernel, M, each, rng).points for each in choices]


@pytest.fixture
def ahead():
    """Makes one for a generator, and ends its thread."""
    made = []

    def make(rng):
        made.append(DrawnAhead(rng))
        return made[-1]

    yield make
    for each in made:
        each.forget()


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_as_foreseen(kernel, generator, ahead):
    here, there = (np.random.Generator(generator(5)) for _ in range(2))
    choices = [sized(n) for n in SIZES]
    maps = ahead(there)
    maps.foresee(kernel, M, choices)
    found = [maps.build(kernel, M, each).points for each in choices]
    for one, other in zip(found, drawn_now(kernel, choices, here), strict=True):
        np.testing.assert_array_equal(one, other)
    assert there.random() == here.random()


def test_the_kernel_is_the_one_asked_for(ahead, rng):
    X = rng.normal(size=(5, M))
    maps = ahead(np.random.default_rng(0))
    maps.foresee(Gaussian(), M, [sized(8)])
    kernel = Gaussian(scale=np.arange(1.0, M + 1))
    found, expected = maps.build(kernel, M, sized(8)), build_map(kernel, M, sized(8), np.random.default_rng(0))
    assert found.kernel == kernel
    np.testing.assert_array_equal(found.forward(X), expected.forward(X))


@pytest.mark.parametrize("asked", [sized(10), sized(8, form="phase"), sized(8, sampling="iid")])
def test_another_than_foreseen(asked, ahead):
    """It is drawn as if nothing had been foreseen, and so are all after it."""
    choices = [sized(8), asked, sized(20), sized(40)]
    maps = ahead(np.random.default_rng(1))
    maps.foresee(Gaussian(), M, [sized(n) for n in SIZES])
    found = [maps.build(Gaussian(), M, each).points for each in choices]
    for one, other in zip(found, drawn_now(Gaussian(), choices, np.random.default_rng(1)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_generator_that_was_used_meanwhile(ahead):
    here, there = (np.random.default_rng(2) for _ in range(2))
    maps = ahead(there)
    maps.foresee(Gaussian(), M, [sized(n) for n in SIZES])
    assert here.random() == there.random()
    found = [maps.build(Gaussian(), M, sized(n)).points for n in SIZES]
    for one, other in zip(found, drawn_now(Gaussian(), [sized(n) for n in SIZES], here), strict=True):
        np.testing.assert_array_equal(one, other)


def test_more_than_foreseen(ahead):
    maps = ahead(np.random.default_rng(3))
    maps.foresee(Gaussian(), M, [sized(8)])
    found = [maps.build(Gaussian(), M, sized(n)).points for n in SIZES]
    for one, other in zip(found, drawn_now(Gaussian(), [sized(n) for n in SIZES], np.random.default_rng(3)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_error_comes_where_the_map_is_asked_for(ahead):
    maps = ahead(np.random.default_rng(4))
    maps.foresee(Gaussian(), M, [sized(8), sized(9)])
    maps.build(Gaussian(), M, sized(8))
    with pytest.raises(ValueError, match="n_features must be even"):
        maps.build(Gaussian(), M, sized(9))
