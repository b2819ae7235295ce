"""Write requirements/dev.lock and requirements/cuda.lock anew from requirements/dev.in: versions, and hashes of their files.

    python tools/lock.py

pip chooses the versions, for this interpreter. Every package then gets the hashes of all its wheels on the package index
that Linux or macOS can use with Python 3.11 or newer, and of the file that pip chose here, which may come from elsewhere:
the lock installs where torch is a CPU build of one's own, and where it is that of the index. Only wheels count where there
are any: nothing is built on installation. The build of torch on the index for Linux asks for CUDA's packages; what it
needs beside dev.lock is in cuda.lock. pip itself is left out: it is that of the interpreter.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
import venv
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "requirements"
OLDEST = 11
"""The oldest minor version of Python 3 whose wheels are listed."""
MARKER = ' ; sys_platform == "linux"'
SYSTEMS = ("any", "manylinux", "linux", "musllinux", "macosx")
SUFFIXES = (".whl", ".tar.gz", ".zip")
MADE = "# Written by `make lock` from dev.in. Do not edit.\n"
CUDA = "# What the build of torch on the package index for Linux needs beside dev.lock.\n"


def main() -> None:
    """Choose, look up and write."""
    if sys.platform != "linux":
        raise SystemExit(f"Run this on Linux, where torch may need the packages of CUDA; this is {sys.platform}.")
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        chosen = report_of(python, ["--requirement", str(FOLDER / "dev.in")], os.environ)
        index = index_of(python)
        torch = chosen["torch"][0]
        with_cuda = report_of(python, ["--use-feature=fast-deps", f"torch=={torch}"], index_alone(os.environ, index))
    cuda = {name: found for name, found in with_cuda.items() if name not in chosen}
    texts = {"dev.lock": MADE + lines(chosen, index, ""), "cuda.lock": MADE + CUDA + lines(cuda, index, MARKER)}
    for name, text in texts.items():
        (FOLDER / f"{name}.new").write_text(text, encoding="utf-8")
        (FOLDER / f"{name}.new").replace(FOLDER / name)
        print(f"Wrote requirements/{name}")


def report_of(python: str, wanted: list[str], environment: Any) -> dict[str, tuple[str, str]]:
    """What pip would install, by name: the version without a local part, and the hash of the file."""
    pip = [python, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    answer = subprocess.run([*pip, *wanted], check=True, stdout=subprocess.PIPE, env=dict(environment)).stdout
    found = {}
    for entry in json.loads(answer)["install"]:
        about = entry["metadata"]
        hashes = entry["download_info"]["archive_info"]["hashes"]
        found[normal(about["name"])] = (about["version"].split("+")[0], hashes["sha256"])
    found.pop("pip", None)
    return found


def index_of(python: str) -> str:
    """The package index that pip is set to ask first."""
    told = subprocess.run([python, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True)
    return os.environ.get("PIP_INDEX_URL") or told.stdout.strip() or "https://pypi.org/simple"


def index_alone(environment: Any, index: str) -> dict[str, str]:
    """An environment in which pip asks the index and nothing else."""
    kept = {name: value for name, value in environment.items() if name not in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL")}
    return kept | {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": index}


def lines(packages: dict[str, tuple[str, str]], index: str, marker: str) -> str:
    """A requirement with hashes for each package."""
    text = []
    for name, (version, chosen) in sorted(packages.items()):
        hashes = sorted({chosen, *hashes_of(name, version, index)})
        text.append(" \\\n    ".join([f"{name}=={version}{marker}", *(f"--hash=sha256:{value}" for value in hashes)]))
    return "\n".join(text) + "\n"


def hashes_of(name: str, version: str, index: str) -> list[str]:
    """The hashes of the files of a version on the index: of its usable wheels, or of its source where it has no wheel."""
    request = urllib.request.Request(f"{index.rstrip('/')}/{name}/", headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        links = Links()
        links.feed(answer.read().decode())
    files = [file for file in links.files if version_of(file, name) == version]
    wheels = [file for file in files if file.endswith(".whl")]
    return [links.files[file] for file in (filter(usable, wheels) if wheels else files)]


class Links(HTMLParser):
    """The files that a page of an index links to, with their hashes."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take down one link."""
        address, _, fragment = (dict(attrs).get("href") or "").partition("#")
        if tag == "a" and fragment.startswith("sha256="):
            file = urllib.parse.unquote(address.rsplit("/", 1)[-1])
            self.files[file] = fragment.removeprefix("sha256=")


def version_of(file: str, name: str) -> str | None:
    """The version in the name of a file, if it is one of the package."""
    stem = next((file.removesuffix(suffix) for suffix in SUFFIXES if file.endswith(suffix)), None)
    if stem is None:
        return None
    if file.endswith(".whl"):
        return stem.split("-")[1]
    package, _, version = stem.rpartition("-")
    return version if normal(package) == name else None


def usable(wheel: str) -> bool:
    """Whether Python 3.11 or newer can use a wheel on Linux or macOS."""
    python, abi, system = wheel.removesuffix(".whl").split("-")[-3:]
    if not system.startswith(SYSTEMS) or re.fullmatch(r"cp\d+t", abi):
        return False
    return any(_fits(each, abi) for each in python.split("."))


def _fits(python: str, abi: str) -> bool:
    """Whether a tag such as py3 or cp311 is of Python 3.11 or newer; older ones with the stable ABI are."""
    exact = re.fullmatch(r"cp3(\d+)", python)
    if exact:
        return int(exact[1]) >= OLDEST or abi == "abi3"
    general = re.fullmatch(r"py3(\d*)", python)
    return general is not None


def normal(name: str) -> str:
    """A name as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
