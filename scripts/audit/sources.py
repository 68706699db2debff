"""Where an audit's events and entries come from: folders of journals, the fleet's streams, stores. Counts nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import orjson
from warmgraph.cache import (
    ConfigError,
    CorruptEntry,
    DiskStore,
    Entry,
    EventDict,
    FolderTail,
    RedisStore,
    Settings,
    StreamTail,
    decode_entry,
    decode_event,
    journal_dir,
    local_verifier,
    open_remote,
    remote_verifier,
    settings,
    store_root,
    unseal,
)

from .document import Source, StoredEntry


class Events:
    """The events of one or several journals. Iterating again gives what has come since.

    skipped: lines so far that were no events.
    """

    def __init__(self, source: Source, journals: Mapping[str | None, FolderTail | StreamTail]) -> None:
        self.source = source
        self.skipped = 0
        self._journals = journals

    def __iter__(self) -> Iterator[EventDict]:
        """Raises StoreUnavailable; what was read until then is not given again."""
        for namespace, journal in self._journals.items():
            for _, line in journal.new():
                event = None if line is None else decode_event(line, _parsed)
                if event is None:
                    self.skipped += line is None or bool(line.strip())
                    continue
                if event["namespace"] is None:  # of an older version; where it lies says of which it is
                    event["namespace"] = namespace
                yield event


def _parsed(line: bytes) -> object:
    """As `json.loads`, in a third of its time."""
    try:
        return orjson.loads(line)
    except ValueError:  # names that are no Unicode, such as a path may be; or no JSON at all
        return json.loads(line)


def open_events(
    *, fleet: bool = False, namespaces: Sequence[str] = (), folder: Path | None = None, since: float | None = None
) -> Events:
    """The events of this host's journal, or of the fleet's; of the current namespace unless told otherwise.

    since: older ones are left out where that saves reading them; whoever counts filters.

    folder: of journal files from elsewhere, instead. Raises ConfigError for a fleet without a server, and while being
    iterated StoreUnavailable.
    """
    current = settings()
    if folder is not None:
        return Events(Source("folder", str(folder)), {None: FolderTail(folder, since)})
    each = [replace(current, namespace=namespace) for namespace in namespaces or (current.namespace,)]
    if not fleet:
        places = {one.namespace: journal_dir(one) for one in each}
        name = ", ".join(map(str, places.values()))
        return Events(Source("folder", name), {which: FolderTail(place, since) for which, place in places.items()})
    stores = {one.namespace: _server(one) for one in each}
    shown = f"{next(iter(stores.values())).url.masked} ({', '.join(stores)})"
    return Events(Source("stream", shown), {which: store.tail(since) for which, store in stores.items()})


def stored_entries(*, fleet: bool = False, namespaces: Sequence[str] = ()) -> Iterator[StoredEntry]:
    """Every readable entry of the folder, or of the server, once per namespace that has it.

    Raises StoreUnavailable; no folder yet is empty.
    """
    current = settings()
    for namespace in dict.fromkeys(namespaces or (current.namespace,)):
        one = replace(current, namespace=namespace)
        yield from _on_server(one) if fleet else _on_disk(one)


def _server(current: Settings) -> RedisStore:
    server = open_remote(current)
    if server is None:
        raise ConfigError("WARMGRAPH_URL is not set, and --fleet reads the journal that lies there: set it")
    return server


def _on_disk(current: Settings) -> Iterator[StoredEntry]:
    root = store_root(current)
    store = DiskStore(root, readonly=True, verifier=local_verifier(current))
    if not root.is_dir():
        return
    for file in store.scan():
        try:
            found = store.read_entry(file.key, file.variant)
        except CorruptEntry:
            continue  # `warmgraph verify` tells of these
        if found is not None and found[0].blobs:  # without any: a profile of sizes, which no lookup hits
            yield _stored(found[0], file.size)


def _on_server(current: Settings) -> Iterator[StoredEntry]:
    verifier = remote_verifier(current)
    seen: set[tuple[str, str]] = set()
    for key, variant, sealed in _server(current).scan():
        if (key, variant) in seen:  # a scan gives some twice while others write
            continue
        seen.add((key, variant))
        try:
            entry = decode_entry(key, unseal(key, sealed, verifier))
        except CorruptEntry:
            continue
        if entry.blobs:
            yield _stored(entry, len(sealed))


def _stored(entry: Entry, size: int) -> StoredEntry:
    # A fact may be any scalar, whatever its name suggests: it comes from the store.
    function, created, compiled = (entry.facts.get(name) for name in ("function", "created", "compile_seconds"))
    return StoredEntry(
        entry.key,
        entry.variant,
        function[:200] if isinstance(function, str) else None,
        size + sum(ref.size for ref in entry.blobs),
        _number(created),
        _number(compiled),
    )


def _number(fact: object) -> float | None:
    return float(fact) if isinstance(fact, (int, float)) and not isinstance(fact, bool) else None
