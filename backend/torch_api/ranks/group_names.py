"""Names of process groups in code that Inductor wrote: found where an operator takes one, and replaced by others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch

# Each call stands on a line of its own. The checks of a result's strides name the operator in a text.
_CALL = re.compile(r"^(?!\s*assert_).*\btorch\.ops\.(_c10d_functional\w*|c10d\w*|_dtensor|symm_mem)\.")
_KNOWN = ("torch.ops._c10d_functional.", "torch.ops._c10d_functional_autograd.", "torch.ops._dtensor.")


class Unknown(ValueError):
    """A collective that is written in a way that is not known here."""


def group_names(source: str) -> set[str]:
    """The names of groups that `source` calls collectives with. Raises Unknown."""
    return {str(constant.value) for line in source.splitlines() for constant in _constants(line)}


def with_groups(source: str, names: Mapping[str, str]) -> str:
    """`source` with other names of groups. Raises Unknown, and KeyError for a name that is not among them."""
    return "\n".join(_replaced(line, names) for line in source.split("\n"))


def _replaced(line: str, names: Mapping[str, str]) -> str:
    indent = len(line) - len(line.lstrip())
    for constant in sorted(_constants(line), key=lambda one: -one.col_offset):
        begin, end = indent + constant.col_offset, indent + (constant.end_col_offset or 0)
        line = line[:begin] + repr(names[str(constant.value)]) + line[end:]
    return line


def _constants(line: str) -> Iterator[ast.Constant]:
    if _CALL.match(line) is None:
        return
    text = line.strip()
    if not text.isascii():  # columns are bytes
        raise Unknown(text)
    try:
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    except SyntaxError as error:
        raise Unknown(text) from error
    for call in calls:
        name = ast.unparse(call.func)
        if name.startswith("torch.ops."):
            yield from _of_call(call, name)


def _of_call(call: ast.Call, name: str) -> Iterator[ast.Constant]:
    try:
        found: Any = torch.ops
        for part in name.removeprefix("torch.ops.").split("."):
            found = getattr(found, part)
        arguments = [argument.name for argument in found._schema.arguments]
    except AttributeError as error:
        raise Unknown(name) from error
    given = dict(zip(arguments, call.args, strict=False)) | {word.arg: word.value for word in call.keywords}
    for argument, value in given.items():
        if argument == "group_name":
            if isinstance(value, ast.Constant) and isinstance(value.value, str) and name.startswith(_KNOWN):
                yield value
            elif not isinstance(value, ast.Name):
                raise Unknown(ast.unparse(call))
