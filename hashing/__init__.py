"""FX graph -> Key. Knows torch.fx; knows nothing of stores, and no private torch module."""

from .build import Surroundings, key_of
from .encode import Cause, Uncacheable, encode, sha256_hex
from .graph import graph_modules
from .inputs import lifted_tensors
from .key import KEY_VERSION, PART_NAMES, Key, Part
from .source import is_fixed, source_digest
from .symbols import assign_slots

__all__ = [
    "KEY_VERSION",
    "PART_NAMES",
    "Cause",
    "Key",
    "Part",
    "Surroundings",
    "Uncacheable",
    "assign_slots",
    "encode",
    "graph_modules",
    "is_fixed",
    "key_of",
    "lifted_tensors",
    "sha256_hex",
    "source_digest",
]
