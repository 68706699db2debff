"""Code of the user's that runs while a frame is traced is seen, whoever calls it, and nothing else is."""

from __future__ import annotations

import builtins
import cProfile
import enum
import importlib.util
import io
import json
import logging
import sys
import threading
import typing
import warnings
from pathlib import Path

import pytest
import torch
from warmgraph.backend.torch_api.frames.ran import BUSY, name_of, noting, paused


class Level(enum.Enum):
    LOW = 1

    def __format__(self, how):
        return "low"


def helper():
    return f"{Level.LOW}"


def test_methods_that_attrs_generated_are_seen():
    space = {}
    exec(compile("def __eq__(self, other): return True", "<attrs generated eq m.C>", "exec"), space)
    found = []
    with noting(found):
        space["__eq__"](1, 2)
    assert any("__eq__" in one for one in map(name_of, found))


def test_users_code_is_seen_and_librarys_is_not():
    found = []
    with noting(found):
        json.dumps({"a": [1, 2]})
        torch.nn.Linear(2, 2)
        assert Path("/a") in Path("/a/b").parents  # from 3.11 on code of a frozen module
        helper()
    names = " ".join(map(name_of, found))
    assert "helper" in names
    assert "__format__" in names
    assert "dumps" not in names
    assert "Linear" not in names
    assert "__contains__" not in names


class Captured(io.StringIO):
    """What wandb, rich and notebooks put in the place of standard output and error."""

    def write(self, text):
        return super().write(shown(text, 2))


def shown(text, depth):
    return shown(text, depth - 1) if depth else helper() + text


@pytest.fixture
def log(request):
    """A logger whose lines end in code of the user's."""
    found, handler = logging.getLogger(request.node.name), logging.StreamHandler(Captured())
    found.propagate = False
    found.addHandler(handler)
    return found


def test_what_writes_a_log_line_or_a_warning_does_not_count(log, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Captured())
    third, record = log.makeRecord("", 30, "", 0, "a third", (), None), logging.getLogRecordFactory()
    monkeypatch.setattr(logging, "_logRecordFactory", lambda *args, **kwargs: record(*args, **kwargs))
    monkeypatch.setattr(warnings, "showwarning", lambda message, *where: sys.stderr.write(str(message)))
    found = []
    with noting(found), warnings.catch_warnings():
        warnings.simplefilter("always")
        log.warning("a line")
        warnings.warn("another", stacklevel=1)
        log.handle(third)
    assert [*map(name_of, found)] == []
    assert sys.stderr.getvalue().startswith("low")


@pytest.mark.parametrize("before", [True, False])
def test_code_that_runs_otherwise_as_well_does(log, before):
    """Whichever comes first."""
    found = []
    with noting(found):
        if before:
            helper()
        log.warning("a line")
        if not before:
            helper()
    names = " ".join(map(name_of, found))
    assert "helper" in names
    assert "__format__" in names
    assert "shown" not in names
    assert "write" not in names


def test_a_trace_within_a_handler_is_a_trace(log):
    found = []

    class Tracing(logging.Handler):
        def emit(self, record):
            with noting(found):
                helper()

    log.addHandler(Tracing())
    log.warning("a line")
    assert "helper" in " ".join(map(name_of, found))


def test_how_modules_are_found_does_not_count(monkeypatch):
    """A function in the place of Python's `__import__` (ClearML), and what a finder inherits."""

    class Base:
        def looked(self):
            return helper.__name__

        def find_spec(self, name, *where):
            return self.looked() and None

    class Finder(Base):
        pass

    def imports(name, *where):
        return real(name, *where)

    real = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", imports)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    found = []
    with noting(found), pytest.raises(ImportError):
        import not_there_at_all  # noqa: F401
    assert [*map(name_of, found)] == []


@pytest.mark.skipif(not hasattr(typing, "_generic_class_getitem"), reason="Python has no such function to replace")
def test_how_classes_are_given_types_does_not_count(monkeypatch):
    """A function in the place of `typing`'s own (beartype), to which torch's modules come when they are imported."""

    def given(cls, params):
        return real(cls, params)

    class Held(typing.Generic[typing.TypeVar("T")]):
        pass

    real = typing._generic_class_getitem
    monkeypatch.setattr(typing, "_generic_class_getitem", given)
    found = []
    with noting(found):
        assert typing.get_args(Held[int]) == (int,)
    assert [*map(name_of, found)] == []


def test_what_runs_in_a_pause_does_not_count():
    found = []
    with noting(found):
        with paused():
            helper()
        json.dumps(1)
    assert found == []
    with paused():  # outside of any trace
        helper()


class Finder:
    """As those of setuptools and six, whose `find_spec` calls methods of its own."""

    def find_spec(self, name, path=None, target=None):
        return None if not self.finds(name) else importlib.util.spec_from_loader(name, None)

    def finds(self, name):
        return name == "no_such_module_at_all"


def test_what_finds_modules_does_not_count(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    found = []
    with noting(found):
        importlib.util.find_spec("colorsys_not_there")
    assert found == []


def test_again_and_again():
    """What an earlier trace saw is seen in a later one, too."""
    for _ in range(3):
        found = []
        with noting(found):
            helper()
        assert any("helper" in name for name in map(name_of, found))


def test_other_threads_do_not_count():
    found, gone = [], threading.Event()

    def elsewhere():
        helper()
        gone.set()

    with noting(found):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        gone.wait(30)
    thread.join()
    assert not any("helper" in name for name in map(name_of, found))


def test_an_error_ends_it():
    with pytest.raises(ZeroDivisionError), noting([]):
        1 / 0  # noqa: B018
    assert sys.getprofile() is None


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="a profiler of the user's is not in the way there")
def test_a_profiler_that_is_on_stays_on():
    """Nobody knows then what ran: the frame is not recorded."""
    profiler, found = cProfile.Profile(), []
    profiler.enable()
    try:
        with noting(found):
            helper()
    finally:
        profiler.disable()
    assert found == [BUSY]
    assert any("helper" in str(entry.code) for entry in profiler.getstats())
