"""`warmgraph.cache_hash`: the same everywhere, another for whatever else the function may do, or a reason."""

import functools
import os
import subprocess
import sys

import numpy
import pytest
import torch
import warmgraph.hashing
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import warmgraph

PROGRAM = """
import functools, sys, warmgraph
assert "torch" not in sys.modules
hash_of = warmgraph.cache_hash          # imports torch, now that it is needed
import torch

SETS, TABLE, SCALE = frozenset({"a", "b", "c", "d"}), {"x": 1, "y": 2.5}, torch.linspace(0, 1, 7)

def helper(x, names={"k", "l", "m"}):
    return x.to(torch.int8) if x.dtype in {torch.float32, torch.float64} and names else TABLE

def quantizer(by):
    half = torch.tensor([by / 2])
    def pack(x, rounding="up"):
        import torch.nn.functional as F
        return helper(F.relu(x) * by * half * SCALE), "a" in SETS
    return pack

print(hash_of(quantizer(3.0)), hash_of(functools.partial(helper, names=())), hash_of(lambda x: x[..., 1:2]))
"""


def test_it_is_the_same_in_another_process_folder_and_hash_seed(tmp_path):
    """And for a script, a module and a program without a file."""
    found = []
    for number, how in enumerate(("script", "module", "text")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / f"program_{number}.py").write_text(PROGRAM)
        arguments = {"script": [f"program_{number}.py"], "module": ["-m", "program_1"], "text": ["-c", PROGRAM]}[how]
        environment = {**os.environ, "PYTHONHASHSEED": str(number), "HOME": str(folder)}
        process = subprocess.run(
            [sys.executable, *arguments], env=environment, cwd=folder, capture_output=True, text=True, timeout=120
        )
        assert process.returncode == 0, process.stderr[-2000:]
        found.append(process.stdout.split())
    assert found[0] == found[1] == found[2]
    assert len(set(found[0])) == 3


CONSTANTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


def closing_over(value):
    return lambda x: (x, value)


def with_default(value):
    def function(x, by=value):
        return x, by

    return function


def applied(value):
    return functools.partial(closing_over(1), value)


@settings(deadline=None)
@given(CONSTANTS, CONSTANTS, st.sampled_from([closing_over, with_default, applied]))
def test_two_values_share_a_hash_only_if_they_are_one(a, b, make):
    """In type and content, wherever a function holds them; -0.0 and 0.0, 1 and True and 1.0 are two."""
    same = warmgraph.hashing.encode(a) == warmgraph.hashing.encode(b) and repr(a) == repr(b)
    assert (warmgraph.cache_hash(make(a)) == warmgraph.cache_hash(make(b))) == same
    assert warmgraph.cache_hash(make(a)) == warmgraph.cache_hash(make(a))


@pytest.mark.parametrize(
    "change", [torch.ones(3) * 2, torch.ones(4), torch.ones(3).double(), torch.ones(3, requires_grad=True)]
)
def test_a_tensor_counts_by_its_content(change):
    """Values, shape, type, and whether it requires grad."""
    base = warmgraph.cache_hash(closing_over(torch.ones(3)))
    assert warmgraph.cache_hash(closing_over(torch.ones(3))) == base
    assert warmgraph.cache_hash(closing_over(change)) != base


CALLS = 0


def counts_its_calls(x):
    global CALLS
    CALLS += 1
    return x * CALLS


def counter():
    calls = 0

    def count(x):
        nonlocal calls
        calls += 1
        return x * calls

    return count


def reads_the_environment(x):
    return x * float(os.environ["SCALE"])


def reads_a_file(x):
    return x * float(open("scale").read())


def is_ahead_of_its_helper(x):
    return not_there_yet(x)  # noqa: F821


def calls_an_operator(x):
    return torch.ops.mine.scale(x)


REFUSED = {
    "changes CALLS": counts_its_calls,
    "changes calls": counter(),
    "depends on more than its code": reads_the_environment,
    "uses open": reads_a_file,
    "not_there_yet, which is not defined": is_ahead_of_its_helper,
    r"torch\.ops\.mine": calls_an_operator,
    r"closure value of .*test_cache_hash\.py:\d+.*builtins\.object": closing_over(object()),
    "torch.nn.modules.linear.Linear": closing_over(torch.nn.Linear(2, 2)),
    "compiled code outside torch": closing_over(numpy.zeros),
    "no stable identity": torch.fx.symbolic_trace(lambda x: x),
    "layout torch.sparse_coo": closing_over(torch.eye(2).to_sparse()),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_be_seen_is_refused_with_its_reason(reason):
    """And the place where it stands."""
    with pytest.raises(warmgraph.Uncacheable, match=reason):
        warmgraph.cache_hash(REFUSED[reason])


def test_only_what_can_be_called_has_a_hash():
    """A string is one already."""
    with pytest.raises(TypeError, match="not a str"):
        warmgraph.cache_hash("v1")


def key_with(saved):
    """The key of a checkpointed function whose policy saves `saved`."""
    from warmgraph.backend.key.context import key_context

    def policy(context, operator, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if operator in saved else CheckpointPolicy.PREFER_RECOMPUTE

    context = functools.partial(create_selective_checkpoint_contexts, policy)
    context.cache_hash = warmgraph.cache_hash(context)
    found = []

    def backend(gm, inputs):
        found.append(warmgraph.hashing.key_of(gm, inputs, key_context(gm, inputs, "warmgraph")).id)
        return gm.forward

    torch._dynamo.reset()
    step = torch.compile(
        lambda x: checkpoint(lambda y: (y @ y).sin().exp(), x, use_reentrant=False, context_fn=context),
        backend=backend,
    )
    step(torch.ones(3, 3, requires_grad=True))
    return found


def test_a_checkpoint_policy_can_be_given_its_hash():
    """Set on the functools.partial: another policy is another key."""
    mm, sin = torch.ops.aten.mm.default, torch.ops.aten.sin.default
    assert key_with([mm]) == key_with([mm])
    assert key_with([mm]) != key_with([sin])
