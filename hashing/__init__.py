"""FX graph -> Key. Knows torch.fx; knows nothing of stores, and no private torch module."""

from .ambient import ambient_state
from .build import Surroundings, key_of
from .cache_hash import cache_hash
from .described import describe, described
from .encode import Cause, Uncacheable, encode, importable_name, sha256_hex
from .fixed import comes_with_torch, foreign, is_fixed, is_generated_by_torch
from .graph import HOOKS, graph_modules, meta_value
from .hooks import Hook
from .inputs import changes_metadata, lifted_tensors
from .key import KEY_VERSION, PART_NAMES, Key, Part
from .reach import meaning
from .saying import plain_defaults
from .source import source_digest
from .symbols import assign_slots
from .targets import TORCH_NAMESPACES, is_higher_order

__all__ = [
    "HOOKS",
    "KEY_VERSION",
    "PART_NAMES",
    "Cause",
    "Hook",
    "Key",
    "Part",
    "Surroundings",
    "TORCH_NAMESPACES",
    "Uncacheable",
    "ambient_state",
    "assign_slots",
    "cache_hash",
    "changes_metadata",
    "comes_with_torch",
    "describe",
    "described",
    "encode",
    "foreign",
    "graph_modules",
    "importable_name",
    "is_fixed",
    "is_generated_by_torch",
    "is_higher_order",
    "key_of",
    "lifted_tensors",
    "meaning",
    "meta_value",
    "plain_defaults",
    "sha256_hex",
    "source_digest",
]
