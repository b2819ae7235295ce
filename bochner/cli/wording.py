"""What the library says, in the words of whoever typed a command: options in place of parameters, tables in place of X."""

from __future__ import annotations

import re

OPTIONS = {
    "n_features": "--features",
    "max_memory": "--max-memory",
    "checkpoint": "--checkpoint",
    "random_state": "--seed",
    "sample_weight": "--weight",
    "delimiter": "--delimiter",
    "device": "--device",
    "effort": "--effort",
    "finish": "--finish",
    "kernel": "--kernel",
    "kernels": "--views",
    "columns": "--drop",
}
"""Parameters of estimators and of ``open_rows``, and the options that set them."""
WORDS = ("n_features", "max_memory", "random_state", "sample_weight")
"""Those that mean the parameter wherever they stand; the others are words as well."""
QUOTED = re.compile(r"('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")
"""Names of columns and files, and values: they stay as they are."""
GIVEN = re.compile(rf"\b({'|'.join(OPTIONS)})=('[^']*'|\w+(?:[.:-]\w+)*)?")
NAMED = re.compile(rf"\b({'|'.join(WORDS)})\b")
SUBJECT = re.compile(rf"^({'|'.join(OPTIONS)})(?= (?:must|is|says|names|has)\b)")
PHRASES = (
    (re.compile(r"\bheader=False\b"), "--no-header"),
    (re.compile(r"\bencode=True\b"), "another column"),
    (re.compile(r",? or None \("), ", or left out ("),
    (re.compile(r",? or None\b"), ", or left out"),
    (re.compile(r"^(Input )?X (?=\w)"), "The table "),
    (re.compile(r"^X, "), "The table, "),
    (re.compile(r"(?<=: )X, "), ""),
    (re.compile(r"(?<=[ (])X (?=has|holds|contains|is|must)"), "the table "),
    (re.compile(r"^(Input )?y (?=\w)"), "The target "),
    (re.compile(r"(?<=[ (])y (?=has|holds|contains|is|must)"), "the target "),
    (re.compile(r"\bX and y\b"), "the columns and the target"),
    (re.compile(r"\bcheck X\b"), "check the columns"),
    (re.compile(r"\bwhat model\.save\(path\) writes"), "what bochner fit writes"),
    (re.compile(r",? (?:for instance )?(?:with|by) (?:numpy|sklearn|pandas)\.[\w.]+\([^)]*\)"), ""),
    (re.compile(r"\bPut sklearn\.\S+ before it, or use\b"), "Use"),
    (re.compile(r", or look at torch\.cuda\.is_available\(\), which needs (.*)\.$"), r". A GPU needs \1."),
    (re.compile(r", or keep_moments=False if there is no partial_fit to come"), ""),
)
"""Ways of Python's to say a thing, and those of a shell."""
WRONG_OPTION = re.compile(r"^--[a-z-]+ (\S+ )?(must be|must hold|is no|is for|belongs to)\b")


def in_options(text: str) -> str:
    """A message of the library's with the names of options; what stands in quotes stays, but for values of parameters."""
    text = SUBJECT.sub(lambda found: OPTIONS[found[1]], text)
    text = GIVEN.sub(_as_typed, text)
    parts = QUOTED.split(text)
    for i in range(0, len(parts), 2):
        parts[i] = NAMED.sub(lambda found: OPTIONS[found[1]], parts[i])
    text = "".join(parts)
    for pattern, words in PHRASES:
        text = pattern.sub(words, text)
    return text


def blames_an_option(text: str) -> bool:
    """Whether a message, in options, says that one was given a value which it cannot have."""
    return bool(WRONG_OPTION.match(text))


def _as_typed(found: re.Match[str]) -> str:
    option, value = OPTIONS[found[1]], found[2]
    if value is None:
        return option
    return f"no {option}" if value == "None" else f"{option} {value}"
