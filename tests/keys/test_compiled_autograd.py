"""Keys of the graphs that compiled autograd makes: each thing that changes what a backward computes changes its key.

That a warm process finds what a cold one made is in tests/constructs (`switches/compiled_autograd_*`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo import compiled_autograd
from torch.fx import GraphModule, Node
from warmgraph.backend.key.context import key_context
from warmgraph.backend.key.saved_tensors_hooks import unsafe_reason
from warmgraph.backend.torch_api import versions
from warmgraph.backend.torch_api.entrances.compiled_autograd import Flat, flattened
from warmgraph.hashing import Uncacheable, key_of

pytestmark = pytest.mark.skipif(versions.at_hand() < (2, 13), reason="bypassed before torch 2.13")

Step = Callable[[], torch.Tensor]


def key(gm: GraphModule, inputs: Any) -> str:
    return key_of(gm, inputs, key_context(gm, inputs, "warmgraph")).id


def backward_of(step: Step, seen: Callable[[Flat], Any]) -> Any:
    """What `seen` says of the one graph that compiled autograd makes of the backward of `step`."""
    found = []

    def backend(gm: GraphModule, inputs: Any) -> Any:
        flat = flattened(gm, inputs)
        assert flat is not None
        assert unsafe_reason(flat.gm, flat.inputs) is None
        found.append(seen(flat))
        return gm.forward

    torch._dynamo.reset()
    out = step()
    with compiled_autograd._enable(torch.compile(backend=backend, dynamic=False)):
        out.backward()
    [only] = found
    return only


def step_of(
    *,
    scale: float = 2.0,
    mean: bool = False,
    after: float = 1.0,
    gradient: torch.dtype | None = None,
    hook: bool = False,
    rows: int = 3,
) -> Step:
    """A compiled forward and an eager end, so that both kinds of nodes are in the graph."""

    def step() -> torch.Tensor:
        x = torch.arange(rows * 4.0).reshape(rows, 4).requires_grad_()
        w = torch.ones(4, 4, requires_grad=True)
        if gradient is not None:
            x.grad = torch.zeros_like(x, dtype=gradient) if gradient == x.dtype else None
        if hook:
            w.register_hook(lambda grad: grad * 3)
        compiled = torch.compile(lambda x, w: (x @ w).sin() * scale, backend="aot_eager", dynamic=False)
        out = compiled(x, w) * after
        return out.mean() if mean else out.sum()

    return step


CHANGES: dict[str, dict[str, Any]] = {
    "a number in the forward": {"scale": 3.0},
    "another eager node": {"mean": True},
    "a gradient that is added to": {"gradient": torch.float32},
    "a hook": {"hook": True},
    "a size": {"rows": 5},
}


def test_the_same_backward_has_one_key() -> None:
    """Whatever number an eager node multiplies with: that is an input of the graph."""
    found = {backward_of(step_of(after=after), lambda flat: key(flat.gm, flat.inputs)) for after in (1.0, 1.0, 4.0)}
    assert len(found) == 1


@pytest.mark.parametrize("change", CHANGES)
def test_one_change_moves_the_key(change: str) -> None:
    found = {backward_of(step_of(**more), lambda flat: key(flat.gm, flat.inputs)) for more in ({}, CHANGES[change])}
    assert len(found) == 2


def test_the_same_graph_outside_is_another() -> None:
    """Parameters are static inputs inside, and hooks on saved tensors are left alone."""

    def both(flat: Flat) -> tuple[str, str]:
        inside = key(flat.gm, flat.inputs)
        compiled_autograd.in_compiled_autograd_region = False
        try:
            return inside, key(flat.gm, flat.inputs)
        finally:
            compiled_autograd.in_compiled_autograd_region = True

    inside, outside = backward_of(step_of(), both)
    assert inside != outside


def prologue(flat: Flat) -> Any:
    """The function that torch wrote for the forward, which starts its backward."""
    [node] = [one for one in flat.gm.graph.nodes if "bwd_prologue" in getattr(one.target, "__name__", "")]
    [cell] = node.target.__closure__
    return cell.cell_contents


def layout(metas: list[Any]) -> list[Any]:
    how = metas[0].memory_format
    return [dataclasses.replace(metas[0], memory_format=dataclasses.replace(how, stride=[1, 3])), *metas[1:]]


@pytest.mark.parametrize(
    ("name", "change", "moves"),
    [
        ("_tangent_metas_", layout, True),
        ("_tangent_metas_", lambda metas: [dataclasses.replace(metas[0], unwrapped_idx=1)], True),
        ("_compile_id_", lambda value: "7/7", False),
        ("_tangent_descs_", lambda value: [], False),
    ],
)
def test_records_of_the_forward_count(name: str, change: Callable[[Any], Any], moves: bool) -> None:
    """How gradients are laid out before the compiled backward begins; not what messages say of them."""

    def both(flat: Flat) -> tuple[str, str]:
        records = prologue(flat).__globals__
        first, kept = key(flat.gm, flat.inputs), records[name]
        records[name] = change(kept)
        try:
            return first, key(flat.gm, flat.inputs)
        finally:
            records[name] = kept

    first, second = backward_of(step_of(), both)
    assert (first != second) is moves


def test_unknown_records_are_refused() -> None:
    """A subclass's metadata, say: an object of the user's."""

    def refused(flat: Flat) -> str:
        records = prologue(flat).__globals__
        kept = records["_tangent_metas_"]
        records["_tangent_metas_"] = [object()]
        try:
            with pytest.raises(Uncacheable) as error:
                key(flat.gm, flat.inputs)
        finally:
            records["_tangent_metas_"] = kept
        return str(error.value)

    assert "no stable identity" in backward_of(step_of(), refused)


@pytest.mark.parametrize("name", ["is_custom_function", "__name__"])
def test_nodes_that_are_not_torchs_are_refused(name: str) -> None:
    """What a C++ extension brings, or an object that only says that it is torch's."""

    def refused(flat: Flat) -> str:
        node: Node = next(one for one in flat.gm.graph.nodes if type(one.target) is compiled_autograd.Op)
        planted = compiled_autograd.Op(node.target.__name__, node.target.fn, name == "is_custom_function")
        node.target = planted
        if name == "is_custom_function":
            known, ops = getattr(compiled_autograd.ops, planted.__name__), compiled_autograd.ops
            setattr(ops, planted.__name__, planted)
        try:
            with pytest.raises(Uncacheable) as error:
                key(flat.gm, flat.inputs)
        finally:
            if name == "is_custom_function":
                setattr(ops, planted.__name__, known)
        return str(error.value)

    assert "not torch's own" in backward_of(step_of(), refused)


def test_a_list_that_is_used_whole_is_left_to_torch() -> None:
    """What takes the list itself, and not one item after the other, has no flat form here."""
    graph = torch.fx.Graph()
    values = graph.placeholder("inputs")
    values.meta["steal_arg"] = True
    graph.output((graph.call_function(torch.stack, (values,)),))
    compiled_autograd.in_compiled_autograd_region = True
    try:
        assert flattened(GraphModule({}, graph), [[torch.ones(2)]]) is None
    finally:
        compiled_autograd.in_compiled_autograd_region = False
