"""Bounded calls by themselves: results, errors, deadlines, interruptions; no network."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from warmgraph.cache import StoreUnavailable
from warmgraph.cache.process import calls, exits
from warmgraph.cache.process.calls import Call, bounded, current_call, seconds_for


def test_the_result_comes_back() -> None:
    """From another thread, which works for a call of its own."""
    here = threading.get_ident()
    found = bounded(lambda: (threading.get_ident(), current_call()), 5.0, late="late")
    assert found[0] != here
    assert isinstance(found[1], Call)
    assert current_call() is None


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(3), StopIteration()])
def test_what_it_raises_is_raised_here(error: BaseException) -> None:
    """Whatever it is."""

    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        bounded(fail, 5.0, late="late")
    assert caught.value is error


def test_a_late_call_is_abandoned() -> None:
    """The caller goes on; the socket it hangs on is cut, so that its thread ends."""
    ours, theirs = socket.socketpair()
    ended = threading.Event()
    told: list[str] = []

    def hang() -> None:
        call = current_call()
        assert call is not None
        call.use(SimpleNamespace(_sock=ours))
        ours.recv(1)
        with pytest.raises(StoreUnavailable):  # nothing new is begun for nobody
            call.use(SimpleNamespace(_sock=ours))
        ended.set()

    with ours, theirs, pytest.raises(StoreUnavailable, match="late"):
        bounded(hang, 0.05, late="it is late", abandon=lambda: told.append("abandoned"))
    assert ended.wait(5)
    assert told == ["abandoned"]


def test_a_connection_that_was_passed_on_is_not_cut() -> None:
    """Pools hand connections from call to call."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = SimpleNamespace(_sock=ours)
        first, second = Call(), Call()
        first.use(connection)
        second.use(connection)
        first.abandon()
        theirs.sendall(b"x")
        assert ours.recv(1) == b"x"
        connection._sock = None
        second.abandon()


def test_an_interrupted_caller_abandons() -> None:
    """Ctrl-C while waiting is not held up."""
    seen: list[Any] = []
    release = threading.Event()

    def hang() -> None:
        seen.append(current_call())
        time.sleep(0.3)  # until the caller waits
        os.kill(os.getpid(), signal.SIGALRM)
        release.wait(30)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    begin = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            bounded(hang, 60.0, late="late")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - begin < 20
    with pytest.raises(StoreUnavailable):
        seen[0].use(SimpleNamespace(_sock=None))
    release.set()


def test_more_bytes_may_take_longer() -> None:
    """4 MB/s is the slowest that is worth it."""
    assert seconds_for(0, 0.2) == 0.2
    assert seconds_for(8 * 2**20, 0.2) == pytest.approx(2.2)


def test_an_answer_that_is_there_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process too busy to read it in time does not blame the server."""
    monkeypatch.setattr(calls, "_BUSY_SECONDS", 30.0)
    ours, theirs = socket.socketpair()

    def read_late() -> bytes:
        call = current_call()
        assert call is not None
        call.use(SimpleNamespace(_sock=ours))
        call.moves()
        time.sleep(0.4)  # meanwhile the other threads run
        return ours.recv(1)

    with ours, theirs:
        theirs.sendall(b"x")
        assert bounded(read_late, 0.2, late="late") == b"x"
        begin = time.monotonic()
        with pytest.raises(StoreUnavailable, match="late"):
            bounded(read_late, 0.1, late="late")
        assert time.monotonic() - begin < 15


def test_a_process_at_its_end_is_in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that nothing moves in any more is given up, also one that began before; one that moves is not."""
    release = threading.Event()
    now = [0.0]

    def moving() -> str:
        call = current_call()
        assert call is not None
        for _ in range(10):
            now[0] += 0.15
            call.moves()
            time.sleep(0.05)  # for the other thread to look
        return "written"

    threading.Timer(0.2, lambda: monkeypatch.setattr(exits, "_ending", (os.getpid(), time.monotonic()))).start()
    begin = time.monotonic()
    with pytest.raises(StoreUnavailable, match="late"):
        bounded(lambda: release.wait(10), 10.0, late="late", shutdown_timeout=0.2)
    assert time.monotonic() - begin < 8
    monkeypatch.setattr(calls, "time", SimpleNamespace(monotonic=lambda: now[0]))  # no gap but what is made here
    assert bounded(moving, 10.0, late="late", shutdown_timeout=0.2) == "written"
    release.set()
