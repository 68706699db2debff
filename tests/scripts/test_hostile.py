"""Names from the store and the journal reach the terminal as text: no escape, no markup, no second line."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NAMES = {
    "clear": "\x1b[2Jgone",
    "title": "\x1b]0;owned\x07",
    "c1": "\x9b31mred",
    "markup": "[red]stop[/red]",
    "unbalanced": "[/]",
    "link": "[link=http://example.org]click[/link]",
    "line": "one\r\ntwo\u2028three",
    "bidi": "\u202egnp.exe",
    "surrogate": "caf\udce9",
    "emoji": ":warning:",
}


def _commands(key: str) -> list[list[str]]:
    shown = [["ls"], ["show", key], ["show", key, "--texts", "--graph"], ["journal"], ["stats"]]
    return shown + [[*command, "--json"] for command in shown]


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_stored_names_are_text(run: Any, publish: Any, journaled: Any, name: str) -> None:
    """Whatever a function, file, host, reason or text is called, stdout holds printable characters and newlines."""
    whole = name.encode("utf-8", "replace").decode()  # msgpack texts hold no surrogates
    key = publish(function=name, file=name, host=name, torch=name, texts={whole: whole}, graphs={whole: whole})
    journaled("miss", function=name, file=name, host=name, reason=name, detail=name, tier=name)
    for command in _commands(key):
        ran = run(*command)
        assert ran.status == 0
        assert all(line.isprintable() for line in (ran.out + ran.err).split("\n")), command
        if "--json" in command:
            assert all(line.isascii() for line in ran.out.splitlines())


@pytest.mark.parametrize("name", ["markup", "unbalanced", "link", "emoji"])
def test_markup_is_shown_as_it_is_written(run: Any, publish: Any, journaled: Any, name: str) -> None:
    """Square brackets and colons are the name's own: rich does not read them."""
    key = publish(function=NAMES[name])
    journaled("miss", function=NAMES[name])
    for command in (["ls"], ["show", key], ["journal"]):
        assert NAMES[name] in run(*command).out


def test_json_keeps_the_true_name(run: Any, publish: Any) -> None:
    """JSON has the name as it is, escaped; only what people read is cleaned."""
    publish(function=NAMES["clear"])
    assert run("ls", "--json").json["entries"][0]["function"] == NAMES["clear"]


def test_a_name_does_not_make_a_second_line(run: Any, publish: Any, journaled: Any) -> None:
    """A name with a line break cannot pretend to be another entry or event."""
    publish(function=NAMES["line"])
    journaled("miss", function=NAMES["line"], detail=NAMES["line"])
    assert run("ls").out.count("\n") == 2
    assert run("journal").out.count("\n") == 1


@pytest.mark.parametrize("name", ["clear", "title", "c1", "markup"])
def test_a_terminal_gets_no_escape_from_the_store(publish: Any, environment: Any, name: str) -> None:
    """On a real terminal, too, the only escapes are those of our own headers."""
    publish(function=NAMES[name])
    own, theirs = pty.openpty()
    command = [sys.executable, "-m", "warmgraph", "ls"]
    done = subprocess.Popen(command, stdout=theirs, env=environment(TERM="xterm", COLUMNS="100"))
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(own, 4096):
            shown += chunk
    except OSError:  # how Linux says that a terminal's other side is closed
        pass
    os.close(own)
    assert done.wait(60) == 0
    header, entry = shown.decode().splitlines()[:2]
    assert "key" in header
    assert "\x1b" not in entry
    assert "\x9b" not in entry
    assert name != "markup" or NAMES["markup"] in entry


def test_a_terminal_without_unicode_is_no_traceback(publish: Any, execute: Any) -> None:
    """A name that stdout's encoding lacks is written with escapes of its own."""
    publish(function="λ\x1b")
    ran = execute("ls", PYTHONIOENCODING="latin-1")
    assert (ran.status, ran.err) == (0, "")
    assert "\\u03bb\\ufffd:7" in ran.out


def test_a_folder_with_a_hostile_name(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store whose own path holds escapes and line breaks is named on one clean line."""
    monkeypatch.setenv("WARMGRAPH_DIR", str(tmp_path / "a\nb\x1b[2J[red]"))
    ran = run("ls")
    assert ran.status == 0
    assert ran.err.count("\n") == 1
    assert "\x1b" not in ran.err
    assert "[red]" in ran.err
    assert json.loads(run("config", "--json").out)["settings"]["dir"]["value"].endswith("\x1b[2J[red]")
    assert "\x1b" not in run("config").out
