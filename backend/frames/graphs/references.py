"""The compiled graphs of a frame: where each is kept, and the callable again without the graph at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from warmgraph.cache import Miss, Reason
from warmgraph.hashing import Key, Uncacheable, called_in, devices_used, lifted_tensors

from ...artifact.load import load_alone
from ...cudagraphs.kept_choices import KeptChoices
from ...cudagraphs.listening import watching
from ...cudagraphs.watching import names_of
from ...key.compiler_settings import patched_settings
from ...key.custom_code import custom_operators
from ...reporting.report import Place, Report
from ...torch_api.compile import input_sources
from ...torch_api.frames.hook import calls_nothing, nothing, without_torch_function
from ...torch_api.frames.optimizers import sources_of_held
from ...torch_api.frames.plain import Plain, Refused, to_plain
from ...torch_api.frames.seen import Seen, seen
from ...torch_api.frames.state import ranks_text
from ...torch_api.operators import in_graphs
from ...torch_api.ranks.ddp import is_piece, wired, wiring_of
from ...typing import Compiler, Request
from .policies import policies_of
from .surroundings import AROUND, calling, digests_around, empty_graph, patches_of, refuse_policy


def note_graph(request: Request, variant: str, compiler: Compiler) -> None:
    """Tell the frame that is being traced where its graph is kept. Called by the engine for every graph."""
    current = seen()
    name = request.gm.meta.get("backend_id")
    if current is None or name is None:
        return
    try:
        current.ranks += _ranks_among(request)
        current.called |= {id(one): one for one in called_in(request.gm)}
        current.policies |= {id(one): (one, text) for one, text in policies_of(request)}
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
    if not noted and calls_nothing(compiled):
        return {"wiring": [], "pieces": [], "alone": alone}
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
    refuse_policy(devices)
    operators = sorted(in_graphs(gm))
    nothing_else = calling(operators)
    same = custom_operators(nothing_else).keys() == custom_operators(gm).keys()
    around, own = digests_around(compiler, nothing_else, devices, request.code if same else None), request.key.digests()
    if different := [name for name in AROUND if own[name] != around[name]]:
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


def _unheard(reason: Reason, detail: str) -> None:
    """Of a graph that is loaded to be compared only."""


def load_graph(
    reference: Mapping[str, Any], wrapping: Sequence[torch.Tensor], engine: Any, place: Place, *, counts: bool
) -> Callable[..., Any]:
    """The callable, and a hit in the journal for each of its pieces if it counts. What pieces hold are tensors here. Of
    no pieces it is what does nothing.

    wrapping: inputs of the frame that wrap others. Raises Refused where the store has one no more, or what loading
    raises.
    """
    pieces = [_load_piece(piece, wrapping, engine, place, counts=counts) for piece in reference["pieces"]]
    whole = wired(reference["wiring"], pieces) if reference["wiring"] else pieces[0] if pieces else nothing()
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
    with report.phase("load"), patched_settings(patches), watching(empty_graph(), heard, choices, names=names):
        request = Request(key, empty_graph(), [], patches, report)
        run = load_alone(found, request, engine.compiler, reference["lifted"], wrapping)
    if counts:
        engine.agree(found, report)
        report.hit(found)
    return run
