"""Bytes back to a Payload: inert records (`records`), turned into torch's objects by a closed list. Not the signature.

Decoding runs nothing that the bytes bring, whoever wrote them. It is no sandbox: what comes out holds code, which
`load` runs, so that whoever signs an entry can run code wherever it is loaded.

A record becomes an object of what `allowed` names, and of nothing else:

- Of a class of plain data a bare instance is made, by `__new__`, never by `__init__`, and given its attributes, none of
  which is special or stands in the place of a dataclass's method.
- For a function one of ours is called (`_CALLS`), which checks what it is given.
- A class that results refer to (an output's type) is the real one, and is not called. Such are also the types of *this
  graph's inputs*: tensor subclasses, and classes, enums, dataclasses and named tuples in their metadata. They are taken
  from the inputs at hand, so nothing is imported for a pickle, and of the last two bare instances are made.
- Symbolic sizes and the sources of inputs serve compiling only: a placeholder, and nothing is built.
"""

from __future__ import annotations

import collections
import enum
import functools
import importlib
import inspect
import io
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from msgspec import Struct
from warmgraph.hashing import attributes_of

from ..torch_api import compile as compat
from ..torch_api.allowed import (
    DATA,
    ENDS_OF_VIEWS,
    LAYOUT,
    LEFT_OUT,
    LENT,
    METHODS,
    ORDERED_SET,
    STORAGE,
    TENSORS,
    VIEWS,
)
from ..torch_api.generated_code.graph_module import graph_module
from ..torch_api.generated_code.wrapper_module import Payload
from ..torch_api.loading import rebuild_tensor
from .attributes import bare_data, may_have
from .records import NotAllowed, Record, check_storage, read, refuse

__all__ = ["NotAllowed", "realise", "unpickle"]


def unpickle(data: bytes, inputs: Iterable[Any] = ()) -> Payload:
    """The payload in `data`. `inputs`: those of the graph; their types may be in it. Runs nothing that `data` brings.

    Raises NotAllowed, and for bytes that are no pickle whatever `pickle` raises.
    """
    payload = realise(read(data), _types_of(inputs))
    if type(payload) is not Payload or type(payload.result) is not compat.BundledAOTAutogradResult:
        refuse("a whole", type(payload).__qualname__)
    return payload


class _Known(Struct, frozen=True):
    """What a name stands for. value: where it is referred to. made: of arguments. data: then given a state."""

    value: Any = None
    made: Callable[..., Any] | None = None
    data: bool = False


_ATOMS = frozenset({str, int, float, bool, type(None), bytes})


def realise(read_value: Any, types: Mapping[tuple[str, str], _Known] | None = None) -> Any:
    """Records in `read_value` as objects. types: of the graph's inputs. Raises NotAllowed."""
    return _Realising(types or {}).of(read_value)


class _Realising:
    def __init__(self, types: Mapping[tuple[str, str], _Known]) -> None:
        self._types = types
        self._done: dict[int, Any] = {}  # by the id of what was read, which lives as long as this is at work
        self._under_way: set[int] = set()

    def of(self, read_value: Any) -> Any:
        kind = type(read_value)
        if kind in _ATOMS:
            return read_value
        place = id(read_value)
        if place in self._done:
            return self._done[place]
        if place in self._under_way:
            refuse("a value within itself", kind.__name__)
        self._under_way.add(place)
        try:
            found = self._done[place] = self._new(read_value, kind, place)
        except RecursionError:
            refuse("a depth", kind.__name__)
        self._under_way.discard(place)
        return found

    def _new(self, read_value: Any, kind: type, place: int) -> Any:
        if kind is tuple:
            return tuple(self._all(read_value))
        if kind is list:
            made: list[Any] = []
            self._done[place] = made
            made += self._all(read_value)
            return made
        if kind is dict:
            pairs: dict[Any, Any] = {}
            self._done[place] = pairs
            for key, value in read_value.items():
                pairs[self.of(key)] = value if type(value) in _ATOMS else self.of(value)
            return pairs
        if kind is set or kind is frozenset:
            return kind(self.of(item) for item in read_value)
        if isinstance(read_value, Record):
            return self._object(read_value, place)
        if isinstance(read_value, type) and issubclass(read_value, Record):
            return self._known(read_value).value
        return refuse("a value", kind.__name__)

    def _all(self, values: Iterable[Any]) -> list[Any]:
        return [value if type(value) in _ATOMS else self.of(value) for value in values]

    def _known(self, cls: type[Record]) -> _Known:
        return self._types.get(cls.place) or _known(*cls.place)

    def _object(self, record: Record, place: int) -> Any:
        known = self._known(type(record))
        if known.made is None:
            refuse("a call", ".".join(record.place))
        args = self._all(record.args)
        kwargs = {str(name): self.of(item) for name, item in record.kwargs.items()}
        made = known.made(*args, **kwargs)
        self._done[place] = made  # its state may refer to it
        if record.state is not None:
            if not known.data or isinstance(made, enum.Enum):
                refuse("a change", ".".join(record.place))
            _give(made, self.of(record.state[0]), record.place)
        if record.items or record.values:
            if type(made) not in (collections.OrderedDict, collections.Counter, collections.defaultdict):
                refuse("items", ".".join(record.place))
            if record.values:
                refuse("values", ".".join(record.place))
            for key, value in record.items:
                made[self.of(key)] = self.of(value)
        return made


def _give(made: Any, state: Any, place: tuple[str, str]) -> None:
    """Give a bare instance its attributes, as pickle would."""
    if made is _LEFT_OUT:
        return
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
        return
    slots: Any = {}
    kind: Any = type(made)
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    for attributes in (state or {}, slots or {}):
        if type(attributes) is not dict:
            refuse("a state", ".".join(place))
        for name, value in attributes.items():
            if type(name) is not str or not may_have(kind, name, value):
                refuse("a field", f"{'.'.join(place)}: {name!r:.80}")
            object.__setattr__(made, name, value)


# --- what a name stands for -----------------------------------------------------------------------------


@functools.cache
def _known(module: str, name: str) -> _Known:
    """What the tables say of a name. Imports `module` only if they name it."""
    if name in DATA.get(module, "").split():
        return _bare(_class(module, name))
    if name in LENT.get(module, "").split():
        cls = _class(module, name)
        return _Known(cls, cls if (module, name) in _VALUES else None)
    if (module, name) == GRAPH:
        return _Known(_graph, _KeptGraph)
    if (module, name) in _CALLS:
        return _Known(_REFERRED.get((module, name)), _CALLS[module, name], data=(module, name) in _WITH_STATE)
    if DATA.get(module) == "*" and "__dataclass_fields__" in vars(_class(module, name)):
        return _bare(_class(module, name))
    if module == VIEWS and name.endswith(ENDS_OF_VIEWS):
        return _bare(_class(module, name))
    if module.startswith(LEFT_OUT) and name.isidentifier() and name[0].isupper():
        return _Known(_LeftOut, lambda *args, **kwargs: _LEFT_OUT, data=True)
    # A memory format says `torch.channels_last`, of whatever module had a `torch` in it where it was pickled.
    value = vars(torch).get(name.removeprefix("torch."))
    if isinstance(value, torch.dtype if module == "torch" else torch.memory_format):
        return _Known(value)
    return refuse("a name", f"{module}.{name}")


def _class(module: str, name: str) -> Any:
    found = getattr(importlib.import_module(module), name, None)
    if not isinstance(found, type):
        refuse("a class", f"{module}.{name}")
    return found


def _bare(cls: Any) -> _Known:
    return _Known(cls, functools.partial(cls.__new__, cls), data=True)


def _types_of(inputs: Iterable[Any]) -> dict[tuple[str, str], _Known]:
    """What inputs may lend: types of tensor subclasses, and the classes and plain data that these flatten to."""
    found: dict[tuple[str, str], _Known] = {}
    waiting = [value for value in inputs if hasattr(value, "__tensor_flatten__")]
    while waiting:
        value = waiting.pop()
        if isinstance(value, type):
            found.setdefault((value.__module__, value.__qualname__), _Known(value))
        elif isinstance(value, torch.Tensor) and hasattr(value, "__tensor_flatten__"):
            names, context = value.__tensor_flatten__()
            waiting += [type(value), context, *[getattr(value, name) for name in names]]
        elif isinstance(value, enum.Enum):
            found.setdefault((type(value).__module__, type(value).__qualname__), _bare(type(value)))
        elif (made := bare_data(type(value))) is not None:
            found[type(value).__module__, type(value).__qualname__] = _Known(type(value), made, data=True)
            waiting += [one for _, one in attributes_of(value) or ()]
        elif isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, (list, tuple, set, frozenset)):
            waiting += value
    return found


class _LeftOut:
    """Stands for objects that no load uses; there is one."""

    __slots__ = ()


_LEFT_OUT = _LeftOut()


GRAPH = ("torch.fx.graph_module", "reduce_graph_module")


class _KeptGraph(Struct):
    """What torch's `reduce_graph_module`, which runs source text, was called with.

    A result holds the backward as a module's source, for compiled autograd: it asks for it later (`_graph`), or never.
    """

    body: dict[str, Any]
    imports: str


def _graph(body: dict[str, Any], imports: str) -> Any:
    modules = {
        name: _graph(part.body, part.imports) if isinstance(part, _KeptGraph) else part
        for name, part in body["_modules"].items()
    }
    return graph_module({**body, "_modules": modules}, imports)


def _storage(data: bytes) -> Any:
    """Torch's own function unpickles freely here: a pickle in the pickle."""
    if type(data) is not bytes:
        refuse("a storage", type(data).__name__)
    check_storage(data)
    return torch.load(io.BytesIO(data), weights_only=True)


def _tensor(storage: Any, offset: int, size: Any, stride: Any, requires_grad: bool, hooks: Any, *more: Any) -> Any:
    if not isinstance(storage, (torch.TypedStorage, torch.UntypedStorage)) or hooks:
        refuse("a tensor", f"{type(storage).__qualname__} with hooks {hooks}")
    return rebuild_tensor(storage, offset, size, stride, bool(requires_grad), collections.OrderedDict(), *more)


def _defaultdict(factory: Any = None) -> Any:
    if factory is not None and factory is not list and not inspect.ismethod(factory):
        refuse("a default", factory)
    return collections.defaultdict(factory)


def _attribute(owner: Any, name: str) -> Any:
    if isinstance(owner, enum.EnumMeta) and name in owner.__members__:  # Python 3.11.0 to 3.11.3 pickle members so
        return owner.__members__[name]
    if owner is _LeftOut:
        return _LEFT_OUT
    kind = type(owner)
    if METHODS.get(name) != f"{kind.__module__}.{kind.__qualname__}":
        refuse("an attribute", f"{kind.__qualname__}.{name}")
    return getattr(owner, name)


def _of_values(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, for arguments whose values are there; a range has as many as a number says."""

    def call(*args: Any) -> Any:
        if any(isinstance(arg, range) for arg in args):
            refuse("a call", f"{function.__name__} of a range")
        return function(*args)

    return call


# The signature of a Triton kernel: arguments, then what these have beside a name and a kind.
_WITH_STATE = {("inspect", "Parameter"), ("inspect", "Signature")}
_VALUES = {("builtins", "complex"), ("builtins", "range"), ("builtins", "slice")}
_REFERRED: dict[tuple[str, str], Any] = {("torch", "Size"): torch.Size, ("torch", "device"): torch.device}
_CALLS: dict[tuple[str, str], Callable[..., Any]] = {
    ("builtins", "getattr"): _attribute,
    ("collections", "Counter"): _of_values(collections.Counter),
    ("collections", "OrderedDict"): _of_values(collections.OrderedDict),
    ("collections", "defaultdict"): _defaultdict,
    ("inspect", "Parameter"): inspect.Parameter,
    ("inspect", "Signature"): inspect.Signature,
    ("torch", "Size"): _of_values(torch.Size),
    ("torch", "device"): torch.device,
    **dict.fromkeys(TENSORS, _tensor),
    LAYOUT: compat.layout_named,
    STORAGE: _storage,
    ORDERED_SET: _of_values(compat.OrderedSet),
}
