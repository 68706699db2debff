"""Tensor subclasses that hold nothing of their own: real tensors with a name, a loader, attributes beside the data.

What is traced are plain tensors in their place (fake ones), so neither their attributes nor their methods reach the
code. What torch asks of the tensor itself while it compiles must be torch's to answer, though.
"""

from __future__ import annotations

import dis
import types
from typing import Any

import torch

from ..encoding.encode import Uncacheable, encode, importable_name
from ..encoding.values import bound_cells
from ..origin import is_torch_or_stdlib
from ..source_code.digest import note_functions, source_digest
from ..source_code.references import meaning, reach_of

# What such a class may define although a tensor has it: how one is made, copied, moved and shown. torch does none of it
# with an input while it compiles.
_HARMLESS = frozenset(
    """
    __new__ __init__ __torch_function__ __module__ __qualname__ __doc__ __dict__ __weakref__ __annotations__
    __annotate__ __annotate_func__ __slots__ __slotnames__ __static_attributes__ __firstlineno__ __init_subclass__
    __deepcopy__ __copy__ __reduce_ex__ __reduce__ __getstate__ __setstate__ to cpu cuda xpu __repr__ __str__
    __format__ __class_getitem__ __orig_bases__ __parameters__ __annotations_cache__ __classdictcell__
    """.split()
)
DisableTorchFunctionSubclass: Any = torch.DisableTorchFunctionSubclass  # as torchvision calls it
_ONWARDS = frozenset({"super", "__torch_function__", "__class__"})


def thin_text(tensor: torch.Tensor) -> str:
    """The class of `tensor` and what it does of torch's own calls. Raises Uncacheable for one that may hold more."""
    kind = type(tensor)
    own = [base for base in kind.__mro__ if not is_torch_or_stdlib(base.__module__)]
    name = importable_name(kind)
    if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ or not own:
        raise Uncacheable(f"an input of tensor subclass {name}, which has no __tensor_flatten__ to see what it holds")
    answered = [member for base in own for member in vars(base) if member not in _HARMLESS]
    shadows = [member for member in answered if hasattr(torch.nn.Parameter, member) or member == "__getattr__"]
    shadows = [member for member in shadows if not all(_hands_on(base, member) for base in own)]
    if shadows or not is_torch_or_stdlib(type(kind).__module__):
        raise Uncacheable(
            f"an input of tensor subclass {name}, which has no __tensor_flatten__ to see what it holds, and answers "
            f"{', '.join(shadows) or 'through its metaclass'} in torch's place"
        )
    functions = [vars(base)["__torch_function__"] for base in own if "__torch_function__" in vars(base)]
    return f"{name} {encode([_function_text(function, name) for function in functions])}"


def _hands_on(kind: type, name: str) -> bool:
    """Whether `kind` has no such member, or a property that asks the tensor itself (torchvision's `tv_tensors` do, to
    spare a `__torch_function__`). Its code is compared with that of properties which do nothing else.
    """
    if name not in vars(kind):
        return True
    getter = vars(kind)[name].fget if type(vars(kind)[name]) is property else None
    if not isinstance(getter, types.FunctionType) or vars(kind)[name].fset is not None:
        return False
    if bound_cells(getter) != {"__class__": kind}:
        return False
    if "super" in getter.__globals__ or getter.__builtins__.get("super") is not super:
        return False
    is_torchs = getter.__globals__.get("DisableTorchFunctionSubclass") is DisableTorchFunctionSubclass
    known = [_HandingOn.at_once, _HandingOn.without_torch_function][: 1 + is_torchs]
    note_functions([getter])
    return _what_runs(getter.__code__) in [_what_runs(one.__code__, name) for one in known]


class _HandingOn(torch.Tensor):  # type: ignore[misc]
    """How such a getter is written: for `shape`."""

    def at_once(self) -> Any:
        return super().shape

    def without_torch_function(self) -> Any:
        with DisableTorchFunctionSubclass():
            return super().shape


def _what_runs(code: types.CodeType, name: str = "shape") -> list[Any]:
    """name: stands in the place of `shape`."""
    ran = [(one.opname, name if one.argval == "shape" else one.argval) for one in dis.get_instructions(code)]
    return [getattr(code, "co_exceptiontable", b""), *ran]


def _function_text(function: Any, name: str) -> str:
    """A `__torch_function__`; torch calls it for what it asks of the tensor, and Dynamo has traced it."""
    plain = function.__func__ if isinstance(function, classmethod) else function
    if isinstance(plain, types.FunctionType):
        reach = reach_of(plain.__code__)
        if reach.loads | reach.attributes | {*plain.__code__.co_freevars} <= _ONWARDS and not reach.imports:
            note_functions([plain])
            return f"{meaning(plain.__code__)} {encode([plain.__defaults__, plain.__kwdefaults__])}"
    return source_digest(plain, f"{name}.__torch_function__")
