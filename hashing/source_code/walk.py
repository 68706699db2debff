"""Python code by content: a function or class with everything it can reach, or a reason why that cannot be seen.

For code that torch traces into a graph but no part of the graph names: a custom operator's fake and backward,
a tensor subclass's `__torch_dispatch__`, a wrapped function in a hook. Follows closures, defaults, globals, local
imports and methods, as Triton's cache follows a kernel's. What comes with torch or Python ends the walk where it is
known to depend on its arguments alone (`purity.py`); facts of the process that it reads are part of the description.
"""

from __future__ import annotations

import copyreg
import enum
import logging
import types
from collections.abc import Callable, Iterable
from typing import Any

from .. import torch_names
from ..encoding.encode import Uncacheable, encode
from ..encoding.targets import TORCH_NAMESPACES, identify, is_higher_order, is_operator
from ..encoding.values import (
    attributes_of,
    attributes_of_plain,
    bound_cells,
    contents_of,
    is_mutable,
    members_of,
    name_of,
    parts_of,
    parts_of_member,
    place_of,
    registered_with,
)
from ..origin import is_torch_or_stdlib, is_torch_or_stdlib_code, named_by_torch, replaced_within
from .described import described, operator_text
from .facts import fact, in_trees, in_trees_by_users
from .modules import attribute, imported, module_whole, path_from, whole_module
from .owners import BOOKKEEPING, OF_ENUMS, Owners, given_with_data, names_of_protocol
from .packages import TABLES, unfollowed_text
from .purity import fact_of, is_impure, name_and_module
from .references import meaning, reach_of
from .saying import GETATTR, INTROSPECTION, PLAIN_BUILTINS, SAYING, plain_defaults
from .untracked import MORE, changes_objects, given_before, reject_untracked_inputs

MAX_FUNCTIONS = 500  # a closure that reaches further is not a description any more
MAX_CHARACTERS = 8 << 20  # some tenths of a second, for each key

Leaf = Callable[[Any], "str | None"]


class Walk:
    """Depth first, each function and class once; what was seen is referred to by its number.

    Of a module that a function asks for an attribute at once, that attribute counts. Of modules that are passed on, of
    members of classes, and of what is hung on functions, all counts that has a name which any of the code asks for,
    since they may be handed from one function to the next. So these come last.
    """

    def __init__(self, leaf: Leaf | None, strict: bool) -> None:
        self.lines: list[str] = []
        self.facts: dict[str, dict[str, Any]] = {}
        self.functions: set[types.FunctionType] = set()  # that it saw
        self.whole: frozenset[type] = frozenset()  # classes all of whose members count
        self.everything = False  # of all classes
        self.leaf, self.strict = leaf, strict
        self._seen: dict[int, int] = {}
        self._count = self._size = 0
        self._changes: str | None = None  # what of the code may change objects
        self._holds_plain = False
        self._kept: list[Any] = []  # keeps temporaries alive, so that an id stays theirs
        self.owners = Owners()
        self._loggers: list[logging.Logger] = []

    def value(self, value: Any, name: str = "") -> None:
        """Append what `value` is. name: that holds it, if there is one."""
        self.say("(")  # in brackets, so that no two nestings have the same lines
        self._what(value, name)
        self.say(")")

    def follow(self) -> None:
        """Append what is used of modules and classes and hung on functions, and of what that leads to."""
        for kind in given_with_data():
            self.owners.add(kind)
        while taken := self.owners.take():
            for number, owner, name in taken:
                self.say(f"of owner {number}")
                attribute(self, owner, name)
            for module in self.owners.asked_by_words():
                whole_module(self, module)
        if self.owners.names & {"level", "disabled", "getEffectiveLevel", "isEnabledFor", "handlers", "hasHandlers"}:
            for logger in self._loggers:
                handlers = [type(handler).__qualname__ for handler in logger.handlers]
                level = [logger.getEffectiveLevel(), logger.manager.disable]
                self.say(encode([*level, logger.disabled, handlers]))
        self.lines += map(encode, self.owners.orders())
        if self._holds_plain and self._changes is not None:
            raise Uncacheable(f"it {self._changes}, perhaps of an object that it reads, {MORE}")

    def _what(self, value: Any, name: str) -> None:
        self.owners.hold(name, value)
        parts = parts_of(value)
        if parts is not None:
            kind, inner = parts
            self.say(kind)
            for part in inner:
                self.value(part)
        elif isinstance(value, types.ModuleType):
            module_whole(self, value)
        elif isinstance(value, (types.FunctionType, type)):
            self.code(value)
        elif isinstance(value, (types.BuiltinFunctionType, types.MethodWrapperType)):
            self._builtin(value)
        elif isinstance(value, (types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType)):
            self._named(value)
        elif is_mutable(value) and self.leaf is not None and (text := self.leaf(value)) is not None:
            self.say(text)
        elif is_mutable(value) and not self._is_new(value):
            return  # one list in two places is changed in both
        elif (contents := contents_of(value)) is not None:
            self.say(contents[0])
            for item in contents[1]:
                self.value(item)
        else:
            self._constant(value)

    def _constant(self, value: Any) -> None:
        if type(value) in (logging.Logger, logging.RootLogger):
            self.say(f"logger {value.name}")  # says things; decides nothing, unless it is asked for its level
            self._loggers.append(value)
        elif type(value).__module__ == "functools" and hasattr(value, "__wrapped__"):  # lru_cache
            if (given := given_before(value)) is not None:
                self.say(given)
            self.value(value.__wrapped__)
            self.owners.add(value)
        elif isinstance(value, enum.Enum):
            self.say(f"member {value.name}")
            if not is_torch_or_stdlib(type(value).__module__):
                self.value(parts_of_member(value))
            self.code(type(value))
        elif is_operator(value) or is_higher_order(value):
            text = self.leaf(value) if self.leaf is not None else operator_text(value)
            if text is None:
                self.operators([getattr(value, "namespace", None) or value._qualified_op_name.split("::")[0]])
            self.say(text if text is not None else identify(value))
        elif (held := attributes_of(value)) is not None:
            self._instance(value, held)
        else:
            if isinstance(value, str):
                self.owners.words.add(value)
            text = self.leaf(value) if self.leaf is not None else None
            if text is None and (held := attributes_of_plain(value)) is not None:
                self._holds_plain = True
                self._instance(value, held)
                return
            self.say(text if text is not None else encode(value))
            if hasattr(value, "__dict__") and self._is_new(value):
                self.owners.add(value)  # what is hung on it

    def _instance(self, value: Any, attributes: Iterable[tuple[str, Any]]) -> None:
        """An object that is its class and its attributes, nothing hidden."""
        if not self.first(value):
            return
        self.say("instance")
        self.code(type(value))
        for name, held in attributes:
            self.inside(value, f"attribute {name}", held)

    def code(self, code: Any) -> None:
        if (told := described(code)) is not None:
            self.say(told)
        elif (known := unfollowed_text(code)) is not None:
            self.say(known)
            self.functions.add(code)
            self.owners.of_code(reach_of(code.__code__))
            self.owners.names |= set(TABLES)
        elif named_by_torch(code):
            self._named(code)
        elif self.first(code):
            if isinstance(code, type):
                self._class(code)
            else:
                self._function(code)
            self.owners.add(code)

    def first(self, thing: Any) -> bool:
        """Whether `thing` is seen for the first time; says which one it is if not."""
        if id(thing) in self._seen:
            self.say(f"again {self._seen[id(thing)]}")
            return False
        if self._count >= MAX_FUNCTIONS:
            raise Uncacheable(f"it reaches more than {MAX_FUNCTIONS} functions outside torch")
        self._count += 1
        return self._is_new(thing)

    def _is_new(self, thing: Any) -> bool:
        """The same of a value that is no code; of these there may be many."""
        if id(thing) in self._seen:
            self.say(f"again {self._seen[id(thing)]}")
            return False
        self._seen[id(thing)] = len(self._seen)
        self._kept.append(thing)
        return True

    def _function(self, function: types.FunctionType) -> None:
        reach = reach_of(function.__code__)
        # Around a user's function: what it looks up is torch's. Not where its code was replaced.
        of_torch = is_torch_or_stdlib(function.__globals__.get("__name__")) and is_torch_or_stdlib_code(function)
        if not of_torch:
            reject_untracked_inputs(function, reach, strict=self.strict)
            self._changes = self._changes or changes_objects(function.__code__)
            self.owners.of_code(reach)
        self.functions.add(function)
        self.say(meaning(function.__code__))
        paths: dict[str, list[tuple[str, ...]]] = {}
        for name, *rest in sorted(reach.paths):
            paths.setdefault(name, []).append(tuple(rest))
        for name, value in bound_cells(function).items():
            self._variable(function, f"closure {name}", value, [()] if of_torch else paths.get(name, [()]))
        self.inside(function, "defaults", list(function.__defaults__ or ()))
        self.inside(function, "keyword defaults", dict(function.__kwdefaults__ or {}))
        if not of_torch:
            for name in sorted(reach.loads & function.__globals__.keys()):
                self._variable(function, f"global {name}", function.__globals__[name], paths.get(name, [()]))
            space = function.__builtins__  # of what `exec` made, perhaps others
            for name in sorted(reach.loads - function.__globals__.keys()):
                self.say(f"builtin {name}")
                value = space.get(name)
                direct = f"builtins.{name}" in GETATTR and isinstance(value, types.BuiltinFunctionType)
                if name in space and name not in PLAIN_BUILTINS and not direct:
                    self.value(value)
            for one in reach.imports:
                imported(self, function, one)
        if hasattr(function, "__wrapped__"):
            self.value(function.__wrapped__)

    def _variable(self, function: Any, where: str, value: Any, paths: list[tuple[str, ...]]) -> None:
        """A variable of `function`. Of a module that is only asked for attributes at once, these are what counts."""
        if not isinstance(value, types.ModuleType) or () in paths:
            self.inside(function, where, value)
            return
        self.say(where)
        for path in paths:
            try:
                path_from(self, value, path)
            except Uncacheable as bad:
                raise Uncacheable(f"{where} of {place_of(function)}: {bad}", bad.cause) from None

    def inside(self, owner: Any, where: str, value: Any) -> None:
        """A value that `owner` holds; an error names both."""
        self.say(where)
        try:
            self.value(value, where.rpartition(" ")[2])
        except Uncacheable as bad:
            raise Uncacheable(f"{where} of {place_of(owner)}: {bad}", bad.cause) from None

    def operators(self, namespaces: Iterable[str]) -> None:
        for namespace in sorted(set(namespaces) - TORCH_NAMESPACES):
            raise Uncacheable(f"it calls operators of torch.ops.{namespace}, whose implementation cannot be seen")

    def _class(self, code: type) -> None:
        self.say(f"class {code.__qualname__}")
        for base in (*code.__mro__[1:], *([type(code)] if type(code) is not type else [])):
            self.value(base)
        if issubclass(code, enum.Enum):
            self.say("members")
            self.value(members_of(code))
        theirs = {name for base in code.__mro__[1:] if is_torch_or_stdlib(base.__module__) for name in vars(base)}
        self.value([registered_with(code), in_trees(code)])
        if vars(code).get("_is_protocol", False):  # `isinstance` asks an object for what stands there
            self.owners.names |= names_of_protocol(code)
        if (copies := copyreg.dispatch_table.get(code)) is not None:
            self.value(copies)
        for name, member in vars(code).items():  # in their order: code may iterate over them
            if isinstance(member, types.MemberDescriptorType):
                self.say(f"slot {name} {member.__name__}")
                continue
            if name in BOOKKEEPING or isinstance(member, enum.Enum) or name in OF_ENUMS:
                continue  # said above, or tables of Python's own
            # Python and torch call these without being asked by name; others count when any code asks for them.
            called = (name.startswith("__") and name.endswith("__")) or name in theirs
            if called or self.everything or code in self.whole:
                self.inside(code, f"member {name}", member)

    def _builtin(self, value: Any) -> None:
        """Compiled code: by name, and what it is bound to (`TABLE.get` is more than `dict.get`)."""
        owner = getattr(value, "__self__", None)
        if owner is None or isinstance(owner, types.ModuleType) or is_torch_or_stdlib(name_and_module(value)[0]):
            self._named(value)
            if owner is None or isinstance(owner, (types.ModuleType, type)):
                return
        self.say(f"bound {value.__qualname__}")
        self.value(owner)

    def _named(self, code: Any) -> None:
        """Code of torch or Python: by its name, with the facts that it reads."""
        module, name = name_and_module(code)
        if not is_torch_or_stdlib(module):
            raise Uncacheable(f"{module}.{name_of(code)} is compiled code outside torch")
        if is_impure(module, name):
            raise Uncacheable(f"it calls {module}.{name}, {MORE}")
        if (read := fact_of(module, name, is_class=isinstance(code, type))) is not None:
            self.fact(read)
        full = f"{module}.{name}"
        if full in INTROSPECTION:
            self.owners.names |= SAYING
        if full in GETATTR:
            self.owners.asks = self.owners.asks_any = True
        self.say(f"{full} {plain_defaults(code)}")
        if self._is_new(code):
            for where, replaced in replaced_within(code).items():
                self.inside(code, where, replaced)
            if module == torch_names.PYTREE:
                for kind, functions in in_trees_by_users(name).items():
                    self.inside(code, kind, functions)
            if isinstance(code, (type, types.FunctionType)) and vars(code):
                self.owners.add(code)

    def fact(self, name: str) -> None:
        """A fact of this process that the code may read."""
        if name not in self.facts:
            self.facts[name] = fact(name)
        self.say(f"reads {name} {encode(self.facts[name])}")

    def say(self, text: str) -> None:
        self.lines.append(encode(text))
        self._size += len(self.lines[-1])
        if self._size > MAX_CHARACTERS:
            raise Uncacheable("it reaches more data than can be looked at for each key")
