"""What a graph was compiled under, or a frame without one was traced under, and whether it is so now."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from msgspec.structs import replace
from torch.fx import Graph, GraphModule
from warmgraph.hashing import Uncacheable, key_of

from ...key.compiler_settings import patched_settings
from ...key.context import key_context
from ...torch_api import cudagraph_trees as cudagraphs
from ...torch_api.frames.fakes import plain_codes
from ...torch_api.frames.plain import Plain, Refused, from_plain
from ...torch_api.operators import is_one, overload_named
from ...typing import Compiler

Refusal = Callable[[GraphModule, list[Any]], Any]  # why nothing of a graph is cached, or None
# Parts of a graph's key that do not speak of the graph. Compared anew, since there is no graph to make a key of.
AROUND = ("hooks", "compiler", "ambient", "code", "toolchain", "machine")


def digests_around(
    compiler: Compiler, gm: GraphModule, devices: Sequence[str], code: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Digests of the parts around a graph, of one on these devices that does nothing else. Settings must be patched.

    code: what is known of code outside torch, which takes long to look at where packages replace torch's functions.
    """
    context = key_context(gm, [], compiler.name, compiler.settings(), code)
    digests = key_of(gm, [], replace(context, devices=[*map(torch.device, devices)])).digests()
    return {name: digests[name] for name in AROUND}


def refuse_policy(devices: Sequence[str]) -> None:
    if cudagraphs.policy() is not None and any(device.startswith("cuda") for device in devices):
        raise Refused("a cudagraph_policy is asked about its graph with inputs that only a trace has")


def patches_of(reference: Mapping[str, Any]) -> dict[str, Any]:
    return {name: from_plain(value) for name, value in reference["patches"].items()}


def around_no_graph(compiler: Compiler, refusal: Refusal) -> dict[str, Plain]:
    """What a frame that has no graph was traced under: the same, as Dynamo asks torch's tables and functions for it,
    too. Raises Refused.
    """
    nothing: dict[str, Plain] = {"patches": {}, "devices": [], "operators": []}
    return {**nothing, "around": _digests_now(nothing, compiler, refusal)}


def check_around(
    pieces: Iterable[Mapping[str, Any]], compiler: Compiler, refusal: Refusal, known: list[tuple[Any, dict[str, str]]]
) -> None:
    """Raises Refused where the settings, modes, machine or torch itself are not what these pieces of graphs were
    compiled under.

    known: what was found for other records of the same frame; it grows. A module that one of them imported since may
    have changed torch.
    """
    for piece in pieces:
        asked = [len(sys.modules), *(piece[name] for name in ("patches", "devices", "operators"))]
        now = next((digests for one, digests in known if one == asked), None)
        if now is None:
            now = _digests_now(piece, compiler, refusal)
            known.append((asked, now))
        if different := [name for name in AROUND if now[name] != piece["around"].get(name)]:
            raise Refused(f"what its graph was compiled under: {', '.join(different)}")


def _digests_now(piece: Mapping[str, Any], compiler: Compiler, refusal: Refusal) -> dict[str, str]:
    """Raises Refused where nothing is cached."""
    with patched_settings(patches_of(piece)):
        refuse_policy(piece["devices"])
        gm = calling(piece["operators"])
        if (bypass := refusal(gm, []) or compiler.refusal()) is not None:
            raise Refused(f"nothing is cached now: {bypass.detail}")
        try:
            return digests_around(compiler, gm, piece["devices"])
        except Uncacheable as bad:
            raise Refused(f"around its graph: {bad}") from None


def operators_left(ran: set[str], references: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Custom operators whose fakes ran, and that are in none of these graphs (the trace ended there, or asked for
    nothing but a size), by the names that they were called by. Raises Refused for one in a graph that was not seen.
    """
    kept = {name for reference in references for piece in reference["pieces"] for name in piece["operators"]}
    if others := kept - ran:
        raise Refused(f"operator {min(others)} runs more than plain code while it is traced")
    return {name: plain_operator(name) for name in sorted(ran - kept)}


def calling(operators: Sequence[str]) -> GraphModule:
    """A graph that calls these, and does nothing. Raises Refused as `plain_operator` does."""
    if not operators:
        return empty_graph()
    graph = Graph()
    for name in operators:
        graph.call_function(plain_operator(name))
    graph.output(())
    return GraphModule(torch.nn.Module(), graph)


def operator_named(name: str) -> Any:
    """Raises Refused for one that is not registered."""
    try:
        return overload_named(name)
    except AttributeError:
        raise Refused(f"operator {name} is not registered") from None


def plain_operator(name: str) -> Any:
    """Raises Refused for one that is not registered, a packet of several, or one that runs more than plain code."""
    operator = operator_named(name)
    if not is_one(name):
        raise Refused(f"operator {name} has overloads, and torch decides which is called")
    if plain_codes(operator) is None:
        raise Refused(f"operator {name} runs more than plain code while it is traced")
    return operator


@functools.cache
def empty_graph() -> GraphModule:
    graph = Graph()
    graph.output(())
    return GraphModule(torch.nn.Module(), graph)
