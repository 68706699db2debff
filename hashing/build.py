"""Puts a key together: one part after the other, each from its own file. Knows no store."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from msgspec import Struct, field
from torch.fx import GraphModule, Node

from .encoding.distributed import describing_once
from .encoding.encode import Uncacheable, encode
from .key import Key, Part
from .parts.ambient import ambient_state
from .parts.graph import GraphText, Resolve, collect_symbols, devices_of
from .parts.groups import names_in, numbered
from .parts.hooks import Hook, hook_devices, hook_lines
from .parts.inputs import (
    FreshFake,
    Overlapping,
    collect_input_symbols,
    fakes_of,
    input_lines,
    lifted_lines,
    lifted_tensors,
)
from .parts.machine import machine, named_devices
from .parts.places import place_lines, same_sizes_everywhere
from .parts.symbols import SymbolTable
from .parts.toolchain import toolchain
from .source_code.once import making_a_key

# Code from outside torch, which may hold groups and meshes that a digest alone tells. Not the classes of placements.
_USERS_CODE = re.compile(
    r"(?<!torch\.distributed\.tensor\.placement_types\.Shard)"
    r"(?<!torch\.distributed\.tensor\.placement_types\.Replicate)"
    r"(?<!torch\.distributed\.tensor\.placement_types\.Partial) code "
)

DescribeSymbol = Callable[[Any], tuple[str | None, Mapping[str, Any]]]


def _no_table(node: Node) -> Mapping[str, Any] | None:
    return None


def _no_fake(node: Node, real: torch.Tensor) -> torch.Tensor:
    raise Uncacheable("its metadata changes while tracing, and nothing can tell what it was before")


def _no_overlap(tensors: list[torch.Tensor]) -> Any:
    raise Uncacheable("inputs share a storage, and nothing can tell how they overlap")


class KeyContext(Struct, frozen=True):
    """What the caller knows of torch's internals and the graph alone does not say.

    compiler, code: name -> plain value, two parts of the key. symbol: a symbol's source name (None for unbacked) and
    facts. resolve: what a node's process-local indices stand for. fresh: an input's fake as it was before tracing.
    overlapping: which of several tensors in one storage overlap. cpu_code: that the generated code runs on the CPU
    whatever the devices (a C++ wrapper around GPU kernels). hooks: saved-tensors hooks that AOTAutograd will
    inline. assumed, shown: of a compile for certain sizes, what holds of symbols beside their facts (expressions of
    sympy), and a line per input with its sizes as they are. frozen: that weights become constants of the code.
    shares_ranks: that whoever compiles notes whether the code holds this rank's place in a mesh, so that the key need
    not speak of it. devices: that the graph uses, beside those that it names.
    """

    compiler: Mapping[str, Any]
    code: Mapping[str, Any] = field(default_factory=dict)
    symbol: DescribeSymbol = lambda symbol: (None, {})
    resolve: Resolve = _no_table
    fresh: FreshFake = _no_fake
    overlapping: Overlapping = _no_overlap
    cpu_code: bool = False
    hooks: Sequence[Hook] = ()
    assumed: Mapping[Any, Any] = field(default_factory=dict)
    shown: Sequence[str] = ()
    frozen: bool = False
    shares_ranks: bool = False
    devices: Collection[torch.device] = ()


@making_a_key
@describing_once()
def key_of(gm: GraphModule, inputs: Sequence[Any], key_context: KeyContext) -> Key:
    """The key of `gm` called with `inputs` (tensors, SymInts and constants, in placeholder order).

    Linear in the number of nodes. Raises Uncacheable, naming the node or input and what to do.
    """
    fakes = fakes_of(gm, inputs, key_context.fresh)
    table = SymbolTable(key_context.symbol)
    collect_input_symbols(fakes, table)
    collect_symbols(gm, table)
    lifted = lifted_tensors(gm)
    devices = devices_used(gm, [*inputs, *lifted.values()]) | hook_devices(key_context.hooks)
    devices |= {*key_context.devices}
    if key_context.cpu_code or not devices:
        devices.add(torch.device("cpu"))
    uses_cpu, uses_gpu = (any(device.type == kind for device in devices) for kind in ("cpu", "cuda"))

    body = GraphText(table, key_context.resolve, {name: number for number, name in enumerate(lifted)})
    body.add(gm)
    about_inputs = lifted_lines(lifted, frozen=key_context.frozen)
    about_inputs += input_lines(gm, inputs, fakes, lifted, table, key_context.overlapping)
    about_inputs += [*key_context.shown, *_assumed_lines(key_context.assumed, table)]
    everything = [*inputs, *lifted.values()]
    place = place_lines(everything)
    groups: tuple[str, ...] = ()
    hooks = hook_lines(key_context.hooks, key_context.resolve)
    lines = [*body.lines, *about_inputs, *hooks]
    names = names_in(lines)
    if place or names:  # of most graphs neither, and to search all lines would cost as much as the rest of a key
        of_torch = key_context.code.keys() <= {"torch"} and not any(_USERS_CODE.search(line) for line in lines)
        if key_context.shares_ranks and of_torch and same_sizes_everywhere(everything):
            groups = names
            place = [*place, *([f"groups {encode(groups)}"] if groups else [])]
        else:
            about_inputs, place = [*about_inputs, *place], []
    of_machine = machine(devices)
    parts = (
        Part.of("graph", numbered(body.lines, groups)),
        Part.of("inputs", numbered(about_inputs, groups)),
        Part.of("symbols", table.lines()),
        Part.of("hooks", numbered(hooks, groups)),
        Part.of("compiler", named_lines(key_context.compiler)),
        Part.of("ambient", named_lines(ambient_state(uses_cpu, uses_gpu))),
        Part.of("code", named_lines(key_context.code)),
        Part.of("toolchain", named_lines(toolchain())),
        Part.of("machine", named_lines(of_machine)),
    )
    return Key(parts, table.slots, body.nodes, uses_cpu, "\n".join(place), groups, named_devices(of_machine))


def devices_used(gm: GraphModule, values: Sequence[Any]) -> set[torch.device]:
    """Of what the graph computes, and of the tensors among `values`."""
    return devices_of(gm) | {value.device for value in values if isinstance(value, torch.Tensor)}


def _assumed_lines(assumed: Mapping[Any, Any], table: SymbolTable) -> list[str]:
    """What is assumed of the graph's own symbols; of others, a compile for other sizes may have left something."""
    own = [pair for pair in assumed.items() if all(table.knows(expression) for expression in pair)]
    return sorted(f"assumed {table.text(expression)}: {table.text(value)}" for expression, value in own)


def named_lines(values: Mapping[str, Any]) -> list[str]:
    """`name: value` lines in the order of names; one level of nesting is written as `name.inner: value`."""
    lines = []
    for name in sorted(values):
        value = values[name]
        try:
            if type(value) is dict and value and all(type(inner) is str for inner in value):
                lines += [f"{_name(name)}.{_name(inner)}: {encode(value[inner])}" for inner in sorted(value)]
            else:
                lines.append(f"{_name(name)}: {encode(value)}")
        except Uncacheable as bad:
            raise Uncacheable(f"{name}: {bad}", bad.cause) from None
    return lines


@functools.lru_cache(maxsize=4096)
def _name(name: str) -> str:
    return name if re.fullmatch(r"[\w.]+", name, re.ASCII) else encode(name)
