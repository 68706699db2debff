"""The part `code`: what is known of a user's operator, each fact changed alone."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops.effects import _EffectType
from warmgraph.backend.torch_api import operators as operator_compat

from .cases import changed, of_inputs

NAME = "wgfields::operator"


@torch.library.custom_op(NAME, mutates_args=())
def operator(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


operator.register_fake(lambda x: torch.empty_like(x))


def one(*arguments):
    return arguments[0]


def two(*arguments):
    return arguments[-1]


def key(overload=None):
    return of_inputs(torch.ones(3), call=overload or torch.ops.wgfields.operator.default).key()


def roles(keyed):
    """The lines of the part, without the operator's name."""
    lines = [line for line in keyed.texts()["code"].splitlines() if not line.startswith("torch.")]
    return {line.partition('".')[2].partition(":")[0]: line for line in lines}


# The fact -> where torch keeps the function.
FUNCTIONS = {"fake": "_abstract_fn", "backward": "_backward_fn", "setup_context": "_setup_context_fn"}
FUNCTIONS["vmap"] = "_vmap_fn"


@pytest.mark.parametrize("role", FUNCTIONS)
def test_a_function_that_tracing_relies_on_changes_its_line(role, monkeypatch, record_property):
    """By its source; the operator itself is called by name, and is not in the key."""
    found = []
    for function in (one, two):
        monkeypatch.setattr(operator_compat.OPDEFS[NAME], FUNCTIONS[role], function)
        found.append(key())
    assert changed(*found) == {"code"}
    before, after = map(roles, found)
    assert {name for name in before if before[name] != after[name]} == {role}
    record_property("key_field", ["code", role])


INNER = "wgfields::inner"


@torch.library.custom_op(INNER, mutates_args=())
def inner(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


def calls_inner(ctx, g):
    return inner(g)


def calls_its_overload(ctx, g, call=torch.ops.wgfields.inner.default):
    return call(g)


def calls_the_first_again(ctx, g):
    return operator(g)


@pytest.mark.parametrize("backward", [calls_inner, calls_its_overload])
def test_an_operator_that_a_backward_calls_is_described_with_it(backward, monkeypatch, record_property):
    """Operators mostly come in pairs, a forward and a backward; the second may even lead back to the first."""
    found = []
    monkeypatch.setattr(operator_compat.OPDEFS[NAME], "_backward_fn", backward)
    for function in (one, two, calls_the_first_again):
        monkeypatch.setattr(operator_compat.OPDEFS[INNER], "_backward_fn", function)
        found.append(key())
    assert changed(found[0], found[1]) == changed(found[1], found[2]) == changed(found[0], found[2]) == {"code"}
    record_property("key_field", ["code", "operator that a backward calls"])


def test_autocast_of_an_operator_changes_its_line(monkeypatch, record_property):
    """A dtype that `register_autocast` casts to."""
    before = key()
    monkeypatch.setattr(operator_compat.OPDEFS[NAME], "_autocast_cpu_dtype", torch.bfloat16, raising=False)
    after = key()
    assert changed(before, after) == {"code"}
    assert {name.partition(".")[0] for name in roles(before) if roles(before)[name] != roles(after)[name]} == {
        "autocast"
    }
    record_property("key_field", ["code", "autocast"])


@pytest.mark.parametrize(
    ("fact", "holder", "name", "value"),
    [
        ("effect", "effect", "_effect", _EffectType.ORDERED),
        ("symmetric_memory", "symm_mem_args", "_symm_mem_args", ["x"]),
    ],
)
def test_what_torch_registered_of_an_operator_changes_its_line(fact, holder, name, value, monkeypatch, record_property):
    """Side effects that order its calls, and arguments that must lie in symmetric memory."""
    entry = operator_compat.simple_registry.singleton.find(NAME)
    if not hasattr(entry, holder):
        pytest.skip("since torch 2.13")
    before = key()
    monkeypatch.setattr(getattr(entry, holder), name, value)
    after = key()
    assert changed(before, after) == {"code"}
    assert {name for name in roles(before) if roles(before)[name] != roles(after)[name]} == {fact}
    record_property("key_field", ["code", fact])


DEFINITIONS = {
    "schema": [("wgone(Tensor x) -> Tensor", ()), ("wgone(Tensor x, int n=1) -> Tensor", ())],
    "name of an argument": [("wgone(Tensor x) -> Tensor", ()), ("wgone(Tensor y) -> Tensor", ())],
    "mutation in the schema": [("wgone(Tensor x) -> Tensor", ()), ("wgone(Tensor(a!) x) -> Tensor", ())],
    "tags": [("wgone(Tensor x) -> Tensor", ()), ("wgone(Tensor x) -> Tensor", (torch.Tag.flexible_layout,))],
}


@pytest.mark.parametrize("fact", DEFINITIONS)
def test_a_definition_changes_its_line(fact, record_property):
    """Of an operator that was defined with `torch.library.Library`."""
    found = []
    for schema, tags in DEFINITIONS[fact]:
        library = torch.library.Library("wgfields2", "DEF")
        library.define(schema, tags=tags)
        library.impl("wgone", lambda x, *rest: x.clone(), "CPU")
        found.append(key(torch.ops.wgfields2.wgone.default))
        library._destroy()
    assert changed(*found) == {"code"}
    before, after = map(roles, found)
    assert {name for name in before if before[name] != after[name]} == {"tags" if fact == "tags" else "schema"}
    record_property("key_field", ["code", fact])


def test_a_kernel_that_inductor_calls_itself_is_in_the_key():
    """On uniform constants, where the operator is pointwise."""

    def of(kernel):
        library = torch.library.Library("wgfields3", "DEF")
        library.define("wgone(Tensor x) -> Tensor", tags=(torch.Tag.pointwise,))
        library.impl("wgone", kernel, "CPU")
        try:
            return key(torch.ops.wgfields3.wgone.default)
        finally:
            library._destroy()

    def kernel(x):
        return x.clone()

    assert of(kernel) == of(kernel) != of(lambda x: x * 2)


def test_every_line_of_an_operator_is_listed(monkeypatch):
    """A fact that is read and not listed has no test."""
    for name in FUNCTIONS.values():
        monkeypatch.setattr(operator_compat.OPDEFS[NAME], name, one)
    listed = {*FUNCTIONS, "schema", "tags", "autocast", "effect", "symmetric_memory", "kernels"}
    assert {name.partition(".")[0] for name in roles(key())} <= listed
