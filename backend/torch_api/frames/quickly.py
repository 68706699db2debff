"""While guards are built again: what torch asks thousands of times is answered at once, with the same answers.

Of a Llama of 32 layers, restored, the two were 17 ms of 90. Nobody else builds guards meanwhile: Dynamo holds its lock.
Read and run on 2.11 to 2.15.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager

from torch._dynamo import config
from torch._dynamo import guards as dynamo_guards

# Asked once for each guard, or for each place that guards hang on: in C++ the first two, in Python the others.
ASKED = (
    "skip_tensor_guards_with_matching_dict_tags", "max_saved_pointers_for_recursive_dict_tags_check",
    "issue_3_13_0_warning", "log_compilation_metrics", "skip_no_tensor_aliasing_guards_on_parameters",
)  # fmt: skip


@contextmanager
def answering_at_once() -> Iterator[None]:
    """A setting stands as an attribute of its module, where torch looks before it works out whose value is in force."""
    settings = {name: getattr(config, name) for name in ASKED}
    unparse = dynamo_guards._ast_unparse

    def text_of(node: ast.AST) -> str:
        return _chain(node) or unparse(node)

    vars(config).update(settings)
    dynamo_guards._ast_unparse = text_of
    try:
        yield
    finally:
        dynamo_guards._ast_unparse = unparse
        for name in settings:
            del vars(config)[name]


def _chain(node: ast.AST) -> str | None:
    """What guards that two things are one consist of, `L["x"][0].a`, as `ast.unparse` writes it; else None."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute() if base := _chain(node.value):
            return f"{base}.{node.attr}"
        case ast.Subscript(slice=ast.Constant(value=str(key) | int(key))) if base := _chain(node.value):
            return f"{base}[{key!r}]"
    return None
