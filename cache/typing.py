"""The words of the cache: entries, blobs, outcomes, and what a store must do. No I/O here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import Struct, field

Scalar = str | int | float | bool | None
# Where a line of a journal ends: in which part of it (a file, or the stream), and where in that. In a part they grow.
Position = tuple[str, tuple[int, int]]


class Role(str, Enum):
    """What a blob is for. Only `cpp-kernel` is used by path (it is `dlopen`ed); the others by content."""

    AOT_RESULT = "aot-result"
    CPP_KERNEL = "cpp-kernel"
    PART_TEXTS = "part-texts"
    GRAPH_TEXT = "graph-text"
    FRAME = "frame"  # what one trace of one frame made, and its guards
    GRAPH = "graph"  # a graph that is run as it is
    KERNEL = "kernel"  # one that was compiled after its graph's entry was made


class BlobRef(Struct, frozen=True):
    """A blob as an entry names it.

    digest: sha256 (hex) of the bytes as stored. size: their number. name: unique within the entry
    (for a kernel, the digest by which generated code asks for it). encoding: `zstd` or `raw`.
    content_size: bytes after decoding, the bound a decoder must not exceed. pieces: of each piece (1 MiB) the sha256
    as it lies in a store that keeps pieces, which is packed where that is smaller (`blobs.pack_piece`).
    """

    digest: str
    size: int
    role: Role
    name: str
    encoding: str
    content_size: int
    pieces: tuple[str, ...] = ()


class Entry(Struct, frozen=True):
    """The manifest of one compile: everything a load needs, except the blobs' bytes.

    guards: a shape-guard expression over the graph's symbolic inputs by position, or None.
    variant: names this entry among those of one key (a digest of what makes it differ: its guards).
    symbols: this compile's symbol names by slot. facts: compile seconds, host, versions, function, line ...
    """

    key: str
    variant: str
    parts: Mapping[str, str]
    guards: str | None
    symbols: Mapping[str, str]
    blobs: tuple[BlobRef, ...]
    facts: Mapping[str, Scalar] = field(default_factory=dict)


class Reason(str, Enum):
    """Why an outcome was not a hit. Values are stable: scripts and dashboards count them."""

    ABSENT = "absent"  # no entry under this key
    GUARDS = "guards"  # entries exist; none of their shape guards holds for these inputs
    INCOMPLETE = "incomplete"  # an entry whose blobs are not all there
    CORRUPT = "corrupt"  # an entry or blob whose bytes are not what was written
    UNTRUSTED = "untrusted"  # whole, perhaps, but not signed by anyone this process trusts
    LOAD_FAILED = "load-failed"  # every byte was right and it still did not load
    REFRESH = "refresh"  # mode=refresh: lookups are skipped on purpose
    UNHASHABLE = "unhashable"  # the graph holds something with no stable identity
    UNSAFE_OP = "unsafe-op"  # torch says the graph is not safe to cache
    WRAPPED_CALL = "wrapped-call"  # a torch.fx.wrap call without user_cache_hash
    CONSTANT_TOO_LARGE = "constant-too-large"
    FREEZING = "freezing"
    CACHES_DISABLED = "caches-disabled"  # torch's force_disable_caches, or mode=off
    UNSUPPORTED_TORCH = "unsupported-torch"
    UNSUPPORTED_MODE = "unsupported-mode"  # a setting of torch under which results cannot be kept
    NOT_SERIALISABLE = "not-serialisable"  # compiled, and the result cannot be stored
    DIFFERS = "differs"  # a verified hit whose results are not those of a fresh compile
    NOT_COMPARABLE = "not-comparable"  # a hit that was to be verified and could not be
    INTERNAL = "internal"  # a bug in warmgraph; the graph was compiled normally
    UNREADABLE = "unreadable"  # the store could not be read
    UNWRITABLE = "unwritable"  # the store could not be written
    # Why a frame was traced (of the outcome `traced`); `absent` as well.
    FRAME_CHANGED = "frame-changed"  # there are records, and something of each is not as it was
    NOT_RESTORABLE = "not-restorable"  # something of it cannot be carried to another process
    # Why a graph that was to run in CUDA graphs runs without (of the outcome `skipped`).
    SKIP_CPU = "skip-cpu"  # it works on the CPU, wholly or in part
    SKIP_DEVICES = "skip-devices"  # it works on several devices, or on one that has no CUDA graphs
    SKIP_OP = "skip-op"  # an operation that cannot be recorded
    SKIP_MUTATION = "skip-mutation"  # it writes to an input whose memory CUDA graphs do not manage
    SKIP_DYNAMIC = "skip-dynamic"  # its sizes are symbolic, and a setting leaves such graphs out
    SKIP_RERECORDED = "skip-rerecorded"  # recorded too often: its static inputs move from call to call
    SKIP_DISABLED = "skip-disabled"  # switched off by a setting, an annotation or a policy
    SKIP_OTHER = "skip-other"  # in torch's words


class Hit(Struct, frozen=True):
    """A complete, verified result.

    tier: the name of the store it came from. blobs: decoded contents by blob name, of every role but
    `cpp-kernel`. files: for each kernel name a local file that held exactly its bytes a moment ago; eviction
    by another process may remove it before it is opened, which is to be treated as a miss, not as an error.
    stored_bytes: what was read from the store (entry and encoded blobs). sealed: the entry's own bytes there.
    """

    tier: str
    entry: Entry
    blobs: Mapping[str, bytes]
    files: Mapping[str, Path]
    stored_bytes: int
    sealed: bytes = b""


class SimilarEntry(Struct, frozen=True):
    """An entry as the index of resemblances knows it (`near`).

    parts: the beginnings of its parts' digests. line: of the user's code. time: unix seconds when it was made.
    """

    key: str
    parts: Mapping[str, str]
    line: int | None
    time: float


class Miss(Struct, frozen=True):
    """No result, and why. seen: entries found under the key. detail: one line for humans.

    nearest: the entry that resembles this key most, if one does; with this very key: it was there, and is gone.
    differs: the parts in which that one is different.
    """

    reason: Reason
    seen: int = 0
    detail: str | None = None
    nearest: SimilarEntry | None = None
    differs: tuple[str, ...] = ()


class StoreUnavailable(Exception):
    """A store cannot serve now (permissions, full disk, network). Tiers skip it; nobody else catches it."""


class StoreSilent(StoreUnavailable):
    """It did not answer in time, or the connection was lost: what was asked may have happened all the same.

    Any other StoreUnavailable is an answer: it is there and refuses, or cannot be what it should be.
    """


class CorruptEntry(Exception):
    """Stored bytes are not an entry or a blob of ours. Decoding raises this and nothing else."""


class Untrusted(CorruptEntry):
    """A seal made with no key, or with one that is not known here. Others may trust it: it is left where it is."""


class Revoked(Untrusted):
    """A seal that is right, of what is not believed any more."""


@runtime_checkable
class Store(Protocol):
    """One place for entries and blobs: memory, disk, Redis.

    Entries are sealed bytes, blobs are bytes; both opaque here (see `codec`). Every method may raise
    StoreUnavailable. Any number of threads, processes and hosts use one place at once.
    """

    name: str

    def entries(self, key: str) -> Iterator[tuple[str, bytes]]:
        """Yield (variant, sealed bytes) under `key`, last used (put or touched) first. Absent: nothing.

        One that is being written is not seen; one that is deleted meanwhile is skipped.
        """

    def blob(self, ref: BlobRef) -> bytes | None:
        """The bytes of `ref`, unverified; None when absent or being written.

        A store that keeps blobs otherwise than as they are checks before it decodes: CorruptEntry.
        """

    def blobs(self, refs: Sequence[BlobRef]) -> dict[str, bytes]:
        """As `blob`, for all of `refs` at once, by digest; absent ones are left out. One round trip."""

    def has_blob(self, ref: BlobRef) -> bool:
        """Whether a blob of this digest and size is there. Cheap; no bytes are read."""

    def put_blob(self, ref: BlobRef, data: bytes) -> None:
        """Store `data`, visible whole or not at all. There already: it only counts as new for eviction."""

    def put_entry(self, key: str, variant: str, sealed: bytes) -> None:
        """Make an entry visible, in one step, after its blobs. Replaces the same variant."""

    def touch(self, key: str, variant: str, refs: Sequence[BlobRef] = ()) -> None:
        """Note that an entry and the blobs it names were used (for eviction). Absent: a no-op. Waits for no network."""

    def quarantine(self, key: str, variant: str, why: str, sealed: bytes | None = None) -> None:
        """Take an entry out of every reader's sight. Absent: a no-op.

        sealed: only if it is this one, as `entries` gave it; another has come in its place otherwise.
        """

    def drop_blob(self, ref: BlobRef) -> None:
        """Remove a blob whose bytes are wrong. Absent: a no-op."""

    def path_of(self, ref: BlobRef) -> Path | None:
        """A local file holding exactly the blob's bytes, for `dlopen`; None when this store has no files."""

    def relate(self, addresses: Sequence[str], relative: SimilarEntry) -> None:
        """Note an entry under each address (a digest, see `near`), so that misses can be explained. Bounded.

        The index is a help for people: it may be lossy, stale or empty, and no result depends on it.
        """

    def relatives(self, addresses: Sequence[str]) -> list[SimilarEntry]:
        """What is noted under any of the addresses, in no order; entries that are gone may be among it.

        One round trip. Absent, damaged, or not kept by this store: nothing.
        """


class Held(Struct, frozen=True):
    """A key that someone else has the right to compile.

    owner: who, one line for people. failed: nobody has it any more, and the last owner's compile gave nothing
    that could be kept: there is nothing to wait for. given_back: nobody has it, and the result is there. stopped: its
    owner does not run (Ctrl-Z). job: of whose ranks the owner is one, as `ranks_of` tells it.
    """

    owner: str
    failed: bool = False
    given_back: bool = False
    stopped: bool = False
    job: str | None = None


class Lease(Protocol):
    """The right to compile a key. token: grows from owner to owner (a fencing token); 0 where there is none."""

    @property
    def token(self) -> int: ...

    def release(self, *, ok: bool) -> None:
        """Give it back. ok: the result is where those who wait will look. Never raises; twice is once."""


class Leases(Protocol):
    """Where leases of one reach are had: this host's processes (`disk`), or the fleet (`redis`).

    A lease whose owner dies is free again, at once or after `seconds`. Both methods may raise StoreUnavailable.
    """

    name: str
    seconds: float

    def acquire(self, key: str, *, waits: bool = False) -> Lease | Held:
        """The lease, or who has it. Does not wait.

        waits: the caller was told before that it is held. Should it have been given back since, with a result, that is
        said instead: so that all who wait fetch the result at once, and not one after another.
        """

    def peek(self, key: str) -> Held | None:
        """Who has it; None when nobody does. Takes nothing."""
