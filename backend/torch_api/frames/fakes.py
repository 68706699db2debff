"""Which custom operators a frame may call: those of which all that runs while Dynamo traces is plain.

On every start Dynamo runs an operator's fake, and its `setup_context` where there are gradients; where a frame is
restored nobody runs them. So what they do must follow from what a record compares: from sizes, dtypes, devices and
strides of their arguments, constants, and code. A list says what that code may be made of; whatever is not on it is
seen to run (`ran`), and the frame is refused.
"""

from __future__ import annotations

import builtins
import dis
import math
import types
from collections.abc import Iterator
from typing import Any

import torch

from ..changes.registries import library_kernels
from ..operators import OPDEFS, fake_of, has_one_overload, runs_more, unwrapped

# Instructions, by how their names begin: loads and stores of locals, arithmetic, containers, calls, jumps. Not:
# imports, stores to globals, handlers of exceptions, `with`, generators.
_DONE = tuple(
    """
    RESUME NOP POP_TOP COPY SWAP DUP_TOP ROT_ PUSH_NULL PRECALL CALL KW_NAMES RETURN_ EXTENDED_ARG CACHE
    LOAD_CONST LOAD_SMALL_INT LOAD_FAST STORE_FAST LOAD_DEREF STORE_DEREF LOAD_CLOSURE MAKE_CELL COPY_FREE_VARS
    BINARY_ COMPARE_OP IS_OP CONTAINS_OP UNARY_ TO_BOOL NOT_TAKEN MAKE_FUNCTION SET_FUNCTION_ATTRIBUTE
    BUILD_TUPLE BUILD_LIST BUILD_MAP BUILD_CONST_KEY_MAP BUILD_SLICE BUILD_STRING LIST_ DICT_MERGE MAP_ADD UNPACK_
    GET_ITER FOR_ITER END_FOR POP_ITER JUMP_ POP_JUMP_ GET_LEN STORE_SUBSCR STORE_SLICE FORMAT_ CONVERT_VALUE
    LOAD_ASSERTION_ERROR LOAD_COMMON_CONSTANT RAISE_VARARGS RERAISE
    """.split()
)
_BUILTINS = {
    getattr(builtins, name): name
    for name in """
    len range tuple list int float bool min max sum zip enumerate abs all any divmod isinstance reversed sorted
    ValueError RuntimeError TypeError AssertionError NotImplementedError
    """.split()
}
# Attributes, of whatever they are asked: nothing that a program can set, or that depends on a tensor's content.
_ASKED = frozenset(
    """
    shape size dtype device layout type index ndim dim numel nelement stride element_size itemsize is_contiguous
    is_cuda is_floating_point is_complex Tensor Size float half bfloat16 double int long bool
    new_empty new_zeros new_ones new_full new_empty_strided empty empty_like empty_strided zeros zeros_like
    ones ones_like full full_like contiguous transpose permute view reshape unsqueeze squeeze expand flatten
    clone detach to narrow select movedim t mT append extend insert copy ceil floor prod sqrt log2 gcd lcm inf
    """.split()
)
_OF_CTX = frozenset("save_for_backward mark_non_differentiable set_materialize_grads needs_input_grad".split())
_CONSTANTS = (
    bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.layout, torch.device, torch.memory_format,
)  # fmt: skip


def is_plain(overload: Any) -> bool:
    """Whether nothing but plain code of the user's runs when Dynamo meets this operator."""
    name = overload.name()
    if not has_one_overload(name) or runs_more(overload):
        return False
    definition = OPDEFS.get(name.partition(".")[0])
    if definition is None:  # of C++, or of a Library, whose kernels for devices are called by name
        # "Meta" is made of a registered fake; where there are both, the fake runs.
        return library_kernels(name) <= _CALLED | {"Meta"} and _is_plain_function(fake_of(name))
    fake, setup = unwrapped(definition._abstract_fn), definition._setup_context_fn
    return (fake is None or _is_plain_function(fake)) and (
        setup is None or _is_plain_function(setup, stores_on_first=True)
    )


def _is_plain_function(function: Any, *, stores_on_first: bool = False, known: tuple[Any, ...] = ()) -> bool:
    """stores_on_first: whether it may set attributes of its first argument (a `ctx`). known: those that lead here."""
    if function in known:
        return True
    if type(function) is not types.FunctionType or function.__closure__ or len(known) > _DEEPEST:
        return False
    held = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    ctx = function.__code__.co_varnames[0] if stores_on_first and function.__code__.co_argcount else None
    return all(map(_is_constant, held)) and _is_plain_code(function.__code__, function, ctx, (*known, function))


_DEEPEST = 8
_CALLED = frozenset("CPU CUDA HIP XPU MPS MTIA HPU PrivateUse1".split())


def _is_plain_code(code: types.CodeType, function: types.FunctionType, ctx: str | None, known: tuple[Any, ...]) -> bool:
    before = None
    for one in dis.get_instructions(code):
        if not _is_plain_instruction(one, before, function, ctx, known):
            return False
        before = one
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return all(_is_plain_code(each, function, ctx, known) for each in inner)


def _is_plain_instruction(
    one: dis.Instruction,
    before: dis.Instruction | None,
    function: types.FunctionType,
    ctx: str | None,
    known: tuple[Any, ...],
) -> bool:
    name = one.opname
    if name == "LOAD_GLOBAL":
        return _is_plain_global(one.argval, function, known)
    if name in ("LOAD_ATTR", "LOAD_METHOD"):
        named = getattr(torch, one.argval, None)  # a dtype, or how memory is laid out
        allowed = _ASKED | (_OF_CTX if ctx else frozenset())
        return one.argval in allowed or isinstance(named, (torch.dtype, torch.layout, torch.memory_format))
    if name == "STORE_ATTR":
        of = None if before is None else before.argval
        return ctx is not None and (of[-1] if isinstance(of, tuple) else of) == ctx
    return name.startswith(_DONE)


def _is_plain_global(name: str, function: types.FunctionType, known: tuple[Any, ...]) -> bool:
    missing = object()
    value = function.__globals__.get(name, vars(builtins).get(name, missing))
    if value is torch or value is math or _is_constant(value):
        return True
    if isinstance(value, (type, types.BuiltinFunctionType)):
        return value in _BUILTINS
    return _is_plain_function(value, known=known)


def _is_constant(value: Any) -> bool:
    return type(value) in _CONSTANTS or (type(value) is tuple and all(map(_is_constant, value)))


def plain_names(overloads: list[Any]) -> Iterator[str]:
    """Their names, if all of them are plain."""
    if all(map(is_plain, overloads)):
        yield from (one.name() for one in overloads)
