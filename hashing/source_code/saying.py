"""What code may ask of functions and classes beside calling them: names, docstrings, annotations. Walks nothing."""

from __future__ import annotations

import dataclasses
import types
from typing import Any

from ..encoding.encode import Uncacheable, encode

# What a function, class or module says of itself. No part of a description, unless some code asks for it.
SAYING = frozenset(
    """
    __name__ __qualname__ __module__ __doc__ __annotations__ __dataclass_fields__ __file__ __orig_bases__ __args__
    """.split()
)

# Functions of Python that ask for it.
INTROSPECTION = frozenset(
    """
    inspect.getdoc inspect.getcomments inspect.signature inspect.get_annotations inspect.getfullargspec
    inspect.getmembers typing.get_type_hints dataclasses.fields dataclasses.asdict dataclasses.astuple
    dataclasses.replace types.get_original_bases typing.get_args
    """.split()
)

_CODE = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ModuleType,
    type,
)


def is_code(value: Any) -> bool:
    """Whether `value` is a function, a class or a module, which are described by what they are."""
    return isinstance(value, _CODE)


def said(value: Any) -> str:
    """Text of one of `SAYING`. Raises Uncacheable for annotations that are no types, texts or plain values."""
    if isinstance(value, (dict, types.MappingProxyType)):
        return encode([[str(name), said(value[name])] for name in value])
    if isinstance(value, dataclasses.Field):
        default = None if value.default is dataclasses.MISSING else value.default
        flags = [value.init, value.kw_only, value.compare, value.repr, value.hash]
        return encode([value.name, default, *flags, said(value.metadata)])
    if isinstance(value, tuple):
        return encode([said(item) for item in value])
    if isinstance(value, type) or type(value).__module__ in ("typing", "types"):
        return repr(value)
    return encode(value)


def plain_defaults(function: Any) -> str:
    """The defaults of a function of torch's: somebody may have set others. Empty where they are not plain."""
    found = (getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None))
    if found == (None, None):
        return ""
    try:
        return encode(found)
    except Uncacheable:
        return ""


# Functions that ask for an attribute by its name.
GETATTR = frozenset("builtins.getattr builtins.hasattr builtins.vars builtins.dir operator.attrgetter".split())

PLAIN_BUILTINS = frozenset("NotImplemented Ellipsis __debug__ __name__ __doc__ __spec__ __loader__ __package__".split())
