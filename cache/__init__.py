"""The cache: Key -> bytes. Entries and blobs in memory and on disk, settings, journal. Never imports torch.

    cache = open_cache(settings())
    found = cache.lookup(key, accept)              # Hit or Miss, never an error (unless strict)
    cache.publish(draft, [(role, name, content)])  # at once in memory, in the background on disk

Everything another room needs is named here; the modules behind it are private.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .config.config import (
    Settings,
    configure,
    describe,
    journal_dir,
    local_verifier,
    rank,
    remote_readonly,
    remote_verifier,
    reset_settings,
    revocations_of,
    settings,
    store_root,
)
from .config.parsing import (
    ConfigError,
    Mode,
    Trust,
    keys_in_file,
    parse_namespace,
    parse_seconds,
    parse_size,
    secret_in_file,
)
from .config.redis_urls import RemoteUrl, parse_url
from .factory import ONLY_CHECKS, learn_revocations, open_cache, open_journaled, open_remote
from .format.blobs import decode_blob, encode_blob, verify_blob
from .format.codec import canonical_entry, decode_entry, is_key
from .format.keyring import Keyring, SigningKey, new_key, new_pair, parse_keys
from .format.revocations import Revocation, Revocations, statement
from .format.seal import Signer, Verifier, seal, signer_of, unseal
from .journal.counts import Counts, Tally, summarise
from .journal.events import NOT_COMPILED, ONE_DEVICE, Event, EventDict, Outcome, decode_event
from .journal.journal import Journal, Reading, read
from .journal.process import as_plain, flush, record, stats, watch_events
from .journal.tail import FolderTail
from .process.exits import at_process_end, ending
from .process.forks import fork_safe_lock, reset_in_child
from .profiles.profiles import Profile, profile_of, today
from .profiles.store import ProfileStore
from .stores.disk.eviction import PruneReport, Usage
from .stores.disk.layout import EntryFile
from .stores.disk.mount import is_over_a_network, mounted
from .stores.disk.store import DiskStore
from .stores.disk.verify import Finding, Flaw, VerifyReport
from .stores.memory import MemoryStore
from .stores.similar import addresses, differing, nearest_first
from .tiers.access import Policy
from .tiers.flight import Flight, Flights
from .tiers.healing import Waited
from .tiers.publishing import OnPublished
from .tiers.reading import Accept
from .tiers.tiers import Cache
from .typing import (
    BlobRef,
    CorruptEntry,
    Entry,
    Held,
    Hit,
    Leases,
    Miss,
    Position,
    Reason,
    Revoked,
    Role,
    Scalar,
    SimilarEntry,
    Store,
    StoreSilent,
    StoreUnavailable,
    Untrusted,
)

if TYPE_CHECKING:
    from .stores.redis import RedisStore, StreamTail, advice
    from .transfer.bundle import Truncated, export_bundle, import_bundle
    from .transfer.transfer import Selection, Transferred, Watch, copy_entries, read_local, select_local, select_remote

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
    "Held",
    "Hit",
    "Journal",
    "Keyring",
    "Leases",
    "MemoryStore",
    "Miss",
    "Mode",
    "NOT_COMPILED",
    "ONE_DEVICE",
    "ONLY_CHECKS",
    "OnPublished",
    "Outcome",
    "Policy",
    "Position",
    "Profile",
    "ProfileStore",
    "PruneReport",
    "Reading",
    "Reason",
    "RedisStore",
    "RemoteUrl",
    "Revocation",
    "Revocations",
    "Revoked",
    "Role",
    "Scalar",
    "Selection",
    "Settings",
    "Signer",
    "SigningKey",
    "SimilarEntry",
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
    "Waited",
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
    "ending",
    "export_bundle",
    "flush",
    "fork_safe_lock",
    "import_bundle",
    "is_key",
    "is_over_a_network",
    "journal_dir",
    "keys_in_file",
    "learn_revocations",
    "local_verifier",
    "mounted",
    "nearest_first",
    "new_key",
    "new_pair",
    "open_cache",
    "open_journaled",
    "open_remote",
    "parse_keys",
    "parse_namespace",
    "parse_seconds",
    "parse_size",
    "parse_url",
    "profile_of",
    "rank",
    "read",
    "read_local",
    "record",
    "remote_readonly",
    "remote_verifier",
    "reset_in_child",
    "reset_settings",
    "revocations_of",
    "seal",
    "secret_in_file",
    "select_local",
    "select_remote",
    "settings",
    "signer_of",
    "statement",
    "stats",
    "store_root",
    "summarise",
    "today",
    "unseal",
    "verify_blob",
    "watch_events",
]

# Imported when they are asked for: scripts need them, and of training runs those that have a Redis.
_LATE = {
    ".stores.redis": ("RedisStore", "StreamTail", "advice"),
    ".transfer.bundle": ("Truncated", "export_bundle", "import_bundle"),
    ".transfer.transfer": (
        "Selection", "Transferred", "Watch", "copy_entries", "read_local", "select_local", "select_remote",
    ),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _LATE.items():
        if name in names:
            found = globals()[name] = getattr(import_module(module, __name__), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
