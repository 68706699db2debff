"""torch's own key as the oracle: wherever torch tells two graphs apart we do, and what we hold to be equal is equal.

The pairs are generated (`graphs.py`); `ORACLE_EXAMPLES=5000 pytest tests/keys/test_oracle.py` draws more of them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import itertools
import os
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, Phase, assume, given, reject, settings
from hypothesis import strategies as st
from torch._dynamo.backends.debugging import aot_eager
from torch._dynamo.exc import BackendCompilerFailed, TorchDynamoException
from warmgraph.backend.key.compiler_settings import IGNORED_SETTINGS
from warmgraph.backend.torch_api import compile as compat
from warmgraph.cache import reset_settings

import warmgraph


def _load(path):
    name = f"warmgraph_tests_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


# Generated programs do odd things (a variance of one number), and torch says so.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

HERE = Path(__file__).parent
programs = _load(HERE / "programs.py")
graphs = programs.graphs
both = _load(HERE / "both_keys.py")
models = _load(HERE.parent.parent / "benchmarks" / "models.py")

# Where torch's keys differ and ours do not, on purpose. `both_keys.renamed` takes exactly these out of torch's key.
EQUIVALENCES = {
    "names of arguments": "Inputs are told apart by position, and a source is only its name in the caller's frame.",
    "names of locals": "Dynamo calls nodes after the user's variables; AOTAutograd traces anew with names of its own.",
}

EXAMPLES = int(os.environ.get("ORACLE_EXAMPLES", "0"))

drawn = {
    "derandomize": not EXAMPLES,
    "database": None,
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
}


def traced(program):
    """The keys of a program's graphs; a program that Dynamo cannot trace is drawn again."""
    try:
        with programs.ambient(program.draft.ambient):
            return both.trace(program.function, *program.arguments(), settings=program.settings, **program.options)
    except BackendCompilerFailed:
        raise
    except (TorchDynamoException, AssertionError, AttributeError):  # the last: 2.11, of a size in a compile region
        return reject()


def told_apart(first, second):
    """(by us, by torch), over all graphs of two calls; None where either side is refused a key."""
    found = []
    for keys in ([g.id for g in first], [g.id for g in second]), ([g.blind for g in first], [g.blind for g in second]):
        found.append(None if None in keys[0] + keys[1] else keys[0] != keys[1])
    return tuple(found)


def test_wherever_torchs_keys_differ_ours_differ_and_what_is_equal_runs_the_same():
    """Over pairs of generated programs, one a small change of the other.

    Where our keys are equal, the second program is run with the first one's artifact, as a hit would do.
    """
    seen = Counter()

    @settings(max_examples=EXAMPLES or 110, phases=[Phase.generate], **drawn)
    @given(graphs.pairs())
    def check(pair):
        first, second = map(programs.build, pair)
        keys = [traced(program).graphs for program in (first, second)]
        ours, theirs = told_apart(*keys)
        seen[ours, theirs] += 1
        if theirs:
            assert ours is not False, f"one key for two programs\n{first}\n{second}"
        if ours is False and pair[0] != pair[1] and len(keys[0]) == 1 and sizes(first) == sizes(second):
            seen["run"] += assert_runs_as_the_other(first, second)

    check()
    # A generator that only made equal pairs, or only different ones, would check nothing.
    assert seen[True, True] >= seen.total() // 4
    assert seen["run"] >= seen.total() // 20
    assert seen[None, None] + seen[None, False] + seen[None, True] <= seen.total() // 10, seen


def sizes(program):
    return [argument.shape for argument in programs.make_inputs(program.draft)]


def assert_runs_as_the_other(first, second):
    """`second`, run with what AOTAutograd made of `first`, gives what eager gives. False if nothing could be made."""
    made, tried = [], []

    def compile_first(gm, inputs):
        tried.append(gm)
        made.append(aot_eager(gm, inputs))
        return made[-1]

    torch._dynamo.reset()
    result = outcome(first, torch.compile(first.function, backend=compile_first, **first.options))
    if isinstance(result, str):  # torch fails on it, or its own backward is wrong: there is nothing to keep
        return False
    if len(tried) > 1:  # it had Dynamo trace again with a float's value, and is another graph's
        return False
    torch._dynamo.reset()
    (artifact,) = made
    found = outcome(second, torch.compile(second.function, backend=lambda gm, inputs: artifact, **second.options))
    assert_right(found, second, aot_eager, f"{first}\n{second}")
    return True


def outcome(program, compiled):
    """What a call decides, or the name of the error it ends with."""
    try:
        return programs.run(program, compiled)
    except (RuntimeError, BackendCompilerFailed) as error:
        return type(error).__name__


def assert_right(found, program, backend, message):
    """As eager; or else as the same compiler has it without any cache, which is then not a cache's fault."""
    if close(found, outcome(program, program.function)):
        return
    torch._dynamo.reset()
    own = outcome(program, torch.compile(program.function, backend=backend, **program.options))
    assert len(found) == len(own), message
    for a, b in zip(found, own, strict=True):
        assert isinstance(a, str) == isinstance(b, str), message
        assert a == b if isinstance(a, str) else torch.equal(a.nan_to_num(), b.nan_to_num()), message


def close(found, wanted):
    if isinstance(found, str) or isinstance(wanted, str):
        return found == wanted
    if [(t.shape, t.dtype) for t in found] != [(t.shape, t.dtype) for t in wanted]:
        return False
    return all(
        torch.allclose(a.double(), b.double(), 1e-4, 1e-4, equal_nan=True) for a, b in zip(found, wanted, strict=True)
    )


@st.composite
def twins(draw):
    """A draft and one that means the same: other names, other values."""
    draft = draw(graphs.drafts)
    assume("bfloat16" not in repr(draft.inputs))
    names = draft.naming if draft.dynamic or any(wanted.dynamic for wanted in draft.inputs) else 1 - draft.naming
    return draft, dataclasses.replace(draft, naming=names, seed=draft.seed + 1)


def test_a_generated_program_hits_what_its_twin_compiled_and_computes_its_own_results(monkeypatch):
    """Through the whole cache, with Inductor: a miss, then a hit with other names and values."""
    monkeypatch.setenv("WARMGRAPH_STRICT", "1")
    reset_settings()
    hits = 0

    @settings(max_examples=EXAMPLES // 100 or 3, phases=[Phase.generate], **drawn)
    @given(twins())
    def check(pair):
        nonlocal hits
        first, second = map(programs.build, pair)
        ids = [traced(program).ids for program in (first, second)]
        assert ids[0] == ids[1], f"{first}\n{second}"
        for program in (first, second):
            torch._dynamo.reset()
            before = warmgraph.stats()
            with torch._inductor.config.patch(compile_threads=1):
                found = outcome(program, torch.compile(program.function, backend="warmgraph", **program.options))
            warmgraph.flush()
            after = warmgraph.stats()
            assert_right(found, program, "inductor", f"{program}")
        # The second had nothing to compile, unless the first was refused as well.
        assert after["misses"] == before["misses"]
        hits += after["hits"] - before["hits"]

    check()
    assert hits >= 2


@pytest.mark.parametrize("name", EQUIVALENCES)
def test_a_written_equivalence_is_one_to_us_and_none_to_torch_and_harmless(name):
    """If torch comes to agree, it can leave the list."""
    inputs = (graphs.Input((4, 6), "torch.float32", "plain", "leaf", ()),) * 2
    first = programs.Program(graphs.Draft(inputs, (), (), None, "", 0, 0, 0), "", None)
    texts = {
        "names of arguments": (
            "def f(a, b, n, s):\n    return (a - b.sin(),)\n",
            "def f(p, q, n, s):\n    return (p - q.sin(),)\n",
        ),
        "names of locals": (
            "def f(a, b, n, s):\n    c = b.sin()\n    return (a - c,)\n",
            "def f(a, b, n, s):\n    y = b.sin()\n    return (a - y,)\n",
        ),
    }[name]
    renamed = [dataclasses.replace(first, source=text, function=programs.function_of(text)) for text in texts]
    (a,), (b,) = (traced(program).graphs for program in renamed)
    assert a.id == b.id
    assert a.theirs != b.theirs
    assert a.blind == b.blind
    assert_runs_as_the_other(*renamed)


# --- settings -----------------------------------------------------------------------------------------


def other(value):
    if type(value) is bool:
        return not value
    return value + 1 if type(value) in (int, float) else None


def test_a_setting_that_torch_tells_apart_is_told_apart_unless_it_is_on_our_list():
    """Every switch and number of Inductor and functorch, turned one by one, on one graph.

    The list of what is left out (`IGNORED_SETTINGS`) says how and where to compile, not what.
    """
    differ = set()

    def backend(gm, inputs):
        base = both.our_key(gm, inputs)[0].id, both.their_key(gm, inputs, blind=False)[0]
        for prefix, module in (("inductor", compat.inductor_config), ("functorch", compat.functorch_config)):
            for name, value in sorted(module.get_config_copy().items()):
                changed = other(value)
                if changed is None or (prefix, name) in TOO_STRANGE:
                    continue
                with module.patch({name: changed}):
                    theirs = both.their_key(gm, inputs, blind=False)[0]
                    ours = both.our_key(gm, inputs)[0] if theirs != base[1] else None
                if theirs is not None and theirs != base[1]:
                    differ.add(name)
                    assert (ours is not None and ours.id != base[0]) or f"{prefix}.{name}" in IGNORED_SETTINGS, name
        return gm.forward

    torch._dynamo.reset()
    torch.compile(lambda x: x.sin() @ x, backend=backend)(torch.ones(3, 3))
    assert len(differ) > 300


# Settings that make Dynamo's or torch's own preparation fail instead of changing what is compiled.
TOO_STRANGE = {("functorch", "fake_tensor_crossref"), ("functorch", "fake_tensor_propagate_real_tensors")}


# --- real models --------------------------------------------------------------------------------------


@pytest.fixture
def ways():
    """Ways to compile one graph: name -> what makes the difference."""
    inductor, functorch = compat.inductor_config.patch, compat.functorch_config.patch
    return {
        "plain": contextlib.nullcontext,
        "cudagraphs": lambda: inductor({"triton.cudagraphs": True}),
        "max-autotune": lambda: inductor({"max_autotune": True, "coordinate_descent_tuning": True}),
        "no fusion": lambda: inductor({"epilogue_fusion": False}),
        "cpp threads": lambda: inductor({"cpp.threads": 7}),
        "memory budget": lambda: functorch({"activation_memory_budget": 0.5}),
        "no donation": lambda: functorch({"donated_buffer": False}),
        **{name: lambda name=name: programs.ambient(name) for name in set(graphs.AMBIENT) if name},
    }


@pytest.mark.parametrize("name", ["gpt2", "bert", "llama", "t5", "conv"])
def test_over_a_real_model_ours_differ_wherever_torchs_do(name, ways):
    """Inference and training, another batch, and every way to compile: all pairs of them."""
    if name != "conv":
        pytest.importorskip("transformers")
    case = models.make(name, tiny=True)
    found = []

    def backend(gm, inputs):
        for way in ways.values():
            with way():
                found.append(both.keys(gm, inputs))
        return gm.forward

    def call(model, inputs):
        torch._dynamo.reset()
        torch.compile(model, backend=backend)(**inputs)

    with torch.no_grad():
        call(case.model.eval(), case.inputs)
    call(case.model.train(), case.inputs)
    with torch.no_grad():
        call(case.model.eval(), {key: torch.cat([value, value]) for key, value in case.inputs.items()})
    keyed = [key for key in found if key.theirs is not None]
    assert len(keyed) >= 3 * len(ways) - 3
    for first, second in itertools.combinations(keyed, 2):
        assert first.id is not None
        assert first.id != second.id or first.blind == second.blind
    # And not for want of graphs that torch tells apart. (We tell more apart: inference mode from no_grad.)
    assert len({key.blind for key in keyed}) >= 2 * len(ways)
