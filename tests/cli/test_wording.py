"""Messages of the library in the words of the command line."""

import numpy as np
import pytest

import bochner
from bochner.cli.wording import blames_an_option, in_options
from bochner.memory import as_bytes

X = np.random.default_rng(0).standard_normal((60, 3))


@pytest.mark.parametrize(
    ("call", "said", "blamed"),
    [
        (
            lambda: bochner.KernelRegressor(n_features=7).fit(X, X[:, 0]),
            "--features must be an even whole number, or left out (",
            True,
        ),
        (
            lambda: bochner.MultipleKernelRegressor("gaussian", n_features=7).fit(X, X[:, 0]),
            "--features must be an even whole number, one for each kernel, or left out, got 7",
            True,
        ),
        (lambda: bochner.KernelRegressor(device="gpu").fit(X, X[:, 0]), "--device must be 'cuda', ", True),
        (
            lambda: as_bytes("lots"),
            "--max-memory must be a positive number of bytes, text such as",
            True,
        ),
        (lambda: bochner.KernelRegressor().fit(np.where(X > 2, np.inf, X), X[:, 0]), "The table", False),
        (lambda: bochner.KernelRegressor("chi2").fit(X, X[:, 0]), "Use a kernel of differences", False),
    ],
)
def test_messages_speak_of_options(call, said, blamed):
    with pytest.raises(ValueError, match=r"\w") as told:
        call()
    text = in_options(str(told.value))
    assert said in text
    assert blames_an_option(text) == blamed
    assert not any(word in text for word in ("n_features", "max_memory", "None", "numpy.", "sklearn.", "X,", " X "))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("column 'n_features' of X has gaps", "column 'n_features' of the table has gaps"),
        ("the kernel is Gaussian, and its device is warm", "the kernel is Gaussian, and its device is warm"),
        ("say n_features=.", "say --features."),
        ("n_features=4000 needs 3 GB.", "--features 4000 needs 3 GB."),
        ("use device=None here", "use no --device here"),
        ("Another fit is using checkpoint='kept' now.", "Another fit is using --checkpoint 'kept' now."),
        ("it has no line of names, say header=False.", "it has no line of names, say --no-header."),
        ("Say delimiter=';'.", "Say --delimiter ';'."),
        ("Expected is what model.save(path) writes.", "Expected is what bochner fit writes."),
    ],
)
def test_names_of_parameters_become_options_and_quoted_text_stays(text, told):
    assert in_options(text) == told
