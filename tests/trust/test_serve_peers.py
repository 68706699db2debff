"""Who is answered by `warmgraph serve`: its own user; another user of the host is not, nor one peer for all."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from warmgraph.scripts.page.peers import is_our_own
from warmgraph.scripts.page.server import MOST_OF_A_PEER, Server


class Shown:
    """What a `Live` says."""

    def page(self) -> str:
        return "the page"

    def trouble(self) -> None:
        return None


@pytest.fixture
def server() -> Iterator[Any]:
    one = Server(("127.0.0.1", 0), Shown(), None)  # type: ignore[arg-type]
    thread = threading.Thread(target=one.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield one
    one.shutdown()
    one.server_close()
    thread.join(10)


def status(server: Any, host: str = "127.0.0.1") -> int:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)) as connection:
        connection.putrequest("GET", "/", skip_host=True)
        connection.putheader("Host", host)
        connection.endheaders()
        with connection.getresponse() as answer:
            return answer.status


@pytest.mark.parametrize("family", ["127.0.0.1", "::1"])
def test_a_connection_is_known_by_its_other_end(family: str) -> None:
    """Ours while it is open, nobody's afterwards."""
    kind = socket.AF_INET6 if ":" in family else socket.AF_INET
    with socket.socket(kind) as listener:
        try:
            listener.bind((family, 0))
        except OSError:
            pytest.skip(f"no {family} here")
        listener.listen()
        with socket.create_connection(listener.getsockname()[:2]) as client:
            accepted, peer = listener.accept()
            with accepted:
                assert is_our_own(peer, accepted.getsockname())
                assert not is_our_own((family, 1), accepted.getsockname())
                client.close()
                assert not is_our_own(peer, accepted.getsockname())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_another_user_of_the_host_is_not_answered(server: Any) -> None:
    assert status(server) == 200
    program = (
        "import encodings.idna, http.client, os, sys; os.setuid(12345)\n"
        "c = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]), timeout=20); c.request('GET', '/')\n"
        "print(c.getresponse().status)"
    )
    ran = subprocess.run([sys.executable, "-c", program, str(server.server_port)], capture_output=True, text=True)
    assert ran.stdout.strip() == "403", ran.stderr


@pytest.mark.parametrize(
    "host", ["127.0.0.1:80.evil.com", "localhost:x", "[::1", "localhost/", "a b", "", "127.0.0.1@evil", "evil.com"]
)
def test_malformed_and_foreign_hosts_are_refused(server: Any, host: str) -> None:
    assert status(server, host) == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8642", "127.0.0.1:1", "[::1]:80"])
def test_names_of_this_machine_are_taken(server: Any, host: str) -> None:
    assert status(server, host) == 200


def test_one_peer_does_not_take_all_connections(server: Any) -> None:
    """Of one address so many wait at once; those of another are served still."""
    with ExitStack() as stack:
        for _ in range(MOST_OF_A_PEER):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.server_port)))
        with socket.create_connection(("127.0.0.1", server.server_port)) as late:
            late.settimeout(20)
            assert late.recv(100).startswith(b"HTTP/1.0 503")
        with socket.create_connection(("127.0.0.1", server.server_port), source_address=("127.0.0.2", 0)) as other:
            other.settimeout(20)
            other.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert other.recv(100).startswith(b"HTTP/1.0 200")


def test_import_refuses_what_is_no_regular_file(tmp_path: Any, capsys: Any) -> None:
    """A pipe, a device, a folder: one line, at once."""
    from warmgraph.scripts import main

    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", "/dev/zero", tmp_path):
        assert main(["import", str(place)]) == 2
        assert "expected a regular file" in capsys.readouterr().err
