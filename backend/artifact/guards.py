"""Guards of a compile: those an entry keeps, those it would lose, and those on which inputs overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..torch_api import compile as compat


def guard_count(env: Any) -> int:
    return len(env.guards) if env is not None else 0


def left_out(env: Any, since: int, inputs: Sequence[Any]) -> tuple[list[str], str | None]:
    """Guards that a compile added and that torch's own expression for an entry leaves out.

    An entry's guards speak of SymInt inputs; one on a float's value, say, is dropped from them (by torch's own
    cache as well, which then serves code with the wrong value baked in). So is one on a symbol that the compile
    afterwards found to be a number, or equal to another: torch keeps the guards that name the symbols which are left.

    Returns those that no entry can say, and an expression of the others: what is left of them speaks of inputs (the
    position in a cache of keys and values is 0 for a prompt, and the prompt's length is still guarded on).
    """
    if env is None:
        return [], None
    symints = compat.backed_symints(inputs)
    known = _equal_before(env, since, {symbol for value in symints for symbol in value.node._expr.free_symbols})
    left = {value.node.expr for value in symints if value.node.expr.is_Symbol}
    added = [guard for guard in env.guards[since:] if not compat.is_of_stand_ins(env, guard.expr)]
    added = [guard for guard in added if not _is_said(env, guard.expr, known, left)]
    lost = [str(guard.expr) for guard in added if not _is_of_inputs(env, guard.expr, known, left)]
    if lost or not added:
        return lost, None
    try:
        return [], env.produce_guards_expression(symints, guards=added)
    except Exception as error:  # noqa: BLE001 - torch finds that they break a promise of `mark_dynamic`
        return [f"{type(error).__name__}: {error}"], None


def _is_of_inputs(env: Any, expression: Any, known: set[Any], left: set[Any]) -> bool:
    """Whether a guard on inputs is one still where symbols that the compile found out are replaced."""
    now = env.replace(expression).free_symbols
    return bool(now) and now <= left and expression.free_symbols <= known


def _equal_before(env: Any, since: int, symbols: set[Any]) -> set[Any]:
    """`symbols`, and those that were equal to one of them before the compile: a key tells them no more apart."""
    known, growing = set(symbols), True
    pairs = [guard.expr.free_symbols for guard in env.guards[:since] if _is_equality(guard.expr)]
    while growing:
        more = {symbol for pair in pairs if pair & known for symbol in pair}
        growing, known = not more <= known, known | more
    return known


def _is_equality(expression: Any) -> bool:
    return bool(expression.is_Equality and all(side.is_Symbol for side in expression.args))


def _is_said(env: Any, expression: Any, known: set[Any], left: set[Any]) -> bool:
    """Whether it is said of inputs: by itself, by two inputs being equal, or by the range of one."""
    if not expression.free_symbols <= known:
        return compat.is_known_by_source(env, expression)
    if expression.free_symbols <= left:
        return True
    now = env.replace(expression)
    return bool(now == True or env.bound_sympy(now).lower == True)  # noqa: E712 - sympy's own truth, not Python's


def evaluate_guards(env: Any, guards: str, values: Sequence[Any]) -> bool:
    """Whether a stored guard expression holds. With SymInts as `values` it is also added to `env`."""
    return bool(env.evaluate_guards_expression(guards, values))


def overlapping(tensors: list[torch.Tensor]) -> list[list[int]]:
    """Positions of tensors that overlap another, by torch's quick rule (for dynamic sizes) and its exact one."""
    return [sorted(compat.overlapping(tensors, symbolic=symbolic)) for symbolic in (True, False)]


def alias_guards(context: compat.TracingContext | None) -> list[Any]:
    return context.guards_context.aotautograd_guards if context is not None else []


def guards_to_positions(guards: Sequence[Any], sources: Sequence[Any]) -> list[list[Any]]:
    """Alias guards with sources replaced by input positions, so that they mean the same elsewhere."""
    where = {source: position for position, source in enumerate(sources) if source is not None}
    stored: list[list[Any]] = []
    for guard in guards:
        if isinstance(guard, compat.DuplicateInputs):
            stored.append(["duplicate", where[guard.input_source_a], where[guard.input_source_b]])
        elif isinstance(guard, compat.StorageOverlap):
            groups = guard.overlapping_sources, guard.non_overlapping_sources
            stored.append(["overlap", *[sorted(where[source] for source in group) for group in groups]])
        else:
            raise NotImplementedError(f"an alias guard of type {type(guard).__name__}")
    return stored


def guards_from_positions(stored: Sequence[Sequence[Any]], sources: Sequence[Any]) -> list[Any]:
    made: list[Any] = []
    for kind, first, second in stored:
        if kind == "duplicate":
            made.append(compat.DuplicateInputs(sources[first], sources[second]))
        else:
            made.append(compat.StorageOverlap([sources[i] for i in first], [sources[i] for i in second]))
    return made
