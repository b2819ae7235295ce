"""The list of kernels and how one is asked for."""

from pathlib import Path

import pytest

from bochner import kernels
from bochner.descent import family_name, typed_name
from bochner.kernels import KERNELS, Gaussian, Kernel, Matern, get_kernel


@pytest.mark.parametrize("name", KERNELS)
def test_every_name_makes_a_kernel(name):
    kernel = get_kernel(name)
    assert isinstance(kernel, Kernel)
    assert get_kernel(name.upper().replace("_", "-")) == kernel
    assert get_kernel(name.replace("_", " ")) == kernel
    assert KERNELS[name](scale=2.0).scale == 2.0


@pytest.mark.parametrize(("name", "meant"), list(kernels._OTHER_NAMES.items()))
def test_other_names(name, meant):
    assert get_kernel(name) == get_kernel(meant)
    assert f"| `{name}` | `{meant}` |" in (Path(__file__).parents[2] / "docs" / "kernels.md").read_text()


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_shown_of_a_kernel_can_be_typed(name):
    shown = typed_name(family_name(get_kernel(name)))
    assert kernels.kernel_name(shown) == name
    assert typed_name(f"{family_name(get_kernel(name))} with a metric") == f"{shown} with a metric"


def test_an_object_is_itself():
    kernel = Matern(nu=0.7)
    assert get_kernel(kernel) is kernel


@pytest.mark.parametrize(
    ("name", "near"), [("gausian", "gaussian"), ("laplacan", "laplacian"), ("skewed_chi", "skewed_chi2")]
)
def test_unknown_names_get_a_suggestion(name, near):
    with pytest.raises(ValueError, match=f"Unknown kernel '{name}': did you mean '{near}'") as info:
        get_kernel(name)
    assert all(known in str(info.value) for known in KERNELS)


@pytest.mark.parametrize("name", ["zzzz", "nosuch", "quadratic"])
def test_a_name_like_no_other_gets_the_list(name):
    with pytest.raises(ValueError, match=f"Unknown kernel '{name}': Known names: gaussian"):
        get_kernel(name)


def test_a_class_instead_of_an_object():
    with pytest.raises(ValueError, match=r"kernel is the class Gaussian: give an object of it, Gaussian\(\)"):
        get_kernel(Gaussian)


@pytest.mark.parametrize("value", [3, None, ["gaussian"], len])
def test_something_else_instead_of_a_kernel(value):
    with pytest.raises(ValueError, match="kernel must be a name or a Kernel object"):
        get_kernel(value)


def test_everything_listed_exists():
    assert all(hasattr(kernels, name) for name in kernels.__all__)
    assert {type(get_kernel(name)).__name__ for name in KERNELS} <= set(kernels.__all__)
