"""Dynamo's guards as (source, kind, arguments), and back: made anew with torch's own builder; and what they ask of
tensors. Compares nothing.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import torch
from torch._dynamo import guards as dynamo
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import AttrSource, GlobalSource, NNModuleSource
from torch._guards import DuplicateInputs, Guard, StorageOverlap
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .plain import Plain, Refused, from_plain, to_plain
from .sources import Live, Source, SourceTable

__all__ = ["Guard", "arguments_of", "in_order", "is_globals", "is_idle", "kind_of", "make_guard", "source_of"]

# What a guard function computes from a value, by kind.
tuple_iterator_length = dynamo.tuple_iterator_len
range_iterator = getattr(dynamo, "normalize_range_iter", None)
count_iterator = getattr(dynamo, "normalize_count_iter", None)
constant_of_subclass = getattr(dynamo, "_constant_subclass_base_value", None)
concrete = dynamo.convert_to_concrete_values


def in_order(guards: Iterable[Guard]) -> list[Guard]:
    """As torch builds them."""
    return sorted(guards, key=Guard.sort_key)


def kind_of(guard: Guard) -> str:
    """The name of the guard builder's method. Raises Refused where it is not torch's own."""
    kind = str(guard.create_fn_name())
    if getattr(GuardBuilder, kind, None) is not guard.inner_create_fn():
        raise Refused(f"a guard of {kind}, which is not torch's own, on {guard.name}")
    return kind


def is_idle(guard: Guard) -> bool:
    """Whether torch's builder makes nothing of it: that a module has no hooks, unless a setting asks for that."""
    return is_on_hooks(guard) and dynamo.config.skip_nnmodule_hook_guards


def is_on_hooks(guard: Guard) -> bool:
    """Whether it says that a module has no hooks of some kind."""
    return guard.create_fn is GuardBuilder.EMPTY_NN_MODULE_HOOKS_DICT


def says_all(kind: str) -> bool:
    """Whether all that a guard asks is in its arguments: made anew on whatever is there, it holds where a fingerprint
    beside it would. (Of a key in a dict the fingerprint says more: that it may be the name of a variable.)
    """
    return kind == "NOT_PRESENT_IN_GENERIC_DICT" and bool(dynamo.config.guard_nn_modules)


# Whether a guard on an attribute's being there names it. On 2.11 it is said of the attribute's source, found or not.
_NAMES_ATTRIBUTE = "attr" in inspect.signature(GuardBuilder.HASATTR).parameters


def source_of(guard: Guard) -> Source:
    """What a guard is about; of an attribute's being there what holds it."""
    source = guard.originating_source
    if _NAMES_ATTRIBUTE or guard.create_fn is not GuardBuilder.HASATTR:
        return source
    return _attribute(source).base


# The kind of a guard on what a tensor that wraps others says of itself.
ON_SUBCLASS = "TENSOR_SUBCLASS_METADATA_MATCH"


def has_torch_function(value: Any) -> bool:
    """Whether it is a tensor with a `__torch_function__` of its class, which also runs for what a trace asks of it."""
    kind = type(value)
    if not issubclass(kind, torch.Tensor) or kind in (torch.Tensor, torch.nn.Parameter):
        return False
    found = next(vars(base) for base in kind.__mro__ if "__torch_function__" in vars(base))["__torch_function__"]
    return found not in (vars(torch.Tensor)["__torch_function__"], torch._C._disabled_torch_function_impl)


def running(guards: Iterable[tuple[str, Source]], live: Live) -> list[torch.Tensor]:
    """Tensors among what guards (kind and source of each) are about for which code of their classes runs in a trace."""
    values = [(kind, live(source)) for kind, source in guards if kind in (ON_SUBCLASS, "TENSOR_MATCH")]
    return [value for kind, value in values if kind == ON_SUBCLASS or has_torch_function(value)]


def _attribute(source: Any) -> Any:
    while isinstance(source, NNModuleSource):
        source = source.base
    return source


def arguments_of(guard: Guard, kind: str) -> dict[str, Any]:
    """Keyword arguments of a guard. Those of a tensor's are found through its source again."""
    made = guard.create_fn
    if made is GuardBuilder.HASATTR:
        return {"attr": _attribute(guard.originating_source).member}
    if not isinstance(made, functools.partial):
        return {}
    named = dict(made.keywords)
    if made.args:
        if kind != "DUPLICATE_INPUT":
            raise Refused(f"{kind} with positional arguments on {guard.name}")
        named["source_b"] = made.args[0]
    if kind in ("TENSOR_MATCH", "NOT_NONE_MATCH"):
        named.pop("value", None)
    named.pop("recompile_hint", None)  # words for people
    return named


def pack_arguments(named: dict[str, Any], table: SourceTable) -> dict[str, Plain]:
    return {
        name: ["source", table.number(value)] if isinstance(value, Source) else to_plain(value)
        for name, value in named.items()
    }


def make_guard(sources: Sequence[Source], number: int, kind: str, arguments: dict[str, Plain]) -> Guard:
    """Raises Refused for a kind that this torch does not know."""
    create = getattr(GuardBuilder, kind, None)
    if create is None or not kind.isupper():
        raise Refused(f"a guard of kind {kind!r:.40}")
    named = {name: sources[item[1]] if item[0] == "source" else from_plain(item) for name, item in arguments.items()}
    if kind == "HASATTR" and not _NAMES_ATTRIBUTE:
        return Guard(AttrSource(sources[number], named["attr"]), create)
    if named:
        create = functools.partial(create, **named)
    elif kind == "TENSOR_MATCH":
        create = functools.partial(create, value=None)
    return Guard(sources[number], create)


def is_globals(source: Source) -> bool:
    """Whether it is the globals of traced code, of no module, which Dynamo put under a name of its own."""
    return isinstance(source, GlobalSource) and source.global_name.startswith("___unnamed_scope")


def is_tensor_by_identity(guard: Guard) -> bool:
    """Whether a tensor is a constant of the graph."""
    return bool(dynamo.match_on_id_for_tensor(guard))


def refers_to_others(table: SourceTable, installed: Collection[str]) -> bool:
    """Whether a guard looks through a global that Dynamo installed, and not in this trace."""
    names = (row[1][1] for row in table.rows if row[0] == "GlobalSource")
    return any(name.startswith("__builtins_dict__") and name not in installed for name in names)


def pack_alias(guard: Any, table: SourceTable) -> Plain:
    """A guard of AOTAutograd's, on inputs that are one or overlap."""
    if isinstance(guard, DuplicateInputs):
        return ["duplicate", table.number(guard.input_source_a), table.number(guard.input_source_b)]
    if isinstance(guard, StorageOverlap):
        groups = (guard.overlapping_sources, guard.non_overlapping_sources)
        return ["overlap", *[[table.number(source) for source in group] for group in groups]]
    raise Refused(f"an alias guard of {type(guard).__name__}")


def read_alias(item: Plain, sources: Sequence[Source]) -> Any:
    kind, first, second = item
    if kind == "duplicate":
        return DuplicateInputs(sources[first], sources[second])
    return StorageOverlap([sources[number] for number in first], [sources[number] for number in second])


def is_wrapper_subclass(value: torch.Tensor) -> bool:
    """Whether torch takes it apart."""
    return bool(is_traceable_wrapper_subclass(value))


def dispatch_keys(value: torch.Tensor) -> int:
    return int(torch._C._dispatch_keys(value).raw_repr())


def is_dtensor(value: Any) -> bool:
    """Exactly torch's own class, which Dynamo knows by name: not a subclass of it."""
    return type(value) is getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
