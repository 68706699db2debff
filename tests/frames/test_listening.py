"""A trace that cannot be listened to is made again, unheard: the program gets what plain torch gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, torch
from warmgraph.backend.torch_api.frames import watch
from warmgraph.cache import journal_dir, read, settings

def broken(variable):
    raise ZeroDivisionError("a listener that asks what cannot be answered")

watch.constant_of = broken
PAIRS = {("a", 1): 2.0}

def function(x):
    return x * PAIRS.get(("a", 1), 3.0)

def failing(x):
    return x + PAIRS[("b", 1)]

x = torch.ones(2)
found = {"result": torch.compile(function, backend="warmgraph")(x).tolist()}
try:
    torch.compile(failing, backend="warmgraph", fullgraph=True)(x)
except Exception as error:
    found["error"] = type(error).__name__
found["events"] = [e.get("detail") for e in read(journal_dir(settings())) if e.get("function") == "function"]
print(json.dumps(found))
"""


@pytest.fixture
def run(tmp_path, inductor_cache):
    def run(strict):
        env = os.environ | {"WARMGRAPH_DIR": str(tmp_path), "WARMGRAPH_STRICT": strict}
        env["TORCHINDUCTOR_CACHE_DIR"] = str(inductor_cache)
        program = tmp_path / "program.py"
        program.write_text(PROGRAM)
        return subprocess.run([sys.executable, str(program)], env=env, capture_output=True, text=True)

    return run


def test_a_listener_that_raises_does_not_take_the_program_down(run):
    for _ in range(2):
        done = run("0")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["result"] == [2.0, 2.0]
        assert found["error"] == "Unsupported"  # plain torch's
        assert any("trace failed: ZeroDivisionError" in (detail or "") for detail in found["events"]), found


def test_strict_raises_what_the_listener_raised(run):
    done = run("1")
    assert done.returncode != 0
    assert "a listener that asks what cannot be answered" in done.stderr
