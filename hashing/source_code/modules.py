"""Modules as code uses them: attributes asked for at once, modules passed on, settings, `torch.ops`, local imports.

Steps of the walk in `source.py`, which says what is found.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch

from ..encoding.encode import Uncacheable, encode
from ..encoding.targets import TORCH_NAMESPACES, is_higher_order, is_operator
from ..encoding.values import place_of
from ..origin import is_torch_or_stdlib
from .owners import Owners
from .purity import fact_of, is_impure, is_impure_module
from .references import Import
from .saying import SAYING, is_code, said
from .untracked import MORE


class Walk(Protocol):
    """What the steps here need of the walk."""

    owners: Owners
    leaf: Callable[[Any], str | None] | None
    strict: bool

    def say(self, text: str) -> None: ...
    def value(self, value: Any) -> None: ...
    def inside(self, owner: Any, where: str, value: Any) -> None: ...
    def code(self, code: Any) -> None: ...
    def fact(self, name: str) -> None: ...
    def first(self, thing: Any) -> bool: ...
    def operators(self, namespaces: Iterable[str]) -> None: ...


def whole_module(walk: Walk, module: types.ModuleType) -> None:
    """A module that code may ask for an attribute by a name that stands nowhere."""
    if not is_torch_or_stdlib(module.__name__):
        return
    if is_impure_module(module.__name__):
        raise Uncacheable(f"it asks module {module.__name__} for an attribute by its name, {MORE}")
    if (name := fact_of(module.__name__, "")) is not None:
        walk.fact(name)


def attribute(walk: Walk, owner: Any, name: str) -> None:
    """One attribute of a module, class or function."""
    if owner is torch.ops:
        walk.operators([name])
        return
    there = vars(owner)
    if not isinstance(owner, (types.ModuleType, types.FunctionType, type)):
        _hung(walk, owner, name, there.get(name))
        return
    value = there[name] if name in there else getattr(owner, name)
    if name in SAYING:
        if isinstance(value, types.GetSetDescriptorType):  # `type` and its like answer for their instances by it
            value = getattr(owner, name)
        walk.say(f"{name} {said(value)}")
        return
    if isinstance(owner, types.ModuleType) and is_torch_or_stdlib(owner.__name__) and not is_code(value):
        if is_impure(owner.__name__, name):
            raise Uncacheable(f"it reads {owner.__name__}.{name}, {MORE}")
        if (read := fact_of(owner.__name__, name)) is not None:
            walk.fact(read)
            return
    walk.inside(owner, f"attribute {name}", value)


def _hung(walk: Walk, owner: Any, name: str, value: Any) -> None:
    """On an object. What torch keeps on its operators is said with what they stand for."""
    try:
        walk.say(f"{name} {encode(value)}")
    except Uncacheable:
        torchs = is_torch_or_stdlib(type(value).__module__) and (is_operator(owner) or is_higher_order(owner))
        if not torchs or is_code(value) or (isinstance(value, _CONTAINERS) and name not in _kept_on_operators()):
            walk.inside(owner, f"attribute {name}", value)


_CONTAINERS = (list, dict, tuple, set, frozenset, functools.partial, torch.Tensor)


@functools.cache
def _kept_on_operators() -> frozenset[str]:
    """What torch itself keeps on an operator."""
    known = (torch.ops.aten.add, torch.ops.aten.add.Tensor, torch.ops.higher_order.cond)
    return frozenset(itertools.chain(*map(vars, known)))


def path_from(walk: Walk, value: Any, path: tuple[str, ...]) -> None:
    """What attributes asked one after the other lead to, as far as modules go."""
    for number, name in enumerate(path):
        if value is torch.ops:
            _operator(walk, path[number:])
            return
        if name not in vars(value) and is_torch_or_stdlib(value.__name__):
            getattr(value, name, None)  # torch loads some of its modules when it is asked for them
        walk.say(".".join(path[: number + 1]))
        if not is_torch_or_stdlib(value.__name__) and type(value) is not types.ModuleType:
            module_whole(walk, value)  # its class may answer instead
        if name not in vars(value):
            _made_up(walk, value, name)
            return
        inner = vars(value)[name]
        if not isinstance(inner, types.ModuleType):
            attribute(walk, value, name)
            return
        value = inner
    walk.value(value)


def _made_up(walk: Walk, module: types.ModuleType, name: str) -> None:
    """An attribute that a module does not hold: a setting of torch's, or what its own `__getattr__` gives."""
    if "__getattr__" in vars(module) and not is_torch_or_stdlib(module.__name__):
        attribute(walk, module, "__getattr__")
    elif not is_torch_or_stdlib(module.__name__):
        _class_of_module(walk, module)
    elif not hasattr(type(module), "__getattr__"):
        walk.say("no attribute")
    elif hasattr(module, name):
        value = getattr(module, name)
        if is_code(value) or isinstance(value, (str, int, float, bool, list, dict, type(None))):
            walk.inside(module, f"setting {name}", value)
        else:  # a group of settings
            settings = module.get_config_copy().items()
            walk.inside(module, f"settings {name}", {key: v for key, v in settings if key.startswith(name + ".")})


def _operator(walk: Walk, path: tuple[str, ...]) -> None:
    """What follows `torch.ops`: a namespace, an operator, an overload."""
    if len(path) == 1 or path[0] in TORCH_NAMESPACES:
        walk.operators(path[:1])
        walk.say("torch.ops " + " ".join(path))
        return
    found: Any = torch.ops
    for name in path[:3]:
        inner = getattr(found, name, None)
        if inner is None or (is_operator(found) and not is_operator(inner)):  # `torch.ops.mine.scale.__name__`
            break
        found = inner
    if is_operator(found):
        walk.value(found)
    else:
        if walk.leaf is None or walk.strict:
            walk.operators(path[:1])
        walk.say(f"no operator torch.ops.{'.'.join(path)}")


def module_whole(walk: Walk, module: types.ModuleType) -> None:
    if is_torch_or_stdlib(module.__name__):
        if module.__name__.startswith("torch.ops."):
            walk.operators([module.__name__.split(".")[2]])
        walk.say(f"module {module.__name__}")
    else:
        _class_of_module(walk, module)
    if walk.first(module):
        walk.say("module")  # what is used of it counts, not where it lies
        walk.owners.add(module)


def _class_of_module(walk: Walk, module: types.ModuleType) -> None:
    """A module of the user's that has a class of its own."""
    if hasattr(type(module), "__getattr__"):
        raise Uncacheable(f"module {module.__name__} makes up its attributes when it is asked for them")
    if type(module) is not types.ModuleType:
        walk.code(type(module))


def imported(walk: Walk, function: types.FunctionType, imported: Import) -> None:
    """A module that the function imports when it is called."""
    space = function.__globals__
    package = space.get("__package__") or str(space.get("__name__", "")).rpartition(".")[0]
    try:
        full = importlib.util.resolve_name("." * imported.level + imported.name, package)
    except ImportError as error:
        raise Uncacheable(f"{place_of(function)} imports {imported.name}: {error}") from None
    if is_torch_or_stdlib(full):
        for name in dict.fromkeys((full, full.partition(".")[0])):
            module_whole(walk, importlib.import_module(name))
        return
    for name in {full, full if imported.whole else full.partition(".")[0]}:
        if name not in sys.modules:
            raise Uncacheable(
                f"{place_of(function)} imports {name} when it is called, and that is not loaded yet; "
                "import it at the top of the file"
            )
    module_whole(walk, sys.modules[full if imported.whole else full.partition(".")[0]])
