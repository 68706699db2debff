"""Inductor's freezing: weights become constants of the code, folded into others and packed. Kept is how each constant
is made of the weights, as a graph that is run again where the code is loaded; no weight is.

Torch's own cache takes constants from the graph that it has just frozen anew.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from msgspec import Struct
from torch._inductor.output_code import CompiledFxGraph, CompiledFxGraphConstants, OutputCode
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_aggregate
from warmgraph.hashing import inner_parts

from .. import patches
from ..capture import is_capturing
from ..compile import no_dispatch_modes
from ..operators import OpOverloadPacket, overload_names

Run = Callable[[list[Any]], Any]


def keep_frozen() -> None:
    """Frozen graphs that are captured from now on come as FrozenCode. Raises patches.Moved."""
    importlib.import_module("torch._inductor.freezing")  # it calls what is replaced under a name of its own
    patches.install("freezing", _compiling)
    patches.install("constants of weights", _replacing)


class Making(Struct, frozen=True):
    """How constants are made. graph: gives them, in the order of `names`, of the inputs at `read`, which are weights.
    kinds: of each, what code takes for granted.
    """

    graph: GraphModule
    names: list[str]
    kinds: list[Any]
    read: list[int]


class FrozenCode(OutputCode):  # type: ignore[misc]  # torch's class is untyped
    """A frozen graph as AOTAutograd's compiler returns it.

    code: Inductor's. making: None with a `problem`. kept: positions of those inputs that the code takes.
    """

    def __init__(self, run: Run, code: Any, constants: _Constants) -> None:
        super().__init__()
        self.code, self.kept, self._run = code, constants.kept(), run
        self.making, self.problem = constants.all_of(code), constants.problem
        self._boxed_call = True  # on the instance: torch's wrappers copy its `__dict__`

    def __call__(self, inputs: Sequence[Any]) -> Any:
        return self._run(inputs)  # type: ignore[arg-type]

    def prepare_for_serialization(self) -> None:
        self.code = copy.copy(self.code)
        self.code.prepare_for_serialization()

    def post_compile(self, *_: Any) -> None: ...

    def set_triton_bundle(self, triton_bundle: Any) -> None: ...


class _Constants:
    """How constants of one graph are made, as torch makes them."""

    def __init__(self, gm: GraphModule) -> None:
        self._graph = Graph()
        self._root = torch.nn.Module()
        self._inputs = {
            node.name: self._graph.placeholder(f"input_{number}")
            for number, node in enumerate(gm.graph.find_nodes(op="placeholder"))
        }
        self._frozen: set[str] = set()
        self._made: dict[int, tuple[torch.Tensor, Node]] = {}  # by the id of a constant, which is kept alive
        self._holder: GraphModule = gm
        self.problem: str | None = None

    def add(self, gm: GraphModule, node: Node, constant: torch.Tensor) -> None:
        """`node` is about to be replaced."""
        self._holder = gm
        if node.op == "placeholder":
            self._frozen.add(node.name)
            made = self._inputs[node.name]
        else:
            made = self._copied(gm, node)
        self._made[id(constant)] = (constant, made)

    def kept(self) -> list[int]:
        return [number for number, name in enumerate(self._inputs) if name not in self._frozen]

    def all_of(self, code: Any) -> Making | None:
        """Of the constants that the code takes from the frozen graph. None, and a `problem`, if that is not known."""
        if self.problem is None and not isinstance(code, CompiledFxGraph):
            self.problem = f"frozen code is a {type(code).__qualname__}"
        if self.problem is None:
            try:
                return self._all_of(code)
            except Exception as error:  # noqa: BLE001 - the compile is good, only keeping it is not
                self.problem = f"{type(error).__name__}: {error}"
        return None

    def _all_of(self, code: Any) -> Making:
        names = sorted(set(code.frozen_param_names.values()))
        made = [self._made.get(id(getattr(self._holder, name, None))) for name in names]
        found = [one for one in made if one is not None]
        if len(found) < len(names):
            raise LookupError(f"nobody saw how {names[made.index(None)]} was made")
        self._graph.output(tuple(node for _, node in found))
        self._graph.eliminate_dead_code()
        read = [number for number, one in enumerate(self._inputs.values()) if one.users]
        for unused in [one for one in self._inputs.values() if not one.users]:
            self._graph.erase_node(unused)
        return Making(GraphModule(self._root, self._graph), names, [kind_of(one) for one, _ in found], read)

    def _copied(self, gm: GraphModule, top: Node) -> Node:
        """The node, and all that it is made of, in our graph."""
        copies: dict[Node, Node] = {}
        waiting = [top]
        while waiting:
            node = waiting[-1]
            inner = [one for one in node.all_input_nodes if one not in copies]
            waiting += inner
            if not inner:
                copies[waiting.pop()] = self._copy(gm, node, copies)
        return copies[top]

    def _copy(self, gm: GraphModule, node: Node, copies: Mapping[Node, Node]) -> Node:
        if node.op == "call_function":
            made = self._graph.node_copy(node, copies.__getitem__)
            made.meta = {}
            made.args, made.kwargs = map_aggregate(made.args, _plain), map_aggregate(made.kwargs, _plain)
            if isinstance(made.target, OpOverloadPacket):  # passes for packed weights write these
                names = overload_names(made.target)
                made.target = getattr(made.target, names[0]) if len(names) == 1 else made.target
            return made
        value = getattr(gm, str(node.target), None) if node.op == "get_attr" else None
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"a constant is made of {node.format_node()}")
        if id(value) not in self._made:  # a constant that was there before, or that a pass made of numbers
            name = f"constant_{len(self._made)}"
            self._root.register_buffer(name, value.detach())
            self._made[id(value)] = (value, self._graph.get_attr(name))
        return self._made[id(value)][1]


def _plain(value: Any) -> Any:
    """torch 2.11 packs for a number of rows that is sympy's."""
    return int(value) if isinstance(value, sympy.Integer) else value


_thread = threading.local()


def _compiling(original: Callable[..., Any]) -> Callable[..., Any]:
    def fw_compiler_freezing(
        gm: Any, example_inputs: Any, dynamo_model: Any, num_example_inputs: Any, inner_compile: Any, **more: Any
    ) -> Any:
        code: Any = None

        def compiling(*args: Any, **named: Any) -> Any:
            nonlocal code
            code = inner_compile(*args, **named)
            return code

        before = getattr(_thread, "constants", None)
        constants = _thread.constants = _Constants(gm) if is_capturing() else None
        try:
            run = original(gm, example_inputs, dynamo_model, num_example_inputs, compiling, **more)
        finally:
            _thread.constants = before
        return FrozenCode(run, code, constants) if constants is not None else run

    return fw_compiler_freezing


def _replacing(original: Callable[..., Any]) -> Callable[..., Any]:
    def replace_node_with_constant(gm: Any, node: Any, constant: Any = None, *rest: Any, **more: Any) -> Any:
        constants = getattr(_thread, "constants", None)
        if constants is not None and constant is not None and constants.problem is None:
            try:
                constants.add(gm, node, constant)
            except Exception as error:  # noqa: BLE001 - the compile is good, only keeping it is not
                constants.problem = f"{type(error).__name__}: {error}"
        return original(gm, node, constant, *rest, **more)

    return replace_node_with_constant


# -- and again


@contextlib.contextmanager
def as_torch_folds() -> Iterator[None]:
    """The state of the thread in which a compile makes constants of weights."""
    with no_dispatch_modes(), torch.no_grad(), torch._C._DisableAutocast():
        yield


def kind_of(constant: torch.Tensor) -> list[Any]:
    """What code takes for granted of a constant. One that is packed for oneDNN has no strides."""
    strides = None if constant.is_mkldnn else list(constant.stride())
    return [str(constant.dtype), str(constant.device), str(constant.layout), list(constant.size()), strides]


class Made(CompiledFxGraphConstants):  # type: ignore[misc]
    """Constants of frozen code, as torch's loader asks for them. made: by name."""

    def __init__(self, made: Mapping[str, torch.Tensor]) -> None:
        self._made = made

    def unwrap(self, g: Any) -> dict[str, Any]:
        return {**super().unwrap(g), **{name: self._made[of] for name, of in g.frozen_param_names.items()}}


def parts_of(weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """As AOTAutograd passes them: wrapper subclasses taken apart, in torch's order."""
    found: list[torch.Tensor] = []
    for weight in weights:
        taken = inner_parts(weight)
        found += [weight] if taken is None else parts_of([*taken[0].values()])
    return found
