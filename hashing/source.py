"""Python code by content: a function or class with everything it can reach, or a reason why that cannot be seen.

For code that torch traces into a graph but no part of the graph names: a custom operator's fake and backward,
a tensor subclass's `__torch_dispatch__`, a wrapped function in a hook. Follows closures, defaults, globals, local
imports and methods, as Triton's cache follows a kernel's; torch and the standard library are fixed by the toolchain
part and end the walk.
"""

from __future__ import annotations

import builtins
import enum
import hashlib
import importlib.util
import logging
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from .encode import Uncacheable, encode
from .fixed import is_fixed, named_by_torch
from .reach import Import, meaning, reach_of
from .targets import TORCH_NAMESPACES, identify, is_higher_order, is_operator
from .values import attributes_of, name_of, parts_of, place_of

MAX_FUNCTIONS = 500  # a closure that reaches further is not a description any more

# What a function can look up without a name that could be followed: asked of `cache_hash` alone, since a class that
# is described whole may well have a method that opens a file.
_OUTSIDE = frozenset("eval exec globals locals vars open input __import__".split())
_ENVIRONMENT = frozenset("environ environb getenv import_module".split())

Leaf = Callable[[Any], "str | None"]


def source_digest(code: Any, what: str, *, leaf: Leaf | None = None, strict: bool = False) -> str:
    """Digest of a function or class with all it reaches. Raises Uncacheable, naming what cannot be seen.

    `leaf` is asked about values that are neither code nor plain (tensors); it returns a text of its own or None.
    `strict` also refuses what the walk would pass over: state that the code changes, files, the environment.
    """
    walk = _Walk(leaf, strict)
    try:
        walk.value(code, frozenset())
    except Uncacheable as bad:
        raise Uncacheable(f"{what}: {bad}", bad.cause) from None
    except RecursionError:
        raise Uncacheable(f"{what}: it reaches values that hold themselves, or too deep") from None
    return hashlib.sha256("\n".join(walk.lines).encode()).hexdigest()


class _Walk:
    """Depth first, each function and class once; what was seen is referred to by its number."""

    def __init__(self, leaf: Leaf | None, strict: bool) -> None:
        self.lines: list[str] = []
        self._leaf = leaf
        self._strict = strict
        self._seen: dict[int, int] = {}
        self._read: set[tuple[int, str]] = set()  # attributes of modules and functions that were followed
        self._kept: list[Any] = []  # keeps temporaries alive, so that an id stays theirs

    def value(self, value: Any, names: frozenset[str] = frozenset()) -> None:
        """Append what `value` is. `names`: attribute names used by the code that refers to it."""
        self._say("(")  # in brackets, so that no two nestings have the same lines
        self._what(value, names)
        self._say(")")

    def _what(self, value: Any, names: frozenset[str]) -> None:
        parts = parts_of(value)
        if parts is not None:
            kind, inner = parts
            self._say(kind)
            for part in inner:
                self.value(part, names)
        elif isinstance(value, types.ModuleType):
            self._module(value, names)
        elif isinstance(value, (types.FunctionType, type)):
            self._code(value, names)
        elif isinstance(value, (types.BuiltinFunctionType, types.MethodWrapperType)):
            self._builtin(value)
        elif isinstance(value, (types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType)):
            self._named(value, value.__objclass__.__module__)
        elif type(value) in (list, tuple):
            self._say(f"{type(value).__name__} of {len(value)}")
            for item in value:
                self.value(item, names)
        elif type(value) is dict:
            self._say(f"dict of {len(value)}")
            for key, item in value.items():  # in its order: code may iterate over it
                self._say(encode(key))
                self.value(item, names)
        else:
            self._constant(value)

    def _constant(self, value: Any) -> None:
        if isinstance(value, logging.Logger):
            self._say(f"logger {value.name}")  # says things; decides nothing
        elif type(value).__module__ == "functools" and hasattr(value, "__wrapped__"):  # lru_cache
            self.value(value.__wrapped__)
        elif isinstance(value, enum.Enum):
            self._say(f"member {value.name}")
            self._code(type(value), frozenset())
        elif is_operator(value) or is_higher_order(value):
            self._operators([getattr(value, "namespace", None) or value._qualified_op_name.split("::")[0]])
            self._say(identify(value))
        elif (attributes := attributes_of(value)) is not None:
            self._instance(value, attributes)
        else:
            text = self._leaf(value) if self._leaf is not None else None
            self._say(text if text is not None else encode(value))

    def _instance(self, value: Any, attributes: Iterable[tuple[str, Any]]) -> None:
        """An object that is its class and its attributes, nothing hidden (a dataclass's, say)."""
        if not self._first(value):
            return
        self._say("instance")
        self._code(type(value), frozenset())
        for name, attribute in attributes:
            self._inside(value, f"attribute {name}", attribute, frozenset())

    def _module(self, module: types.ModuleType, names: frozenset[str]) -> None:
        if is_fixed(module.__name__):
            if module.__name__ == "torch.ops":
                self._operators(names & vars(module).keys())
            elif module.__name__.startswith("torch.ops."):
                self._operators([module.__name__.split(".")[2]])
            self._say(f"module {module.__name__}")
            return
        self._say("module")  # what is used of it counts, not where it lies
        self._attributes(module, names)

    def _attributes(self, owner: Any, names: frozenset[str]) -> None:
        """What is used of a module, or hung on a function; once, since modules may hold each other."""
        for name in sorted(names & vars(owner).keys()):
            if (id(owner), name) not in self._read:
                self._read.add((id(owner), name))
                self._say(f"attribute {name}")
                self.value(vars(owner)[name], names)

    def _code(self, code: Any, names: frozenset[str]) -> None:
        if named_by_torch(code):
            self._named(code, code.__module__)
        elif self._first(code):
            if isinstance(code, type):
                self._class(code)
            else:
                self._function(code)
        if isinstance(code, types.FunctionType):
            self._attributes(code, names)

    def _first(self, thing: Any) -> bool:
        """Whether `thing` is seen for the first time; says which one it is if not."""
        if id(thing) in self._seen:
            self._say(f"again {self._seen[id(thing)]}")
            return False
        if len(self._seen) >= MAX_FUNCTIONS:
            raise Uncacheable(f"it reaches more than {MAX_FUNCTIONS} functions outside torch")
        self._seen[id(thing)] = len(self._seen)
        self._kept.append(thing)
        return True

    def _function(self, function: types.FunctionType) -> None:
        reach = reach_of(function.__code__)
        self._refuse(function, reach.stores, reach.loads, reach.names)
        self._operators(reach.operators)
        self._say(meaning(function.__code__))
        for cell, name in zip(function.__closure__ or (), function.__code__.co_freevars, strict=True):
            try:
                content = cell.cell_contents
            except ValueError:  # not bound yet
                continue
            self._inside(function, f"closure {name}", content, reach.names)
        self._inside(function, "defaults", list(function.__defaults__ or ()), reach.names)
        self._inside(function, "keyword defaults", dict(function.__kwdefaults__ or {}), reach.names)
        if not is_fixed(function.__globals__.get("__name__")):  # torch's own around a user's: its globals are torch's
            for name in sorted(reach.loads & function.__globals__.keys()):
                self._inside(function, f"global {name}", function.__globals__[name], reach.names)
            for imported in reach.imports:
                self._imported(function, imported, reach.names)
        if hasattr(function, "__wrapped__"):
            self.value(function.__wrapped__, reach.names)

    def _inside(self, owner: Any, where: str, value: Any, names: frozenset[str]) -> None:
        """A value that `owner` holds; an error names both."""
        self._say(where)
        try:
            self.value(value, names)
        except Uncacheable as bad:
            raise Uncacheable(f"{where} of {place_of(owner)}: {bad}", bad.cause) from None

    def _imported(self, function: types.FunctionType, imported: Import, names: frozenset[str]) -> None:
        """A module that the function imports when it is called."""
        space = function.__globals__
        package = space.get("__package__") or str(space.get("__name__", "")).rpartition(".")[0]
        try:
            full = importlib.util.resolve_name("." * imported.level + imported.name, package)
        except ImportError as error:
            raise Uncacheable(f"{place_of(function)} imports {imported.name}: {error}") from None
        if is_fixed(full):
            return
        for name in {full, full if imported.whole else full.partition(".")[0]}:
            if name not in sys.modules:
                raise Uncacheable(
                    f"{place_of(function)} imports {name} when it is called, and that is not loaded yet; "
                    "import it at the top of the file"
                )
        self._module(sys.modules[full if imported.whole else full.partition(".")[0]], names)

    def _refuse(
        self, function: types.FunctionType, stores: frozenset[str], loads: frozenset[str], names: frozenset[str]
    ) -> None:
        """What no walk can follow, of a function whose result is to be taken for granted."""
        if not self._strict or is_fixed(function.__globals__.get("__name__")):
            return
        if stores:
            raise Uncacheable(f"{place_of(function)} changes {min(stores)}, so what it does depends on earlier calls")
        outside = sorted((loads & _OUTSIDE) - function.__globals__.keys()) + sorted(names & _ENVIRONMENT)
        if outside:
            raise Uncacheable(f"{place_of(function)} uses {outside[0]}, so what it does depends on more than its code")
        space = function.__globals__
        unknown = sorted(loads - space.keys() - vars(builtins).keys())
        if unknown:
            raise Uncacheable(
                f"{place_of(function)} refers to {unknown[0]}, which is not defined (yet): ask when everything is"
            )

    def _operators(self, namespaces: Iterable[str]) -> None:
        for namespace in sorted(set(namespaces) - TORCH_NAMESPACES):
            raise Uncacheable(f"it calls operators of torch.ops.{namespace}, whose implementation cannot be seen")

    def _class(self, code: type) -> None:
        self._say(f"class {code.__qualname__}")
        for base in (*code.__mro__[1:], *([type(code)] if type(code) is not type else [])):
            self.value(base)
        if issubclass(code, enum.Enum):
            self._say("members")
            self.value([[member.name, member.value] for member in code])
        for name, member in sorted(vars(code).items()):
            if name.startswith("__") and not callable(getattr(code, name, None)):
                continue  # __doc__, __dict__, __module__, __annotations__ ...: no behaviour of their own
            if isinstance(member, types.MemberDescriptorType) or name in _BOOKKEEPING:
                continue
            if isinstance(member, enum.Enum) or (issubclass(code, enum.Enum) and name.startswith("_")):
                continue  # said above, and enum's own tables
            self._inside(code, f"member {name}", member, frozenset())

    def _builtin(self, value: Any) -> None:
        """Compiled code: by name, and what it is bound to (`TABLE.get` is more than `dict.get`)."""
        owner = getattr(value, "__self__", None)
        if owner is None or isinstance(owner, types.ModuleType):
            self._named(value, owner.__name__ if owner is not None else value.__module__)
            return
        self._say(f"bound {value.__qualname__}")
        self.value(owner)

    def _named(self, code: Any, module: str | None) -> None:
        if not is_fixed(module or "builtins"):
            raise Uncacheable(f"{module}.{name_of(code)} is compiled code outside torch")
        self._say(f"{module}.{name_of(code)}")

    def _say(self, text: str) -> None:
        self.lines.append(encode(text))


# What Python and torch keep on classes for themselves: `abc`'s registry, who wrote the class where, and the node
# class that autograd makes of a Function (it has a number that counts them).
_BOOKKEEPING = frozenset(
    "_abc_impl __annotate__ __annotate_func__ __static_attributes__ __firstlineno__ _backward_cls".split()
)
