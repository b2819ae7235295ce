"""Write requirements/*.lock anew from requirements/dev.in: versions, and hashes of their files.

    python tools/lock.py

pip chooses the versions, for this interpreter. Every package then gets the hashes of all its wheels on the package index
that Linux or macOS can use with Python 3.11 or newer, and of the file that pip chose here. Only wheels count where there are
any: nothing is built on installation. pip itself is left out: it is that of the interpreter.

dev.lock has all packages but torch. Where torch came from elsewhere than the index, as a build with a local version such as
2.13.0+cpu, it is in torch-cpu.lock, and is installed where it is to be had. torch.lock has the build of the index, with what
it needs of CUDA on Linux. (One entry with the hashes of both would not do: pip prefers files whose hash the index tells.)
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
MARKER, OF_CUDA = ' ; sys_platform == "linux"', ("cuda-", "nvidia-", "triton")
SYSTEMS = ("any", "manylinux", "linux", "musllinux", "macosx")
SUFFIXES = (".whl", ".tar.gz", ".zip")
MADE = "# Written by `make lock` from dev.in. Do not edit.\n"
CPU = "# The build of torch that was chosen where this was written, if it is not the index's. It is tried first.\n"
TORCH = "# The build of torch on the package index, and what it needs of CUDA on Linux.\n"


def main() -> None:
    """Choose, look up and write."""
    if sys.platform != "linux":
        raise SystemExit(f"Run this on Linux, where torch may need the packages of CUDA; this is {sys.platform}.")
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        chosen = report_of(python, ["--requirement", str(FOLDER / "dev.in")], os.environ)
        index = index_of(python)
        torch = chosen.pop("torch")
        version = torch[0].split("+")[0]
        of_index = report_of(python, ["--use-feature=fast-deps", f"torch=={version}"], index_alone(os.environ, index))
    with_torch = {name: found for name, found in of_index.items() if name not in chosen}
    texts = {
        "dev.lock": MADE + lines(chosen, index),
        "torch-cpu.lock": MADE + CPU + (requirement("torch", torch[0], [torch[1]]) if "+" in torch[0] else ""),
        "torch.lock": MADE + TORCH + lines(with_torch, index),
    }
    for name, text in texts.items():
        (FOLDER / f"{name}.new").write_text(text, encoding="utf-8")
        (FOLDER / f"{name}.new").replace(FOLDER / name)
        print(f"Wrote requirements/{name}")


def report_of(python: str, wanted: list[str], environment: Any) -> dict[str, tuple[str, str]]:
    """What pip would install, by name: the version, and the hash of the file."""
    pip = [python, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    answer = subprocess.run([*pip, *wanted], check=True, stdout=subprocess.PIPE, env=dict(environment)).stdout
    found = {}
    for entry in json.loads(answer)["install"]:
        about = entry["metadata"]
        hashes = entry["download_info"]["archive_info"]["hashes"]
        found[normal(about["name"])] = (about["version"], hashes["sha256"])
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


def lines(packages: dict[str, tuple[str, str]], index: str) -> str:
    """A requirement with hashes for each package."""
    found = sorted(packages.items())
    return "".join(
        requirement(name, version, [chosen, *hashes_of(name, version, index)]) for name, (version, chosen) in found
    )


def requirement(name: str, version: str, hashes: list[str]) -> str:
    """One package with the hashes that its files may have."""
    marker = MARKER if name.startswith(OF_CUDA) else ""
    return (
        " \\\n    ".join([f"{name}=={version}{marker}", *(f"--hash=sha256:{value}" for value in sorted(set(hashes)))]) + "\n"
    )


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
