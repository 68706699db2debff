"""Settings as a training script meets them: modes, strictness, and values that cannot be."""

import subprocess
import sys

import pytest

MODES = """
import json, torch, warmgraph

def f(x):
    return (x * 2).tanh()

x, found = torch.arange(6.0), {}
for mode in ("readwrite", "readonly", "refresh", "off"):
    warmgraph.configure(mode=mode)
    torch._dynamo.reset()
    before = warmgraph.stats()
    agree = bool(torch.allclose(torch.compile(f, backend="warmgraph")(x), f(x)))
    warmgraph.flush()
    after = warmgraph.stats()
    found[mode] = [agree, *[after[name] - before[name] for name in ("hits", "misses", "bypasses", "failures")]]
print(json.dumps({"found": found, "reasons": warmgraph.stats()["reasons"]}))
"""


def test_each_mode_does_what_it_says(run_python):
    """readwrite publishes, readonly finds it, refresh compiles anew, off leaves no trace."""
    ran = run_python(MODES)
    assert ran["found"] == {
        "readwrite": [True, 0, 1, 0, 0],
        "readonly": [True, 1, 0, 0, 0],
        "refresh": [True, 0, 1, 0, 0],
        "off": [True, 0, 0, 0, 0],
    }
    assert ran["reasons"] == {"absent": 1, "refresh": 1}


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("WARMGRAPH_DIR", "/dev/null/store", "folder"),
        ("WARMGRAPH_MODE", "fast", "readwrite, readonly, refresh, off"),
        ("WARMGRAPH_MAX_SIZE", "much", "5GB"),
        ("WARMGRAPH_URL", "redis://localhost", "warmgraph keygen"),
        ("WARMGRAPH_URL", "http://localhost", "redis://"),
    ],
)
def test_a_setting_that_cannot_be_is_told_at_once(name, value, allowed, environment, tmp_path):
    """At torch.compile, not in the middle of a step: the setting, its value and what is allowed."""
    process = subprocess.run(
        [sys.executable, "-c", "import torch; torch.compile(lambda x: x, backend='warmgraph')"],
        env=environment(**{name: value}),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert process.returncode != 0
    last = process.stderr.strip().splitlines()[-1]
    assert "ConfigError" in last
    assert name in last
    assert allowed in last


FAILS = """
import json, logging, sys, torch, warmgraph
import warmgraph.backend.engine as engine

def broken(*arguments):
    raise ZeroDivisionError("planted")

setattr(engine, sys.argv[1], broken)
x = torch.arange(6.0)
out = torch.compile(lambda x: x.sin() + 1, backend="warmgraph")(x)
warmgraph.flush()
print(json.dumps({"agree": bool(torch.allclose(out, x.sin() + 1)), **warmgraph.stats()}))
"""


@pytest.mark.parametrize("part", ["key_of", "compile_kept", "pack"])
def test_a_failure_of_ours_is_not_the_users(part, run_python):
    """Whatever breaks, the graph is compiled normally, and the failure is counted."""
    ran = run_python(FAILS, part, WARMGRAPH_STRICT=0)
    assert ran["agree"]
    assert (ran["failures"], ran["reasons"]) == (1, {"internal": 1})


def test_strict_raises_it(environment, tmp_path):
    """For tests and for those who would rather know."""
    process = subprocess.run(
        [sys.executable, "-c", FAILS, "key_of"], env=environment(), cwd=tmp_path, capture_output=True, text=True
    )
    assert process.returncode != 0
    assert "planted" in process.stderr


BROKEN_GRAPH = """
import torch, warmgraph
try:
    torch.compile(lambda x: x + 1, backend="warmgraph", options={"no_such_option": 1})(torch.ones(2))
except Exception as error:
    print("no_such_option" in str(error))
"""


def test_an_option_that_inductor_does_not_know_is_its_error(run_python):
    """Raised, in torch's words: never swallowed, never compiled without it."""
    assert run_python(BROKEN_GRAPH, WARMGRAPH_STRICT=0) is True or "True" in run_python(
        BROKEN_GRAPH, WARMGRAPH_STRICT=0
    )


@pytest.mark.parametrize("variable", ["TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_AUTOGRAD_CACHE"])
def test_who_switches_torchs_caches_off_still_has_this_one(run_python, variable):
    """Torch insists on its own cache being on, and lets a variable win over every setting in the program."""
    program = """
import json, torch, warmgraph
torch.compile(lambda x: x * 2 + 1, backend="warmgraph")(torch.ones(5))
warmgraph.flush()
print(json.dumps(warmgraph.stats()))
"""
    cold, warm = (run_python(program, **{variable: "0"}) for _ in range(2))
    assert (cold["misses"], cold["bypasses"], warm["hits"]) == (1, 0, 1)
