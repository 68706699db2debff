"""ping and keygen: what they tell of a real server, and files of keys that are never lost."""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from warmgraph.cache import RedisStore, new_key, parse_keys

KEY = re.compile(r"wgk1-[0-9a-f]{64}")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: Any) -> Iterator[Any]:
    """A server and a signing key, in the environment."""
    with servers.server(tmp_path / "redis", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru") as one:
        monkeypatch.setenv("WARMGRAPH_URL", f"{one.url}?socket_timeout=5")
        monkeypatch.setenv("WARMGRAPH_SIGNING_KEY", f"{new_key()} {new_key()}")
        yield one


# -- ping


def test_ping_for_people(run: Any, server: Any, looked: Any) -> None:
    """A healthy server: its figures, no advice, exit status 0; what was written to measure is gone."""
    ran = looked(lambda: run("ping"), lambda ran: not ran.err)
    assert (ran.status, ran.err) == (0, "")
    rows = {line[:16].strip(): line[16:].strip() for line in ran.out.splitlines()}
    assert rows["server"].startswith(f"redis://127.0.0.1:{server.port}")
    assert re.search(r"[\d.]+ ms, at worst [\d.]+ ms", rows["round trip"])
    assert rows["up"].endswith("B/s")
    assert rows["down"].endswith("B/s")
    assert (rows["may read"], rows["may write"], rows["saves to disk"]) == ("yes", "yes", "no")
    assert rows["memory"].endswith("limit 104.9 MB")
    assert rows["when full"] == "allkeys-lru"
    assert rows["signing key"].count("signs") == rows["signing key"].count("is accepted") == 1
    assert [name for name in server.raw.keys() if b":b:" in name] == []  # noqa: SIM118


def test_ping_json(run: Any, server: Any, looked: Any) -> None:
    """`ping --json` has the server's figures as numbers, and the keys' ids."""
    found = looked(lambda: run("ping", "--json").json, lambda found: not found["advice"])
    assert found.keys() == {"version", "ok", "server", "keys", "advice"}
    assert (found["version"], found["ok"], found["advice"]) == (1, True, [])
    assert found["keys"] == parse_keys(os.environ["WARMGRAPH_SIGNING_KEY"]).ids()
    told = found["server"]
    assert 0 < told["round_trip_seconds"] <= told["round_trip_worst_seconds"]
    assert told["bytes_per_second_up"] > 0
    assert (told["can_read"], told["can_write"], told["tls"]) == (True, True, False)


def test_unwise_settings_are_told(run: Any, server: Any) -> None:
    """What is unwise comes with what to do, and is no failure."""
    server.raw.config_set("maxmemory-policy", "noeviction")
    ran = run("ping")
    assert ran.status == 0
    assert "TIP: " in ran.err
    assert "allkeys-lru" in ran.err
    assert run("ping", "--json").json["advice"]


def test_a_reader_may_only_read(run: Any, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who may not write is told how to say so; with the setting there is nothing to tell."""
    server.raw.execute_command("ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@read", "+ping", "+info", "+select")
    monkeypatch.setenv("WARMGRAPH_URL", f"redis://reader:pw@127.0.0.1:{server.port}/0?socket_timeout=5")
    ran = run("ping")
    assert ran.status == 0, ran.err
    assert "WARMGRAPH_URL_MODE=readonly" in ran.err
    monkeypatch.setenv("WARMGRAPH_URL_MODE", "readonly")
    assert "WARMGRAPH_URL_MODE" not in run("ping").err


def test_who_may_not_read_exits_1(run: Any, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that cannot be used is a failure."""
    server.raw.execute_command("ACL", "SETUSER", "nobody", "on", ">pw", "~*", "+ping", "+info", "+select")
    monkeypatch.setenv("WARMGRAPH_URL", f"redis://nobody:pw@127.0.0.1:{server.port}/0?socket_timeout=5")
    ran = run("ping")
    assert ran.status == 1
    assert ran.err
    assert "pw@" not in ran.out + ran.err


def test_a_wrong_password_exits_1(run: Any, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told, and the password is not."""
    server.raw.config_set("requirepass", "secret")
    monkeypatch.setenv("WARMGRAPH_URL", f"redis://:hunter2@127.0.0.1:{server.port}/0?socket_timeout=5")
    ran = run("ping")
    assert (ran.status, ran.out) == (1, "")
    assert "hunter2" not in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("value", ["\x1b[2Jx\n", 7, None, [1], {"a": 1}, True, -1.5, 10**30])
def test_whatever_a_server_says_is_text(run: Any, server: Any, monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    """A server may answer anything: the table holds printable text, and there is no traceback."""
    names = "url kind version mode tls local bytes_per_second_up bytes_per_second_down can_write maxmemory used_memory "
    names += "maxmemory_policy persistence evicted_keys"
    found = dict.fromkeys(names.split(), value) | {"can_read": True, "round_trip_seconds": value}
    monkeypatch.setattr(RedisStore, "ping", lambda self: dict(found))
    ran = run("ping")
    assert ran.status == 0
    assert all(line.isprintable() for line in (ran.out + ran.err).splitlines())
    assert run("ping", "--json").json["server"]["can_read"]


# -- keygen


def test_a_key_on_stdout(run: Any) -> None:
    """Only the key is on stdout; its id and what to set are on stderr; each is another."""
    ran = run("keygen")
    assert ran.status == 0
    secret, public = ran.out.split()
    assert (secret[:5], public[:5]) == ("wgs1-", "wgp1-")
    assert parse_keys(secret).ids() == parse_keys(public).ids() == parse_keys(ran.out).ids()
    assert parse_keys(ran.out).ids()[0] in ran.err
    assert "WARMGRAPH_SIGNING_KEY_FILE" in ran.err
    assert secret not in ran.err
    assert KEY.fullmatch(run("keygen", "--shared").out.removesuffix("\n"))
    assert run("keygen").out != ran.out


def test_a_key_in_a_file(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """0600 whatever the umask; usable as it is; the key itself is not shown."""
    place = tmp_path / "key"
    mask = os.umask(0)
    try:
        ran = run("keygen", "--to", place)
    finally:
        os.umask(mask)
    assert (ran.status, ran.out) == (0, "")
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    (name,) = parse_keys(place.read_text()).ids()
    assert name in ran.err
    assert f"WARMGRAPH_SIGNING_KEY_FILE={place}" in ran.err
    assert "wgs1-" not in ran.err
    public = tmp_path / "key.pub"
    assert stat.S_IMODE(public.stat().st_mode) == 0o644
    assert "wgs1-" not in public.read_text()
    assert parse_keys(public.read_text()).ids() == [name]
    monkeypatch.setenv("WARMGRAPH_SIGNING_KEY_FILE", str(place))
    assert run("config").status == 0


def test_keygen_json(run: Any, tmp_path: Path) -> None:
    """The key where it was asked for on stdout, its place where it was written to a file."""
    found = run("keygen", "--json").json
    assert found.keys() == {"version", "id", "file", "key", "public"}
    assert parse_keys(found["key"]).ids() == parse_keys(found["public"]).ids() == [found["id"]]
    written = run("keygen", "--to", tmp_path / "k", "--json").json
    public = (tmp_path / "k.pub").read_text().split()[0]
    name = parse_keys((tmp_path / "k").read_text()).ids()[0]
    assert written == {"version": 1, "id": name, "file": f"{tmp_path}/k", "public": public}


def test_a_file_is_never_overwritten(run: Any, tmp_path: Path) -> None:
    """What is there stays, be it a key, a folder or a link to nowhere."""
    place = tmp_path / "key"
    run("keygen", "--to", place)
    before = place.read_bytes()
    ran = run("keygen", "--to", place)
    assert ran.status == 2
    assert "--add" in ran.err
    assert place.read_bytes() == before
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for other in (tmp_path, tmp_path / "link"):
        assert run("keygen", "--to", other).status == 2
    assert not (tmp_path / "nowhere").exists()


def test_rotation(run: Any, tmp_path: Path) -> None:
    """--add puts the new key first; old ones, comments and the file's mode stay; a link stays a link."""
    place = tmp_path / "key"
    run("keygen", "--to", place)
    place.write_text("# ours\n" + place.read_text())
    old = place.read_text()
    (tmp_path / "link").symlink_to(place)
    ran = run("keygen", "--to", tmp_path / "link", "--add")
    assert (ran.status, ran.out) == (0, "")
    new = place.read_text()
    assert new.endswith(old)
    ids = parse_keys(new).ids()
    assert len(ids) == 2
    assert ids[0] in ran.err
    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.glob("*k*")) == ["key", "key.pub", "link"]
    place.chmod(0o400)
    assert run("keygen", "--to", place, "--add").status == 0
    assert stat.S_IMODE(place.stat().st_mode) == 0o400


def test_add_needs_a_file_of_keys(run: Any, tmp_path: Path) -> None:
    """No file, no name, a file of something else, one that others can read: refused, and left as it is."""
    other = tmp_path / "notes"
    other.write_text("hello\n")
    other.chmod(0o600)
    wide = tmp_path / "wide"
    wide.write_text(new_key())
    wide.chmod(0o644)
    for arguments, said in (
        (["--to", tmp_path / "none", "--add"], "leave out --add"),
        (["--add"], "--to FILE"),
        (["--to", other, "--add"], "is not a key"),
        (["--to", wide, "--add"], "chmod 600"),
        (["--to", tmp_path / "no" / "key"], "No such file"),
    ):
        before = [path.read_bytes() for path in (other, wide)]
        ran = run("keygen", *arguments)
        assert ran.status in (1, 2), said
        assert ran.out == ""
        assert said in ran.err
        assert [path.read_bytes() for path in (other, wide)] == before


def test_two_at_once_lose_no_key(execute: Any, tmp_path: Path) -> None:
    """Each key is in the file, and its public half in the other: a refusal at the second leaves half a pair."""
    place = tmp_path / "key"
    assert execute("keygen", "--to", place).status == 0
    ran: list[Any] = []
    threads = [threading.Thread(target=lambda: ran.append(execute("keygen", "--to", place, "--add"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    ids = set(parse_keys(place.read_text()).ids())
    told = [re.search(r"key id ([0-9a-f]{32})", one.err) for one in ran]
    assert [one.status for one in ran] == [0] * 6
    assert {match[1] for match in told if match} < ids
    assert len(told) + 1 == len(ids)
    assert set(parse_keys(place.with_name("key.pub").read_text()).ids()) == ids


def test_keygen_needs_no_settings(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server without a key is refused elsewhere; here the key is made."""
    monkeypatch.setenv("WARMGRAPH_URL", "redis://elsewhere:6379/0")
    monkeypatch.setenv("WARMGRAPH_MODE", "sometimes")
    assert run("keygen").status == 0
