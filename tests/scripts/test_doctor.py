"""`warmgraph doctor`: what is wrong is found, with what to do; what is right is not complained of."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from warmgraph.cache import ONE_DEVICE, DiskStore, new_key, parse_keys, reset_settings
from warmgraph.cache.stores.disk.mount import file_system_of
from warmgraph.scripts.doctor.command import Check, Finding, Verdict, examine, ok
from warmgraph.scripts.doctor.devices import check_devices
from warmgraph.scripts.doctor.server import check_server
from warmgraph.scripts.doctor.settings import check_environment, check_settings, check_signing
from warmgraph.scripts.doctor.store import check_folder, check_limits, check_torch_folder
from warmgraph.scripts.doctor.toolchain import _bytecode, check_compiler, check_python, check_torch

ROOT = Path(__file__).resolve().parent.parent.parent


def found(check: Callable[[], Iterator[Finding]]) -> dict[str, Finding]:
    """What a check finds now, the worst of each name."""
    reset_settings()
    worst = list(Verdict)
    findings = sorted(check(), key=lambda finding: worst.index(finding.verdict))
    assert all((finding.advice is None) == (finding.verdict is Verdict.OK) for finding in findings)
    return {finding.check: finding for finding in findings}


def is_ok(finding: Finding) -> bool:
    return finding.verdict is Verdict.OK


# -- the command


def test_a_sound_host_has_no_problem(execute: Any) -> None:
    """In a process of its own, with the real torch and compiler: every check is made, and the status is 0."""
    ran = execute("doctor", "--json")
    assert ran.status == 0, ran.out
    assert (ran.json["version"], ran.json["ok"], ran.err) == (1, True, "")
    named = {finding["check"] for finding in ran.json["findings"]}
    assert named >= {"python", "torch", "backend", "triton", "compiler", "settings", "environment", "signing"}
    assert named >= {"folder", "inductor", "limits", "server"}
    assert not [finding for finding in ran.json["findings"] if finding["verdict"] == "problem"]


def test_a_problem_exits_1_and_says_what_to_do(no_torch: Callable[..., Any]) -> None:
    """A line for what was found and one for what to do. Where torch was never installed all the rest is checked."""
    done = no_torch("doctor")
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    (place,) = [number for number, line in enumerate(lines) if line.startswith("problem")]
    assert re.match(r"problem +torch +not installed", lines[place])
    assert re.match(r" +-> install it", lines[place + 1])
    assert re.search(r"^ok +server", done.stdout, re.MULTILINE)
    assert json.loads(no_torch("doctor", "--json").stdout)["ok"] is False


@pytest.fixture
def no_torch(tmp_path: Path) -> Callable[..., Any]:
    """Runs a command where everything is installed but torch."""
    links = tmp_path / "site-packages"
    links.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith("torch"):
            (links / path.name).symlink_to(path)
    program = f"import sys; sys.path += [{str(links)!r}, {str(ROOT)!r}]; from warmgraph.scripts import main; "
    command = [sys.executable, "-S", "-c", f"{program} sys.exit(main(sys.argv[1:]))"]
    return lambda *arguments: subprocess.run([*command, *arguments], capture_output=True, text=True, cwd=tmp_path)


def test_a_check_that_hangs_or_breaks_hides_no_other(capsys: Any) -> None:
    """What it had found by then is told, and that it did not end."""

    def hangs() -> Iterator[Finding]:
        yield ok("first", "fine")
        time.sleep(30)

    def breaks() -> Iterator[Finding]:
        yield ok("second", "fine")
        raise RuntimeError("on purpose")

    slow = list(examine(Check("slow", hangs, 2.0)))
    assert [finding.verdict for finding in slow] == [Verdict.OK, Verdict.PROBLEM]
    assert "2 s" in slow[1].found
    broken = list(examine(Check("broken", breaks, 5.0)))
    assert [finding.verdict for finding in broken] == [Verdict.OK, Verdict.PROBLEM]
    assert "RuntimeError: on purpose" in broken[1].found


# -- Python, torch, the compiler


def test_modules_without_bytecode_are_a_warning(tmp_path: Path) -> None:
    """Images are built without it; with it, or with the interpreter's own way of keeping none, nothing is said."""
    (told,) = _bytecode(str(tmp_path / "toolchain.pyc"))
    assert told.verdict is Verdict.WARNING
    assert told.advice is not None and f"compileall -q {ROOT}/" in told.advice
    (tmp_path / "toolchain.pyc").touch()
    assert list(_bytecode(str(tmp_path / "toolchain.pyc"))) == list(_bytecode(None)) == []


def test_a_torch_that_does_not_import_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The last line of what it said is told."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('libcudart.so.13: cannot open')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    broken = found(check_torch)["torch"]
    assert broken.verdict is Verdict.PROBLEM
    assert "libcudart.so.13: cannot open" in broken.found


def test_a_missing_compiler_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hits need none. One that is there and does not run is no better."""
    assert is_ok(found(check_python)["python"])
    monkeypatch.delenv("CXX", raising=False)
    assert is_ok(found(check_compiler)["compiler"])
    broken = tmp_path / "broken-cc"
    broken.write_text("#!/bin/sh\necho no licence >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    assert "no licence" in found(check_compiler)["compiler"].found
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = found(check_compiler)["compiler"]
    assert missing.verdict is Verdict.WARNING
    assert "apt-get install g++" in (missing.advice or "")


# -- settings


def test_a_wrong_setting_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As the message of the setting itself; a key file that others can read is one."""
    assert is_ok(found(check_settings)["settings"])
    wide = tmp_path / "key"
    wide.write_text(new_key())
    wide.chmod(0o644)
    for name, value, said in (
        ("WARMGRAPH_MODE", "sometimes", "readwrite"),
        ("WARMGRAPH_MODE", "off", "nothing is cached"),
        ("WARMGRAPH_SIGNING_KEY_FILE", str(wide), "chmod 600"),
        ("WARMGRAPH_URL", "redis://127.0.0.1:1/0", "warmgraph keygen"),
    ):
        with monkeypatch.context() as only:
            only.setenv(name, value)
            told = found(check_settings)["settings"]
            assert (told.verdict, said in told.found) == (Verdict.PROBLEM, True), told
            assert found(check_folder).keys() <= {
                "folder",
                "disk",
                "clock",
                "locks",
            }  # says nothing of what it cannot know


def test_what_works_against_the_cache_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of torch, and names that are none of ours, with the one that was meant."""
    for name in [name for name in os.environ if name.startswith("TORCH")]:
        monkeypatch.delenv(name)
    assert is_ok(found(check_environment)["environment"])
    for name, value, verdict, said in (
        ("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1", Verdict.PROBLEM, "unset it"),
        ("TORCH_COMPILE_DISABLE", "1", Verdict.PROBLEM, "unset it"),
        ("TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE", "1", Verdict.WARNING, "unset it"),
        ("WARMGRAPH_DIR", "store", Verdict.WARNING, "from / on"),
        ("WARMGRAPH_DIRECTORY", "/x", Verdict.WARNING, "did you mean WARMGRAPH_DIR?"),
        ("WARMGRAPH_REDIS_ADDRESS", "/x", Verdict.WARNING, "warmgraph config"),
    ):
        with monkeypatch.context() as only:
            only.setenv(name, value)
            told = found(check_environment)["environment"]
            assert (told.verdict, said in (told.advice or "")) == (verdict, True), told
    monkeypatch.setenv("TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE", "0")
    assert is_ok(found(check_environment)["environment"])


def test_every_setting_that_is_documented_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a new one is not called a typing error."""
    text = "".join(path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))
    names = set(re.findall(r"\bWARMGRAPH_[A-Z_]*[A-Z]\b", text))
    assert "WARMGRAPH_DIR_MODE" in names
    for name in names:
        monkeypatch.setenv(name, "x")
    told = [finding.found for finding in check_environment() if "is not a setting" in finding.found]
    assert told == []


def test_trusting_the_network_is_told(monkeypatch: pytest.MonkeyPatch, signed: str) -> None:
    """With a server, and whether or not there is a key."""
    assert signed not in str(found(check_signing))
    assert parse_keys(signed).ids()[0] in found(check_signing)["signing"].found
    monkeypatch.setenv("WARMGRAPH_URL", "redis://127.0.0.1:1/0")
    assert is_ok(found(check_signing)["signing"])
    monkeypatch.setenv("WARMGRAPH_TRUST", "network")
    assert found(check_signing)["signing"].verdict is Verdict.WARNING


# -- devices


def test_ranks_that_compile_for_their_own_devices_are_told(root: Path, journaled: Callable[..., None]) -> None:
    """Once two of them did it for one function; and what to do."""
    assert found(check_devices) == {}
    where = {"reason": "absent", "function": "step", "file": "/src/t.py"}
    journaled("miss", **where, detail=f"{ONE_DEVICE}cuda:0")
    assert is_ok(found(check_devices)["devices"])
    journaled("miss", **where, detail=f"{ONE_DEVICE}cuda:3")
    journaled("miss", **(where | {"function": "other"}), detail=f"{ONE_DEVICE}cuda:3")
    told = found(check_devices)["devices"]
    assert told.found == "step (/src/t.py): compiled within a day for each of cuda:0, cuda:3"
    assert "TORCH_COMPILE_ON_ONE_RANK=1" in (told.advice or "")


# -- the folder


def test_a_sound_folder_is_left_as_it_was(root: Path) -> None:
    """One that is not there is not made; one that is there holds nothing new."""
    assert is_ok(found(check_folder)["folder"])
    assert not root.exists()
    root.mkdir(mode=0o700)
    assert all(map(is_ok, found(check_folder).values()))
    assert list(root.iterdir()) == []


def test_a_folder_without_locks_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lustre without `-o flock`, NFS without lockd: all is kept there, and nobody waits for anybody."""

    def refused(*_: object) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    DiskStore(root)
    monkeypatch.setattr("warmgraph.scripts.doctor.store.fcntl.flock", refused)
    told = found(check_folder)
    assert is_ok(told["folder"])
    assert "-o flock" in told["locks"].advice


def test_a_folder_that_others_can_write_is_a_problem(root: Path) -> None:
    """With the command that puts it right."""
    root.mkdir()
    root.chmod(0o777)
    told = found(check_folder)["folder"]
    assert told.verdict is Verdict.PROBLEM
    assert f"chmod 700 {root}" in told.found


def test_a_file_where_the_folder_should_be_is_a_problem(root: Path) -> None:
    root.write_text("")
    told = [*found(check_settings).values(), *found(check_folder).values()]
    assert [finding.verdict for finding in told] == [Verdict.PROBLEM]


def test_files_from_the_future_are_told(root: Path, publish: Any) -> None:
    """They are what a wrong clock leaves, here or on the server of a network disk."""
    publish()
    assert is_ok(found(check_folder)["clock"])
    entry = next(path for path in (root / "entries").rglob("*") if path.is_file())
    os.utime(entry, (time.time() + 7200, time.time() + 7200))
    told = found(check_folder)["clock"]
    assert told.verdict is Verdict.WARNING
    assert re.search(r"7\d\d\d s ahead of", told.found)


def test_a_mount_without_exec_is_a_problem(mounted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are loaded where they lie. torch's own folder is no better there."""
    folder = mounted("size=1m,mode=700,noexec")
    monkeypatch.setenv("WARMGRAPH_DIR", str(folder))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder / "torch"))
    told = found(check_folder)
    assert told["noexec"].verdict is Verdict.PROBLEM
    assert told["disk"].verdict is Verdict.WARNING  # and a megabyte is little
    assert is_ok(told["folder"])
    assert found(check_torch_folder)["inductor"].verdict is Verdict.PROBLEM


def test_a_mount_that_is_read_only_is_a_problem(mounted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the folder is used readonly."""
    folder = mounted("ro,mode=700")
    monkeypatch.setenv("WARMGRAPH_DIR", str(folder))
    assert found(check_folder)["folder"].verdict is Verdict.PROBLEM
    monkeypatch.setenv("WARMGRAPH_DIR_MODE", "readonly")
    assert all(map(is_ok, found(check_folder).values()))


def test_file_systems_are_told_apart() -> None:
    """By the mount that is nearest; of two at one place by the later. Spaces are written as in the kernel's list."""
    mounts = "\n".join(
        [
            "21 1 8:1 / / rw - ext4 /dev/sda1 rw",
            "30 21 0:40 / /mnt rw shared:1 - nfs4 server:/x rw",
            "31 30 0:41 / /mnt/my\\040disk rw - xfs /dev/sdb rw",
            "32 31 0:42 / /mnt/my\\040disk rw - tmpfs tmpfs rw",
            "nonsense",
        ]
    )
    kinds = {place: file_system_of(Path(place), mounts) for place in ("/home", "/mnt/a", "/mnt/my disk/b", "/mntx")}
    assert kinds == {
        "/home": (Path("/"), "ext4"),
        "/mnt/a": (Path("/mnt"), "nfs4"),
        "/mnt/my disk/b": (Path("/mnt/my disk"), "tmpfs"),
        "/mntx": (Path("/"), "ext4"),
    }


def test_limits_are_told(execute: Any) -> None:
    """Of this process, as a shell or a scheduler set them."""
    assert is_ok(found(check_limits)["limits"])
    program = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); " + (
        "from warmgraph.scripts.doctor.store import check_limits; print(*check_limits())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "64 open files" in done.stdout
    assert "ulimit -n" in done.stdout


# -- the server


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: Any, signed: str) -> Iterator[Any]:
    """A well set up server and a signing key, in the environment."""
    with servers.server(tmp_path / "redis", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru") as one:
        monkeypatch.setenv("WARMGRAPH_URL", f"{one.url}?socket_timeout=5")
        yield one


def test_no_server_is_no_problem() -> None:
    assert is_ok(found(check_server)["server"])


def test_a_sound_server_is_left_as_it_was(server: Any, looked: Any) -> None:
    """What was written to measure is gone."""
    assert looked(lambda: all(map(is_ok, found(check_server).values())), bool)
    assert [name for name in server.raw.keys() if b":b:" in name] == []  # noqa: SIM118


def test_unwise_settings_of_a_server_are_warnings(server: Any, looked: Any) -> None:
    """What `ping` advises, one finding each."""
    server.raw.config_set("maxmemory-policy", "noeviction")
    server.raw.config_set("maxmemory", "0")

    def look() -> list[Finding]:
        return [finding for finding in check_server() if finding.verdict is Verdict.WARNING]

    warnings = looked(look, lambda warnings: len(warnings) == 2)
    assert len(warnings) == 2
    assert {"noeviction", "maxmemory"} <= set(re.findall(r"noeviction|maxmemory", str(warnings)))


def test_rights_that_are_missing_are_told(server: Any, monkeypatch: pytest.MonkeyPatch, looked: Any) -> None:
    """Who may not read has a problem; who may not write a warning, unless it is meant so."""
    acl = ("ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@read", "+ping", "+info", "+select", "+time")
    server.raw.execute_command(*acl)
    monkeypatch.setenv("WARMGRAPH_URL", f"redis://reader:pw@127.0.0.1:{server.port}/0?socket_timeout=5")
    assert "URL_MODE=readonly" in str(found(check_server)["server"])
    assert found(check_server)["server"].verdict is Verdict.WARNING
    monkeypatch.setenv("WARMGRAPH_URL_MODE", "readonly")
    assert looked(lambda: all(map(is_ok, found(check_server).values())), bool)
    server.raw.execute_command("ACL", "SETUSER", "reader", "-@read")
    told = found(check_server)["server"]
    assert told.verdict is Verdict.PROBLEM
    assert "pw@" not in str(told)


def test_a_server_that_is_gone_is_a_problem(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server.stop()
    monkeypatch.setenv("WARMGRAPH_URL", server.url)
    assert found(check_server)["server"].verdict is Verdict.PROBLEM


def test_entries_of_strangers_are_told(server: Any, monkeypatch: pytest.MonkeyPatch, publish: Any, signed: str) -> None:
    """Those signed with a key that is not known here; the number looked at, too."""
    publish(1)
    publish(2)
    assert found(check_server)["entries"].found.startswith("all of the 2")
    monkeypatch.setenv("WARMGRAPH_SIGNING_KEY", new_key())
    told = found(check_server)["entries"]
    assert (told.verdict, "2 of the 2" in told.found) == (Verdict.PROBLEM, True)
    monkeypatch.setenv("WARMGRAPH_SIGNING_KEY", f"{new_key()} {signed}")
    assert is_ok(found(check_server)["entries"])


def test_a_clock_that_is_wrong_is_told(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's against this host's."""
    shift = "import time; real = time.time; time.time = lambda: real() + 120\n"
    program = shift + "from warmgraph.scripts.doctor.server import check_server; print(*check_server(), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert re.search(r"its clock is 1[12]\d s behind this host's", done.stdout), done.stdout


def test_a_torch_that_nobody_tested_is_a_warning_and_one_that_has_moved_a_problem():
    """Both name the version; what works is used."""
    from warmgraph.scripts.doctor import toolchain

    told = {
        "version": "9.1.0",
        "built_for": "CPU",
        "unsupported": None,
        "untested": "torch 9.1.0 was not tested",
        "frames": "frames are restored on torch 2.13 only; this is 9.1.0",
        "caches_disabled": False,
        "listed": True,
        "entry_point": None,
        "devices": [],
        "triton": {"version": None, "error": None},
    }
    first, *others = toolchain._judged(told)
    assert (first.verdict, "9.1.0" in first.found) == (Verdict.WARNING, True)
    assert ["2.13 only" in one.found for one in others if one.check == "frames"] == [True]
    first = next(toolchain._judged({**told, "unsupported": "torch 9.1.0 is not as warmgraph needs it"}))
    assert (first.verdict, "nothing is cached" in first.found) == (Verdict.PROBLEM, True)
