"""The background writer: bounded, in order, flushed, and gone when idle."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from warmgraph.cache.process.writer import Writer, flush_all


class Gate:
    """A job that says when it has begun and waits to be let on."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.open = threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.open.wait(30)


def held(writer: Writer) -> Gate:
    """Occupy the writer's thread."""
    gate = Gate()
    assert writer.submit(gate)
    assert gate.begun.wait(30)
    return gate


def test_jobs_run_in_order() -> None:
    """Jobs run one after the other, in the order in which they came."""
    writer, done = Writer(), []
    for number in range(50):
        assert writer.submit(lambda number=number: done.append(number))  # type: ignore[misc]
    assert writer.flush(30)
    assert done == list(range(50))
    assert not writer.pending


def test_full_queue_refuses() -> None:
    """When as many jobs wait as may, the next is refused and counted, and the caller does not wait."""
    writer = Writer(max_jobs=3)
    gate = held(writer)
    assert [writer.submit(lambda: None) for _ in range(5)] == [True, True, True, False, False]
    assert writer.dropped == 2
    gate.open.set()
    assert writer.flush(30)
    assert writer.submit(lambda: None)
    assert writer.flush(30)


def test_too_many_bytes_are_refused() -> None:
    """The waiting bytes are bounded too; one large job alone is taken."""
    writer = Writer(max_bytes=100)
    gate = held(writer)
    assert writer.submit(lambda: None, 500)
    assert not writer.submit(lambda: None, 1)
    gate.open.set()
    assert writer.flush(30)
    gate = held(writer)
    assert [writer.submit(lambda: None, 40) for _ in range(3)] == [True, True, False]
    gate.open.set()
    assert writer.flush(30)


def test_flush_gives_up() -> None:
    """A flush that may not wait long enough says so."""
    writer = Writer()
    gate = held(writer)
    assert not writer.flush(0.01)
    assert not flush_all(0.01)
    gate.open.set()
    assert writer.flush(30)
    assert flush_all(30)


def test_idle_writer_has_no_thread() -> None:
    """A thread lives only while there is work."""
    writer = Writer()
    names = []
    assert writer.submit(lambda: names.append(threading.current_thread().name))
    assert writer.flush(30)
    assert names == ["warmgraph-writer"]
    for thread in threading.enumerate():
        if thread.name == "warmgraph-writer":
            thread.join(30)
            assert not thread.is_alive()


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_failing_job_stops_nothing(caplog: pytest.LogCaptureFixture, error: type[BaseException]) -> None:
    """A job that fails is logged with its traceback, and the next one runs: whoever waits must not wait for ever."""

    def failing() -> None:
        raise error

    writer, done = Writer(), []
    assert writer.submit(failing)
    assert writer.submit(lambda: done.append(1))
    assert writer.flush(30)
    assert done == [1]
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_no_thread_to_be_had(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Where no thread can be started, a job is refused, not an error."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    writer = Writer()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert not writer.submit(lambda: None)
    assert writer.dropped == 1
    assert writer.flush(0)
    assert "can't start new thread" in caplog.text


AT_THE_END = """
import time
from warmgraph.cache.process.writer import Writer
first, second = Writer(), Writer()
def both():
    time.sleep(0.3)  # the program has come to its end by then
    assert second.submit(lambda: print("written"))
first.submit(both)
"""


OTHERS_FIRST = "import atexit\natexit.register(time.sleep, 1)  # the program's, called before ours\n"


@pytest.mark.parametrize("more", ["", OTHERS_FIRST])
def test_what_a_write_hands_on_at_the_end_is_written(more: str) -> None:
    """From Python 3.12 on no thread can be started any more."""
    done = subprocess.run([sys.executable, "-c", AT_THE_END + more], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("written\n", "")


def test_many_threads_submit() -> None:
    """Jobs that many threads submit all run, once each."""
    writer, done = Writer(max_jobs=10_000), []

    def submit(seed: int) -> None:
        for number in range(200):
            job: Callable[[], None] = lambda item=(seed, number): done.append(item)  # noqa: E731
            assert writer.submit(job)

    threads = [threading.Thread(target=submit, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert writer.flush(30)
    assert sorted(done) == [(seed, number) for seed in range(4) for number in range(200)]
