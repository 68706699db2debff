"""Material for the cache's tests: entries, caches, mounts; and a guard against what tests leave behind."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from warmgraph.cache import Cache, Entry, Role, Settings, configure, open_cache, reset_settings
from warmgraph.cache.stores import circuit_breaker as health

KERNEL = b"\x7fELF" + bytes(range(256)) * 8


def key_of(number: int) -> str:
    return f"wg1{number:064x}"


def draft(number: int = 1, variant: str = "v0", guards: str | None = None) -> Entry:
    """An entry as the backend makes one, without blobs."""
    return Entry(
        key=key_of(number),
        variant=variant,
        parts={"graph": "a", "inputs": "b"},  # no digests: nothing is indexed, and files can be counted
        guards=guards,
        symbols={"s0": "s77"},
        blobs=(),
        facts={"compile_seconds": 1.5, "host": "here", "line": 3, "warm": True, "note": None},
    )


def contents(number: int = 1, size: int = 2000) -> list[tuple[Role, str, bytes]]:
    """What one compile leaves: a result, a kernel, texts. Differs by number, shares nothing between numbers."""
    salt = number.to_bytes(8, "big")
    return [
        (Role.AOT_RESULT, "aot", salt + os.urandom(size)),
        (Role.CPP_KERNEL, "kernel", KERNEL + salt),
        (Role.PART_TEXTS, "texts", b"text " * 100 + salt),
    ]


def always(entry: Entry) -> bool:
    return True


@pytest.fixture
def make() -> SimpleNamespace:
    return SimpleNamespace(key_of=key_of, draft=draft, contents=contents, always=always, kernel=KERNEL)


@pytest.fixture(autouse=True)
def clean_process(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each test starts without settings, and as if no tier had been warned of; and leaves no writer behind.

    Temporary files go where pytest removes them: children that are killed cannot.
    """
    temporary = str(tmp_path_factory.getbasetemp())
    monkeypatch.setenv("TMPDIR", temporary)
    monkeypatch.setattr(tempfile, "tempdir", temporary)
    for name in list(os.environ):
        if name.startswith("WARMGRAPH_") or name == "RANK":
            monkeypatch.delenv(name)
    reset_settings()
    health._told.clear()
    yield
    reset_settings()
    for thread in threading.enumerate():
        if thread.name == "warmgraph-writer":
            thread.join(10)
            assert not thread.is_alive(), "a background write outlived its test"


@dataclass
class Opener:
    """Opens caches on one folder."""

    root: Path

    def settings(self, **changes: object) -> Settings:
        return configure(**({"dir": self.root} | changes))  # type: ignore[arg-type]

    def __call__(self, on_published: Callable[..., None] | None = None, **changes: object) -> Cache:
        return open_cache(self.settings(**changes), on_published=on_published)


@pytest.fixture
def opener(tmp_path: Path) -> Opener:
    return Opener(tmp_path / "store")


@pytest.fixture
def published(opener: Opener) -> Opener:
    """A folder that holds entry 1, complete."""
    cache = opener()
    cache.publish(draft(1), contents(1))
    assert cache.flush()
    assert cache.health() == {}
    return opener


@pytest.fixture
def warnings_of(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The warnings that the cache logged so far."""
    caplog.set_level(logging.DEBUG, logger="warmgraph.cache")

    def found() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

    return found
