"""One change between a process that recorded a frame and one that may restore it: the result is plain torch's.

Of each probe three fresh processes (forked; `server.py`): `save` traces and records; `changed` comes to its store with
one thing changed, and is compared with `backend="inductor"` in that same process; `same` comes with nothing changed,
has to restore where the probe can be recorded at all, and then makes the change and calls again, as `save` did.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from programs import PROBES  # noqa: E402

sys.path.remove(str(HERE))


@pytest.fixture(scope="module")
def ask():
    command = [sys.executable, str(HERE / "server.py")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(task):
        process.stdin.write(json.dumps(task) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        assert answer, f"the server ended with {process.wait()}"
        return json.loads(answer)

    yield ask
    process.stdin.close()
    process.wait(60)
    process.stdout.close()


@pytest.fixture
def step(ask, tmp_path, inductor_cache):
    def step(name, which, module="steps", **more):
        found = ask(
            {
                "module": module,
                "probe": name,
                "step": which,
                "home": str(tmp_path),
                "folder": str(tmp_path / which),
                "environment": {
                    "WARMGRAPH_DIR": str(tmp_path / "store"),
                    "WARMGRAPH_STRICT": "1",
                    "WARMGRAPH_FRAMES": "1",
                    "TORCHINDUCTOR_CACHE_DIR": str(inductor_cache),
                    "TORCHINDUCTOR_COMPILE_THREADS": "1",
                    "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
                    "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
                },
                **more,
            }
        )
        assert "broken" not in found, found["broken"]
        return found

    return step


def frames(found, *outcomes):
    return [event for event in found["events"] if event[0] in outcomes]


@pytest.mark.parametrize("name", PROBES)
def test_what_is_restored_is_what_plain_torch_gives(name, step):
    probe = PROBES[name]
    saved = step(name, "save")
    refused = [event for event in frames(saved, "traced") if event[1] == "not-restorable"]
    assert bool(refused) == (probe.refused is not None), refused or "it was recorded"
    assert probe.refused is None or any(probe.refused in event[3] for event in refused), refused
    changed = step(name, "changed")
    if not probe.random:
        assert changed["got"] == changed["want"], changed["events"]
    if probe.restores:
        assert frames(changed, "restored"), changed["events"]
        assert not frames(changed, "traced"), changed["events"]
    elif not (probe.random or probe.agrees):
        assert changed["got"] != saved["first"], "the change changes nothing: the probe shows nothing"
    same = step(name, "same")
    if probe.refused is None:
        assert frames(same, "restored"), same["events"]
        assert not frames(same, "traced"), same["events"]
    if not probe.random:
        assert same["first"] == saved["first"]
        assert same.get("second") == saved.get("second"), "the second call, after the change"
