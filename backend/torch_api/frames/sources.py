"""Dynamo's sources (where a value of a frame is found) as rows of plain data, and back; and values read through them.

Only classes of sources that are listed here; an unknown one, or a source whose fields are not plain, is refused.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
import types
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._dynamo import guards as dynamo_guards
from torch._dynamo import source as dynamo
from torch._dynamo.utils import set_getitem
from torch._guards import ChainedSource, Source, TracingContext, tracing
from warmgraph.hashing import in_order

from .devices import mode_at
from .orders import SAME, order_of
from .plain import Plain, Refused, from_plain, to_plain

__all__ = [
    "SET_ITEM", "ChainedSource", "GlobalSource", "Live", "LocalSource", "Source", "SourceTable", "method_of",
    "place_in_base", "read_sources", "root_of", "with_roots",
]  # fmt: skip

GlobalSource = dynamo.GlobalSource
LocalSource = dynamo.LocalSource

_NAMES = """
    LocalSource GlobalSource AttrSource CellContentsSource GenericAttrSource TypeDictSource TypeMROSource CodeSource
    ClosureSource GradSource ParamBufferSource UnspecializedParamBufferSource TensorPropertySource NegateSource
    ConvertIntSource DefaultsSource GetItemSource ConstDictKeySource DictGetItemSource DictSubclassGetItemSource
    ListGetItemSource TupleIteratorGetItemSource NamedTupleFieldsSource DataclassFieldsSource TypeSource NNModuleSource
    UnspecializedNNModuleSource UnspecializedBuiltinNNModuleSource FSDPNNModuleSource GlobalStateSource ShapeEnvSource
    WeakRefCallSource SubclassAttrListSource OptimizerSource GlobalWeakRefSource
    CallFunctionNoArgsSource FloatTensorSource CallMethodItemSource NumpyTensorSource DynamicScalarSource
    NonSerializableSetGetItemSource SkipGuardSource ImportSource ContextVarGetSource TorchFunctionModeStackSource
"""
_CLASSES: dict[str, Any] = {name: getattr(dynamo, name) for name in _NAMES.split() if hasattr(dynamo, name)}


class SourceTable:
    """Sources by number, each once; a source's base has a smaller number.

    sets: sources of sets of which it would be known if somebody saw their order, and nobody did.
    """

    def __init__(self, live: Live) -> None:
        self.sets: Collection[Source] = ()
        self._live = live
        self.rows: list[Plain] = []
        self._numbers: dict[Source, int] = {}

    def __contains__(self, source: Source) -> bool:
        return source in self._numbers

    @property
    def sources(self) -> list[Source]:
        """By number."""
        return list(self._numbers)

    def number(self, source: Source) -> int:
        """Raises Refused."""
        found = self._numbers.get(source)
        if found is None:
            row = self._row(source)
            found = self._numbers[source] = len(self.rows)
            self.rows.append(row)
        return found

    def _row(self, source: Source) -> Plain:
        kind = type(source).__name__
        if _CLASSES.get(kind) is not type(source):
            raise Refused(f"a source of {kind}: {source.name}")
        if type(source) is _ItemOfSet and source.base in self.sets and (named := self._live.named(source.base)):
            position = _position(named, [*self._live(source.base)][source.index])
            return [_NAMED_ITEM, ["source", self.number(source.base)], to_plain(position)]
        row: list[Any] = [kind]
        is_slice = isinstance(source, dynamo.GetItemSource) and source.index_is_slice
        for field in _fields(kind):
            value = getattr(source, field)
            if isinstance(value, Source):
                row.append(["source", self.number(value)])
            elif isinstance(value, dynamo.TensorProperty):
                row.append(["property", value.name])
            elif is_slice and field == "index":
                row.append(to_plain(source.unpack_slice()))
            elif is_slice and field == "index_is_slice":
                row.append(to_plain(False))
            else:
                row.append(to_plain(value))
        return row


@functools.cache
def _fields(kind: str) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(_CLASSES[kind]) if field.init)


# The item of a set by its place in the order of what they are called: Dynamo's source has the place in Python's order,
# which is another one in each process.
SET_ITEM = set_getitem.__name__  # so the bytecode takes one
_ItemOfSet = dynamo.NonSerializableSetGetItemSource
_NAMED_ITEM = "NamedItemOfSet"


def _has_names(items: Any) -> bool:
    """Whether these are a set's, in an order of their own in each process, and what they are called runs no code of the
    user's. Going over numbers and their like is not noted, since they lie where they lie: so do colliding ones, in the
    order in which they came.
    """
    return type(items) in (set, frozenset) and order_of(items) != SAME and all(map(_has_name, items))


def _has_name(item: Any) -> bool:
    if type(item) is tuple:
        return all(map(_has_name, item))
    if isinstance(item, type):
        return type(item).__getattribute__ is type.__getattribute__ and not hasattr(type(item), "__getattr__")
    return type(item) in _NAMED or isinstance(item, enum.Enum)


_NAMED = (
    str, bytes, int, float, complex, bool, type(None), torch.dtype, types.FunctionType, types.BuiltinFunctionType,
    types.MethodDescriptorType, types.WrapperDescriptorType, torch._ops.OpOverload, torch._ops.OpOverloadPacket,
)  # fmt: skip


def _position(items: Iterable[Any], wanted: Any) -> int:
    return next(position for position, item in enumerate(items) if item is wanted)


def _item_of_set(base: Source, position: int, live: Live) -> Source:
    named = live.named(base)
    if not 0 <= position < len(named):
        raise Refused(f"{base.name} is no such set as it was")
    return _ItemOfSet(base, _position(live(base), named[position]))


def read_sources(rows: Sequence[Plain], rename: Mapping[str, str], live: Live) -> list[Source]:
    """rename: globals that Dynamo installed, as they are called in this process. Raises Refused."""
    made: list[Source] = []
    with tracing(TracingContext(None)):  # one kind of source adds a guard to the trace that makes it
        for kind, *values in rows:
            if kind == _NAMED_ITEM:
                base, position = (_argument(item, made) for item in values)
                made.append(_item_of_set(base, position, live))
                continue
            cls = _CLASSES.get(kind)
            if cls is None:
                raise Refused(f"a source of {kind!r:.40}")
            arguments = [_argument(item, made) for item in values]
            if cls in (dynamo.GlobalSource, dynamo.GlobalWeakRefSource):
                arguments[0] = rename.get(arguments[0], arguments[0])
            made.append(cls(*arguments))
    return made


def _argument(item: Plain, made: Sequence[Source]) -> Any:
    tag, content = item
    if tag == "source":
        return made[content]
    if tag == "property":
        return dynamo.TensorProperty[content]
    return from_plain(item)


def place_in_base(source: Source) -> tuple[Source | None, Any] | None:
    """What holds a value (None: the frame), and under which name, index or key; None for sources of other kinds."""
    key = _PLACES.get(type(source).__name__)
    return None if key is None else (getattr(source, "base", None), getattr(source, key))


_PLACES = {
    "LocalSource": "local_name",
    "GlobalSource": "global_name",
    "AttrSource": "member",
    "GenericAttrSource": "member",
    "CellContentsSource": "member",
    "GetItemSource": "index",
    "ListGetItemSource": "index",
    "DictGetItemSource": "index",
    "DictSubclassGetItemSource": "index",
}


def key_source(table: Source, number: int) -> Source:
    """The source of a table's key."""
    return dynamo.ConstDictKeySource(table, number)


def method_of(source: Source) -> Source | None:
    """The source of a method, where this one is of what it is bound to."""
    is_owner = isinstance(source, dynamo.AttrSource) and source.member == "__self__"
    return source.base if is_owner else None


def bases_of(source: Source) -> Iterator[Source]:
    """What it leads through, from its end."""
    while isinstance(source, ChainedSource):
        source = source.base
        yield source


def root_of(source: Source) -> Source:
    """The local or global that a source begins with."""
    return next(reversed([source, *bases_of(source)]))


def with_roots(sources: Sequence[Source]) -> Iterator[tuple[Source, Source]]:
    """Each with its root. sources: by number, so that a base comes before what leads through it."""
    roots: dict[int, Source] = {}
    for source in sources:
        found = roots.get(id(source.base)) if isinstance(source, ChainedSource) else source
        root = roots[id(source)] = root_of(source) if found is None else found
        yield source, root


def global_of(source: Source) -> str:
    """The global that a source begins with; empty for one that begins elsewhere."""
    root = root_of(source)
    return str(root.global_name) if isinstance(root, (GlobalSource, dynamo.GlobalWeakRefSource)) else ""


def is_dynamos(source: Source) -> bool:
    """Whether it begins with a global that Dynamo made; but for a module, it has another name in each process."""
    return _DYNAMOS.match(global_of(source)) is not None


def is_imported(source: Source) -> bool:
    """Whether it begins with a module that Dynamo put among the globals, under a name that tells which."""
    return global_of(source).startswith("__import_")


# The last: a prefix, an id, a compile.
_DYNAMOS = re.compile(r"__builtins_dict__|__import_|__optimizer_|___|\w*_\d{9,}_c\d")


def is_of_frame(source: Source) -> bool:
    """Whether it leads to a value that was there before the trace, and not to one that the trace itself makes."""
    root = root_of(source)
    return not isinstance(root, _MADE)


_MADE = tuple(
    getattr(dynamo, name)
    for name in """
    TempLocalSource SyntheticLocalSource RandomValueSource EphemeralSource ConstantSource BackwardStateSource
    CurrentStreamSource ShapeEnvSource GlobalStateSource
    """.split()
    if hasattr(dynamo, name)
)


class Live:
    """A frame's values, each read once through its source, as torch's guard builder reads them."""

    def __init__(self, local_scope: dict[str, Any], global_scope: dict[str, Any]) -> None:
        self._locals = local_scope
        self._globals = global_scope
        self._scope = {"L": local_scope, "G": global_scope, "__builtins__": vars(__import__("builtins")).copy()}
        self._helpers = dynamo_guards._get_closure_vars()
        self.known: dict[Source, Any] = {}
        self._named: dict[int, list[Any]] = {}
        self._by_id: dict[int, tuple[Source, Any]] = {}  # to hash a source takes as long as to read through it

    def __call__(self, source: Source) -> Any:
        """Raises Refused where nothing is found."""
        identity = id(source)
        found = self._by_id.get(identity)
        if found is None:
            found = self._by_id[identity] = (source, self._once(source))
        return found[1]

    def named(self, source: Source) -> list[Any]:
        """The items of a set by what they are called; none where that does not settle their order."""
        found = self(source)
        if id(found) not in self._named:
            self._named[id(found)] = in_order(found) if _has_names(found) else []
        return self._named[id(found)]

    def _once(self, source: Source) -> Any:
        try:
            return self.known[source]
        except KeyError:
            pass
        try:
            value = self._read(source)
        except Refused:
            raise
        except Exception as error:  # noqa: BLE001 - what a user's attribute raises; the frame is traced
            raise Refused(f"{source.name} cannot be read: {type(error).__name__}") from None
        self.known[source] = value
        return value

    def _read(self, source: Source) -> Any:
        """The commonest kinds without `eval`, which is a third of a restore's time otherwise."""
        kind = type(source)
        if kind is dynamo.LocalSource:
            return self._locals[source.local_name]
        if kind is dynamo.GlobalSource:
            return self._globals[source.global_name]
        if kind is dynamo.TorchFunctionModeStackSource:
            return mode_at(source)
        if isinstance(source, ChainedSource):
            base = self(source.base)
            if kind in (dynamo.AttrSource, dynamo.UnspecializedParamBufferSource, dynamo.CellContentsSource):
                return getattr(base, source.member)
            if isinstance(source, (dynamo.NNModuleSource, dynamo.SkipGuardSource, dynamo.OptimizerSource)):
                return base
            if kind is dynamo.DictGetItemSource and not isinstance(source.index, Source):
                return base[source.index]
            if kind is dynamo.TypeSource:
                return type(base)
        return source.get_value(self._scope, self._helpers, self.known)
