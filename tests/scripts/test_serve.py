"""`warmgraph serve` as a command: where it listens, whom it refuses, how it ends."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest
from warmgraph.cache import Event, Journal, Outcome, flush, open_journaled, reset_settings, settings

PROMISED = 130  # of any command that Ctrl-C ends


@contextmanager
def serving(environment, *arguments, **variables):
    """The process and its address, once it serves; killed at the end if it did not end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "warmgraph", "serve", "--port", "0", *map(str, arguments)],
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        told = process.stderr.readline()
        match = re.search(r"http://\S+/", told)
        assert match, told + process.stderr.read()
        yield process, match[0]
    finally:
        process.kill()
        process.communicate()


def test_it_serves_on_loopback_until_ctrl_c(environment):
    """Nothing on stdout, one line on stderr, and 130 without a traceback."""
    with serving(environment) as (process, address):
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=10) as answer:
            assert b"<h1" in answer.read()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (PROMISED, "", "stopped\n")


def test_sigterm_ends_it_as_well(environment):
    """As a container's first process, which gets only the signals that it asks for; that is no failure."""
    with serving(environment) as (process, _):
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_public_address_needs_a_token(host, run):
    """Refused with what to do; a mistake is no reason to show everybody function names."""
    ran = run("serve", "--host", host)
    assert ran.status == 2
    assert "--token-file" in ran.err


def test_a_public_address_with_a_token_is_served(environment, tmp_path):
    """Whoever knows the token is answered; who does not is not."""
    token = tmp_path / "token"
    token.write_text("correct-horse-battery\n")
    token.chmod(0o600)
    with serving(environment, "--host", "0.0.0.0", "--token-file", token) as (_, address):
        address = address.replace("0.0.0.0", "127.0.0.1")
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            urllib.request.urlopen(address, timeout=10)
        refused.value.close()
        asked = urllib.request.Request(address, headers={"Authorization": "Bearer correct-horse-battery"})
        with urllib.request.urlopen(asked, timeout=10) as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ("correct-horse-battery", 0o644, "others can read"),
        ("short", 0o600, "16 or more"),
        ("a b" * 9, 0o600, "16 or more"),
    ],
)
def test_a_token_that_is_none_is_refused(text, mode, why, run, tmp_path):
    """One that others can read, one that can be guessed, one that no header can carry."""
    token = tmp_path / "token"
    token.write_text(text)
    token.chmod(mode)
    ran = run("serve", "--token-file", token)
    assert (ran.status, why in ran.err, text in ran.err) == (2, True, False)


def test_a_port_in_use_is_one_line(run):
    """With another port to take."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = run("serve", "--port", taken.getsockname()[1])
    assert (ran.status, ran.err.count("\n")) == (1, 1)
    assert "is in use: choose another with --port" in ran.err


def test_a_host_that_is_none_of_ours_is_refused(run):
    """Not looked for on the network for long, and no traceback."""
    ran = run("serve", "--host", "no host")
    assert ran.status == 2


def test_the_fleets_journal_is_served(environment, servers, tmp_path, monkeypatch):
    """With --fleet, events of all hosts from Redis; without a server in the settings, one line."""
    with servers.server(tmp_path / "redis") as server:
        fleet = {"WARMGRAPH_URL": server.patient_url, "WARMGRAPH_TRUST": "network"}
        for name, value in fleet.items():
            monkeypatch.setenv(name, value)
        reset_settings()
        _, journal = open_journaled(settings())
        assert isinstance(journal, Journal)
        for number in range(30):
            journal.append(Event(Outcome.HIT, host=f"host-{number % 3}", tier="redis", seconds_saved=2.0))
        assert flush()
        with serving(environment, "--fleet", **fleet) as (_, address):
            total = 'warmgraph_hits_total{tier="redis"} 30.0'

            def counted():
                with urllib.request.urlopen(f"{address}metrics", timeout=10) as answer:
                    return total in answer.read().decode()

            servers.wait_for(counted, "the fleet's hits are not counted", 60)


def test_a_fleet_without_a_server_is_refused(run):
    """It says which setting is missing."""
    ran = run("serve", "--fleet")
    assert (ran.status, "WARMGRAPH_URL" in ran.err) == (2, True)
