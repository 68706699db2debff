"""The cache: Key -> bytes. Entries and blobs in memory and on disk, settings, journal. Never imports torch.

    cache = open_cache(settings())
    found = cache.lookup(key, accept)              # Hit or Miss, never an error (unless strict)
    cache.publish(draft, [(role, name, content)])  # at once in memory, in the background on disk

Everything another room needs is named here; the modules behind it are private.
"""

from .blobs import decode_blob, encode_blob, verify_blob
from .codec import canonical_entry, decode_entry
from .config import (
    ConfigError,
    Mode,
    Settings,
    configure,
    describe,
    journal_dir,
    parse_size,
    reset_settings,
    settings,
    store_root,
)
from .counts import Counts, Tally, summarise
from .disk import DiskStore
from .events import Event, EventDict, Outcome
from .eviction import PruneReport, Usage
from .forks import fork_safe_lock, reset_in_child
from .journal import Journal, Reading, read
from .layout import EntryFile
from .memory import MemoryStore
from .null import NullStore
from .process import as_plain, flush, record, stats
from .reading import Accept
from .seal import Signer, Verifier, seal, unseal
from .tiers import Cache, OnPublished, open_cache
from .typing import (
    BlobRef,
    CorruptEntry,
    Entry,
    Hit,
    Miss,
    Reason,
    Role,
    Scalar,
    Store,
    StoreUnavailable,
)
from .verify import Finding, Flaw, VerifyReport

__all__ = [
    "Accept",
    "BlobRef",
    "Cache",
    "ConfigError",
    "CorruptEntry",
    "Counts",
    "DiskStore",
    "Entry",
    "EntryFile",
    "Event",
    "EventDict",
    "Finding",
    "Flaw",
    "Hit",
    "Journal",
    "MemoryStore",
    "Miss",
    "Mode",
    "NullStore",
    "OnPublished",
    "Outcome",
    "PruneReport",
    "Reading",
    "Reason",
    "Role",
    "Scalar",
    "Settings",
    "Signer",
    "Store",
    "StoreUnavailable",
    "Tally",
    "Usage",
    "Verifier",
    "VerifyReport",
    "as_plain",
    "canonical_entry",
    "configure",
    "decode_blob",
    "decode_entry",
    "describe",
    "encode_blob",
    "flush",
    "fork_safe_lock",
    "journal_dir",
    "open_cache",
    "parse_size",
    "read",
    "record",
    "reset_in_child",
    "reset_settings",
    "seal",
    "settings",
    "stats",
    "store_root",
    "summarise",
    "unseal",
    "verify_blob",
]
