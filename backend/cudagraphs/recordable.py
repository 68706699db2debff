"""Whether a graph of AOTAutograd's can go into CUDA graphs: the facts, and the verdict on them. Records nothing.

Facts are read off the graph when it is compiled, while its nodes still say what they compute on, and are kept with it;
the verdict is made of them and of this process's settings after a compile and after a load alike. torch's rules
(`torch/_dynamo/backends/cudagraphs.py`), with Inductor's for parameters, control flow and symbolic sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from msgspec import Struct
from msgspec.structs import asdict
from torch.fx import GraphModule, Node
from warmgraph.cache import Reason

from ..torch_api import compile as compat
from ..torch_api import cudagraph_trees as cudagraphs
from .input_mutation import mutated_inputs
from .skips import Skip, in_words, mutation

Side = Literal["forward", "backward", "inference"]

# They look at a tensor's value to decide what to run. torch's `cudagraphs` lets them through, and fails at recording.
_CONTROL_FLOW = ("cond", "switch", "while_loop", "while_loop_stack_output")


class Facts(Struct, frozen=True):
    """devices: each with the first node on it. unsafe: a node that cannot be recorded, by name, or None.

    mutated, static: positions of inputs. symbolic: a node with symbolic sizes, or None.
    """

    devices: Mapping[str, str]
    unsafe: str | None
    mutated: Sequence[int]
    static: Sequence[int]
    symbolic: str | None

    def data(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any], gm: GraphModule) -> Facts:
        """Raises ValueError for what are no facts on `gm`."""
        names = {node.name for node in gm.graph.nodes}
        inputs = range(len(gm.graph.find_nodes(op="placeholder")))
        match dict(data):
            case {"devices": dict(devices), "unsafe": unsafe, "mutated": list(mutated), "static": list(static), **rest}:
                found = cls(devices, unsafe, mutated, static, rest.pop("symbolic", None))
                named = {*devices.values(), unsafe, found.symbolic} - {None}
                positions = [*mutated, *static]
                if not rest and named <= names and all(type(p) is int and p in inputs for p in positions):
                    return found
        raise ValueError("no facts on this graph")


def facts_of(gm: GraphModule, side: Side) -> Facts:
    """Of a graph as AOTAutograd hands it to its compiler, while it does."""
    devices: dict[str, str] = {}
    symbolic = None
    for node in gm.graph.nodes:
        for value in _values(node):
            if isinstance(value, torch.Tensor):
                devices.setdefault(str(value.device), node.name)
            if symbolic is None and node.op == "placeholder" and _is_symbolic(value):
                symbolic = node.name
    unsafe = _unsafe(gm)
    static = cudagraphs.saved_inputs(gm) if side == "backward" else cudagraphs.static_inputs(gm)
    return Facts(devices, unsafe.name if unsafe is not None else None, mutated_inputs(gm), static, symbolic)


def _values(node: Node) -> Sequence[Any]:
    value = node.meta.get("val")
    return value if isinstance(value, (tuple, list)) else (value,)


def _is_symbolic(value: Any) -> bool:
    sizes: tuple[Any, ...] = (value,)
    if isinstance(value, torch.Tensor):  # only strided ones have strides
        sizes = (*value.size(), *(value.stride() if value.layout is torch.strided else ()))
    return any(isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool)) for size in sizes)


def _unsafe(gm: GraphModule) -> Node | None:
    """The first node of `gm` that cannot be recorded, or that nests a graph with one."""
    by_torch = cudagraphs.first_unsafe(gm)
    for node in gm.graph.nodes:
        if node is by_torch or getattr(node.target, "__name__", "") in _CONTROL_FLOW:
            return node
        if node.op == "call_function" and any(_unsafe(module) is not None for module in _nested(gm, node)):
            return node
    return None


def _nested(gm: GraphModule, node: Node) -> Iterator[GraphModule]:
    for given in node.all_input_nodes:
        found = getattr(gm, str(given.target), None) if given.op == "get_attr" else None
        if isinstance(found, GraphModule):
            yield found


def device_index(facts: Facts) -> int:
    """The GPU of a graph without a verdict."""
    (device,) = _real(facts)
    index = torch.device(device).index
    return int(torch.cuda.current_device() if index is None else index)


def _real(facts: Facts) -> dict[str, str]:
    return {device: name for device, name in facts.devices.items() if device != "meta"}


def verdict(gm: GraphModule, facts: Facts, names: Sequence[str | None]) -> Skip | None:
    """Why `gm` is not recorded; None when it is. names: of its inputs in the user's program."""
    nodes = {node.name: node for node in gm.graph.nodes}
    devices = _real(facts)
    cpu = next((name for device, name in devices.items() if torch.device(device).type == "cpu"), None)
    if cpu is not None:
        return in_words(f"cpu device ({cpu}){_found(nodes[cpu])}", names)
    if not devices:
        return Skip(Reason.SKIP_OTHER, "nothing in it works on a device")
    if len(devices) > 1:
        first = nodes[list(devices.values())[1]]
        listed = ", ".join(f"{device} ({name})" for device, name in devices.items())
        return in_words(f"multiple devices: {listed}, here{_found(first)}", names)
    if torch.device(*devices).type != "cuda":
        return Skip(Reason.SKIP_DEVICES, f"there are no CUDA graphs on {next(iter(devices))}")
    if facts.unsafe is not None:
        node = nodes[facts.unsafe]
        return in_words(f"incompatible op {node.target} ({node.name}){_found(node)}", names)
    return _by_settings(gm, facts, names, nodes)


def _by_settings(gm: GraphModule, facts: Facts, names: Sequence[str | None], nodes: Mapping[str, Node]) -> Skip | None:
    if not cudagraphs.supports_input_mutations() and (written := sorted(set(facts.mutated) - set(facts.static))):
        known = cudagraphs.placeholders(gm)
        return mutation([(p, known[p].name, known[p].mutating_use_stack_trace) for p in written], names)
    if facts.symbolic is not None and compat.inductor_config.triton.cudagraph_skip_dynamic_graphs:
        why = "graph with symbolic shapes inputs and config.triton.cudagraph_skip_dynamic_graphs=True"
        return in_words(f"{why}{_found(nodes[facts.symbolic])}", names)
    if cudagraphs.uncached_allocator():
        return Skip(Reason.SKIP_DISABLED, "the caching allocator is off, and CUDA graphs need it")
    return None


def _found(node: Node) -> str:
    """The user's line, as torch's messages have it: of the node, else of what uses it."""
    traces = [one.meta.get("stack_trace") for one in (node, *node.users)]
    trace = next((trace for trace in traces if trace), None)
    return "" if trace is None else f". Found from : \n {trace}"
