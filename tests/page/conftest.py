"""A real Chromium, and pages of made-up events opened in it. Without a Chromium these tests are skipped, and say so."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from warmgraph.scripts.audit import Source, StoredEntry, audit_events
from warmgraph.scripts.page import render

HERE = Path(__file__).parent
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def samples(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    return load_module(HERE / "samples.py")


@pytest.fixture(scope="session")
def serving(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    return load_module(HERE / "serving.py")


@pytest.fixture(scope="session")
def document(samples: ModuleType) -> Callable[[int], dict[str, Any]]:
    """The audit of so many events, and of a store with entries that nobody hit. Made once."""
    made: dict[int, dict[str, Any]] = {}

    def make(count: int) -> dict[str, Any]:
        if count not in made:
            source = Source("folder", "/var/cache/warmgraph/journal")
            store = [
                StoredEntry(
                    f"wg1{n:064x}", "v0", samples.FUNCTIONS[n % 8][0], 10**6 + n * 10**5, samples.BEGAN + n, 20.0
                )
                for n in range(30)
            ]
            made[count] = audit_events(samples.events(count), source=source, store=store).as_json()
        return made[count]

    return make


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium: sh .ci/install-chromium, or CHROMIUM=/path/to/chrome")
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[test]'")
    with driver.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@dataclass
class Opened:
    """An opened page. said: what it wrote to the console, and its errors. asked: addresses that it asked for."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def texts(self, selector: str) -> list[str]:
        return [str(text) for text in self.page.locator(selector).all_inner_texts()]

    def numbers(self, selector: str) -> list[float]:
        return [float(text.replace(",", "")) for text in self.texts(selector)]

    def settled(self) -> None:
        """What follows from the last input is drawn: a timer in the page, longer than any that draws, and a frame."""
        self.page.evaluate("() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => done()), 100))")

    def open_everything(self) -> None:
        """Every fold and every row that opens."""
        self.page.evaluate("() => document.querySelectorAll('details').forEach((one) => (one.open = true))")
        self.settled()
        self.page.evaluate(
            "() => document.querySelectorAll('.opener[aria-expanded=false]').forEach((one) => one.click())"
        )
        self.page.evaluate("() => document.querySelectorAll('details').forEach((one) => (one.open = true))")
        self.settled()


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Opens the page of a document, or an address; any complaint of the browser fails the test."""
    opened: list[Opened] = []

    def go(
        document: dict[str, Any] | None = None,
        *,
        address: str | None = None,
        width: int = 1280,
        scheme: str = "light",
        **more: Any,
    ) -> Opened:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **more)
        one = Opened(context.new_page())
        one.page.on("console", lambda message: one.said.append(f"{message.type}: {message.text}"))
        one.page.on("pageerror", lambda error: one.said.append(f"error: {error}"))
        one.page.on("request", lambda request: one.asked.append(request.url))
        one.page.on("dialog", lambda dialog: (one.said.append("a dialog"), dialog.dismiss()))
        if document is not None:
            file = tmp_path / f"{len(opened)}.html"
            file.write_text(render(document), "utf-8")
            address = file.as_uri()
        one.page.goto(address)
        opened.append(one)
        return one

    yield go
    said = [line for one in opened for line in one.said]
    for one in opened:
        one.page.context.close()
    assert said == []


@pytest.fixture
def journal(serving: ModuleType) -> Any:
    return serving.Journal()


@pytest.fixture
def serve(serving: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Serves the store of the test on a free port: `serve(token)`."""
    monkeypatch.setattr("warmgraph.scripts.page.live.INTERVAL", 0.02)
    monkeypatch.setattr("warmgraph.scripts.page.live.MADE_EVERY", 0.0)
    running: list[Any] = []

    def start(token: str | None = None) -> Any:
        running.append(serving.Served(tmp_path / "store" / "served" / "sums.json", token))
        return running[-1]

    yield start
    for one in running:
        one.stop()
