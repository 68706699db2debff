"""What a field of a key is, and the fields of the part `graph`. The other parts' are in the files beside it.

Each says what is changed, alone, and which parts must change with it. `test_fields.py` tries them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from . import cases
from .cases import Case, everything

Build = Callable[[], Case]


@dataclass(frozen=True, slots=True)
class Field:
    """One input of a key. `parts`: all that must change, and nothing else."""

    part: str
    name: str
    before: Build
    after: Build
    parts: frozenset[str]
    needs_gpu: bool = False

    def __str__(self) -> str:
        return f"{self.part}: {self.name}"


def edited(edit: Callable[[Case], Any]) -> Build:
    """`everything`, with one thing changed."""

    def build() -> Case:
        case = everything()
        edit(case)
        case.gm.graph.lint()
        return case

    return build


def one(part: str, name: str, edit: Callable[[Case], Any], *also: str) -> Field:
    return Field(part, name, everything, edited(edit), frozenset((part, *also)))


# --- graph ------------------------------------------------------------------------------------------------------------


def _op(case: Case) -> None:
    node = case.node("relu")
    node.op, node.target = "call_method", "relu"


def _swap(case: Case) -> None:
    node = case.node("sub")
    node.args = node.args[::-1]


def _order(case: Case) -> None:
    case.node("doubled").append(case.node("added"))


def _insert(case: Case) -> None:
    with case.gm.graph.inserting_after(case.node("relu")):
        case.gm.graph.call_function(torch.relu, (case.node("x"),))


def _bodies_swapped(case: Case) -> None:
    node = case.node("chosen")
    node.args = (node.args[0], node.args[2], node.args[1], node.args[3])


def _output(case: Case, value: Callable[[Any, Any], Any]) -> None:
    node = case.node("output")
    node.args = (value(*node.args[0]),)


def _constant(name: str, value: Any) -> Field:
    position = list(cases.CONSTANTS).index(name)

    def edit(case: Case) -> None:
        node = case.node("constants")
        values = list(node.args[1])
        values[position] = value
        node.args = (node.args[0], tuple(values))

    return one("graph", f"constant {name} -> {value!s}"[:60], edit)


def _set(name: str, **attributes: Any) -> Callable[[Case], None]:
    def edit(case: Case) -> None:
        for attribute, value in attributes.items():
            setattr(case.node(name), attribute, value)

    return edit


def _weights(value: torch.Tensor) -> Callable[[Case], None]:
    return lambda case: setattr(case.gm, "weights", value)


def _arg(case: Case, name: str, position: int, value: Any) -> None:
    args = list(case.node(name).args)
    args[position] = value
    case.node(name).args = tuple(args)


@dataclass(frozen=True, slots=True)
class _Annotation:
    """As `torch._inductor`'s override of CUDA graphs."""

    fwd: bool | None
    bwd: bool | None


def _context(cache_hash: Any) -> Any:
    def context() -> None: ...

    context.cache_hash = cache_hash
    return context


GRAPH = [
    one("graph", "kind of node", _op),
    one("graph", "function", _set("relu", target=torch.sigmoid)),
    one("graph", "method", _set("scaled", target="div")),
    one("graph", "operator", _set("added", target=torch.ops.aten.mul.Tensor)),
    one("graph", "overload", _set("added", target=torch.ops.aten.add.Scalar)),
    one("graph", "higher-order operator", _set("chosen", target=torch.ops.higher_order.while_loop)),
    one("graph", "order of arguments", _swap),
    one("graph", "first argument", lambda case: _arg(case, "sub", 0, case.node("x"))),
    one("graph", "second argument", lambda case: _arg(case, "sub", 1, case.node("x"))),
    one("graph", "argument nested in a list", lambda case: _arg(case, "chosen", 3, (case.node("relu"),))),
    one("graph", "number of arguments", lambda case: _arg(case, "chosen", 3, (case.node("sub"),) * 2)),
    one("graph", "value of a keyword", _set("sub", kwargs={"alpha": 4})),
    one("graph", "type of a keyword's value", _set("sub", kwargs={"alpha": 3.0})),
    one("graph", "name of a keyword", _set("sub", kwargs={"beta": 3})),
    one("graph", "a keyword that is left out", _set("sub", kwargs={})),
    one("graph", "edge in a keyword", lambda case: _set("sub", kwargs={"alpha": case.node("n")})(case)),
    _constant("int", 8),
    _constant("int", 7.0),
    _constant("bool", False),
    _constant("bool", 1),
    _constant("float", 2.5000000000000004),
    _constant("float", float("nan")),
    _constant("zero", -0.0),
    _constant("zero", 0),
    _constant("text", "other"),
    _constant("text", b"text"),
    _constant("bytes", b"other"),
    _constant("complex", 2j),
    _constant("none", 0),
    _constant("dtype", torch.float16),
    _constant("device", torch.device("cuda:0")),
    _constant("layout", torch.sparse_coo),
    _constant("memory format", torch.channels_last),
    _constant("slice", slice(0, 3, None)),
    _constant("slice", slice(0, 2, 1)),
    _constant("ellipsis", None),
    _constant("list", [2, 1]),
    _constant("list", (1, 2)),
    _constant("tuple", (1,)),
    _constant("tuple", ((1, 2),)),
    _constant("size", torch.Size([2, 1])),
    _constant("range", range(4)),
    _constant("dictionary", {"a": 2, "b": 1}),
    _constant("frozen set", frozenset({1, 3})),
    _constant("tensor", torch.arange(3.0) + 1),
    one("graph", "symbolic size in an argument", lambda case: _arg(case, "narrowed", 3, case.inputs[0] + 2)),
    one("graph", "order of nodes", _order),
    one("graph", "one more node", _insert),
    one("graph", "order of outputs", lambda case: _output(case, lambda a, b: (b, a))),
    one("graph", "number of outputs", lambda case: _output(case, lambda a, b: (a,))),
    one("graph", "an output that is given twice", lambda case: _output(case, lambda a, b: (a, a))),
    one("graph", "structure of outputs", lambda case: _output(case, lambda a, b: ((a,), b))),
    one("graph", "type of the outputs' container", lambda case: _output(case, lambda a, b: [a, b])),
    one("graph", "node in a nested graph", lambda case: setattr(case.gm, "inner", cases.body(torch.tan))),
    one("graph", "which nested graph", _bodies_swapped),
    one("graph", "attribute's content", _weights(torch.arange(4.0) + 1)),
    one("graph", "attribute's dtype", _weights(torch.arange(4))),
    one("graph", "attribute's size", _weights(torch.arange(4.0).reshape(2, 2))),
    one("graph", "attribute's stride", _weights(torch.arange(4.0).repeat_interleave(2)[::2])),
    one("graph", "attribute's requires_grad", _weights(torch.arange(4.0).requires_grad_())),
    one("graph", "which attribute", _set("weights", target="others")),
    one("graph", "constant or input", _set("lifted", target="weights")),
    one("graph", "placeholder's default", _set("y", args=(None,))),
    one("graph", "annotation of a call", lambda case: case.node("relu").meta.update(custom={"stage": 2})),
    one("graph", "annotation of CUDA graphs", lambda c: c.gm.meta.update(cudagraph_annotation=_Annotation(True, None))),
    one("graph", "checkpoint's policy", lambda c: c.gm.meta.update(_checkpoint_context_fn=_context("a"))),
    Field(
        "graph",
        "annotation of CUDA graphs in the backward",
        edited(lambda c: c.gm.meta.update(cudagraph_annotation=_Annotation(True, True))),
        edited(lambda c: c.gm.meta.update(cudagraph_annotation=_Annotation(True, False))),
        frozenset({"graph"}),
    ),
    Field(
        "graph",
        "checkpoint policy's hash",
        edited(lambda c: c.gm.meta.update(_checkpoint_context_fn=_context("a"))),
        edited(lambda c: c.gm.meta.update(_checkpoint_context_fn=_context("b"))),
        frozenset({"graph"}),
    ),
    Field(
        "graph",
        "what a kernel's index stands for",
        edited(lambda c: c.extra.update(resolve=lambda node: {"alpha": 1} if node.name == "sub" else None)),
        edited(lambda c: c.extra.update(resolve=lambda node: {"alpha": 2} if node.name == "sub" else None)),
        frozenset({"graph"}),
    ),
]
