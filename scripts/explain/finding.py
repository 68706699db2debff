"""Entries by key for the tools that explain: in the folder, else on the server. Decodes nothing but texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import click
from warmgraph.cache import (
    CorruptEntry,
    DiskStore,
    Entry,
    RedisStore,
    Role,
    Scalar,
    SimilarEntry,
    StoreUnavailable,
    addresses,
    decode_entry,
    is_key,
    local_verifier,
    nearest_first,
    open_remote,
    remote_verifier,
    settings,
    store_root,
    unseal,
)

from ..output import talk
from ..store.entries import UnreadableText, texts_of

Texts = dict[str, str]


@dataclass(slots=True)
class Finder:
    """The folder and the server of the current settings, either of which may be None. A server that fails is left."""

    folder: DiskStore | None
    server: RedisStore | None
    _texts: dict[str, Texts | None] = field(default_factory=dict)

    @classmethod
    def of_settings(cls) -> Finder:
        """Raises StoreUnavailable for a folder that cannot be used; none there is no error. Connects to nothing."""
        root = store_root(settings())
        folder = DiskStore(root, readonly=True, verifier=local_verifier(settings()))
        return cls(folder if root.is_dir() else None, open_remote(settings()))

    def full_key(self, prefix: str) -> str | None:
        """The one key that begins with `prefix`; None when no entry has one. Raises ClickException for several."""
        keys: set[str] = set()
        if self.folder is not None:
            folders = self.folder.layout.key_folders()
            keys = {folder.name for folder in folders if folder.name.startswith(prefix)}
        if not keys and self.server is not None:
            try:
                keys = {key for key, _, _ in self.server.scan(prefix) if key.startswith(prefix)}
            except StoreUnavailable as error:
                self._leave(error)
        return the_one(prefix, keys)

    def entries(self, key: str) -> list[Entry]:
        """The readable entries of a key, last used first; from the folder if it has any."""
        return [entry for entry, _ in self._entries(key)]

    def texts(self, key: str) -> Texts | None:
        """The texts of a key's parts; None when no entry has them. The same for all entries of one key."""
        if key not in self._texts:
            self._texts[key] = self._read_texts(key)
        return self._texts[key]

    def relatives(self, key: str, parts: Mapping[str, str], facts: Mapping[str, Scalar]) -> list[SimilarEntry]:
        """What resembles a key, nearest first, as the index of the folder knows it, else that of the server."""
        where = addresses(parts, facts)
        for store in (self.folder, self.server):
            if store is None or not where:
                continue
            try:
                found = [one for one in store.relatives(where) if one.key != key]
            except StoreUnavailable as error:
                self._leave(error)
                continue
            if found:
                return nearest_first(parts, facts.get("line"), found)
        return []

    def set_aside(self, key: str) -> str | None:
        """Why an entry of this key was quarantined in the folder, if one was."""
        if self.folder is None:
            return None
        for path, _ in self.folder.layout.quarantined_files():
            if path.name.startswith(f"{key}.") and path.suffix == ".why":
                try:
                    return " ".join(path.read_text("utf-8", "replace").split())[:200]
                except OSError:
                    continue
        return None

    def namespaces_with(self, key: str) -> list[str]:
        """The other namespaces of this folder that have the key."""
        if not is_key(key):
            return []
        current = settings()
        roots = {"default": current.dir}
        roots |= {path.name: path for path in sorted((current.dir / "ns").glob("*"))}
        roots.pop(current.namespace, None)
        return [name for name, root in roots.items() if (root / "entries" / key[3:5] / key).is_dir()]

    def _entries(self, key: str) -> list[tuple[Entry, DiskStore | RedisStore]]:
        verifiers = (local_verifier, remote_verifier)
        if not is_key(key):  # it may come from the journal, where anything may stand
            return []
        for store, verifier in zip((self.folder, self.server), verifiers, strict=True):
            if store is None:
                continue
            found = []
            try:
                for _, sealed in store.entries(key):
                    try:
                        found.append((decode_entry(key, unseal(key, sealed, verifier(settings()))), store))
                    except CorruptEntry as error:
                        talk(f"{key[:14]} is passed by: {error}. TIP: warmgraph verify")
            except StoreUnavailable as error:
                self._leave(error)
            if found:
                return found
        return []

    def _read_texts(self, key: str) -> Texts | None:
        for entry, store in self._entries(key):
            try:
                if texts := texts_of(store, entry, Role.PART_TEXTS):
                    return texts
            except UnreadableText as error:
                talk(f"the texts of {key[:14]} cannot be read: {error}. TIP: warmgraph verify")
        return None

    def _leave(self, error: StoreUnavailable) -> None:
        """The server is asked no more; the folder may answer the next time."""
        talk(f"{error}")
        self.server = None


def the_one(prefix: str, keys: set[str]) -> str | None:
    """The only one of `keys`, None for none. Raises ClickException for several."""
    if len(keys) > 1:
        listed = ", ".join(sorted(keys)[n][:20] for n in range(min(5, len(keys))))
        raise click.ClickException(f"{len(keys)} keys begin with {prefix!r:.80}: {listed}. TIP: give more of it")
    return next(iter(keys), None)


def with_prefix(key: str) -> str:
    """What a user typed as a key, or the beginning of one: `wg1` may be left out."""
    return key if key.startswith("wg") else f"wg1{key}"
