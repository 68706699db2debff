"""push and pull against a real server: what is copied, passed by and told, and how they exit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from warmgraph.cache import DiskStore, RedisStore, new_key

COPIED = {"version", "ok", "entries", "blobs", "bytes", "skipped", "incomplete", "damaged", "untrusted", "error"}


def key_of(number: int) -> str:
    return f"wg1{number:064x}"


def keys_in(root: Path) -> set[str]:
    return {file.key for file in DiskStore(root, readonly=True).scan()}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: Any, signed: str) -> Iterator[Any]:
    """A server, in the environment."""
    with servers.server(tmp_path / "redis") as one:
        monkeypatch.setenv("WARMGRAPH_URL", f"{one.url}?socket_timeout=5")
        yield one


def test_push_and_pull(run: Any, publish: Any, server: Any, elsewhere: Any, root: Path) -> None:
    """From one folder to another over a server; a second time there is nothing to do."""
    publish(1)
    publish(2)
    server.raw.flushall()
    first = run("push", "--json")
    assert first.status == 0, first.err
    assert first.json.keys() == COPIED
    assert (first.json["entries"], first.json["blobs"]) == (2, 5)
    again = run("push")
    assert again.out.startswith("pushed 0 entries (2 were there already)")
    there = elsewhere()
    assert run("pull", "--key", key_of(1), "--json").json["entries"] == 1
    done = run("pull", "--since", "1h", "--json").json
    assert (done["entries"], done["skipped"]) == (1, 1)
    assert keys_in(there) == keys_in(root) == {key_of(1), key_of(2)}


@pytest.mark.parametrize("command", ["push", "pull", "ping"])
def test_without_a_url(run: Any, publish: Any, command: str) -> None:
    """One line that says what to set; exit status 2."""
    publish()
    ran = run(command)
    assert (ran.status, ran.out) == (2, "")
    assert "WARMGRAPH_URL is not set" in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("command", ["push", "pull", "ping"])
def test_a_server_that_is_gone(run: Any, publish: Any, server: Any, command: str, monkeypatch: Any) -> None:
    """A server that cannot be reached exits 1 and is named; no password is."""
    publish()
    server.stop()
    monkeypatch.setenv("WARMGRAPH_URL", f"redis://me:hunter2@127.0.0.1:{server.port}/0")
    ran = run(command)
    assert ran.status == 1
    assert ran.out == ""
    assert f"127.0.0.1:{server.port}" in ran.err
    assert "hunter2" not in ran.err


@pytest.mark.parametrize("command", ["push", "pull"])
def test_a_dying_server_tells_what_was_done(
    run: Any, publish: Any, server: Any, command: str, monkeypatch: pytest.MonkeyPatch, elsewhere: Any
) -> None:
    """What was copied before is told beside the reason; exit status 1; a second run does the rest."""
    publish(1)
    publish(2)
    server.raw.flushall()
    if command == "pull":
        assert run("push").status == 0
        elsewhere()
    target = DiskStore if command == "pull" else RedisStore
    original = target.put_entry

    def once(self: Any, *arguments: Any) -> None:
        original(self, *arguments)
        server.stop()

    monkeypatch.setattr(target, "put_entry", once)
    ran = run(command, "--json")
    assert ran.status == 1
    assert (ran.json["ok"], ran.json["entries"]) == (False, 1)
    assert str(server.port) in ran.json["error"]
    assert "Error: " in ran.err


def test_push_of_damage(run: Any, publish: Any, server: Any, files: Any) -> None:
    """A damaged local entry is passed by and told."""
    publish(1)
    publish(2)
    server.raw.flushall()
    files("entries")[0].write_bytes(b"\x1b[2Jgarbage")
    ran = run("push", "--json")
    assert (ran.status, ran.json["entries"], ran.json["damaged"]) == (0, 1, 1)
    assert "verify --fix" in ran.err


def test_push_where_only_reading_is_allowed(run: Any, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """WARMGRAPH_URL_MODE=readonly is kept to."""
    monkeypatch.setenv("WARMGRAPH_URL_MODE", "readonly")
    ran = run("push")
    assert ran.status == 2
    assert "WARMGRAPH_URL_MODE=readonly" in ran.err


def test_pull_believes_no_one_else(run: Any, server: Any, publish: Any, elsewhere: Any, monkeypatch: Any) -> None:
    """What is signed with a key that is not known here stays on the server, and the status says so."""
    publish(1)
    run("push")
    root = elsewhere()
    monkeypatch.setenv("WARMGRAPH_SIGNING_KEY", new_key())
    ran = run("pull")
    assert ran.status == 1
    assert "not trusted" in ran.err
    assert keys_in(root) == set()
