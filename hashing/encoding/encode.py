"""Values to canonical text, one way only. The text is the encoding: what is hashed is what is shown.

Every value becomes one line of ASCII in a small typed grammar that can be read back without doubt, so
two values share a text only if they are equal in type and content (no `repr` of objects, no pickle, no
address, no dictionary or set order). What has no such text is `Uncacheable`.
"""

from __future__ import annotations

import enum
import hashlib
import json
import math
import sys
from collections.abc import Callable
from json.encoder import encode_basestring_ascii
from typing import Any

import torch

from ..origin import module_of_class
from .devices import device_text
from .distributed import GroupOf, Said, stands_for

# torch's plain value types whose str() is their one public name ("torch.float32").
_NAMED = (torch.dtype, torch.layout, torch.memory_format)


class Cause(str, enum.Enum):
    """Why a graph has no key. The values are the cache's reason codes; they are stable."""

    UNHASHABLE = "unhashable"
    WRAPPED_CALL = "wrapped-call"
    CONSTANT_TOO_LARGE = "constant-too-large"


class Uncacheable(Exception):
    """The graph cannot be given a key. `str()` names the node or value and what the user can do."""

    def __init__(self, message: str, cause: Cause = Cause.UNHASHABLE) -> None:
        super().__init__(message)
        self.cause = cause


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def encode(value: Any, leaf: Callable[[Any], str | None] | None = None, *, in_order: bool = False) -> str:
    """Canonical text of `value`.

    `leaf` is asked first about anything that is not a plain constant or container (graph nodes,
    symbolic sizes, tensors); it returns a text of its own or None. `in_order`: the items of a dict in the order in
    which code that is given it meets them. Raises Uncacheable.
    """
    plain = _plain(value)
    if plain is not None:
        return plain
    if leaf is not None and (text := leaf(value)) is not None:
        return text
    return _container(value, leaf, in_order)


def _plain(value: Any) -> str | None:
    kind = type(value)
    if kind is str:
        return encode_basestring_ascii(value)  # as json.dumps
    if value is None or kind is bool or kind is int:
        return str(value)
    if kind is float:
        return f"f{_of_float(value)}"
    if kind in _NAMED:
        return f"<{kind.__name__} {value}>"
    if kind is torch.device:
        return f"<device {device_text(value)}>"
    if value is Ellipsis:
        return "..."
    if kind is complex:
        return f"<complex {_of_float(value.real)} {_of_float(value.imag)}>"
    if kind is bytes:
        return f"<bytes {value.hex()}>"
    return None


def _of_float(value: float) -> str:
    """Exact; of what is no number the sign, which code may ask for (`signbit`)."""
    if value == value:
        return float.hex(value)
    return "nan" if math.copysign(1, value) > 0 else "-nan"


def is_native_enum(value: Any) -> bool:
    """One of torch's that pybind11 made (`torch.profiler.ProfilerActivity.CPU`)."""
    kind = type(value)
    return (
        module_of_class(kind).partition(".")[0] == "torch" and hasattr(kind, "__members__") and hasattr(value, "value")
    )


def _container(value: Any, leaf: Callable[[Any], str | None] | None, in_order: bool) -> str:
    kind = type(value)
    # fx wraps a node's lists and dicts in immutable subclasses; they mean what their bases mean.
    if kind is tuple or kind is torch.Size:
        return (
            "("
            + ", ".join([encode(v, leaf, in_order=in_order) for v in value])
            + ("," if len(value) == 1 else "")
            + ")"
        )
    if kind is list or (isinstance(value, list) and module_of_class(kind).startswith("torch.fx.")):
        return "[" + ", ".join([encode(v, leaf, in_order=in_order) for v in value]) + "]"
    if kind is dict or (isinstance(value, dict) and module_of_class(kind).startswith("torch.fx.")):
        items = [(encode(k, leaf), encode(v, leaf, in_order=in_order)) for k, v in value.items()]
        items = items if in_order else sorted(items)
        return "{" + ", ".join([f"{k}: {v}" for k, v in items]) + "}"
    if kind is slice or kind is range:
        bounds = ", ".join(encode(v, leaf) for v in (value.start, value.stop, value.step))
        return f"<{kind.__name__} {bounds}>"
    if kind is set or kind is frozenset:
        return f"<{kind.__name__} " + ", ".join(sorted(encode(v, leaf) for v in value)) + ">"
    if isinstance(value, enum.Enum) or is_native_enum(value):
        return f"<enum {qualified_name(kind)}.{value.name}>"
    if isinstance(value, type):
        return f"<type {importable_name(value)}>"
    if kind is Said:
        value.text = value.text or encode(value.plain)
        return str(value.text)
    if kind is GroupOf:
        return f"<group {json.dumps(value.name)} {encode(value.shared)}>"
    if (plain := stands_for(value)) is not None:
        return f"<{qualified_name(kind)} {encode(plain, leaf)}>"
    raise Uncacheable(f"a value of type {qualified_name(kind)} has no stable identity")


def qualified_name(obj: Any) -> str:
    """`module.qualname` as the object claims it; not checked (see `importable_name`)."""
    return f"{getattr(obj, '__module__', None)}.{getattr(obj, '__qualname__', None)}"


def importable_name(obj: Any) -> str:
    """`module.qualname`, after checking that this name leads back to this very object in this process.

    Raises Uncacheable for lambdas, local functions and classes, and objects that claim another's name.
    """
    module, qualname = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
    if isinstance(module, str) and isinstance(qualname, str):
        found: Any = sys.modules.get(module)
        for part in qualname.split("."):
            found = getattr(found, part, None)
        if found is obj:
            return f"{module}.{qualname}"
    raise Uncacheable(f"{module}.{qualname} cannot be found again by its name; define it at module level")
