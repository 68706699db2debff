"""Small stores and journals for the command line's tests, and ways to run it: in this process and in its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import msgpack
import pytest
from warmgraph.cache import (
    Entry,
    Event,
    Journal,
    Outcome,
    Role,
    Scalar,
    configure,
    flush,
    journal_dir,
    new_key,
    open_cache,
    record,
    reset_settings,
    settings,
    store_root,
)
from warmgraph.scripts import main

REMOTE = Path(__file__).parent.parent / "remote"


@dataclass(frozen=True)
class Ran:
    """What a command came to."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture(autouse=True)
def buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes buffer their stdout as they do for most people: what is left in it at the end matters here."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


@pytest.fixture
def signed(monkeypatch: pytest.MonkeyPatch) -> str:
    """A signing key, in the environment."""
    key = new_key()
    monkeypatch.setenv("WARMGRAPH_SIGNING_KEY", key)
    return key


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], Path]:
    """Once called, the store is another, which is not there yet."""
    root = tmp_path / "elsewhere"

    def go() -> Path:
        monkeypatch.setenv("WARMGRAPH_DIR", str(root))
        return root

    return go


@pytest.fixture(scope="session")
def servers(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    """`tests/remote/servers.py`."""
    return load_module(REMOTE / "servers.py")


@pytest.fixture(scope="session")
def proxying(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    """`tests/remote/proxy.py`."""
    return load_module(REMOTE / "proxy.py")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs `warmgraph ...` in this process, reading the settings anew."""

    def call(*arguments: object) -> Ran:
        reset_settings()
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        return Ran(status, *capsys.readouterr())

    return call


@pytest.fixture
def execute(environment: Callable[..., dict[str, str]]) -> Callable[..., Ran]:
    """Runs `python -m warmgraph ...` in a process of its own."""

    def call(*arguments: object, **variables: object) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "warmgraph", *map(str, arguments)],
            env=environment(**variables),
            capture_output=True,
            text=True,
            timeout=60,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture(scope="session")
def looked() -> Callable[..., Any]:
    """`looked(look, is_good)`: what `look` finds, at the fifth time at the latest.

    For what judges a server's speed: this machine may stand still while it is measured.
    """

    def looked(look: Callable[[], Any], is_good: Callable[[Any], bool]) -> Any:
        for _ in range(4):
            if is_good(found := look()):
                return found
        return look()

    return looked


@pytest.fixture
def root() -> Path:
    """Where the test's store lies, or will."""
    return store_root(settings())


def key_of(number: int) -> str:
    return f"wg1{number:064x}"


@pytest.fixture
def publish(root: Path) -> Callable[..., str]:
    """Publishes an entry as the backend does, of three files; returns its key."""

    def call(
        number: int = 1,
        *,
        texts: object = None,
        graphs: object = None,
        guards: str | None = None,
        variant: str = "v0",
        namespace: str = "default",
        **facts: Scalar,
    ) -> str:
        told: Mapping[str, Scalar] = {"function": "forward", "file": "/src/model.py", "line": 7, "nodes": 12}
        told = {**told, "compile_seconds": 21.5, "host": "here", "torch": "2.13.0", "created": 1.7e9, **facts}
        parts = {"graph": "a" * 64, "inputs": "b" * 64}
        draft = Entry(key_of(number), variant, parts, guards, {"s0": "s77"}, (), told)
        cache = open_cache(configure(dir=root, namespace=namespace))
        blobs = [
            (Role.CPP_KERNEL, "kernel", b"\x7fELF" + key_of(number).encode() * 30),
            (Role.PART_TEXTS, "parts", _packed({"graph": f"call add {number}"} if texts is None else texts)),
            (Role.GRAPH_TEXT, "graphs", _packed({"forward": "def forward(x): ..."} if graphs is None else graphs)),
        ]
        cache.publish(draft, blobs)
        assert flush()
        assert cache.health() == {}
        return key_of(number)

    return call


def _packed(texts: object) -> bytes:
    return texts if isinstance(texts, bytes) else bytes(msgpack.packb(texts))


@pytest.fixture
def journaled(root: Path) -> Callable[..., None]:
    """Journals an event as the backend does."""

    def call(outcome: str, **fields: Any) -> None:
        record(Journal(journal_dir(configure(dir=root))), Event(Outcome(outcome), **fields))

    return call


def files_of(root: Path, folder: str) -> list[Path]:
    """Every file under a folder of the store."""
    return sorted(path for path in (root / folder).rglob("*") if path.is_file())


@pytest.fixture
def files(root: Path) -> Callable[[str], list[Path]]:
    return lambda folder: files_of(root, folder)
