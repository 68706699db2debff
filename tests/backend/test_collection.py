"""The garbage collector is off while lasting objects are made, and afterwards as it was."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest
from warmgraph.backend.collection import make_old, uncollected


class Ring:
    pass


def is_watched(value):
    """By the collector; not while it is frozen."""
    return any(one is value for one in gc.get_objects())


@pytest.fixture(autouse=True)
def on():
    gc.enable()
    yield
    gc.enable()


def test_it_is_off_and_then_as_it_was():
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    with uncollected():
        pass
    assert not gc.isenabled()


def test_an_error_leaves_it_on():
    with pytest.raises(ZeroDivisionError), uncollected():
        1 / 0  # noqa: B018
    assert gc.isenabled()


def test_what_is_old_is_collected_all_the_same():
    gc.unfreeze()  # the tests' own
    ring = Ring()
    ring.itself = ring
    count = sum(type(one) is Ring for one in gc.get_objects())
    make_old()
    assert gc.get_freeze_count() == 0
    del ring
    gc.collect()
    assert sum(type(one) is Ring for one in gc.get_objects()) == count - 1


def test_no_pass_begins_as_soon_as_it_is_on_again():
    """The collector counts what was made while it was off."""
    passes = []
    gc.callbacks.append(lambda phase, _: passes.append(phase))
    try:
        with uncollected():
            rings = [Ring() for _ in range(10_000)]
            make_old()
        counts = gc.get_count()
    finally:
        gc.callbacks.pop()
    assert (len(rings), passes) == (10_000, [])
    assert counts[0] < gc.get_threshold()[0]


def test_what_a_program_froze_stays_frozen():
    ring = Ring()
    assert is_watched(ring)
    gc.freeze()
    try:
        make_old()
        assert not is_watched(ring)
    finally:
        gc.unfreeze()


def test_naming_the_backend_leaves_it_as_it_was():
    """Also where a program has it off."""
    program = (
        "import gc, sys, torch\n"
        "if sys.argv[1] == 'off': gc.disable()\n"
        "torch.compile(lambda x: x, backend='warmgraph')\n"
        "print('on' if gc.isenabled() else 'off', gc.get_freeze_count())"
    )
    for state in ("on", "off"):
        said = subprocess.run([sys.executable, "-c", program, state], capture_output=True, text=True, check=True)
        assert said.stdout.split() == [state, "0"]
