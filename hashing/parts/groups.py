"""Process groups by what they are, not by the name that a counter gave them. Not which place this rank has in them.

In texts a group is `<group "name" ...>` until the whole graph is written; then it is a number, in order of appearance.
A quote within a quoted text has a backslash before it, so that nothing else reads so.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

from .. import torch_names
from ..encoding.distributed import named_group
from ..encoding.encode import encode
from ..encoding.targets import is_operator

_BEGINNING = '<group "'
_MARK = re.compile(r'<group ("(?:[^"\\]|\\.)*")')


class Named(str):
    """A group's name among an operator's arguments."""

    __slots__ = ()


def marked(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a node, with each group's name as `Named`."""
    if not is_operator(target) or str(target).partition(".")[0] not in torch_names.COLLECTIVES:
        return args, kwargs
    schema = (target if hasattr(target, "_schema") else target.default)._schema
    names = [argument.name for argument in schema.arguments]
    found = [_named(name, value) for name, value in zip(names, args, strict=False)]
    return (*found, *args[len(found) :]), {name: _named(name, value) for name, value in kwargs.items()}


def _named(name: str, value: Any) -> Any:
    return Named(value) if name == torch_names.GROUP_ARGUMENT and type(value) is str else value


def group_text(name: str) -> str:
    """Raises what torch raises where there is no such group."""
    return encode(named_group(sys.modules[torch_names.GROUPS]._resolve_process_group(str(name))))


def names_in(lines: list[str]) -> tuple[str, ...]:
    """The names of groups in `lines`, in order."""
    marked_lines = [line for line in lines if _BEGINNING in line]
    return tuple(dict.fromkeys(json.loads(found) for line in marked_lines for found in _MARK.findall(line)))


def numbered(lines: list[str], names: tuple[str, ...]) -> Iterator[str]:
    numbers = {json.dumps(name): number for number, name in enumerate(names)}
    for line in lines:
        yield _MARK.sub(lambda found: f"<group {numbers[found[1]]}", line) if names else line
