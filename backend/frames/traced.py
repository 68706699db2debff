"""Code that was traced through: under which name each piece is found again, and what stands there. Reads no frame.

Most of it has a guard as well. This is for what has none: methods found on a class, functions of torch that a program
replaced, what a decorator wraps.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import enum
import functools
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from warmgraph.hashing import bound_cells, module_of_class

from ..torch_api.frames.plain import Plain, Refused, named, nested, stands_by_name
from ..torch_api.frames.sources import Live, Source, SourceTable
from ..torch_api.operators import OpOverload
from .classes import counted, is_heap_type, is_known, is_librarys, module_of
from .codes import is_chance, is_of_a_process
from .held import DESCRIPTORS, FIELD, attributes_of, is_mark, is_said
from .values import Values

_DEEPEST = 6


def inlined_facts(
    root: types.CodeType, inlined: Mapping[types.CodeType, dict[str, Any]], values: Values
) -> list[tuple[str, str, str]]:
    """(module, path, fingerprint) of what leads to each piece of `inlined`, which maps code to its globals.

    What is nested in code that is compared already goes with it. Raises Refused for code that no name leads to.
    """
    facts: dict[tuple[str, str], str] = {}
    within = {id(code) for outer in (root, *values.covered()) for code in (outer, *nested(outer))}
    for code in inlined:
        within.update(id(inner) for inner in nested(code))
    for code, space in inlined.items():
        if id(code) not in within:
            module, path, text = find_code(code, space, values)
            facts[module, path] = text
    return [(module, path, text) for (module, path), text in sorted(facts.items())]


def sourceless_facts(reached: Iterable[Any], asked: Collection[str], values: Values) -> list[tuple[str, str, str]]:
    """Of what the trace reached through no source: nothing guards what it read of it. What holds a value says all of
    it, or it is refused; classes and names in modules are found by name. asked: names that the traced code asks for.

    Raises Refused for a module of the user's, for what no name leads to, and for what nothing can be said of.
    """
    facts = []
    for value in reached:
        if isinstance(value, enum.Enum):
            refuse_partly_said(value)
            value = type(value)
        if isinstance(value, types.ModuleType):
            if not is_known(value.__name__):
                raise Refused(f"it reads module {value.__name__}, which a function holds, under no guard")
            facts += _added(value.__name__, "", [vars(value)], asked, values)
        elif is_chance(value):
            raise Refused(f"a function holds {value!r:.60}, whose numbers are drawn while tracing")
        elif isinstance(value, type):
            facts += _of_class(value, asked, values)
        elif is_of_a_process(value):
            raise Refused(f"a function holds {value.__name__}(), which differs from process to process")
        else:
            values.identity(value)  # refuses
    return facts


def _of_class(cls: type, asked: Collection[str], values: Values) -> list[tuple[str, str, str]]:
    if is_librarys(cls) or not is_heap_type(cls) or module_of_class(cls).partition(".")[0] == "torch":
        with contextlib.suppress(Refused):
            if isinstance(cls, abc.ABCMeta) and stands_by_name(cls):  # who else counts
                return [(module_of_class(cls), cls.__qualname__, _text(cls, values))]
        return _added(module_of_class(cls), f"{cls.__qualname__}.", [vars(base) for base in cls.__mro__], asked, values)
    values.identity(cls)  # refuses
    metaclass: Any = type(cls)
    for base in metaclass.__mro__:
        if {"__getattr__", "__getattribute__"} & vars(base).keys() and not is_known(base.__module__):
            raise Refused(f"it reads class {cls.__qualname__}, whose metaclass finds attributes itself, under no guard")
    for base in cls.__mro__:
        if is_heap_type(base) and not is_librarys(base):
            for name, held in vars(base).items():
                refuse_partly_said(held)
                if name in asked:
                    refuse_uncovered(held, name, set())
    if not stands_by_name(cls):
        raise Refused(f"it reads class {cls.__qualname__}, which no name leads to, under no guard")
    return [(module_of_class(cls), cls.__qualname__, _text(cls, values))]


def _added(
    module: str, prefix: str, spaces: Iterable[Mapping[str, Any]], asked: Iterable[str], values: Values
) -> list[tuple[str, str, str]]:
    """Plain data under names that code asks for in a module or class of torch's or Python's: anyone may have put it."""
    known: dict[str, Any] = {}
    for space in reversed(list(spaces)):
        known.update((name, space[name]) for name in asked if name in space and not name.startswith("__"))
    return [(module, prefix + name, _text(held, values)) for name, held in known.items() if _is_data(held)]


def _is_data(value: Any) -> bool:
    return is_said(value) and not callable(value)


def refuse_partly_said(value: Any) -> None:
    """Raises Refused for an object, with no guard about it, whose attributes its holder cannot say all of."""
    if is_known(type(value).__module__) and not isinstance(value, enum.Enum):
        return
    if isinstance(value, (types.FunctionType, type)):
        return
    for name, held in attributes_of(value).items():
        if not is_said(held):
            raise Refused(f"it reads {name} of an object of {type(value).__qualname__} under no guard")


def refuse_uncovered(value: Any, where: str, done: set[int]) -> None:
    """Raises Refused for an object that a function holds which was reached through no source: its holder says what it
    is like and not which one it is, and a trace may know it by another way.
    """
    if id(value) in done or (isinstance(value, types.FunctionType) and is_known(value.__module__)):
        return
    done.add(id(value))
    inner: Iterable[Any] = ()
    if isinstance(value, types.FunctionType):
        inner = (*bound_cells(value).values(), *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        where = value.__qualname__
    elif isinstance(value, (staticmethod, classmethod)) or _is_of_a_class(value):
        inner = (value.__func__,)
    elif isinstance(value, property):
        inner = (value.fget, value.fset, value.fdel)
    elif isinstance(value, (dict, types.MappingProxyType)):
        inner = (*value.keys(), *value.values())
    elif isinstance(value, (tuple, list, set, frozenset)):
        inner = value
    elif isinstance(value, functools.partial):
        inner = (value.func, *value.args, *value.keywords.values())
    elif not is_said(value) and not isinstance(value, _BY_NAME) and type(value) not in _SAME_EVERYWHERE:
        raise Refused(f"{where} holds an object of {type(value).__qualname__} under no guard")
    for one in inner:
        refuse_uncovered(one, where, done)


def _is_of_a_class(value: Any) -> bool:
    return isinstance(value, types.MethodType) and isinstance(value.__self__, type)


# Said by name, or by what else is compared.
_BY_NAME = (types.ModuleType, functools.cached_property, types.MethodWrapperType, FIELD, *DESCRIPTORS)
# Objects that hold nothing; the second stands in a dataclass's __init__ for a field with a default_factory.
_SAME_EVERYWHERE = (object, type(getattr(dataclasses, "_HAS_DEFAULT_FACTORY", object())))


def refuse_unsaid_attributes(asked: Collection[str], values: Values, is_reached: Callable[[Any, str], bool]) -> None:
    """Raises Refused for a function with an attribute under an asked name that nothing says.

    is_reached: whether the walk says what an object has under a name.
    """
    for function in list(values.functions.values()):
        for name, held in vars(function).items() if not is_known(function.__module__) else ():
            if name in asked and not is_mark(name) and not is_said(held) and not is_reached(function, name):
                raise Refused(f"it reads {name} of function {function.__qualname__} under no guard")


def refuse_unsaid(functions: Iterable[types.FunctionType], values: Values) -> None:
    """Raises Refused for a function, reached through no source, that holds what nothing guards and nothing says."""
    done: set[int] = set()
    for function in functions:
        refuse_uncovered(function, function.__qualname__, done)
        held = function.__defaults__ or function.__kwdefaults__ or function.__closure__
        if held and id(function) not in values.functions and not is_known(function.__module__):
            if stands_by_name(function):
                continue
            raise Refused(f"{function.__qualname__} holds values under no guard, and no name leads to it")


def moved_code(facts: Iterable[tuple[str, str, str]], values: Values) -> str | None:
    """The first fact that does not hold any more, in words."""
    for module, path, text in facts:
        if _text(named(module, path), values) != text:
            return f"{module}.{path} is not the code that was traced"
    return None


def find_code(code: types.CodeType, space: Mapping[str, Any], values: Values) -> tuple[str, str, str]:
    """(module, path, fingerprint) of what stands for a piece of code with these globals. Raises Refused."""
    module = str(space.get("__name__", ""))
    qualified = getattr(code, "co_qualname", code.co_name)
    for path in (qualified.split(".<locals>")[0], code.co_name):
        with contextlib.suppress(Refused):
            value = named(module, path)
            if any(one is code for one in codes_of(value)):
                return module, path, _text(value, values)
    for cls in values.classes.known():  # generated: a dataclass's __init__, or a named tuple's __new__
        for name, member in vars(cls).items():
            if any(one is code for one in codes_of(member)) and stands_by_name(cls):
                with contextlib.suppress(Refused):
                    return module_of_class(cls), f"{cls.__qualname__}.{name}", _text(member, values)
    raise Refused(f"it traced through code that no name leads to: {qualified} of {module}")


def _text(value: Any, values: Values) -> str:
    return values.classes.text(value) + counted(value) if isinstance(value, type) else values.member(value)


def codes_of(value: Any, depth: int = 0) -> Iterator[types.CodeType]:
    """Code that a value stands for: its own, nested code, what is in its closure, what it wraps."""
    if depth > _DEEPEST:
        return
    inner: Iterable[Any] = ()
    if isinstance(value, types.FunctionType):
        yield value.__code__
        yield from nested(value.__code__)
        inner = (*bound_cells(value).values(), getattr(value, "__wrapped__", None))
    elif isinstance(value, (staticmethod, classmethod, types.MethodType)):
        inner = (value.__func__,)
    elif isinstance(value, (property, types.DynamicClassAttribute)):  # the latter is an enum's own
        inner = (value.fget, value.fset, value.fdel)
    elif isinstance(value, (functools.partial, functools.cached_property)):
        inner = (value.func,)
    elif module_of(value) == "functools" and hasattr(value, "__wrapped__"):
        inner = (value.__wrapped__,)
    elif isinstance(value, type) and depth == 0:
        inner = tuple(vars(value).values())
    for one in inner:
        yield from codes_of(one, depth + 1)


OF_OPERATORS = "torch.ops"  # in a record, the module in which a custom operator is found


def place_of(value: Any, sources: Iterable[Source], live: Live, table: SourceTable) -> int | list[str]:
    """Where what runs while a frame is traced is found: an operator or a class by its name, a function by its source.
    Raises Refused.
    """
    if isinstance(value, OpOverload):
        return [OF_OPERATORS, value.name()]
    found = _source_of(value, sources, live)
    if found is not None:
        return table.number(found)
    if not (isinstance(value, type) and stands_by_name(value)):
        raise Refused(f"its graph needs {value.__qualname__}, a function of the user's that no source leads to")
    return [value.__module__, value.__qualname__]


def places_of(
    functions: Iterable[Any], operators: Mapping[str, Any], sources: Iterable[Source], live: Live, table: SourceTable
) -> Iterator[tuple[int | list[str], Any]]:
    """Each of these with its place. operators: by the names that they were called by; one of several overloads is found
    by the name of its own alone.
    """
    yield from ((place_of(one, sources, live, table), one) for one in functions)
    yield from (([OF_OPERATORS, name], one) for name, one in operators.items())


def assumed_row(function: Any, said: Any, sources: Iterable[Source], live: Live, table: SourceTable) -> Plain:
    """[source, arguments, named ones, result] of a function that a restore calls again. Raises Refused."""
    name = getattr(function, "__qualname__", "a function")
    found = _source_of(function, sources, live)
    if found is None or said is None:
        why = "no source leads to it" if said is not None else "other state around it, or no plain values"
        raise Refused(f"{name} is assume_constant_result, and cannot be asked again: {why}")
    return [table.number(found), *said]


def _source_of(value: Any, sources: Iterable[Source], live: Live) -> Source | None:
    return next((source for source in sources if source.name and live(source) is value), None)
