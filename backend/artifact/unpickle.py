"""Bytes back to a Payload, by an unpickler that knows what results are made of. Not the signature, not the load.

Defence in depth: the cache's signature says who wrote an entry; this makes decoding one harmless, whoever did. (What
comes out still holds code, which `load` runs: without a signature nothing makes a stranger's entry safe.)

A pickle may name what `allowed` names; anything else is refused before it is imported or called. And it does not get
hold of what it names, for it could call that with arguments of its choice, or write to it (BUILD sets attributes on
whatever lies on the stack, classes too):

- Of a class of plain data it gets a stand-in that makes bare instances: by `__new__`, never by `__init__`.
- Of a function it gets one of ours (`_CALLS`), which checks what it is given.
- A class that results refer to (an output's type) is the real one. Such are also the types of *this graph's inputs*:
  tensor subclasses, and classes and enums in their metadata. They are taken from the inputs at hand, so nothing is
  imported for a pickle; calling one, which a real result does not do, runs the user's constructor.
- Symbolic sizes and the sources of inputs serve compiling only: a placeholder, and nothing is built.

Classes and enum members are compared before and after: a pickle that wrote to one is refused, and the change undone.
"""

from __future__ import annotations

import collections
import copyreg
import enum
import functools
import importlib
import inspect
import io
import pickle
import pickletools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

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
from ..torch_api.generated_code.wrapper_module import Payload
from ..torch_api.loading import rebuild_tensor


class NotAllowed(pickle.UnpicklingError):
    """A stored result asks for something that no result is made of. `str()` says for what."""


def _refuse(what: str, name: object) -> NoReturn:
    raise NotAllowed(f"a stored result asks for {what} that no result is made of: {name!s:.200}")


def unpickle(data: bytes, inputs: Iterable[Any] = ()) -> Payload:
    """The payload in `data`. `inputs`: those of the graph; their types may be in it. Runs nothing that `data` brings.

    Raises NotAllowed, and for bytes that are no pickle whatever `pickle` raises.
    """
    # Extension codes lead to objects past `find_class`, if any code of this process registered some: none does.
    if copyreg._inverted_registry and any(op.name.startswith("EXT") for op, _, _ in pickletools.genops(data)):  # type: ignore[attr-defined]
        _refuse("an extension code", "copyreg")
    unpickler = _Unpickler(data, _types_of(inputs))
    try:
        payload = unpickler.load()
    finally:
        unpickler.finish()
    if type(payload) is not Payload or type(payload.result) is not compat.BundledAOTAutogradResult:
        _refuse("a whole", type(payload).__qualname__)
    return payload


@dataclass(frozen=True, slots=True)
class _Loan:
    """given: what a pickle gets for a name. watched: what it must not have changed."""

    given: Any
    watched: tuple[Any, ...] = ()


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, types: dict[tuple[str, str], _Loan]) -> None:
        super().__init__(io.BytesIO(data))
        self._graphs = _Graphs()
        self._loans = {**types, ("torch.fx.graph_module", "reduce_graph_module"): _Loan(self._graphs)}
        self._watched: list[tuple[Any, dict[str, Any]]] = []

    def find_class(self, module: str, name: str) -> Any:
        loan = self._loans.get((module, name)) or _known(module, name)
        self._watched += [(thing, dict(vars(thing))) for thing in loan.watched]
        return loan.given

    def finish(self) -> None:
        """Nothing more will be asked for. Raises NotAllowed if something was written to."""
        self._graphs.open()
        written = [thing for thing, was in reversed(self._watched) if _restored(thing, was)]
        if written:
            _refuse("a change", written[0])


def _restored(thing: Any, was: dict[str, Any]) -> bool:
    """Give `thing` the attributes back that it had; whether it had lost them."""
    now = dict(vars(thing))
    if now.keys() == was.keys() and all(now[name] is was[name] for name in was):
        return False
    for name in now.keys() - was.keys():
        delattr(thing, name)
    for name in was:
        if now.get(name) is not was[name]:
            setattr(thing, name, was[name])
    return True


# --- what a pickle gets for a name ---------------------------------------------------------------------


@functools.cache
def _known(module: str, name: str) -> _Loan:
    """What the tables say of a name. Imports `module` only if they name it."""
    if name in DATA.get(module, "").split():
        return _bare(_class(module, name))
    if name in LENT.get(module, "").split():
        return _real(_class(module, name))
    if (module, name) in _CALLS:
        return _Loan(_Call(_CALLS[module, name]))
    if DATA.get(module) == "*" and "__dataclass_fields__" in vars(_class(module, name)):
        return _bare(_class(module, name))
    if module == VIEWS and name.endswith(ENDS_OF_VIEWS):
        return _bare(_class(module, name))
    if module.startswith(LEFT_OUT) and name.isidentifier() and name[0].isupper():
        return _Loan(_LeftOut)
    # A memory format says `torch.channels_last`, of whatever module had a `torch` in it where it was pickled.
    value = vars(torch).get(name.removeprefix("torch."))
    if isinstance(value, torch.dtype if module == "torch" else torch.memory_format):
        return _Loan(value)
    _refuse("a name", f"{module}.{name}")


def _class(module: str, name: str) -> Any:
    found = getattr(importlib.import_module(module), name, None)
    if not isinstance(found, type):
        _refuse("a class", f"{module}.{name}")
    return found


def _bare(cls: Any) -> _Loan:
    """A stand-in for `cls` that makes instances of it without calling `__init__`."""

    def new(_: Any, *args: Any, **kwargs: Any) -> Any:
        return cls.__new__(cls, *args, **kwargs)

    stand_in = _Sealed(cls.__name__, (), {"__new__": new, "__slots__": ()})
    return _Loan(stand_in, tuple(cls) if issubclass(cls, enum.Enum) else ())


def _real(cls: Any) -> _Loan:
    # On a class with a __setstate__, as every tensor type has, BUILD calls that; and that wants an instance.
    return _Loan(cls, () if hasattr(cls, "__setstate__") else (cls,))


def _types_of(inputs: Iterable[Any]) -> dict[tuple[str, str], _Loan]:
    """What inputs may lend: types of tensor subclasses, and the classes and enums that these flatten to."""
    found: dict[tuple[str, str], _Loan] = {}
    waiting = [value for value in inputs if hasattr(value, "__tensor_flatten__")]
    while waiting:
        value = waiting.pop()
        if isinstance(value, type):
            found[value.__module__, value.__qualname__] = _real(value)
        elif isinstance(value, torch.Tensor) and hasattr(value, "__tensor_flatten__"):
            names, context = value.__tensor_flatten__()
            waiting += [type(value), context, *[getattr(value, name) for name in names]]
        elif isinstance(value, enum.Enum):
            found.setdefault((type(value).__module__, type(value).__qualname__), _bare(type(value)))
        elif isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, (list, tuple, set, frozenset)):
            waiting += value
    return found


class _Sealed(type):
    """Classes that cannot be written to."""

    def __setattr__(cls, name: str, value: Any) -> None:
        _refuse("a change", f"{cls.__name__}.{name}")


class _LeftOut(metaclass=_Sealed):
    """Stands for an object that no load uses; takes any arguments and any state, keeps none."""

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> _LeftOut:
        return object.__new__(cls)

    def __setstate__(self, state: Any) -> None:
        pass


class _Call:
    """A function that can be called and not written to."""

    __slots__ = ("_function",)
    _function: Callable[..., Any]

    def __init__(self, function: Callable[..., Any]) -> None:
        object.__setattr__(self, "_function", function)

    def __setattr__(self, name: str, value: Any) -> None:
        _refuse("a change", name)

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)


# --- functions ------------------------------------------------------------------------------------------


class _Graphs(_Call):
    """Stands for torch's `reduce_graph_module`, which runs source text. While a pickle loads, it keeps its arguments.

    A result holds the backward as a module's source, for compiled autograd: it asks for it later, or never.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_KeptGraph)

    def open(self) -> None:
        object.__setattr__(self, "_function", _graph)


@dataclass(slots=True)
class _KeptGraph:
    body: dict[str, Any]
    imports: str


def _graph(body: dict[str, Any], imports: str) -> Any:
    modules = {
        name: _graph(part.body, part.imports) if isinstance(part, _KeptGraph) else part
        for name, part in body["_modules"].items()
    }
    return compat.reduce_graph_module({**body, "_modules": modules}, imports)


def _storage(data: bytes) -> Any:
    """Torch's own function unpickles freely here: a pickle in the pickle."""
    return torch.load(io.BytesIO(data), weights_only=True)


def _tensor(storage: Any, offset: int, size: Any, stride: Any, requires_grad: bool, hooks: Any, *more: Any) -> Any:
    if not isinstance(storage, (torch.TypedStorage, torch.UntypedStorage)) or hooks:
        _refuse("a tensor", f"{type(storage).__qualname__} with hooks {hooks}")
    return rebuild_tensor(storage, offset, size, stride, bool(requires_grad), collections.OrderedDict(), *more)


def _defaultdict(factory: Any = None) -> Any:
    if factory is not None and factory is not list and not inspect.ismethod(factory):
        _refuse("a default", factory)
    return collections.defaultdict(factory)


def _method(owner: Any, name: str) -> Any:
    kind = type(owner)
    if METHODS.get(name) != f"{kind.__module__}.{kind.__qualname__}":
        _refuse("an attribute", f"{kind.__qualname__}.{name}")
    return getattr(owner, name)


_CALLS: dict[tuple[str, str], Callable[..., Any]] = {
    ("builtins", "getattr"): _method,
    ("collections", "Counter"): collections.Counter,
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("collections", "defaultdict"): _defaultdict,
    ("inspect", "Parameter"): inspect.Parameter,
    ("inspect", "Signature"): inspect.Signature,
    ("torch", "Size"): torch.Size,
    ("torch", "device"): torch.device,
    **dict.fromkeys(TENSORS, _tensor),
    LAYOUT: compat.layout_named,
    STORAGE: _storage,
    ORDERED_SET: compat.OrderedSet,
}
