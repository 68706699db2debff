"""FX graph -> Key. Knows torch.fx; knows nothing of stores, and no private torch module."""

from .build import KeyContext, devices_used, key_of
from .cache_hash import cache_hash
from .encoding.devices import current_device, device_text, for_current_device
from .encoding.distributed import describing_once, groups_come_as_inputs, is_of_ranks
from .encoding.encode import Cause, Uncacheable, encode, importable_name, is_native_enum, sha256_hex
from .encoding.targets import TORCH_NAMESPACES, is_higher_order, target_made_by_torch
from .encoding.values import attributes_of, bound_cells, in_order, is_named_tuple
from .key import KEY_VERSION, PART_NAMES, Key, Part
from .origin import (
    comes_with_torch,
    foreign,
    is_generated_by_torch,
    is_looked_after,
    is_torch_or_stdlib,
    module_of_class,
)
from .parts.allowed import is_allowed_call
from .parts.ambient import ambient_state
from .parts.graph import HOOKS, graph_modules, meta_value, policies_in, policy_text
from .parts.hooks import Hook
from .parts.inputs import bases_text, changes_metadata, lifted_tensors
from .parts.nonstrict import is_nonstrict_call, nonstrict_function, nonstrict_results
from .parts.symbols import assign_slots
from .parts.tensors import held_tensor, inner_parts
from .parts.toolchain import package_facts, toolchain
from .parts.untraced import called_as_it_is, called_in, said_with, untraced_text, untraced_texts
from .source_code.described import describe, described, describes_operators
from .source_code.digest import source_digest
from .source_code.facts import fact
from .source_code.once import looking_once, making_a_key, once_per_key
from .source_code.packages import function_of_package
from .source_code.references import meaning, reach_of
from .source_code.saying import plain_defaults

__all__ = [
    "HOOKS",
    "KEY_VERSION",
    "PART_NAMES",
    "TORCH_NAMESPACES",
    "Cause",
    "Hook",
    "Key",
    "KeyContext",
    "Part",
    "Uncacheable",
    "ambient_state",
    "assign_slots",
    "attributes_of",
    "bases_text",
    "bound_cells",
    "cache_hash",
    "called_as_it_is",
    "called_in",
    "changes_metadata",
    "comes_with_torch",
    "current_device",
    "describe",
    "described",
    "describes_operators",
    "describing_once",
    "device_text",
    "devices_used",
    "encode",
    "fact",
    "for_current_device",
    "foreign",
    "function_of_package",
    "graph_modules",
    "groups_come_as_inputs",
    "held_tensor",
    "importable_name",
    "in_order",
    "inner_parts",
    "is_allowed_call",
    "is_generated_by_torch",
    "is_higher_order",
    "is_looked_after",
    "is_named_tuple",
    "is_native_enum",
    "is_nonstrict_call",
    "is_of_ranks",
    "is_torch_or_stdlib",
    "key_of",
    "lifted_tensors",
    "looking_once",
    "making_a_key",
    "meaning",
    "reach_of",
    "meta_value",
    "module_of_class",
    "nonstrict_function",
    "nonstrict_results",
    "once_per_key",
    "package_facts",
    "plain_defaults",
    "policies_in",
    "policy_text",
    "said_with",
    "sha256_hex",
    "source_digest",
    "target_made_by_torch",
    "toolchain",
    "untraced_text",
    "untraced_texts",
]
