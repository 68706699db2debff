"""Tensors to text: what a graph's code may rely on of an input, and a constant's very bytes."""

from __future__ import annotations

import ctypes
import enum
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from .. import torch_names
from ..encoding.devices import device_text
from ..encoding.distributed import on_every_rank
from ..encoding.encode import Cause, Uncacheable, encode, importable_name
from ..encoding.values import attributes_of, content_of
from ..origin import is_torch_or_stdlib, replaced_within
from ..source_code.digest import source_digest
from ..source_code.once import once_per_key
from .thin import thin_text

MAX_CONSTANT_BYTES = 64 << 20

SymText = Callable[[Any], str]


def sizes_of(tensor: torch.Tensor) -> list[Any]:
    """Sizes, strides and offset, ints or SymInts: where a tensor's symbols are."""
    values: list[Any] = list(tensor.size())
    if tensor.layout is torch.strided:
        values += [*tensor.stride(), tensor.storage_offset()]
    return values


def inner_parts(tensor: torch.Tensor) -> tuple[dict[str, Any], Any] | None:
    """A traceable wrapper subclass taken apart (its own `__tensor_flatten__`), or None for a plain one.

    The parts are tensors, and objects that torch calls opaque: a DTensor's mesh.
    """
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        return None
    names, context = flatten()
    return {name: getattr(tensor, name) for name in names}, context


def plain_kind(tensor: torch.Tensor) -> str | None:
    """`Tensor` or `Parameter` for torch's own two types, None for every subclass."""
    kind = type(tensor)
    if kind is torch.nn.Parameter:
        return "Parameter"
    # A fake tensor stands for a plain one; its class says nothing of the value it stands for.
    if kind is torch.Tensor or kind.__module__ == torch_names.FAKE_TENSORS:
        return "Tensor"
    return None


def describe(tensor: torch.Tensor, real: torch.Tensor, number: SymText) -> str:
    """One line on an input: `tensor` gives (symbolic) sizes, `real` all that is not a size."""
    kind = plain_kind(real)
    if kind is None:
        return _describe_subclass(tensor, real, number)
    return f"{kind} {_metadata(tensor, real, number)}"


def _metadata(tensor: torch.Tensor, real: torch.Tensor, number: SymText) -> str:
    if real.layout is not torch.strided or real.is_quantized:
        kind = "a quantized input" if real.is_quantized else f"an input of layout {real.layout}"
        raise Uncacheable(f"{kind}; only plain strided tensors are cached")
    return (
        f"{real.dtype} {device_text(real.device)} size {_numbers(tensor.size(), number)} "
        f"stride {_numbers(tensor.stride(), number)} offset {number(tensor.storage_offset())} "
        f"{_flags(real)}"
    ).rstrip()


def _flags(real: torch.Tensor) -> str:
    flags = (
        ("requires_grad", real.requires_grad),
        ("leaf", real.is_leaf),
        ("inference", real.is_inference()),
        ("conj", real.is_conj()),
        ("neg", real.is_neg()),
        ("pinned", real.device.type == "cpu" and torch.cuda.is_available() and real.is_pinned()),
    )
    return " ".join(name for name, on in flags if on)


def _numbers(values: Iterable[Any], number: SymText) -> str:
    return "[" + ", ".join([number(value) for value in values]) + "]"


def _describe_subclass(tensor: torch.Tensor, real: torch.Tensor, number: SymText) -> str:
    taken = inner_parts(real)
    own = "Parameter" if isinstance(real, torch.nn.Parameter) else "Tensor"
    if taken is None:
        return f"<subclass {thin_text(real)}> {own} {_metadata(tensor, real, number)}"
    parts, context = taken
    symbolic = inner_parts(tensor)
    if symbolic is None or symbolic[0].keys() != parts.keys():
        raise Uncacheable(f"tensor subclass {type(real).__qualname__} flattens differently when traced")
    of_torch = _is_as_torch_made_it(type(real))
    inner = ", ".join(
        f"{name}: {_describe_part(symbolic[0][name], part, number, of_torch)}" for name, part in parts.items()
    )
    outer = (
        f"{own} {real.dtype} {device_text(real.device)} size {_numbers(tensor.size(), number)} "
        f"stride {_numbers(tensor.stride(), number)} [{_flags(real)}]"
    )
    # Its __torch_dispatch__ is traced into the graph that is compiled, and no node says so.
    name = importable_name(type(real))
    code = "" if of_torch else f" code {_class_digest(type(real), name)}"
    more = encode(context, users_type, in_order=not of_torch)
    return f"<subclass {name}{code} {outer} context {more} {{{inner}{_sharing(tensor, real)}}}>"


@once_per_key
def _is_as_torch_made_it(kind: type) -> bool:
    return is_torch_or_stdlib(kind.__module__) and not replaced_within(kind)


@once_per_key
def _class_digest(kind: type, name: str) -> str:
    return source_digest(kind, name, protocol=True)


def _sharing(tensor: torch.Tensor, real: torch.Tensor) -> str:
    """Which of a subclass's plain parts lie in one storage; how they overlap, their sizes and offsets say."""
    groups: dict[int, list[int]] = {}
    for number, part in enumerate(_plain_parts(real)):
        groups.setdefault(part.untyped_storage()._cdata, []).append(number)
    shared = [numbers for numbers in groups.values() if len(numbers) > 1]
    if not shared:
        return ""
    if any(isinstance(size, torch.SymInt) for part in _plain_parts(tensor) for size in sizes_of(part)):
        raise Uncacheable(f"tensors inside a {type(real).__qualname__} share a storage, and their sizes are dynamic")
    return f" sharing {shared}"


def _describe_part(symbolic: Any, real: Any, number: SymText, own: bool) -> str:
    if isinstance(real, torch.Tensor):
        return describe(symbolic, real, number)
    # Of torch's own classes it is known who asks for this rank's place in a mesh (`places.py`).
    shared = on_every_rank(real) if own else None
    return encode(real) if shared is None else f"<{type(real).__name__} {encode(shared)}>"


def users_type(value: Any) -> str | None:
    """A class from outside torch by its code; a member of a user's enumeration by its value as well (torch may ask it
    which number it is, `__index__`), a dataclass or named tuple by its fields.
    """
    if isinstance(value, type) and not is_torch_or_stdlib(value.__module__):
        name = importable_name(value)
        return f"<type {name} code {source_digest(value, name, whole=True)}>"
    if isinstance(value, enum.Enum) and not is_torch_or_stdlib(type(value).__module__):
        name = f"{importable_name(type(value))}.{value.name}"
        content = f"{encode(value.value, users_type)} {encode(content_of(value), users_type)}"
        return f"<enum {name} {content} code {source_digest(value, name, whole=True)}>"
    if not is_torch_or_stdlib(type(value).__module__) and (fields := attributes_of(value)) is not None:
        name = importable_name(type(value))
        held = encode(dict(fields), users_type, in_order=True)
        return f"<data {name} code {source_digest(type(value), name, whole=True)} {held}>"
    return None


def constant(tensor: torch.Tensor, where: str) -> str:
    """A tensor that is baked into the code, by content. Raises Uncacheable when it is too large or opaque."""
    opaque = tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta
    if opaque or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise Uncacheable(
            f"{where}: a constant of type {type(tensor).__qualname__}, layout {tensor.layout} and device "
            f"{tensor.device} has no content that could be hashed"
        )
    size = tensor.numel() * tensor.element_size()
    if size > MAX_CONSTANT_BYTES:
        raise Uncacheable(
            f"{where}: a constant of {size} bytes; more than {MAX_CONSTANT_BYTES} are not hashed. "
            "Pass it as an input or register it as a buffer",
            Cause.CONSTANT_TOO_LARGE,
        )
    return (
        f"<{_kind_of(tensor)} {tensor.dtype} {tensor.device} size {list(tensor.size())} stride {list(tensor.stride())} "
        f"requires_grad {tensor.requires_grad} sha256 {_content(tensor)}>"
    )


def contents(tensor: torch.Tensor) -> str:
    """Of a plain tensor, or of all that a wrapper subclass holds: digests. However large it is. Raises Uncacheable."""
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided or tensor.is_meta:
        raise Uncacheable(f"a weight of type {type(tensor).__qualname__} has no content that could be hashed")
    taken = inner_parts(tensor)
    return _content(tensor) if taken is None else f"{{{', '.join(map(contents, taken[0].values()))}}}"


def _content(tensor: torch.Tensor) -> str:
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    size = plain.numel() * plain.element_size()
    data = (ctypes.c_char * size).from_address(plain.data_ptr()) if size else b""  # no copy
    return hashlib.sha256(data).hexdigest()


def _kind_of(tensor: torch.Tensor) -> str:
    """And whether it has a gradient, which code may ask for as well."""
    kind = "constant" if type(tensor) is torch.Tensor else "parameter"
    return kind if tensor.grad is None else f"{kind} with a gradient"


def held_tensor(value: Any) -> str | None:
    """For `source_digest`: a tensor in a closure or default, by content, and by what code may ask it besides."""
    if not isinstance(value, torch.Tensor):
        return None
    text = constant(value, "a tensor that it holds")
    under = f"offset {value.storage_offset()} of {value.untyped_storage().nbytes()} bytes view {value._is_view()}"
    return f"{text} {under} {_flags(value)} gradient {held_tensor(value.grad) if value.is_leaf else None}"


def shared_storages(inputs: Sequence[Any]) -> list[list[int]]:
    """Positions of inputs that lie in one storage, as groups of two or more, in order."""
    groups: dict[int, list[int]] = {}
    for position, value in enumerate(inputs):
        if isinstance(value, torch.Tensor):
            for part in _plain_parts(value):
                # The storage's address identifies it within this call; only the grouping leaves here.
                members = groups.setdefault(part.untyped_storage()._cdata, [])
                if position not in members:
                    members.append(position)
    return sorted(members for members in groups.values() if len(members) > 1)


def _plain_parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    taken = None if plain_kind(tensor) else inner_parts(tensor)
    if taken is None:
        return [tensor] if tensor.layout is torch.strided else []
    tensors = [inner for inner in taken[0].values() if isinstance(inner, torch.Tensor)]
    return [part for inner in tensors for part in _plain_parts(inner)]
