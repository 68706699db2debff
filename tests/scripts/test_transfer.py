"""export and import: real files and real pipes; what they say and how they exit. Push and pull: `test_push_pull`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from warmgraph.cache import DiskStore, Hit, StoreUnavailable, configure, new_key, open_cache, reset_settings

COPIED = {"version", "ok", "entries", "blobs", "bytes", "skipped", "incomplete", "damaged", "untrusted", "error"}


def key_of(number: int) -> str:
    return f"wg1{number:064x}"


@pytest.fixture
def bundle(run: Any, publish: Any, signed: str, tmp_path: Path) -> Path:
    """A signed bundle of two entries."""
    publish(1)
    publish(2)
    place = tmp_path / "bundle.wg"
    assert run("export", "--to", place).status == 0
    return place


def keys_in(root: Path) -> set[str]:
    return {file.key for file in DiskStore(root, readonly=True).scan()}


# -- export


def test_export_writes_a_private_file(run: Any, bundle: Path, tmp_path: Path) -> None:
    """The file is 0600, replaces what was there, leaves nothing beside it, and is summed up on stdout."""
    bundle.write_bytes(b"old")
    bundle.chmod(0o644)
    before = set(tmp_path.iterdir())
    ran = run("export", "--to", bundle)
    assert ran.status == 0
    assert re.fullmatch(r"exported 2 entries and 5 blobs, [\d.]+ kB\n", ran.out)
    assert ran.err == ""
    assert bundle.stat().st_mode & 0o777 == 0o600
    assert set(tmp_path.iterdir()) == before
    assert bundle.read_bytes().startswith(b"warmgraph bundle 2 default\n")


def test_export_json(run: Any, bundle: Path) -> None:
    """`export --json` counts, and has exactly its keys."""
    found = run("export", "--to", bundle, "--json").json
    assert found.keys() == COPIED
    assert (found["version"], found["ok"], found["entries"], found["blobs"]) == (1, True, 2, 5)
    assert found["bytes"] == bundle.stat().st_size


def test_export_of_a_selection(run: Any, publish: Any, signed: str, root: Path, tmp_path: Path) -> None:
    """--since is about the last use; --key about beginnings, with or without wg1; both together narrow."""
    for number in range(3):
        publish(number)
    os.utime(DiskStore(root).layout.entry(key_of(0), "v0"), (1e9, 1e9))
    place = tmp_path / "b"
    assert run("export", "--since", "1d", "--to", place, "--json").json["entries"] == 2
    assert run("export", "--key", key_of(0), "--key", key_of(1)[3:], "--to", place, "--json").json["entries"] == 2
    assert run("export", "--since", "1d", "--key", key_of(0), "--to", place, "--json").json["entries"] == 0
    assert run("export", "--since", "9000d", "--to", place).status == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--since", "soon"], "--since='soon'"),
        (["--key", "zz"], "--key='zz'"),
        (["--key", "wg2"], "--key='wg2'"),
        (["--key", "\x1b[2J"], "--key="),
    ],
)
def test_a_selection_that_cannot_be(run: Any, publish: Any, arguments: list[str], said: str, tmp_path: Path) -> None:
    """A wrong age or beginning exits 2 with one clean line, and writes nothing."""
    publish()
    ran = run("export", *arguments, "--to", tmp_path / "b")
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert "\x1b" not in ran.err
    assert not (tmp_path / "b").exists()


def test_export_without_a_key_says_so(run: Any, publish: Any, tmp_path: Path) -> None:
    """An unsigned bundle is made, with a word on what its import needs."""
    publish()
    ran = run("export", "--to", tmp_path / "b")
    assert ran.status == 0
    assert "WARMGRAPH_TRUST=network" in ran.err
    assert "keygen" in ran.err


def test_export_of_no_store_is_an_empty_bundle(run: Any, signed: str, root: Path, tmp_path: Path) -> None:
    """Where no store is yet a build does not fail: an empty bundle, and a word on stderr. Import takes it."""
    ran = run("export", "--to", tmp_path / "b")
    assert ran.status == 0
    assert "no store" in ran.err
    assert not root.exists()
    assert run("import", tmp_path / "b", "--json").json["entries"] == 0


def test_export_leaves_damage_out(run: Any, publish: Any, signed: str, files: Any, tmp_path: Path) -> None:
    """A damaged entry is told on stderr; the rest is exported. When there is no rest, the status is 1."""
    publish(1)
    publish(2)
    files("entries")[0].write_bytes(b"garbage")
    ran = run("export", "--to", tmp_path / "b", "--json")
    assert (ran.status, ran.json["entries"], ran.json["damaged"]) == (0, 1, 1)
    assert "left out 1 entries that are damaged" in ran.err
    assert "warmgraph verify --fix" in ran.err
    files("entries")[1].write_bytes(b"garbage")
    assert run("export", "--to", tmp_path / "b").status == 1


@pytest.mark.parametrize("place", ["/dev/null", "/"])
def test_export_replaces_no_device(run: Any, publish: Any, place: str) -> None:
    """Devices and folders are not replaced by a file: exit status 2."""
    publish()
    before = os.stat(place)
    ran = run("export", "--to", place)
    assert ran.status == 2
    assert os.path.samestat(before, os.stat(place))


def test_export_where_nothing_can_be_written(run: Any, publish: Any, tmp_path: Path) -> None:
    """A folder that is not there is one line, exit status 1."""
    publish()
    ran = run("export", "--to", tmp_path / "no" / "b")
    assert (ran.status, ran.out) == (1, "")
    assert f"cannot write {tmp_path}/no/b: No such file or directory" in ran.err


def test_a_failed_export_leaves_the_old_file(
    run: Any, bundle: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A store that fails in the middle leaves the bundle of yesterday, and no half of a new one."""
    before, beside = bundle.read_bytes(), set(tmp_path.iterdir())

    def fail(*_: object) -> None:
        raise StoreUnavailable("the disk is gone")

    monkeypatch.setattr(DiskStore, "blobs", fail)
    ran = run("export", "--to", bundle)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == "Error: the disk is gone\n"
    assert bundle.read_bytes() == before
    assert set(tmp_path.iterdir()) == beside


# -- import


def test_import_brings_hits(run: Any, bundle: Path, elsewhere: Any, signed: str) -> None:
    """What was exported here is hit there, and the command says that readers need the key."""
    root = elsewhere()
    ran = run("import", bundle)
    assert ran.status == 0
    assert re.fullmatch(rf"imported 2 entries and 5 blobs, [\d.]+ kB, to {root}\n", ran.out)
    assert ran.err == ""
    reset_settings()
    found = open_cache(configure(dir=root)).lookup(key_of(1), lambda entry: True)
    assert isinstance(found, Hit)
    assert root.stat().st_mode & 0o777 == 0o700


def test_import_into_a_namespace(run: Any, bundle: Path, elsewhere: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only of a bundle of that namespace, as its entries hold there alone; every folder above it is private."""
    root = elsewhere()
    monkeypatch.setenv("WARMGRAPH_NAMESPACE", "team")
    ran = run("import", bundle)
    assert ran.status == 1
    assert "WARMGRAPH_NAMESPACE=default" in ran.err
    bundle.write_bytes(bundle.read_bytes().replace(b"2 default\n", b"2 team\n", 1))
    assert run("import", bundle).status == 1, "their seals say so, too"
    assert keys_in(root / "ns" / "team") == keys_in(root) == set()
    assert root.stat().st_mode & 0o777 == 0o700
    root.chmod(0o777)
    assert run("import", bundle).status == 1


def test_pipes_between_processes(publish: Any, environment: Any, signed: str, elsewhere: Any, root: Path) -> None:
    """`export --to - | import -` carries everything; nothing but the bundle is on the pipe."""
    for number in range(5):
        publish(number)
    there = elsewhere()
    command = [sys.executable, "-m", "warmgraph"]
    out = subprocess.Popen(
        [*command, "export", "--to", "-"],
        env=environment(WARMGRAPH_SIGNING_KEY=signed, WARMGRAPH_DIR=root),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    done = subprocess.run(
        [*command, "import", "-", "--json"],
        env=environment(WARMGRAPH_SIGNING_KEY=signed, WARMGRAPH_DIR=there),
        stdin=out.stdout,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert out.stdout is not None
    assert out.stderr is not None
    out.stdout.close()
    said = out.stderr.read().decode()
    out.stderr.close()
    assert out.wait(60) == 0
    assert said.startswith("exported 5 entries")
    assert done.returncode == 0, done.stderr
    assert '"entries": 5' in done.stdout
    assert keys_in(there) == {key_of(number) for number in range(5)}


def test_a_reader_that_goes_away(publish: Any, environment: Any, root: Path) -> None:
    """`export --to - | head -c 10` ends quietly with status 141."""
    for number in range(40):
        publish(number, texts={"graph": os.urandom(20_000).hex()})
    process = subprocess.Popen(
        [sys.executable, "-m", "warmgraph", "export", "--to", "-"],
        env=environment(WARMGRAPH_DIR=root),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(10) == b"warmgraph "
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 141


def test_a_cut_bundle_exits_1(run: Any, bundle: Path, elsewhere: Any) -> None:
    """What came before the cut is kept and told; the status is 1."""
    root = elsewhere()
    bundle.write_bytes(bundle.read_bytes()[:-200])
    ran = run("import", bundle)
    assert ran.status == 1
    assert f"Error: {bundle}: it ends within frame" in ran.err
    assert "cut short" in ran.err
    assert "kept" in ran.err
    assert len(keys_in(root)) >= 1
    again = run("import", bundle, "--json")
    assert (again.status, again.json["ok"]) == (1, False)
    assert "cut short" in again.json["error"]


def test_an_unsigned_bundle_needs_a_word(
    run: Any, publish: Any, elsewhere: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused on one line that names both ways out; taken with WARMGRAPH_TRUST=network; nothing in between."""
    publish()
    run("export", "--to", tmp_path / "b")
    root = elsewhere()
    ran = run("import", tmp_path / "b")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.count("\n") == 1
    assert ran.err.startswith(f"Error: {tmp_path}/b: it is not signed")
    assert "WARMGRAPH_SIGNING_KEY_FILE" in ran.err
    assert "WARMGRAPH_TRUST=network" in ran.err
    assert keys_in(root) == set()
    monkeypatch.setenv("WARMGRAPH_TRUST", "network")
    assert run("import", tmp_path / "b").status == 0
    assert keys_in(root) == {key_of(1)}


def test_another_key_is_named(run: Any, bundle: Path, elsewhere: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signed with a key that is not known here: refused, with or without trust in the network."""
    root = elsewhere()
    monkeypatch.setenv("WARMGRAPH_SIGNING_KEY", new_key())
    for trust in ("signed", "network"):
        monkeypatch.setenv("WARMGRAPH_TRUST", trust)
        ran = run("import", bundle)
        assert (ran.status, ran.out) == (1, "")
        assert re.search(r"signed with key [0-9a-f]{32}, which is not known here", ran.err)
    assert keys_in(root) == set()


@pytest.mark.parametrize("data", [b"\x1b[2J\x1b]0;owned\x07" * 50, b"warmgraph bundle 1\n\x1b[2J", b""])
def test_a_hostile_bundle_reaches_no_terminal(run: Any, tmp_path: Path, data: bytes) -> None:
    """Whatever a file or its name holds, stderr holds printable lines."""
    place = tmp_path / "a\n\x1b[31m"
    place.write_bytes(data)
    ran = run("import", place)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.count("\n") == 1
    assert "\x1b" not in ran.err


def test_a_bundle_that_is_not_there(run: Any, tmp_path: Path, root: Path) -> None:
    """A missing file, or a folder, exits 2 and names it."""
    for place in (tmp_path / "none", tmp_path):
        ran = run("import", place)
        assert (ran.status, ran.out) == (2, "")
        assert "BUNDLE=" in ran.err


def test_import_keeps_within_bounds(run: Any, bundle: Path, elsewhere: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes in counts against WARMGRAPH_MAX_SIZE, and the command says what was evicted for it."""
    root = elsewhere()
    monkeypatch.setenv("WARMGRAPH_MAX_SIZE", "1KB")
    ran = run("import", bundle)
    assert ran.status == 0
    assert "WARMGRAPH_MAX_SIZE" in ran.err
    assert len(keys_in(root)) < 2


@pytest.mark.parametrize("variable", ["WARMGRAPH_DIR_MODE", "WARMGRAPH_MODE"])
def test_a_read_only_setting_is_kept_to(
    run: Any, bundle: Path, elsewhere: Any, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Where a setting says readonly nothing is written: one line that names it, exit status 2."""
    root = elsewhere()
    monkeypatch.setenv(variable, "readonly")
    ran = run("import", bundle)
    assert (ran.status, ran.out) == (2, "")
    assert f"{variable}=readonly" in ran.err
    assert not root.exists()


def test_json_and_stdout_do_not_go_together(run: Any, publish: Any) -> None:
    """`export --to - --json` is refused."""
    assert run("export", "--to", "-", "--json").status == 2


# -- what they load


@pytest.mark.parametrize("arguments", [["export", "--to", "b"], ["import", "b"], ["keygen"]], ids=lambda one: one[0])
def test_neither_torch_nor_redis(publish: Any, environment: Any, tmp_path: Path, arguments: list[str]) -> None:
    """Commands about files load neither torch nor redis nor, without a terminal, rich."""
    publish()
    command = [sys.executable, "-m", "warmgraph", "export", "--to", "b"]
    variables = environment(WARMGRAPH_TRUST="network")
    subprocess.run(command, cwd=tmp_path, env=variables, check=True, capture_output=True)
    program = "import sys; from warmgraph.scripts import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=tmp_path, env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert not set(done.stderr.split()) & {"torch", "numpy", "redis", "rich", "warmgraph.backend"}
