"""The cache: Key -> bytes. Entries and blobs in memory and on disk, settings, journal. Never imports torch.

    cache = open_cache(settings())
    found = cache.lookup(key, accept)              # Hit or Miss, never an error (unless strict)
    cache.publish(draft, [(role, name, content)])  # at once in memory, in the background on disk

Everything another room needs is named here; the modules behind it are private.
"""

from .blobs import decode_blob, encode_blob, verify_blob
from .bundle import Truncated, export_bundle, import_bundle
from .codec import canonical_entry, decode_entry, is_key
from .config import (
    Settings,
    configure,
    describe,
    journal_dir,
    local_verifier,
    remote_verifier,
    reset_settings,
    settings,
    store_root,
)
from .counts import Counts, Tally, summarise
from .disk import DiskStore
from .events import Event, EventDict, Outcome, decode_event
from .eviction import PruneReport, Usage
from .exits import at_process_end
from .flight import Flight, Flights
from .forks import fork_safe_lock, reset_in_child
from .journal import Journal, Reading, read
from .keyring import Keyring, SigningKey, new_key, parse_keys
from .layout import EntryFile
from .learning import Learning
from .memory import MemoryStore
from .near import addresses, differing, nearest_first
from .null import NullStore
from .opening import open_cache, open_journaled, open_remote
from .parsing import ConfigError, Mode, Trust, keys_in_file, parse_namespace, parse_seconds, parse_size, secret_in_file
from .process import as_plain, flush, record, stats, watch_events
from .profiles import Profile, profile_of, today
from .reading import Accept
from .remote import RedisStore, RemoteUrl, StreamTail, advice, parse_url
from .seal import Signer, Verifier, seal, unseal
from .tail import FolderTail
from .tiers import Cache, OnPublished, Policy
from .transfer import Selection, Transferred, Watch, copy_entries, read_local, select_local, select_remote
from .typing import (
    BlobRef,
    CorruptEntry,
    Entry,
    Hit,
    Miss,
    Position,
    Reason,
    Relative,
    Role,
    Scalar,
    Store,
    StoreSilent,
    StoreUnavailable,
    Untrusted,
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
    "Flight",
    "Flights",
    "FolderTail",
    "Hit",
    "Journal",
    "Keyring",
    "Learning",
    "MemoryStore",
    "Miss",
    "Mode",
    "NullStore",
    "OnPublished",
    "Outcome",
    "Policy",
    "Position",
    "Profile",
    "PruneReport",
    "Reading",
    "Reason",
    "RedisStore",
    "Relative",
    "RemoteUrl",
    "Role",
    "Scalar",
    "Selection",
    "Settings",
    "Signer",
    "SigningKey",
    "Store",
    "StoreSilent",
    "StoreUnavailable",
    "StreamTail",
    "Tally",
    "Transferred",
    "Truncated",
    "Trust",
    "Untrusted",
    "Usage",
    "Verifier",
    "VerifyReport",
    "Watch",
    "addresses",
    "advice",
    "as_plain",
    "at_process_end",
    "canonical_entry",
    "configure",
    "copy_entries",
    "decode_blob",
    "decode_entry",
    "decode_event",
    "describe",
    "differing",
    "encode_blob",
    "export_bundle",
    "flush",
    "fork_safe_lock",
    "import_bundle",
    "is_key",
    "journal_dir",
    "keys_in_file",
    "local_verifier",
    "nearest_first",
    "new_key",
    "open_cache",
    "open_journaled",
    "open_remote",
    "parse_keys",
    "parse_namespace",
    "parse_seconds",
    "parse_size",
    "parse_url",
    "profile_of",
    "read",
    "read_local",
    "record",
    "remote_verifier",
    "reset_in_child",
    "reset_settings",
    "seal",
    "secret_in_file",
    "select_local",
    "select_remote",
    "settings",
    "stats",
    "store_root",
    "summarise",
    "today",
    "unseal",
    "verify_blob",
    "watch_events",
]
