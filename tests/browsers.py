"""Pages in a real browser: a headless Chromium that can reach no network, and what it saw."""

import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE, DESK = 390, 1100
"""Widths of screens, in pixels."""


@dataclass
class Seen:
    """What a browser said of a page, and whom the page wanted to reach."""

    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@contextmanager
def chromium():
    """A browser, or a skip that says what is missing."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no chromium on PATH: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


@contextmanager
def opened(browser, path, *, width=DESK, scheme="light"):
    """A file as a page, with what was seen; requests to anywhere but files of its folder are stopped and noted."""
    seen = Seen()
    page = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page.on("console", lambda message: seen.messages.append(message.text))
    page.on("pageerror", lambda error: seen.messages.append(str(error)))

    def judge(route):
        if route.request.url.startswith(("file:", "data:")):
            route.continue_()
        else:
            seen.requests.append(route.request.url)
            route.abort()

    page.route("**/*", judge)
    page.goto(path.as_uri())
    yield page, seen
    page.close()
