"""Python code by content: a function or class with everything it can reach, or a reason why that cannot be seen.

For code that torch traces into a graph but no part of the graph names: a custom operator's fake and backward,
a tensor subclass's `__torch_dispatch__`, a wrapped function in a hook. Follows closures, defaults, globals, local
imports and methods, as Triton's cache follows a kernel's; torch and the standard library are fixed by the toolchain
part and end the walk.
"""

from __future__ import annotations

import enum
import hashlib
import importlib.util
import logging
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

from .encode import Uncacheable, encode
from .fixed import is_fixed, named_by_torch
from .reach import Import, meaning, reach_of
from .targets import TORCH_NAMESPACES, identify, is_higher_order, is_operator
from .unseen import operators_of, refuse_unseen
from .values import attributes_of, name_of, parts_of, place_of

MAX_FUNCTIONS = 500  # a closure that reaches further is not a description any more

Leaf = Callable[[Any], "str | None"]


def source_digest(code: Any, what: str, *, leaf: Leaf | None = None, strict: bool = False) -> str:
    """Digest of a function or class with all it reaches. Raises Uncacheable, naming what cannot be seen.

    `leaf` is asked about values that are neither code nor plain (tensors); it returns a text of its own or None.
    `strict` also refuses what the walk would pass over: state that the code changes, files.
    """
    walk = _Walk(leaf, strict)
    try:
        walk.value(code)
        walk.follow()
    except Uncacheable as bad:
        raise Uncacheable(f"{what}: {bad}", bad.cause) from None
    except RecursionError:
        raise Uncacheable(f"{what}: it reaches values that hold themselves, or too deep") from None
    return hashlib.sha256("\n".join(walk.lines).encode()).hexdigest()


class _Walk:
    """Depth first, each function and class once; what was seen is referred to by its number.

    Of modules, and of what is hung on functions, only what may be used counts: all that has a name which any of the
    code asks for, since a module may be handed from one function to the next. So these come last.
    """

    def __init__(self, leaf: Leaf | None, strict: bool) -> None:
        self.lines: list[str] = []
        self._leaf = leaf
        self._strict = strict
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []  # keeps temporaries alive, so that an id stays theirs
        self._owners: list[Any] = []  # modules and functions with attributes
        self._read: set[tuple[int, str]] = set()  # which owner's attributes were followed
        self._names: set[str] = set()  # that the code asks for
        self._words: set[str] = set()  # strings in code and data, which name attributes if `_asks`
        self._asks = False

    def value(self, value: Any) -> None:
        """Append what `value` is."""
        self._say("(")  # in brackets, so that no two nestings have the same lines
        self._what(value)
        self._say(")")

    def follow(self) -> None:
        """Append what is used of modules and hung on functions, and of what that leads to."""
        before = -1
        while before != len(self._read):
            before = len(self._read)
            for number, owner in enumerate(self._owners):  # it grows
                for name in self._asked_of(owner):
                    if (number, name) not in self._read:
                        self._read.add((number, name))
                        self._say(f"of owner {number}")
                        self._inside(owner, f"attribute {name}", vars(owner)[name])

    def _asked_of(self, owner: Any) -> list[str]:
        """Names of the attributes of a module or function that count."""
        there = vars(owner).keys() - _OF_MODULES
        names = there & {*self._names, "__getattr__"}
        if self._asks:
            words = {part for word in self._words for part in word.split(".")}
            begins = tuple(word for word in words if word.endswith("_") and word.strip("_"))  # of f"scale_{n}"
            ends = tuple(word for word in words if word.startswith("_") and word.strip("_"))
            names |= {name for name in there if name in words or name.startswith(begins) or name.endswith(ends)}
        if owner is torch.ops:
            self._operators(name for name in names if isinstance(vars(owner)[name], types.ModuleType))
            return []
        return sorted(names)

    def _what(self, value: Any) -> None:
        parts = parts_of(value)
        if parts is not None:
            kind, inner = parts
            self._say(kind)
            for part in inner:
                self.value(part)
        elif isinstance(value, types.ModuleType):
            self._module(value)
        elif isinstance(value, (types.FunctionType, type)):
            self._code(value)
        elif isinstance(value, (types.BuiltinFunctionType, types.MethodWrapperType)):
            self._builtin(value)
        elif isinstance(value, (types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType)):
            self._named(value, value.__objclass__.__module__)
        elif type(value) in (list, tuple):
            self._say(f"{type(value).__name__} of {len(value)}")
            for item in value:
                self.value(item)
        elif type(value) is dict:
            self._say(f"dict of {len(value)}")
            for key, item in value.items():  # in its order: code may iterate over it
                self._say(encode(key))
                if isinstance(key, str):
                    self._words.add(key)
                self.value(item)
        else:
            self._constant(value)

    def _constant(self, value: Any) -> None:
        if isinstance(value, logging.Logger):
            self._say(f"logger {value.name}")  # says things; decides nothing
        elif type(value).__module__ == "functools" and hasattr(value, "__wrapped__"):  # lru_cache
            self.value(value.__wrapped__)
        elif isinstance(value, enum.Enum):
            self._say(f"member {value.name}")
            self._code(type(value))
        elif is_operator(value) or is_higher_order(value):
            text = self._leaf(value) if self._leaf is not None else None
            if text is None:
                self._operators([getattr(value, "namespace", None) or value._qualified_op_name.split("::")[0]])
            self._say(text if text is not None else identify(value))
        elif (attributes := attributes_of(value)) is not None:
            self._instance(value, attributes)
        else:
            if isinstance(value, str):
                self._words.add(value)
            text = self._leaf(value) if self._leaf is not None else None
            self._say(text if text is not None else encode(value))

    def _instance(self, value: Any, attributes: Iterable[tuple[str, Any]]) -> None:
        """An object that is its class and its attributes, nothing hidden (a dataclass's, say)."""
        if not self._first(value):
            return
        self._say("instance")
        self._code(type(value))
        for name, attribute in attributes:
            self._inside(value, f"attribute {name}", attribute)

    def _module(self, module: types.ModuleType) -> None:
        if is_fixed(module.__name__):
            if module.__name__.startswith("torch.ops."):
                self._operators([module.__name__.split(".")[2]])
            self._say(f"module {module.__name__}")
            if module is not torch.ops:
                return
        elif hasattr(type(module), "__getattr__"):
            raise Uncacheable(f"module {module.__name__} makes up its attributes when it is asked for them")
        if self._first(module):
            self._say("module")  # what is used of it counts, not where it lies
            self._owners.append(module)

    def _code(self, code: Any) -> None:
        if named_by_torch(code):
            self._named(code, code.__module__)
        elif self._first(code):
            if isinstance(code, type):
                self._class(code)
            else:
                self._function(code)
                self._owners.append(code)

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
        of_torch = is_fixed(function.__globals__.get("__name__"))  # around a user's: its globals are torch's
        if not of_torch:
            refuse_unseen(function, reach, strict=self._strict)
            self._names |= reach.names
            self._words |= reach.words
            self._asks = self._asks or reach.asks
        self._operators(operators_of(function, reach))
        self._say(meaning(function.__code__))
        for cell, name in zip(function.__closure__ or (), function.__code__.co_freevars, strict=True):
            try:
                content = cell.cell_contents
            except ValueError:  # not bound yet
                continue
            self._inside(function, f"closure {name}", content)
        self._inside(function, "defaults", list(function.__defaults__ or ()))
        self._inside(function, "keyword defaults", dict(function.__kwdefaults__ or {}))
        if not of_torch:
            for name in sorted(reach.loads & function.__globals__.keys()):
                self._inside(function, f"global {name}", function.__globals__[name])
            for imported in reach.imports:
                self._imported(function, imported)
        if hasattr(function, "__wrapped__"):
            self.value(function.__wrapped__)

    def _inside(self, owner: Any, where: str, value: Any) -> None:
        """A value that `owner` holds; an error names both."""
        self._say(where)
        try:
            self.value(value)
        except Uncacheable as bad:
            raise Uncacheable(f"{where} of {place_of(owner)}: {bad}", bad.cause) from None

    def _imported(self, function: types.FunctionType, imported: Import) -> None:
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
        self._module(sys.modules[full if imported.whole else full.partition(".")[0]])

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
            if isinstance(member, types.MemberDescriptorType) or name in _BOOKKEEPING:
                continue
            if isinstance(member, enum.Enum) or (issubclass(code, enum.Enum) and name.startswith("_")):
                continue  # said above, and enum's own tables
            self._inside(code, f"member {name}", member)

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


# What Python and torch keep on classes for themselves: what is said above or has no behaviour, `abc`'s registry, and
# the node class that autograd makes of a Function (it has a number that counts them).
_BOOKKEEPING = frozenset(
    """
    __doc__ __dict__ __weakref__ __module__ __qualname__ __annotations__ __annotate__ __annotate_func__ __orig_bases__
    __parameters__ __type_params__ __dataclass_fields__ __dataclass_params__ __abstractmethods__ __static_attributes__
    __firstlineno__ __signature__ _abc_impl _backward_cls
    """.split()
)

# What a module says of itself and of where it lies, and what `follow` has from a function already.
_OF_MODULES = frozenset("__file__ __path__ __spec__ __loader__ __cached__ __doc__ __builtins__ __wrapped__".split())
