"""One graph that has something of everything, made by hand so that each input of its key can be changed alone."""

from __future__ import annotations

import dataclasses
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import torch
from torch._dynamo.source import LocalSource
from torch._subclasses import FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from warmgraph.backend.compilers.inductor import Inductor
from warmgraph.backend.key.context import key_context
from warmgraph.hashing import Hook, Key, key_of

BACKEND = Inductor.name

# A constant of each type that an argument may have.
CONSTANTS: dict[str, Any] = {
    "int": 7,
    "bool": True,
    "float": 2.5,
    "zero": 0.0,
    "text": "text",
    "bytes": b"bytes",
    "complex": 1j,
    "none": None,
    "dtype": torch.float32,
    "device": torch.device("cpu"),
    "layout": torch.strided,
    "memory format": torch.contiguous_format,
    "slice": slice(0, 2, None),
    "ellipsis": ...,
    "list": [1, 2],
    "tuple": (1, 2),
    "size": torch.Size([1, 2]),
    "range": range(3),
    "dictionary": {"a": 1, "b": 2},
    "frozen set": frozenset({1, 2}),
    "tensor": torch.arange(3.0),
}


@dataclasses.dataclass(slots=True)
class Case:
    """A graph with its inputs; edit it, then ask for its key."""

    gm: GraphModule
    inputs: list[Any]
    env: ShapeEnv | None = None
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)  # fields of KeyContext to replace

    def node(self, name: str) -> Node:
        (found,) = (node for node in self.gm.graph.nodes if node.name == name)
        return found

    def key(self) -> Key:
        around = key_context(self.gm, self.inputs, BACKEND)
        return key_of(self.gm, self.inputs, msgspec.structs.replace(around, **self.extra))


def changed(a: Key, b: Key) -> set[str]:
    """The parts in which two keys differ; empty if and only if the keys are equal."""
    names = {x.name for x, y in zip(a.parts, b.parts, strict=True) if x.digest != y.digest}
    assert bool(names) == (a.id != b.id)
    return names


def body(call: Callable[..., Any], *rest: Any) -> GraphModule:
    """A graph of one call on one input."""
    graph = Graph()
    x = graph.placeholder("a")
    graph.output((graph.call_function(call, (x, *rest)),))
    return GraphModule(torch.nn.Module(), graph)


def everything() -> Case:
    """Dynamic sizes, attributes, nested graphs, every type of constant, saved-tensors hooks, annotations."""
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    real, other = torch.ones(6, 4), torch.ones(6, 4)
    fake = mode.from_tensor(
        real,
        source=LocalSource("x"),
        symbolic_context=StatelessSymbolicContext([DimDynamic.DYNAMIC, DimDynamic.STATIC]),
    )
    size = fake.size(0)
    root = torch.nn.Module()
    root.weights = torch.arange(4.0)
    root.others = torch.arange(4.0) + 1
    root.register_buffer("lifted", torch.ones(4))
    root.inner, root.outer = body(torch.sin), body(torch.cos)

    graph = Graph()
    n = _input(graph, "n", size)
    x = _input(graph, "x", fake)
    y = _input(graph, "y", other)
    relu = graph.call_function(torch.relu, (x,))
    sub = graph.call_function(torch.sub, (relu, y), {"alpha": 3})
    graph.call_function(torch.ops.aten.add.Tensor, (sub, y)).name = "added"
    graph.call_method("mul", (sub, graph.get_attr("weights"))).name = "scaled"
    graph.call_function(torch.mul, (sub, graph.get_attr("lifted"))).name = "again"
    graph.call_function(operator.mul, (n, 2)).name = "doubled"
    with warnings.catch_warnings():  # fx would rather have a node; graphs with raw sizes exist all the same
        warnings.simplefilter("ignore", UserWarning)
        graph.call_function(torch.narrow, (sub, 0, 0, size + 1)).name = "narrowed"
    graph.call_function(operator.getitem, (sub, tuple(CONSTANTS.values()))).name = "constants"
    branches = (graph.get_attr("inner"), graph.get_attr("outer"))
    graph.call_function(torch.ops.higher_order.cond, (n, *branches, (sub,))).name = "chosen"
    for node in list(graph.nodes):
        if node.name == "relu":
            node.meta["custom"] = {"stage": 1}
    graph.output((sub, relu))
    gm = GraphModule(root, graph)
    del gm.weights  # fx makes a buffer of it, which would be an input
    gm.weights, gm.others = root.weights, root.others
    hooks = [Hook("pack", body(torch.mul, 2), "one"), Hook("unpack", body(torch.div, 2), "one")]
    return Case(gm, [size, real, other], env, {"hooks": hooks})


def _input(graph: Graph, name: str, value: Any) -> Node:
    node = graph.placeholder(name)
    node.meta["example_value"] = value
    return node


def of_inputs(*inputs: Any, call: Any = torch.relu, fakes: Sequence[Any] | None = None) -> Case:
    """A graph that does the same to whatever it is given. A scalar on the CPU comes with it, so that it is CPU code."""
    graph = Graph()
    inputs = (torch.ones(()), *inputs)
    nodes = [_input(graph, f"p{n}", value) for n, value in enumerate((inputs[0], *(fakes or inputs[1:])))]
    graph.output((graph.call_function(call, (nodes[-1],)),))
    return Case(GraphModule(torch.nn.Module(), graph), list(inputs))


class Wrapper(torch.Tensor):
    """A wrapper subclass with metadata."""

    inner: torch.Tensor
    note: Any

    @staticmethod
    def __new__(cls, inner: torch.Tensor, note: Any = 1, wide: bool = False) -> Wrapper:
        shape = (*inner.shape, 1) if wide else inner.shape
        return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner: torch.Tensor, note: Any = 1, wide: bool = False) -> None:
        self.inner, self.note = inner, note

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["inner"], self.note

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Any], note: Any, size: Any, stride: Any) -> Wrapper:
        return Wrapper(inner["inner"], note)

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(function)


class OtherWrapper(Wrapper):
    """The same under another name."""
