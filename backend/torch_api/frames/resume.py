"""Resume functions (what follows a graph break) as plain data, and installed again, so that Dynamo can go on with one.
From Python 3.12 on a comprehension in which the graph breaks is a function as well, which runs as it is.

Dynamo keeps notes on each one that it generated: should it not be restored but traced, and break the graph again, the
next resume function is generated from the original code. So the notes are carried as well.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

from torch._dynamo.bytecode_transformation import transform_code_object
from torch._dynamo.eval_frame import skip_code
from torch._dynamo.resume_execution import ContinueExecutionCache, ResumeFunctionMetadata
from torch.fx.experimental.symbolic_shapes import uninteresting_files

from .plain import Plain, Refused, code_from_plain, code_to_plain

_BOXED = "boxed_call"  # not on 2.15
_FIELDS = tuple(field.name for field in dataclasses.fields(ResumeFunctionMetadata))


def original_of(code: types.CodeType) -> types.CodeType:
    """The user's code that a resume function continues; `code` itself if it is none."""
    notes = ContinueExecutionCache.generated_code_metadata.get(code)
    return code if notes is None else notes.code


def pack_resume(function: types.FunctionType | types.CodeType, root: types.CodeType, space: Mapping[str, Any]) -> Plain:
    """[code, its name, whether it is a factory, notes (None of a comprehension)]. root: the frame that the graph broke
    in. Raises Refused.
    """
    if isinstance(function, types.CodeType):  # on 2.11, and the bytecode holds this very code as a constant
        raise Refused(f"a resume function with a closure: {function.co_name}")
    code, factory, name, globals_ = function.__code__, False, function.__name__, function.__globals__
    if not code.co_name.startswith("torch_dynamo_resume") and function.__closure__:  # made from a closure, when called
        held = dict(zip(code.co_freevars, (cell.cell_contents for cell in function.__closure__), strict=True))
        code, factory, name, globals_ = held["code"], True, held["name"], held["f_globals"]
    notes = ContinueExecutionCache.generated_code_metadata.get(code)
    if code.co_name.startswith("__comprehension_") and globals_ is space:
        return [code_to_plain(code), name, factory, None]
    if notes is None or globals_ is not space or notes.code is not original_of(root):
        raise Refused(f"a resume function of another frame: {code.co_name}")
    said = [
        getattr(notes, _BOXED, False),
        list(notes.prefix_block_target_offset_remap),
        [[list(place), list(map(list, offsets.items()))] for place, offsets in notes.block_target_offset_remap.items()],
    ]
    return [code_to_plain(code), name, factory, said]


def make_resume(
    data: Plain,
    rename: Mapping[str, str],
    space: dict[str, Any],
    root: types.CodeType,
    place: Callable[[types.CodeType], types.CodeType],
) -> Any:
    """place: gives code its lines and file in this process."""
    uninteresting_files()  # imports what torch cannot import (a circle) while a part of the frame runs as it is
    packed, name, factory, notes = data
    original = original_of(root)
    code = _once(place(code_from_plain(packed, rename)), original)
    if notes is None:
        skip_code(code)
    else:
        _note(code, original, *notes)
    if not factory:
        return types.FunctionType(code, space, name)
    return functools.partial(types.FunctionType, code, space, name, None)  # takes a closure, and has no frame to trace


def _note(code: types.CodeType, original: types.CodeType, boxed: bool, prefix: Any, blocks: Any) -> None:
    ContinueExecutionCache.generated_code_metadata[code] = ResumeFunctionMetadata(
        original,
        instructions=_instructions(original),
        **({_BOXED: boxed} if _BOXED in _FIELDS else {}),
        prefix_block_target_offset_remap=list(prefix),
        block_target_offset_remap={tuple(place): dict(offsets) for place, offsets in blocks},
    )


# By the id of the code that they continue, which is kept alive.
_made: dict[int, tuple[types.CodeType, list[types.CodeType]]] = {}


def _once(code: types.CodeType, original: types.CodeType) -> types.CodeType:
    """The same object for equal code, as in a trace: what is compiled for it hangs on it."""
    _, known = _made.setdefault(id(original), (original, []))
    for one in known:
        if one == code and one.co_linetable == code.co_linetable:
            return one
    known.append(code)
    return code


def _instructions(code: types.CodeType) -> list[Any]:
    """As Dynamo sees them when it generates a resume function."""
    kept: list[Any] = []

    def keep(instructions: list[Any], options: dict[str, Any]) -> None:
        kept.extend(copy.deepcopy(instructions))

    transform_code_object(code, keep)
    return kept
