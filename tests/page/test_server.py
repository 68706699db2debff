"""The live page's server: who is answered, what, and for how long."""

from __future__ import annotations

import base64
import json
import socket
import time

import pytest
from warmgraph.scripts.page import server

TOKEN = "correct-horse-battery"


def test_the_page_and_the_data_are_served(serve, journal, samples):
    """What the journal holds, with headers that keep other sites out."""
    journal.write(samples.events(50))
    here = serve()
    here.read(50)
    page = here.ask("/")
    assert page.status == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "data-live" in page.body
    for name in (
        "Content-Security-Policy",
        "X-Content-Type-Options",
        "Cross-Origin-Resource-Policy",
        "Referrer-Policy",
    ):
        assert page.headers[name]
    assert here.ask("/healthz").body == "ok\n"
    assert here.ask("/", method="HEAD").body == ""
    assert here.ask("/etc/passwd").status == 404


def test_the_data_are_sent_once_while_nothing_happens(serve, journal, samples):
    """A page that asks again with the tag that it has gets 304."""
    journal.write(samples.events(5))
    here = serve()
    here.read(5)
    end = time.monotonic() + 10
    while True:  # the store is listed soon after the first look, and that is news too
        tag = here.ask().headers["ETag"]
        if (again := here.ask(If_None_Match=tag)).status == 304 or time.monotonic() > end:
            break
    assert (again.status, again.body) == (304, "")
    journal.write(samples.events(1))
    here.read(6)
    assert here.ask(If_None_Match=tag).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_reading_is_answered(serve, method):
    """405, and what is allowed."""
    answer = serve().ask("/", method=method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8642",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
        "0.0.0.0",
        "10.0.0.1",
    ],
)
def test_a_name_that_was_pointed_here_is_not_answered(serve, host):
    """DNS rebinding: another site's script would read the audit in a visitor's browser."""
    assert serve().ask("/audit.json", Host=host).status == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9999", "[::1]:8642", "127.1.2.3"])
def test_this_machines_own_names_are_answered(serve, host):
    """By any port: it may be a forwarded one."""
    assert serve().ask("/audit.json", Host=host).status == 200


def test_a_token_is_asked_for_and_known(serve):
    """As a bearer token, or as the password of any user; by whatever name the server is reached."""
    here = serve(TOKEN)

    def basic(text):
        return "Basic " + base64.b64encode(text.encode()).decode()

    for good in (f"Bearer {TOKEN}", f"bearer  {TOKEN}", basic(f"me:{TOKEN}"), basic(f":{TOKEN}")):
        assert here.ask("/audit.json", Authorization=good, Host="cache.example").status == 200
    bad = (
        "",
        "Bearer",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        basic(TOKEN),
        basic(f"{TOKEN}:"),
        "Basic !!",
        f"Digest {TOKEN}",
    )
    for path in ("/", "/audit.json", "/metrics", "/nothing"):
        for wrong in bad:
            answer = here.ask(path, Authorization=wrong)
            assert (answer.status, answer.headers["WWW-Authenticate"][:5]) == (401, "Basic")
            assert TOKEN not in answer.body
    assert here.ask(f"/?token={TOKEN}").status == 401
    assert here.ask("/healthz").status == 200


def test_health_tells_why_not(serve, journal, samples, monkeypatch):
    """503 while the journal cannot be read; the reason is for those who may see the rest. Well again afterwards."""
    journal.write(samples.events(3))
    here = serve(TOKEN)
    here.until(lambda answer: answer.status == 200, "/healthz")
    moved = journal.dir.rename(journal.dir.with_name("moved"))
    journal.dir.symlink_to(journal.dir)  # a folder that nobody can open, root neither
    here.until(lambda answer: answer.status == 503, "/healthz")
    told = here.ask("/healthz", Authorization=f"Bearer {TOKEN}").body
    assert here.ask("/healthz").body == "not well\n"
    assert "journal" in told
    journal.dir.unlink()
    moved.rename(journal.dir)
    here.until(lambda answer: answer.status == 200, "/healthz")


def test_only_what_is_new_is_read(serve, journal, samples):
    """What was read is not read again, even if it is another text by now; a line being written is waited for."""
    journal.write(samples.events(20))
    here = serve()
    here.read(20)
    file = next(journal.dir.iterdir())
    with file.open("r+b") as opened:
        opened.write(b"#" * file.stat().st_size)
    line = json.dumps(next(samples.events(1))).encode()
    journal.raw(line[:100])
    journal.write(samples.events(1), day="2026-11-21")
    here.read(21)
    journal.raw(line[100:] + b"\n")
    here.read(22)
    source = json.loads(here.ask().body)["source"]
    assert (source["events"], source["skipped"]) == (22, 0)


def test_who_is_silent_or_drips_is_cut_off(serve, monkeypatch):
    """A connection has so many seconds without a byte, and so many in all."""
    monkeypatch.setattr(server.Handler, "timeout", 0.2)
    here = serve()
    with socket.create_connection(("127.0.0.1", here.port), timeout=10) as silent:
        assert silent.recv(100) == b""
    monkeypatch.setattr(server.Handler, "timeout", 5)
    monkeypatch.setattr(server, "WHOLE_SECONDS", 0.3)
    with socket.create_connection(("127.0.0.1", here.port), timeout=10) as dripping:
        dripping.sendall(b"GET / HTTP/1.1\r\nX: ")
        with pytest.raises(OSError):
            for _ in range(200):
                dripping.sendall(b"x")
                time.sleep(0.05)
    monkeypatch.undo()
    assert here.ask().status == 200


def test_no_more_than_so_many_are_served_at_once(serve, monkeypatch):
    """The others are told to come again, at once; and are served once there is room."""
    monkeypatch.setattr(server.Handler, "timeout", 60)
    here = serve()
    held = [socket.create_connection(("127.0.0.1", here.port), timeout=10) for _ in range(server.MOST_CONNECTIONS)]
    here.until(lambda answer: answer.status == 503, "/healthz")
    for one in held:
        one.close()
    here.until(lambda answer: answer.status == 200, "/healthz")


@pytest.mark.parametrize(
    "request_line",
    [
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x00\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"BREW / HTTP/1.1\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    ],
)
def test_what_is_no_request_is_refused_in_plain_text(serve, request_line):
    """No markup, no name of the server's parts."""
    here = serve()
    with socket.create_connection(("127.0.0.1", here.port), timeout=10) as raw:
        raw.sendall(request_line)
        raw.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while piece := raw.recv(65536):
                answer += piece
        except ConnectionResetError:  # it did not read all of a request that was too long
            pass
    assert b"<" not in answer
    assert b"Python" not in answer
    assert here.ask().status == 200
