"""The graph's inputs to lines of text: kind, metadata in slots, static flags, and who shares a storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ..encoding.encode import Uncacheable, encode
from .graph import expression_of, graph_modules, is_symbolic, meta_value
from .opaque import opaque_text
from .symbols import SymbolTable
from .tensors import contents, describe, inner_parts, plain_kind, shared_storages, sizes_of

# A fake of a real input as it was before tracing: asked when tracing changed the input's own metadata.
FreshFake = Callable[[Node, torch.Tensor], torch.Tensor]

# Of tensors that lie in one storage: which overlap another one, as AOTAutograd and its guards see it.
Overlapping = Callable[[list[torch.Tensor]], Any]


def fakes_of(gm: GraphModule, inputs: Sequence[Any], fresh: FreshFake) -> list[Any]:
    """Per input, the value whose sizes describe it symbolically: what tracing saw at the beginning.

    Dynamo's `example_value` is the input at the *end* of the trace. Where that no longer fits the real
    input (set_, resize_, .data, transpose_ ...), a fresh fake is made.
    """
    nodes = gm.graph.find_nodes(op="placeholder")
    if len(nodes) != len(inputs):
        raise Uncacheable(f"{len(nodes)} placeholders for {len(inputs)} inputs")
    mutates = changes_metadata(gm)
    fakes: list[Any] = []
    for node, real in zip(nodes, inputs, strict=True):
        fake = meta_value(node)
        if isinstance(real, torch.Tensor) and (mutates or fake is None or not _fits(fake, real)):
            fake = fresh(node, real)
        fakes.append(fake if isinstance(real, torch.Tensor) else real)
    return fakes


_METADATA_MUTATORS = frozenset(
    """
    set_ resize_ resize_as_ as_strided_ t_ transpose_ swapaxes_ swapdims_ squeeze_ unsqueeze_ data requires_grad_
    detach_ resize_storage_bytes_ shallow_copy_data_
    """.split()
)


def changes_metadata(gm: GraphModule) -> bool:
    """Whether a node may change an input's sizes, strides or storage in place."""
    return not _METADATA_MUTATORS.isdisjoint(_called(gm))


def _called(gm: GraphModule) -> set[str]:
    """Names of what the graph and those nested in it call: `set_` for the method and for each overload alike.

    Calls only: what an input is named says nothing.
    """
    calls = (node.target for module in graph_modules(gm) for node in module.graph.nodes if node.op.startswith("call"))
    names = (target if isinstance(target, str) else getattr(target, "__name__", "") for target in calls)
    return {name.partition(".")[0] for name in names}


def _fits(fake: Any, real: torch.Tensor) -> bool:
    """Whether the fake's sizes, where they are numbers, are the real input's."""
    if not isinstance(fake, torch.Tensor) or fake.dim() != real.dim() or fake.layout is not real.layout:
        return False
    pairs = zip(sizes_of(fake), sizes_of(real), strict=True)
    return all(is_symbolic(ours) or ours == theirs for ours, theirs in pairs)


def collect_input_symbols(fakes: Sequence[Any], table: SymbolTable) -> None:
    for fake in fakes:
        for value in _symbolic_parts(fake):
            table.use(sorted(expression_of(value).free_symbols, key=str))


def _symbolic_parts(value: Any) -> list[Any]:
    if is_symbolic(value):
        return [value]
    if not isinstance(value, torch.Tensor):
        return []
    found = [size for size in sizes_of(value) if is_symbolic(size)]
    taken = None if plain_kind(value) else inner_parts(value)
    for part in taken[0].values() if taken else ():
        found += _symbolic_parts(part)
    return found


def input_lines(
    gm: GraphModule,
    inputs: Sequence[Any],
    fakes: Sequence[Any],
    lifted: Mapping[str, torch.Tensor],
    table: SymbolTable,
    overlapping: Overlapping,
) -> list[str]:
    """One line per input (`p3 Tensor torch.float32 cpu size [8, $12] ...`), then shared storages."""

    def number(value: Any) -> str:
        return table.text(expression_of(value)) if is_symbolic(value) else encode(value)

    with_storage = touches_storage(gm)
    everything = [*inputs, *lifted.values()]
    groups = shared_storages(everything)
    shared = {position for group in groups for position in group}
    lines = []
    for position, (node, real, fake) in enumerate(
        zip(gm.graph.find_nodes(op="placeholder"), inputs, fakes, strict=True)
    ):
        try:
            text = _input(node, real, fake, number, with_storage)
            # AOTAutograd rebuilds inputs that share a storage from their common base.
            view = " view" if position in shared and real._is_view() else ""
            lines.append(f"p{position} {text}{view}")
        except Uncacheable as bad:
            raise Uncacheable(f"input {position} ({node.name}): {bad}", bad.cause) from None
    symbolic = [bool(_symbolic_parts(fake)) for fake in (*fakes, *lifted.values())]
    for group in groups:
        # By group: another input's dynamic size says nothing of this storage.
        dynamic = any(symbolic[position] for position in group)
        lines.append(f"one storage: {group} {_storage([everything[p] for p in group], overlapping, dynamic)}")
    return lines


def _storage(tensors: list[torch.Tensor], overlapping: Overlapping, dynamic: bool) -> str:
    """What AOTAutograd bakes in when it rebuilds inputs from their common base.

    With dynamic sizes the geometry is not in the key, but which inputs overlap decides how they are rebuilt; the base
    of those that do is in it.
    """
    text = f"overlap {encode(overlap := overlapping(tensors))}"
    if dynamic and not overlap:
        return text
    size = "" if dynamic else f" bytes {tensors[0].untyped_storage().nbytes()}"
    return f"{text}{size} bases {bases_text(tensors)}"


def bases_text(tensors: Sequence[torch.Tensor]) -> str:
    """Of tensors that lie in one storage. Views mostly have one base, that begins where its storage does, and is of
    their kind; no more is said of that than its sizes.
    """
    bases = [tensor._base for tensor in tensors]
    shapes = [encode([*base.size(), *base.stride()]) for base in bases if base is not None]
    more = [
        None
        if base is None
        else [next(n for n, one in enumerate(bases) if one is base), base.storage_offset(), *_kind(base), base.is_leaf]
        for base in bases
    ]
    usual = [[0, 0, *_kind(tensors[0]), True]] * len(bases)
    return f"{shapes}" if not shapes or more == usual else f"{shapes} {encode(more)}"


def _kind(tensor: torch.Tensor) -> tuple[torch.dtype, bool]:
    return tensor.dtype, tensor.requires_grad


def _input(node: Node, real: Any, fake: Any, number: Callable[[Any], str], with_storage: bool) -> str:
    if isinstance(real, torch.Tensor):
        text = describe(fake, real, number)
        if with_storage:
            text += f" storage {real.untyped_storage().nbytes()} bytes"
        static = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type")
        return text + (f" static {encode(static)}" if static else "")
    if is_symbolic(real):
        return f"{type(real).__name__} {number(real)}"
    return opaque_text(real) or f"constant {encode(real)}"


def touches_storage(gm: GraphModule) -> bool:
    """Whether the graph resizes or replaces storages, or reads past an input's own elements.

    Then a storage's size is part of its meaning: code that was made for a larger one would read past the end.
    """
    return any("storage" in name or name.startswith(("as_strided", "set_", "resize_")) for name in _called(gm))


def lifted_tensors(gm: GraphModule) -> dict[str, torch.Tensor]:
    """Parameters and buffers of `gm` itself, by name: AOTAutograd passes them as leading inputs."""
    return {**dict(gm.named_parameters(remove_duplicate=False)), **dict(gm.named_buffers(remove_duplicate=False))}


def lifted_lines(lifted: Mapping[str, torch.Tensor], *, frozen: bool) -> list[str]:
    """One line per lifted tensor: only its metadata matters, as for any input; what it holds as well if the code is
    made for that. Raises Uncacheable.
    """
    return [
        f"b{number} {describe(value, value, encode)}{f' holds {contents(value)}' if frozen else ''}"
        for number, value in enumerate(lifted.values())
    ]
