"""The command line as a whole: help, exit statuses, errors in settings, what it imports, how it is stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from warmgraph.scripts import main

COMMANDS = (
    *("audit", "top", "serve", "run", "warm", "doctor"),
    *("demo", "stats", "ls", "show", "verify", "prune", "export", "import"),
    *("push", "pull", "ping", "keygen", "config", "journal", "revoke", "revocations", "install-scripts"),
    *("explain", "diff", "lint"),
)
WITHOUT_TORCH = (["stats"], ["ls"], ["show", "wg1"], ["verify"], ["prune"], ["config"], ["journal"])
WITHOUT_TORCH = (*WITHOUT_TORCH, ["explain"], ["explain", "wg1"], ["diff", "wg1", "wg1"], ["lint"])
WITHOUT_TORCH = (*WITHOUT_TORCH, ["audit"])
NEEDED = {"audit": {"importlib.metadata"}}  # the document says which version made it
LIVE = ("top", "serve", "run", "install-scripts")  # what is shown as it goes, and is no answer to print
STATUSES = {"config": ["0", "2"], "run": ["2", "else"]}
PROGRAM = "import sys; from warmgraph.scripts import main; "


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_exit_statuses(run: Any, command: str) -> None:
    """`--help` of every command shows a call of it, `--json`, and what each exit status means."""
    ran = run(command, "--help")
    assert ran.status == 0
    example = ran.out.split("Example:")[1].split("Exit status:")[0]
    assert f"warmgraph {command}" in example
    assert ("--json" in ran.out) == (command not in LIVE)
    statuses = [line.split()[0] for line in ran.out.split("Exit status:")[1].splitlines() if line.strip()]
    assert statuses == STATUSES.get(command, ["0", "1", "2"])


def test_help_lists_every_command(run: Any) -> None:
    """`warmgraph --help` names every command on a line that is not cut short, and the statuses of signals."""
    ran = run("--help")
    listed = [line for line in ran.out.split("Commands:")[1].split("Example:")[0].splitlines() if line.strip()]
    assert sorted(line.split()[0] for line in listed) == sorted(COMMANDS)
    assert not any(line.endswith("...") for line in listed)
    assert "130" in ran.out
    assert "141" in ran.out


@pytest.mark.parametrize("arguments", [["bogus"], ["stats", "--bogus"], ["show"], ["ls", "--limit", "0"]])
def test_a_wrong_command_line_exits_2(run: Any, arguments: list[str]) -> None:
    """A command line that cannot be exits 2, with nothing on stdout and the way to help on stderr."""
    ran = run(*arguments)
    assert (ran.status, ran.out) == (2, "")
    assert "--help" in ran.err
    assert "Error: " in ran.err


def test_version(run: Any) -> None:
    """`--version` prints the name and the installed version."""
    from importlib.metadata import version

    assert run("--version").out == f"warmgraph {version('warmgraph')}\n"


def test_main_reads_the_process_arguments(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """`main()` without arguments takes those of the process, as the installed command does."""
    monkeypatch.setattr(sys, "argv", ["warmgraph", "config", "--json"])
    assert main() == 0
    assert json.loads(capsys.readouterr().out)["version"] == 1


@pytest.mark.parametrize(
    "command", [[sys.executable, "-m", "warmgraph"], [str(Path(sys.executable).parent / "warmgraph")]]
)
def test_the_installed_commands_run(command: list[str]) -> None:
    """`warmgraph` and `python -m warmgraph` are the same command line, and its status is the process's."""
    if not Path(command[0]).exists():
        pytest.skip("warmgraph is not installed beside this Python")
    good = subprocess.run([*command, "stats", "--json"], capture_output=True, text=True)
    assert good.returncode == 0
    assert json.loads(good.stdout)["entries"] == 0
    assert subprocess.run([*command, "bogus"], capture_output=True).returncode == 2


# -- settings


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("WARMGRAPH_MODE", "sometimes", "readwrite, readonly, refresh, off"),
        ("WARMGRAPH_MAX_SIZE", "much", "MB, GB"),
        ("WARMGRAPH_MAX_SIZE", "-1", "more than 0"),
        ("WARMGRAPH_NAMESPACE", "../up", "A-Z a-z 0-9"),
        ("WARMGRAPH_STRICT", "perhaps", "true"),
        ("WARMGRAPH_DIR", "/dev/null", "folder"),
        ("WARMGRAPH_DIR", "/dev/null/below", "folder"),
        ("WARMGRAPH_DIR", "", "folder"),
        ("WARMGRAPH_MODE", "two\nlines\x1b[31m", "readwrite"),
    ],
)
def test_a_wrong_setting_is_one_line_and_exits_2(
    run: Any, monkeypatch: pytest.MonkeyPatch, name: str, value: str, allowed: str
) -> None:
    """A setting that cannot be is named on one line of stderr, with its value and what is allowed."""
    monkeypatch.setenv(name, value)
    ran = run("stats", "--json")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert name in ran.err
    assert repr(value) in ran.err
    assert allowed in ran.err
    assert "\x1b" not in ran.err


@pytest.mark.parametrize("arguments", WITHOUT_TORCH, ids=lambda found: found[0])
def test_every_command_refuses_a_wrong_setting(run: Any, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    """No command goes on with an unknown mode."""
    monkeypatch.setenv("WARMGRAPH_MODE", "sometimes")
    ran = run(*arguments)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("Error: WARMGRAPH_MODE='sometimes'")


@pytest.mark.parametrize("value", ["much", "", "0", "5 XB", "-5GB"])
def test_a_wrong_max_size_names_the_option(run: Any, publish: Any, value: str) -> None:
    """`prune --max-size` with no size exits 2, names the option as it was typed, and removes nothing."""
    publish()
    ran = run("prune", f"--max-size={value}")
    assert (ran.status, ran.out) == (2, "")
    assert f"--max-size={value!r}" in ran.err
    assert "5GB" in ran.err
    assert ran.err.count("\n") == 1
    assert run("stats", "--json").json["entries"] == 1


def test_a_folder_that_others_can_write_exits_1(run: Any, root: Path) -> None:
    """A store that others could have put code into is refused on one line that says what to do."""
    root.mkdir(mode=0o700)
    root.chmod(0o777)
    for arguments in (["stats"], ["ls"], ["verify"], ["prune"]):
        ran = run(*arguments)
        assert (ran.status, ran.out) == (1, "")
        assert "chmod 700" in ran.err
        assert ran.err.count("\n") == 1


# -- imports


def _modules(arguments: list[str]) -> set[str]:
    program = PROGRAM + "main(sys.argv[1:]); print('\\n' + '\\n'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", WITHOUT_TORCH, ids=lambda found: found[0])
def test_torch_stays_unimported(publish: Any, journaled: Any, arguments: list[str]) -> None:
    """Every command but demo leaves torch, and the rooms that need it, unimported."""
    publish()
    journaled("hit")
    loaded = _modules(arguments)
    assert "warmgraph.scripts.cli" in loaded
    assert not loaded & {"torch", "numpy", "warmgraph.backend", "warmgraph.hashing", "redis"}


@pytest.mark.parametrize("arguments", WITHOUT_TORCH, ids=lambda found: found[0])
def test_json_loads_no_tables(publish: Any, journaled: Any, arguments: list[str]) -> None:
    """With `--json` no table is printed, and neither rich nor package metadata is imported."""
    publish()
    journaled("hit")
    loaded = _modules([*arguments, "--json"])
    assert not loaded & ({"rich", "importlib.metadata", "subprocess"} - NEEDED.get(arguments[0], set()))


@pytest.mark.parametrize("arguments", WITHOUT_TORCH, ids=lambda found: found[0])
def test_commands_work_where_torch_is_broken(publish: Any, arguments: list[str]) -> None:
    """Where `import torch` raises, every command but demo does its work."""
    publish()
    program = "import sys; sys.modules['torch'] = None; " + PROGRAM + "sys.exit(main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", program, *arguments, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# -- being stopped


def test_a_closed_pipe_ends_quietly(journaled: Any) -> None:
    """`warmgraph journal | head -1` prints a line and no traceback."""
    for number in range(2000):
        journaled("hit", pid=number, function="f" * 100)
    process = subprocess.Popen(
        [sys.executable, "-m", "warmgraph", "journal", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert json.loads(process.stdout.readline())["pid"] == 0
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 141


@pytest.mark.parametrize("arguments", [["stats"], ["stats", "--json"], ["ls"], ["--help"]], ids="-".join)
def test_a_pipe_closed_from_the_start_ends_quietly(publish: Any, arguments: list[str]) -> None:
    """A short output whose reader is already gone is no traceback either, not even as the interpreter ends."""
    publish()
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "warmgraph", *arguments], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("arguments", [["stats"], ["ls", "--json"], ["--help"]], ids="-".join)
def test_closed_streams_are_no_error(publish: Any, tmp_path: Path, arguments: list[str]) -> None:
    """As daemons and cron start programs: `warmgraph stats >&- 2>&-`."""
    publish()
    command = ["sh", "-c", '"$@" >&-', "sh", sys.executable, "-m", "warmgraph", *arguments]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    command[2] = '"$@" 2>&-'
    assert subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_under_stdout_is_one_line(publish: Any) -> None:
    """`warmgraph stats > file` on a full disk says so on one line and exits 1."""
    publish()
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "warmgraph", "stats"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1


def test_ctrl_c_exits_130(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command stopped with Ctrl-C exits 130 and says no more than that."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("warmgraph.scripts.store.command.summarise", stop)
    ran = run("stats")
    assert (ran.status, ran.out) == (130, "")
    assert ran.err.splitlines()[-1] == "stopped"


def test_sigint_exits_130(journaled: Any) -> None:
    """SIGINT to a real process that is writing ends it with status 130 and no traceback."""
    for number in range(2000):
        journaled("hit", pid=number, function="f" * 100)
    # A shell may have started the tests with SIGINT ignored, which children inherit.
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); " + PROGRAM
    program += "sys.exit(main(['journal', '--json']))"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it is in its loop, and soon waits for room in the pipe
        process.send_signal(2)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.strip() == b"stopped"


def test_no_command_raises_system_exit(run: Callable[..., Any]) -> None:
    """`main` returns a status for whatever it is given."""
    for arguments in ([], ["--help"], ["--version"], ["bogus"], ["show"], ["journal", "--since", "x"], ["stats"]):
        assert isinstance(run(*arguments).status, int)
