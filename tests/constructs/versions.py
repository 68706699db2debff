"""What single versions of torch make of a case otherwise than its decorator says. Imports no torch.

The decorators, and docs/constructs.md, speak of the torch that warmgraph is developed with.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import re
from typing import Any

from listing import Listed

_NEVER = (99, 0)
_RIGHT: dict[str, Any] = {"torch_wrong": None, "fields": ()}
_KEPT: dict[str, Any] = {"bypass": None}

# case -> the first and the last version, what is otherwise there, and why.
OTHERWISE: dict[str, tuple[tuple[int, int], tuple[int, int], dict[str, Any], str]] = {
    # what torch has put right, so that it agrees with eager
    "mutation/a_double_without_dimensions": ((2, 14), _NEVER, _RIGHT, "its value is no longer that of the trace"),
    "backward/a_hook_on_an_intermediate_value": ((2, 15), _NEVER, _RIGHT, "the hook's gradient is the eager one"),
    "containers/a_set_subclass": ((2, 15), _NEVER, _RIGHT, "a set's subclass is traced"),
    "wrappers/turned_in_place": ((2, 14), _NEVER, {**_RIGHT, "uncompiled": None}, "it is traced, and turns"),
    "storage/data_of_another_size_assigned": (
        (2, 14),
        _NEVER,
        {**_RIGHT, **_KEPT},
        "`x.data = y` is an operator, and as in eager",
    ),
    "effects/a_simple_namespace_and_a_slice": (
        (2, 15),
        _NEVER,
        {"uncompiled": None},
        "attributes that are set on a SimpleNamespace are traced",
    ),
    # guards that torch no longer makes: these graphs are kept
    "aliases/aliases_that_come_and_go": ((2, 15), _NEVER, _KEPT, "no guard on sizes that inputs of one storage share"),
    "aliases/aliases_from_the_first_call_on": (
        (2, 15),
        _NEVER,
        _KEPT,
        "no guard on sizes that inputs of one storage share",
    ),
    "passing/a_float_that_is_returned": ((2, 15), _NEVER, _KEPT, "each value is a constant of a graph of its own"),
    # torch's own faults
    "storage/data_of_a_parameter_assigned": (
        (2, 14),
        _NEVER,
        {"torch_wrong": "the parameter keeps its values, and its gradient is another", "fields": (), **_KEPT},
        "`parameter.data = y` does not reach the parameter: Inductor is wrong in the same way",
    ),
    "geometry/resized_larger": (
        (2, 15),
        _NEVER,
        {"uncompiled": "AOTAutograd raises"},
        "functionalization refuses to enlarge a view, with Inductor as well",
    ),
    "fakes/transposed_with_dynamic_sizes": (
        (2, 15),
        _NEVER,
        {"uncompiled": "AOTAutograd raises"},
        "'4*s83 is not tracked with proxy' with Inductor as well",
    ),
    "fakes/turned_and_turned_back": (
        (2, 15),
        _NEVER,
        {"torch_wrong": "AOTAutograd fails on the second, dynamic, call", "fields": ()},
        "'4*s83 is not tracked with proxy' with Inductor as well",
    ),
    "functions/a_function_that_changes_its_input": (
        (2, 14),
        _NEVER,
        {"raises": "Output 0 of CompiledFunction is a view and is being modified inplace"},
        "'Output 0 of CompiledFunction is a view' with Inductor as well",
    ),
    "wrappers/an_inner_tensor_that_may_be_missing": (
        (2, 14),
        _NEVER,
        {"bypass": "guards that no entry can say"},
        "torch guards on a size inside the wrapper that no input of the graph says",
    ),
}


def at_hand() -> tuple[int, int]:
    """Major and minor version of torch as installed here."""
    major, minor = re.findall(r"\d+", importlib.metadata.version("torch"))[:2]
    return int(major), int(minor)


def here(case: Listed) -> Listed:
    """`case` as it is on this torch."""
    otherwise = {name: value for name, value in _otherwise(case).items() if name != "raises"}
    return dataclasses.replace(case, **otherwise)


def raises(case: Listed) -> str | None:
    """What torch raises here whoever compiles, so that there is nothing to compare."""
    return _otherwise(case).get("raises")


def _otherwise(case: Listed) -> dict[str, Any]:
    first, last, otherwise, _ = OTHERWISE.get(case.word, (_NEVER, _NEVER, {}, ""))
    return otherwise if first <= at_hand() <= last else {}
