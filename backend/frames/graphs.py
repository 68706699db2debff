"""The compiled graphs of a frame: where each is kept, and the callable again without the graph at hand."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from msgspec.structs import replace
from torch.fx import Graph, GraphModule
from warmgraph.cache import Miss, Reason
from warmgraph.hashing import (
    Key,
    Uncacheable,
    called_in,
    comes_with_torch,
    devices_used,
    key_of,
    lifted_tensors,
    policies_in,
    policy_text,
)

from ..artifact.load import load_alone
from ..cudagraphs.kept_choices import KeptChoices
from ..cudagraphs.listening import watching
from ..cudagraphs.watching import names_of
from ..key.compiler_settings import patched_settings
from ..key.context import key_context
from ..key.custom_code import custom_operators
from ..reporting.report import Place, Report
from ..torch_api import cudagraph_trees as cudagraphs
from ..torch_api.compile import input_sources
from ..torch_api.frames.fakes import plain_codes
from ..torch_api.frames.hook import without_torch_function
from ..torch_api.frames.optimizers import sources_of_held
from ..torch_api.frames.plain import Plain, Refused, from_plain, stands_by_name, to_plain
from ..torch_api.frames.seen import Seen, seen
from ..torch_api.frames.state import HigherOrderOperator, ranks_text
from ..torch_api.operators import OpOverload, in_graphs, is_one, overload_named
from ..torch_api.ranks.ddp import is_piece, wired, wiring_of
from ..typing import Compiler, Request
from .record import Texts

# Parts of a graph's key that do not speak of the graph. Compared anew, since there is no graph to make a key of.
_AROUND = ("hooks", "compiler", "ambient", "code", "toolchain", "machine")


def note_graph(request: Request, variant: str, compiler: Compiler) -> None:
    """Tell the frame that is being traced where its graph is kept. Called by the engine for every graph."""
    current = seen()
    name = request.gm.meta.get("backend_id")
    if current is None or name is None:
        return
    try:
        current.ranks += _ranks_among(request)
        current.called |= {id(one): one for one in called_in(request.gm)}
        current.policies |= {id(one): (one, text) for one, text in _policies_in(request)}
        found: Any = _reference(request, variant, compiler)
    except (Refused, Uncacheable) as why:
        found = Refused(str(why))
    current.graphs.setdefault(name, []).append((is_piece(), found))


def reference_of(name: str, compiled: Any, seen: Seen, *, alone: bool) -> dict[str, Plain]:
    """Where a graph that Dynamo installed is kept: itself, or the pieces that DDP's buckets cut it into.

    alone: no `__torch_function__` of its inputs runs beside it. Raises Refused.
    """
    noted = seen.graphs.get(name, [])
    pieces = [one for _, one in noted]
    for one in pieces:
        if isinstance(one, Refused):
            raise one
    wiring = wiring_of(compiled, is_cut=any(is_cut for is_cut, _ in noted))
    if len(pieces) != (sum(role == "piece" for role, *_ in wiring) if wiring else 1):
        raise Refused("its graph is not kept" if not wiring else "a piece of its graph is not kept")
    return {"wiring": wiring, "pieces": pieces, "alone": alone}


def _reference(request: Request, variant: str, compiler: Compiler) -> Plain:
    """Raises Refused for a graph that its key alone does not bring back."""
    gm = request.gm
    lifted, sources = lifted_tensors(gm), sources_of_held(gm)
    if not lifted.keys() <= sources.keys():
        raise Refused("its graph holds tensors of its own")
    if gm.meta.get("cudagraph_annotation") is not None:
        raise Refused("its graph is annotated for CUDA graphs")
    devices = sorted(map(str, devices_used(gm, request.inputs)))
    if any(not device.startswith(("cpu", "cuda", "meta")) for device in devices):
        raise Refused(f"its graph runs on {', '.join(devices)}")
    _refuse_policy(devices)
    operators = sorted(in_graphs(gm))
    alone = _calling(operators)
    same = custom_operators(alone).keys() == custom_operators(gm).keys()
    around, own = _around(compiler, alone, devices, request.code if same else None), request.key.digests()
    if different := [name for name in _AROUND if own[name] != around[name]]:
        raise Refused(f"its graph's key says more than a frame's can: {', '.join(different)}")
    return {
        "key": request.key.id,
        "variant": variant,
        "patches": {name: to_plain(value) for name, value in request.patches.items()},
        "slots": dict(request.key.slots),
        "groups": list(request.key.groups),
        "devices": devices,
        "around": around,
        "operators": operators,
        "lifted": [(sources[name], tensor) for name, tensor in lifted.items()],
        # For people: what CUDA graphs leave out is told by these names.
        "inputs": names_of(gm) if any(device.startswith("cuda") for device in devices) else [],
    }


def _policies_in(request: Request) -> Iterator[tuple[Any, str]]:
    """Each `context_fn` of a checkpoint, which torch asks what to save, and what it does. Raises Refused for one that
    does something else than when the key was made.
    """
    policies = policies_in(request.gm)
    said = {line.strip() for line in request.key.texts()["graph"].splitlines()} if policies else set()
    for policy in policies:
        if f"checkpoint {(text := policy_text(policy))}" not in said:
            raise Refused("a checkpoint's context_fn changes what it reads")
        yield policy, text


def policy_rows(seen: Seen, texts: Texts, place: Callable[[Any], Plain]) -> list[Plain]:
    """place: as `policy_place` takes it."""
    rows = ([policy_place(policy, place), texts.number(text)] for policy, text in seen.policies.values())
    return [*{repr(row): row for row in rows}.values()]  # Dynamo makes one for each call


def policy_place(policy: Any, place: Callable[[Any], Plain]) -> Plain:
    """How it is made again. Dynamo makes a `functools.partial` anew, of parts that are found. place: of a function or
    an operator; raises Refused, as this does.
    """
    if isinstance(policy, types.FunctionType):
        is_torchs = comes_with_torch(policy.__code__.co_filename) and stands_by_name(policy)
        by_name = is_torchs and policy.__globals__.get("__name__") == policy.__module__  # no user's that torch wraps
        return [policy.__module__, policy.__qualname__] if by_name else place(policy)
    if isinstance(policy, OpOverload):
        return place(policy)
    if isinstance(policy, HigherOrderOperator):
        name = str(policy.name())
        if getattr(torch.ops.higher_order, name, None) is not policy:
            raise Refused(f"operator {name}, which no name leads to")
        return {"higher": name}
    if type(policy) is functools.partial:
        if vars(policy):
            raise Refused("a checkpoint's context_fn is a functools.partial with attributes (cache_hash, say)")
        named_ones = [[name, policy_place(value, place)] for name, value in policy.keywords.items()]
        return {"partial": [policy_place(one, place) for one in (policy.func, *policy.args)], "named": named_ones}
    if type(policy) in _COLLECTIONS.values():
        parts = [policy_place(one, place) for one in policy]
        return {type(policy).__name__: sorted(parts, key=repr) if isinstance(policy, (set, frozenset)) else parts}
    return {"plain": to_plain(policy)}


_COLLECTIONS = {kind.__name__: kind for kind in (list, tuple, set, frozenset)}


def policy_at(place: Plain, found: Callable[[Plain], Any]) -> Any:
    """It again. found: of what `place` of `policy_place` gave, what is there in this process."""
    if not isinstance(place, dict):
        return found(place)
    if "partial" in place:
        function, *positional = (policy_at(one, found) for one in place["partial"])
        return functools.partial(function, *positional, **{k: policy_at(v, found) for k, v in place["named"]})
    if "plain" in place:
        return from_plain(place["plain"])
    if "higher" in place:
        return getattr(torch.ops.higher_order, place["higher"])
    ((kind, parts),) = place.items()
    return _COLLECTIONS[kind](policy_at(one, found) for one in parts)


def with_lifted(references: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """The same, with something else for each tensor that a graph holds (an optimizer's, say)."""
    return {
        name: reference
        | {"pieces": [piece | {"lifted": [*map(change, piece["lifted"])]} for piece in reference["pieces"]]}
        for name, reference in references.items()
    }


def _ranks_among(request: Request) -> list[Any]:
    """Sources of a graph's inputs that are meshes or groups of ranks: their guards say what they are, and not that the
    graph takes them. Raises Refused for an input that is neither, nor a tensor or a number.
    """
    found = []
    for source, value in zip(input_sources(request.gm), request.inputs, strict=True):
        if not isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat, int, float)):
            if source is None or ranks_text(value) is None:
                raise Refused("its graph takes something that is no tensor and no number")
            found.append(source)
    return found


def _refuse_policy(devices: Sequence[str]) -> None:
    if cudagraphs.policy() is not None and any(device.startswith("cuda") for device in devices):
        raise Refused("a cudagraph_policy is asked about its graph with inputs that only a trace has")


def operators_left(ran: set[str], references: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Custom operators whose fakes ran, and that are in none of these graphs (the trace ended there, or asked for
    nothing but a size), by the names that they were called by. Raises Refused for one in a graph that was not seen.
    """
    kept = {name for reference in references for piece in reference["pieces"] for name in piece["operators"]}
    if others := kept - ran:
        raise Refused(f"operator {min(others)} runs more than plain code while it is traced")
    return {name: plain_operator(name) for name in sorted(ran - kept)}


def _around(
    compiler: Compiler, gm: GraphModule, devices: Sequence[str], code: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Digests of the parts around a graph, of one on these devices that does nothing else. Settings must be patched.

    code: what is known of code outside torch, which takes long to look at where packages replace torch's functions.
    """
    context = key_context(gm, [], compiler.name, compiler.settings(), code)
    digests = key_of(gm, [], replace(context, devices=[*map(torch.device, devices)])).digests()
    return {name: digests[name] for name in _AROUND}


def _calling(operators: Sequence[str]) -> GraphModule:
    """A graph that calls these, and does nothing. Raises Refused as `plain_operator` does."""
    if not operators:
        return _empty()
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
def _empty() -> GraphModule:
    graph = Graph()
    graph.output(())
    return GraphModule(torch.nn.Module(), graph)


def _unheard(reason: Reason, detail: str) -> None:
    """Of a graph that is loaded to be compared only."""


def patches_of(reference: Mapping[str, Any]) -> dict[str, Any]:
    return {name: from_plain(value) for name, value in reference["patches"].items()}


def check_around(
    reference: Mapping[str, Any], compiler: Compiler, refusal: Callable[[GraphModule, list[Any]], Any]
) -> None:
    """Raises Refused where the settings, modes, machine or torch itself are not what the graph was compiled under."""
    checked: list[Any] = []
    for piece in reference["pieces"]:
        if (surroundings := [piece[name] for name in ("patches", "devices", "around", "operators")]) not in checked:
            checked.append(surroundings)
            _check_piece(piece, compiler, refusal)


def _check_piece(
    reference: Mapping[str, Any], compiler: Compiler, refusal: Callable[[GraphModule, list[Any]], Any]
) -> None:
    with patched_settings(patches_of(reference)):
        _refuse_policy(reference["devices"])
        gm = _calling(reference["operators"])
        if (bypass := refusal(gm, []) or compiler.refusal()) is not None:
            raise Refused(f"nothing is cached now: {bypass.detail}")
        try:
            now = _around(compiler, gm, reference["devices"])
        except Uncacheable as bad:
            raise Refused(f"around its graph: {bad}") from None
    if different := [name for name in _AROUND if now[name] != reference["around"].get(name)]:
        raise Refused(f"what its graph was compiled under: {', '.join(different)}")


def load_graph(
    reference: Mapping[str, Any], wrapping: Sequence[torch.Tensor], engine: Any, place: Place, *, counts: bool
) -> Callable[..., Any]:
    """The callable, and a hit in the journal for each of its pieces if it counts. What pieces hold are tensors here.

    wrapping: inputs of the frame that wrap others. Raises Refused where the store has one no more, or what loading
    raises.
    """
    pieces = [_load_piece(piece, wrapping, engine, place, counts=counts) for piece in reference["pieces"]]
    whole = wired(reference["wiring"], pieces) if reference["wiring"] else pieces[0]
    return without_torch_function(whole) if reference["alone"] else whole


def _load_piece(
    reference: Mapping[str, Any], wrapping: Sequence[torch.Tensor], engine: Any, place: Place, *, counts: bool
) -> Callable[..., Any]:
    report = Report(engine.journal, place, engine.compiler.name)
    report.named(reference["key"])
    with report.phase("fetch"):
        found = engine.cache.lookup(reference["key"], lambda entry: entry.variant == reference["variant"])
    if isinstance(found, Miss):
        raise Refused(f"its graph {reference['key'][:11]} is not in the store ({found.reason.value})")
    patches = patches_of(reference)
    key = Key((), reference["slots"], 0, uses_cpu=True, groups=tuple(reference["groups"]))
    heard = report.skipped if counts else _unheard
    choices, names = KeptChoices(engine.cache, report), reference.get("inputs", [])
    with report.phase("load"), patched_settings(patches), watching(_empty(), heard, choices, names=names):
        request = Request(key, _empty(), [], patches, report)
        run = load_alone(found, request, engine.compiler, reference["lifted"], wrapping)
    if counts:
        engine.agree(found, report)
        report.hit(found)
    return run
