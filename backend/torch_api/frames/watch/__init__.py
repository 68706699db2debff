"""What is seen while one frame is traced and cannot be asked of Dynamo afterwards. Changes nothing of the trace.

Restarts of the analysis begin anew with another OutputGraph; what the last one installed counts, what any of them
traced through is compared.
"""

from __future__ import annotations

import copy
import enum
import operator
import re
import sys
import types
from collections.abc import Callable
from importlib import metadata, util
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._dynamo.source import is_from_skip_guard_source
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.utils._ordered_set import OrderedSet
from warmgraph.hashing import comes_with_torch, is_torch_or_stdlib

from ... import patches
from ...versions import at_hand
from ..acting import asking_super, assuming, note_untraced, running
from ..guards import has_torch_function, is_dtensor, kind_of, source_of
from ..optimizers import noting_calls, noting_groups
from ..plain import stands_by_name
from ..seen import note_chance, seen
from . import sets, texts
from .keys import hashing
from .listening import listen
from .variables import constant_of


def install() -> None:
    """Once per process. Raises patches.Moved."""
    listen("inlining", _inlining)
    listen("values", _looking)
    listen("static inputs", _marking)
    listen("groups of optimizers", noting_groups)
    listen("state of optimizers", noting_calls)
    patches.install("guards left out", _guarding)  # it counts the frames above it
    listen("installed globals", _installing)
    listen("values without a source", _without_source)
    listen("text of objects", texts.telling)
    listen("text of values", texts.telling)
    listen("text by a builtin", _called)
    listen("names by getattr", _by_name)
    listen("names by hasattr", _by_name)
    listen("functions that are not traced", _skipping)
    listen("names in modules", _asking)
    listen("whether names are in modules", _asking)
    listen("attributes read at once", _reading)
    listen("keys of tables", hashing)
    listen("items of tables", _finding)
    listen("whether items are in tables", _finding)
    listen("constants", texts.making)
    listen("methods of classes", _calling)
    listen("attributes on classes", _walking)
    listen("attributes on classes of objects", _walking)
    listen("nodes that run", running)
    patches.install("assumed constants", assuming)  # also unheard: what was asked for a restore is not asked again
    if at_hand() < (2, 13):
        listen("attributes by super", asking_super)
    sets.install()


def _inlining(original: Callable[..., Any]) -> Callable[..., Any]:
    def init(self: Any, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        current = seen()
        if current is not None:
            code, space = self.f_code, self.f_globals
            if current.inlined.setdefault(code, space) is not space and not comes_with_torch(code.co_filename):
                # One key for both: code is compared by what it does, and its globals are another module's.
                current.chance.append(f"{code.co_name}, which two modules have alike")
            called = options.get("funcvar", args[-1] if args else None)
            function = getattr(called, "fn", None)
            sourced = getattr(called, "source", None) or getattr(called, "source_fn", None)
            if isinstance(function, types.FunctionType) and not sourced:
                current.functions[id(function)] = function
            current.shows_memo = current.shows_memo or _shows_memo(self)

    return init


def _without_source(original: Callable[..., Any]) -> Callable[..., Any]:
    def create(tx: Any, value: Any) -> Any:
        current = seen()
        if current is not None:
            _note(value, current.sourceless)
        return original(tx, value)

    return create


def _note(value: Any, into: dict[int, Any]) -> None:
    """Classes, modules, builtins, members of enums and what its holder cannot say (which object a method is bound to,
    say), also within containers; and sets, whose order their holder does not say.
    """
    if isinstance(value, (set, frozenset)):
        sets.note_order(value)
    bound = isinstance(value, types.MethodType) and not isinstance(value.__self__, type)
    if bound or isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType, enum.Enum, *_UNSAID)):
        into[id(value)] = value
    elif isinstance(value, dict):
        for one in value.items():
            _note(one, into)
    elif isinstance(value, (tuple, list, set, frozenset)):
        for one in value:
            _note(one, into)


# Dynamo makes constants of these; all that a function or class which holds one says of it is its type.
_UNSAID: tuple[type, ...] = (
    re.Match, torch._C._SDPBackend, torch._C.DispatchKey, immutable_list, immutable_dict,
    OrderedSet, pytree.TreeSpec, pytree.SequenceKey, pytree.MappingKey, pytree.GetAttrKey,
)  # fmt: skip


def _called(original: Callable[..., Any]) -> Callable[..., Any]:
    def call_function(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        try:
            with sets.by_a_builtin(self.fn, args, kwargs):
                found = original(self, tx, args, kwargs)
        finally:  # now it is known what a lazy variable stands for
            if len(args) > 1 and (self.fn is getattr or self.fn is hasattr):  # before 2.13
                _note_name(args[1])
        if any(self.fn is one for one in _TEXTS):
            texts.note_text(found, [*args, *kwargs.values()])
        if self.fn is dir:
            note_chance("dir(), which says all that is there")
        return found

    return call_function


def _by_name(original: Callable[..., Any]) -> Callable[..., Any]:
    def call_function(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        try:
            return original(self, tx, args, kwargs)
        finally:  # now it is known what a lazy variable stands for
            if len(args) > 1:
                _note_name(args[1])

    return call_function


_TEXTS = (str, repr, ascii, format, str.format, operator.mod, operator.imod)


def _note_name(variable: Any) -> None:
    current, name = seen(), constant_of(variable)
    if current is not None and isinstance(name, str):
        current.names.add(name)


def _skipping(original: Callable[..., Any]) -> Callable[..., Any]:
    def call_function(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        if self.value in (util.find_spec, metadata.version):
            note_chance(f"{self.value.__name__}(), which asks what is installed")
        return original(self, tx, args, kwargs)

    return call_function


def _asking(original: Callable[..., Any]) -> Callable[..., Any]:
    def ask(self: Any, tx: Any, name: str) -> Any:
        current = seen()
        if current is not None:
            current.names.add(name)
            # Its own code may answer, or that of its class: nothing guards whether it does.
            space = vars(self.value)
            if name not in space and not is_torch_or_stdlib(str(space.get("__name__"))):
                if self.source is None:
                    note_chance(f"whether module {space.get('__name__')} has {name}: no source leads to it")
                else:
                    current.asked_modules[self.source, name] = None
        return original(self, tx, name)

    return ask


def _reading(original: Callable[..., Any]) -> Callable[..., Any]:
    """An attribute of a live object, of which no value was built: nothing guards it. Bases go with a class."""

    def constant(self: Any) -> Any:
        found = original(self)
        if not callable(found) and self.name not in ("__mro__", "__bases__") and not _names_class_of_torch(self):
            note_chance(f"attribute {self.name} of {type(self.obj).__name__.removesuffix('Variable')}, read at once")
        return found

    return constant


def _names_class_of_torch(variable: Any) -> bool:
    """Whether it asks a class of torch's for its own name, by which the class is said wherever it is."""
    cls = variable.obj.as_python_constant()
    is_torchs = isinstance(cls, type) and is_torch_or_stdlib(cls.__module__)
    return is_torchs and variable.name in ("__module__", "__name__", "__qualname__") and stands_by_name(cls)


def _finding(original: Callable[..., Any]) -> Callable[..., Any]:
    """A variable of the environment, whose name comes as bytes: code may have put it together, and torch has no guard
    on one that is not there.
    """

    def find(self: Any, *args: Any) -> Any:
        name = constant_of(args[-1])
        if type(name) is bytes and (current := seen()) is not None:
            current.names.add(name.decode("utf-8", "surrogateescape"))
        return original(self, *args)

    return find


def _walking(original: Callable[..., Any]) -> Callable[..., Any]:
    """torch 2.13 keeps sources by what stands on a class: of one object on two classes only the first has guards."""

    def walk(self: Any, tx: Any, name: str) -> Any:
        current = seen()
        if current is not None:
            cls = self.value if isinstance(self.value, type) else type(self.value)
            owner = next((base for base in cls.__mro__ if name in vars(base)), cls)
            key = (id(vars(owner).get(name)), name)
            if current.owners.setdefault(key, owner) is not owner:
                tx.output.mro_source_cache.pop(key, None)
                current.owners[key] = owner
        return original(self, tx, name)

    return walk


def _looking(original: Callable[..., Any]) -> Callable[..., Any]:
    def build(self: Any, value: Any) -> Any:
        current = seen()
        if current is not None:
            current.looked_at[self.source] = None
            wraps = isinstance(value, torch.Tensor) and hasattr(value, "__tensor_flatten__") and not is_dtensor(value)
            if wraps or has_torch_function(value):
                note_untraced(current, value)
        return original(self, value)

    return build


def _marking(original: Callable[..., Any]) -> Callable[..., Any]:
    def mark(self: Any, value: Any, guard: bool) -> Any:
        current = seen()
        if current is not None and not guard:
            current.marked[id(value)] = value
        return original(self, value, guard)

    return mark


def _guarding(original: Callable[..., Any]) -> Callable[..., Any]:
    def install_guard(*guards: Any, skip: int = 0) -> None:
        current = seen()
        if current is not None:
            current.unguarded += [guard for guard in guards if is_from_skip_guard_source(guard.originating_source)]
            for guard in guards:
                if kind_of(guard) == "ID_MATCH":
                    asked = _is_asked_by_copy(sys._getframe(1))
                    current.copied[source_of(guard)] = asked and current.copied.get(source_of(guard), True)
        original(*guards, skip=skip + 1)

    return install_guard


def _calling(original: Callable[..., Any]) -> Callable[..., Any]:
    """Which subclasses there are has guards where the class has a source."""

    def call_method(self: Any, tx: Any, name: str, args: Any, kwargs: Any) -> Any:
        if name == "__subclasses__" and not self.source:
            note_chance(f"which subclasses {self.value.__name__} has: no source leads to it")
        return original(self, tx, name, args, kwargs)

    return call_method


def _shows_memo(inlined: Any) -> bool:
    """Whether a `__deepcopy__` of the user's is called, or `copy` from outside with a memo: it has addresses in it."""
    if inlined.f_code.co_name == "__deepcopy__":
        return True
    memo = inlined.symbolic_locals.get("memo") if inlined.f_globals is vars(copy) else None
    if memo is None or inlined.parent.f_globals is vars(copy):
        return False
    return not (memo.is_python_constant() and memo.as_python_constant() is None)


def _is_asked_by_copy(caller: types.FrameType) -> bool:
    """Whether `copy` asks for the address of what it copies: it keeps that in its memo, and gives it to nobody."""
    return caller.f_code.co_name == "call_id" and getattr(caller.f_locals.get("tx"), "f_globals", None) is vars(copy)


def _installing(original: Callable[..., Any]) -> Callable[..., Any]:
    def install(self: Any, name: str, value: Any) -> None:
        original(self, name, value)
        current = seen()
        if current is not None:
            current.installed.setdefault(id(self), {})[name] = value

    return install
