"""What single versions of torch make of a case otherwise than its decorator says. Imports no torch.

The decorators, and docs/constructs.md, speak of the torch that warmgraph is developed with.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import re
import sys
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
        (2, 13) if sys.version_info >= (3, 13) else (2, 15),
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

_OF_A_WRAPPER = "while Dynamo makes a wrapper it asks for parts that the wrapper has not got yet, with Inductor as well"
_TREES = {"raises": "'builtin_function_or_method' object has no attribute 'is_nested'"}
_STRIDES = "an output's strides are others than in eager, with Inductor as well"
_NO_PROLOGUE = {"bypass": "call_aot_bwd_prologue"}
_PROLOGUE = "compiled autograd's graphs call a function that closes over the forward's metadata"

# The same of the oldest versions, by the last that has it.
OLDER: dict[str, tuple[tuple[int, int], dict[str, Any], str]] = {
    # torch's own faults
    "backward/an_input_that_requires_grad_under_create_graph": (
        (2, 11),
        {"raises": "a leaf Variable that requires grad is being used in an in-place operation"},
        "AOTAutograd raises, with Inductor as well",
    ),
    "aliases/views_with_history": (
        (2, 11),
        {"torch_wrong": "a gradient through a view that was made before is another", "fields": ("value",)},
        "with Inductor as well",
    ),
    "containers/a_tuple_subclass_and_a_named_tuple": (
        (2, 11),
        {"torch_wrong": "the tuple's items are lost", "fields": ()},
        "an output that is a tuple's subclass comes back empty, with Inductor as well",
    ),
    "wrappers/metadata_that_the_class_compares": (
        (2, 11),
        {"raises": "'Lenient' object has no attribute 'extra'"},
        _OF_A_WRAPPER,
    ),
    **dict.fromkeys(
        """
        wrappers/an_inner_tensor_that_may_be_missing wrappers/guards_on_an_inner_size
        wrappers/metadata_of_sizes_and_names wrappers/metadata_of_the_users_own_class
        """.split(),
        ((2, 11), {"raises": "'Described' object has no attribute 'extra'"}, _OF_A_WRAPPER),
    ),
    "subclasses/outer_sizes_differ_from_inner_ones": (
        (2, 11),
        {"raises": "'Stacked' object has no attribute 'scale'"},
        _OF_A_WRAPPER,
    ),
    "wrappers/views_of_a_wrapper_as_inputs": ((2, 11), {"torch_wrong": _STRIDES, "fields": ("stride",)}, _STRIDES),
    "subclasses/a_two_tensor_with_dynamic_sizes": ((2, 11), {"torch_wrong": _STRIDES, "fields": ("stride",)}, _STRIDES),
    "wrappers/views_and_parts_with_sizes_in_them": ((2, 11), {"fields": ("base", "stride")}, _STRIDES),
    "backends/compiled_branches_of_an_eager_cond": (
        (2, 11),
        {"raises": "This higher order operator doesn't work unless it is captured completely"},
        "an eager `cond` is traced without what is compiled within, with Inductor as well",
    ),
    "pytrees/trees_in_a_dispatch_beside_transformers": ((2, 11), _TREES, "Dynamo raises, with Inductor as well"),
    "pytrees/an_output_of_transformers_class": ((2, 11), _TREES, "Dynamo raises, with Inductor as well"),
    "values/random_numbers_as_in_eager": (
        (2, 12),
        {"torch_wrong": "the numbers are not those of eager", "fields": ("value",)},
        "with Inductor as well",
    ),
    "pytrees/registering_from_threads": (
        (2, 12),
        {"unsteady": "now and then a thread ends with 'dictionary changed size during iteration'"},
        "Dynamo walks over a table while another thread adds to it, with Inductor as well",
    ),
    # what torch has not, or does otherwise
    "cached/a_budget_of_activation_memory_per_region": (
        (2, 12),
        {"raises": "no attribute 'region_activation_memory_budget'"},
        "it came later",
    ),
    "containers/a_list_subclass_that_overrides_everything": (
        (2, 12),
        {"uncompiled": "Dynamo leaves it to Python"},
        "such a list is not traced",
    ),
    "passing/a_float_that_is_returned": ((2, 11), _KEPT, "each value is a constant of a graph of its own"),
    "thin/a_subclass_with_torch_function": ((2, 11), _RIGHT, "its result keeps its class"),
    # what is bypassed
    "switches/compiled_autograd_inside": ((2, 12), _NO_PROLOGUE, _PROLOGUE),
    "switches/compiled_autograd_around_a_backward": ((2, 12), _NO_PROLOGUE, _PROLOGUE),
    "switches/compiled_autograd_adds_to_gradients": ((2, 12), _NO_PROLOGUE, _PROLOGUE),
    "switches/compiled_autograd_over_two_forwards": ((2, 12), _NO_PROLOGUE, _PROLOGUE),
    "switches/compiled_autograd_asks_for_gradients": ((2, 12), _NO_PROLOGUE, _PROLOGUE),
    "subclasses/a_dtensor_on_a_mesh_of_one": (
        (2, 11),
        {"bypass": "DTensorSpec has no stable identity"},
        "a DTensor's specification is another class there",
    ),
    "pytrees/a_module_into_a_function_that_is_not_traced_strictly": (
        (2, 11),
        _KEPT,
        "Dynamo breaks the graph there",
    ),
    "values/a_check_of_data_fails": (
        (2, 12),
        {"bypass": "_check_message"},
        "the graph holds the function that gives the message",
    ),
    "passing/functions_of_numpys": ((2, 12), {"bypass": "Wrapped function"}, "wrapped numpy functions are bypassed"),
    "passing/operators_on_numpys_arrays": (
        (2, 12),
        {"bypass": "Wrapped function"},
        "wrapped numpy functions are bypassed",
    ),
}


def at_hand() -> tuple[int, int]:
    """Major and minor version of torch as installed here."""
    major, minor = re.findall(r"\d+", importlib.metadata.version("torch"))[:2]
    return int(major), int(minor)


def here(case: Listed) -> Listed:
    """`case` as it is on this torch."""
    otherwise = {name: value for name, value in _otherwise(case).items() if name not in ("raises", "unsteady")}
    return dataclasses.replace(case, **otherwise)


def raises(case: Listed) -> str | None:
    """What torch raises here whoever compiles, so that there is nothing to compare."""
    return _otherwise(case).get("raises")


def unsteady(case: Listed) -> str | None:
    """What torch does now and then, whoever compiles, so that the case proves nothing here."""
    return _otherwise(case).get("unsteady")


def _otherwise(case: Listed) -> dict[str, Any]:
    last, otherwise, _ = OLDER.get(case.word, ((0, 0), {}, ""))
    if at_hand() <= last:
        return otherwise
    first, last, otherwise, _ = OTHERWISE.get(case.word, (_NEVER, _NEVER, {}, ""))
    return otherwise if first <= at_hand() <= last else {}
