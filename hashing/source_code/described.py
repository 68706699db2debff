"""`warmgraph.describe`: what a piece of code depends on, in its author's words, where no walk of it can tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..encoding.encode import Uncacheable, encode

# Name or id -> (what was described, kept alive so that an id stays its own; its key).
_described: dict[str | int, tuple[Any, Callable[[], Any]]] = {}


# Of custom operators, by who knows torch's tables of them: what they are made of, or None for torch's own.
_of_operators: list[Callable[[Any], str | None]] = []


def describes_operators(describe: Callable[[Any], str | None]) -> Callable[[Any], str | None]:
    """Decorator: from now on `describe` gives the text of operators that code reaches. It may raise Uncacheable."""
    _of_operators[:] = [describe]
    return describe


def operator_text(operator: Any) -> str | None:
    """The text of an operator, if somebody gives one."""
    return _of_operators[0](operator) if _of_operators else None


def describe(target: Any, key: Callable[[], Any]) -> None:
    """Tell warmgraph what `target` depends on: `key()` is called for each graph that reaches it, and its value keyed.

    target: a custom operator (`mine::scale`, `torch.ops.mine.scale`, what `custom_op` returned), a function or class
    that one reaches, an aten operator with a Python kernel of yours (`aten::sin`), or a name from a bypass' message.
    key: takes nothing and returns plain values (numbers, strings, tuples, dicts, dtypes ...) that change whenever what
    `target` does may change. You vouch for that: its own code is not looked at any more.

        warmgraph.describe("mine::scale", lambda: ("v2", torch.distributed.get_rank()))

    Raises TypeError where `key` cannot be called. Describing a target again replaces its description.
    """
    if not callable(key):
        raise TypeError(f"describe takes a function that returns the key, not a {type(key).__name__}")
    name = _name(target)
    _described[name if name is not None else id(target)] = (target, key)


def described(target: Any) -> str | None:
    """The text of a description, or None where there is none. Raises Uncacheable where it fails or is not plain."""
    found = _described.get(id(target)) or _described.get(_name(target) or "")
    if found is None:
        return None
    what = _name(target) or getattr(target, "__qualname__", str(target))
    try:
        return f"described {encode(found[1]())}"
    except Uncacheable as bad:
        raise Uncacheable(f"warmgraph.describe of {what}: {bad}; return plain values") from None
    except Exception as error:  # noqa: BLE001 - the user's function; whatever it raises, the graph is only not cached
        raise Uncacheable(f"warmgraph.describe of {what} raised {type(error).__name__}: {error}") from None


def _name(target: Any) -> str | None:
    """`namespace::operator` for an operator in any of its forms, the text itself for a text; None for other code."""
    if isinstance(target, str):
        return target.replace("/", "::") if "::" not in target and "/" in target else target
    for attribute in ("_qualname", "_qualified_op_name"):  # what `custom_op` returns; `torch.ops.mine.scale`
        if isinstance(found := getattr(target, attribute, None), str):
            return found
    schema = getattr(target, "_schema", None)
    return str(schema.name) if schema is not None else None
