"""Hosts that share a real server, for tests: what they publish, look up, and what lies there. Not a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warmgraph.cache import (
    Cache,
    Entry,
    Hit,
    Miss,
    Role,
    Settings,
    configure,
    new_key,
    new_pair,
    open_cache,
    reset_settings,
)


def key_of(number: int) -> str:
    return f"wg1{number:064x}"


def listed(*entries: tuple[str, int, bytes]) -> bytes:
    """(variant, generation, sealed) as they lie in Redis."""
    return b"".join(b"%s %d %d\n%s" % (variant.encode(), at, len(data), data) for variant, at, data in entries)


class Host:
    """One host: a folder, keys, settings. Each call opens the cache anew, as a fresh process would."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.root = root
        self.changes = {"dir": root} | settings

    def settings(self, **more: Any) -> Settings:
        reset_settings()
        return configure(**(self.changes | more))

    def cache(self, **more: Any) -> Cache:
        return open_cache(self.settings(**more))

    def publish(self, *numbers: int, text: str = "ours", **more: Any) -> None:
        cache = self.cache(**more)
        for number in numbers:
            content = [
                (Role.AOT_RESULT, "result", f"{text} {number} ".encode() * 20),
                (Role.CPP_KERNEL, "kernel", b"\x7fELF" + f"{text} {number}".encode() * 50),
            ]
            cache.publish(Entry(key_of(number), "v0", {"graph": "a" * 64}, None, {}, ()), content)
            if number % 32 == 0:  # more than so many may not wait to be written
                assert cache.flush(60)
        assert cache.flush(60)

    def lookup(self, number: int, **more: Any) -> Hit | Miss:
        cache = self.cache(**more)
        found = cache.lookup(key_of(number), lambda entry: True)
        assert cache.flush()
        return found

    def hits(self, *numbers: int, **more: Any) -> list[int]:
        cache = self.cache(**more)
        found = [number for number in numbers if isinstance(cache.lookup(key_of(number), lambda entry: True), Hit)]
        assert cache.flush()
        return found


class Fleet:
    """Hosts on one server. pair, shared: key texts."""

    def __init__(self, server: Any, folder: Path) -> None:
        self.server = server
        self.raw = server.raw
        self.folder = folder
        self.secret, self.public = new_pair()
        self.shared = new_key()
        self.made = 0

    def host(self, **settings: Any) -> Host:
        self.made += 1
        given = {"url": self.server.patient_url, "signing_key": self.secret} | settings
        return Host(self.folder / f"host{self.made}", **given)

    def entries(self, number: int, namespace: str = "default") -> str:
        return f"wg:{namespace}:{{{key_of(number)}}}:e"

    def sealed(self, number: int) -> bytes:
        """The entry as it lies there, without what is noted of it."""
        return bytes(self.raw.get(self.entries(number)).partition(b"\n")[2])
