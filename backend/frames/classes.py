"""Classes by name and by all that stands on them and their bases. Not their instances."""

from __future__ import annotations

import sys
from typing import Any, Protocol

from warmgraph.hashing import sha256_hex

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made at run time
_LIBRARY = frozenset(sys.stdlib_module_names) | {"builtins"}
# What Python and torch keep on classes for themselves, or what has no behaviour.
_BOOKKEEPING = frozenset(
    """
    __doc__ __dict__ __weakref__ __module__ __qualname__ __annotations__ __orig_bases__ __parameters__
    __dataclass_fields__ __dataclass_params__ __abstractmethods__ __signature__ _abc_impl _backward_cls
    __static_attributes__ __firstlineno__ _is_protocol __match_args__ __non_callable_proto_members__
    """.split()
)


class Members(Protocol):
    def member(self, value: Any) -> str: ...


class Classes:
    """Said once per class. The standard library's and compiled classes go by name: the toolchain says the rest.

    Objects that stand on a class are said with their own classes, and objects on those by name alone: so no two
    classes are said within each other, and what is said does not depend on which came first.
    """

    def __init__(self, members: Members) -> None:
        self._members = members
        self._texts: dict[tuple[type, bool], str] = {}
        self._own: dict[tuple[type, bool], str] = {}
        self._shallow = False

    def text(self, cls: type) -> str:
        """`module.name#digest`. Raises Refused for a method of which nothing can be said."""
        found = self._texts.get((cls, self._shallow))
        if found is None:
            lines = [self._one(base) for base in cls.__mro__]
            if type(cls) is not type:
                metaclass: Any = type(cls)
                lines += [self._one(base) for base in metaclass.__mro__]
            found = f"{cls.__module__}.{cls.__qualname__}#{sha256_hex(chr(10).join(lines).encode())[:12]}"
            self._texts[cls, self._shallow] = found
        return found

    def shallow_text(self, cls: type) -> str:
        """Of an object that stands on a class which is being said."""
        if self._shallow:
            return f"{cls.__module__}.{cls.__qualname__}"
        self._shallow = True
        try:
            return self.text(cls)
        finally:
            self._shallow = False

    def _one(self, cls: type) -> str:
        found = self._own.get((cls, self._shallow))
        if found is None:
            found = f"{cls.__module__}.{cls.__qualname__}"
            if is_heap_type(cls) and cls.__module__.partition(".")[0] not in _LIBRARY:
                held = vars(cls)
                lines = [
                    f"{name}={self._members.member(held[name])}" for name in sorted(held) if name not in _BOOKKEEPING
                ]
                lines += _registered(cls)
                found = sha256_hex("\n".join((found, *lines)).encode("utf-8", "surrogatepass"))
            self._own[cls, self._shallow] = found
        return found

    def known(self) -> list[type]:
        """Classes all of whose members were said."""
        return [cls for cls, _ in self._own]


def _registered(cls: type) -> list[str]:
    """Classes that were told to count as subclasses, without being any."""
    if "_abc_impl" not in vars(cls):
        return []
    from _abc import _get_dump  # type: ignore[import-not-found]

    found = [reference() for reference in _get_dump(cls)[0]]
    return sorted(f"counts {one.__module__}.{one.__qualname__}" for one in found if one is not None)


def is_heap_type(cls: type) -> bool:
    return bool(cls.__flags__ & _HEAP_TYPE)


def is_library(module: str | None) -> bool:
    """Whether a module of this name is the standard library's."""
    return (module or "").partition(".")[0] in _LIBRARY


def module_of(value: Any) -> str:
    return str(type(value).__module__)
