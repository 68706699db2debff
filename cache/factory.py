"""From settings to a cache: which stores there are, how each is treated, who may compile. Decides nothing later."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .config.config import (
    Settings,
    journal_dir,
    local_verifier,
    remote_readonly,
    remote_verifier,
    revocations_file,
    revocations_of,
    store_root,
)
from .config.parsing import ConfigError, Mode
from .format.revocations import MAX_LIST_BYTES, Revocations
from .journal.journal import Journal
from .profiles.store import Place, ProfileStore
from .stores.circuit_breaker import Health, Probe
from .stores.disk.files import read_bounded, write_atomically
from .stores.disk.folder import open_private
from .stores.disk.locks import FileLeases
from .stores.disk.mount import mount_of
from .stores.disk.store import DiskStore
from .stores.memory import MemoryStore
from .tiers.access import Policy
from .tiers.flight import Flights
from .tiers.one_reader import OneReader
from .tiers.publishing import OnPublished
from .tiers.tiers import Cache
from .typing import Leases, Store, StoreUnavailable

if TYPE_CHECKING:
    from .stores.redis import RedisStore

logger = logging.getLogger(__package__)
ONLY_CHECKS = (
    "the keys here are public halves: the server is read and not written to, "
    "and what this host compiles stays in its folder"
)
_told: set[Path] = set()  # folders for which this process was told that the server is only read


def open_cache(settings: Settings, *, on_published: OnPublished | None = None) -> Cache:
    """The cache of these settings: memory, then disk, then Redis if there is one.

    Without a usable folder it is without it, with a warning; strict: raises StoreUnavailable. Whether Redis
    answers is found out later: connecting begins here, in the background.
    """
    return _open(settings, on_published)[0]


def open_journaled(settings: Settings) -> tuple[Cache, Journal | None]:
    """As `open_cache`, and with it the journal: in the folder, and in the fleet's stream where there is a Redis.

    None where nothing may be written. Outages of the cache's tiers are journaled from here on.
    """
    cache, remote, health = _open(settings, None)
    if settings.mode not in (Mode.READWRITE, Mode.REFRESH):
        return cache, None
    sick = cache.health()
    stream = None
    if remote is not None and not remote.readonly:
        from .remote import stream_beside

        stream = stream_beside(remote, settings, health)
    # A folder that is not ours to write, or was refused, is not journaled in either.
    folder = None if "disk" in sick else journal_dir(settings)
    if folder is None and stream is None:
        return cache, None
    send = None if stream is None else stream.append
    journal = Journal(folder, send=send, namespace=settings.namespace, job=settings.job)
    for tier, why in sick.items():
        journal.outage(tier, why)
    health.on_outage = weakref.WeakMethod(journal.outage)
    return cache, journal


def _open(settings: Settings, on_published: OnPublished | None) -> tuple[Cache, RedisStore | None, Health]:
    if settings.mode is not Mode.OFF:
        _prepare(settings)
    remote = open_remote(settings) if settings.mode is not Mode.OFF else None
    probes: dict[str, Probe] = {} if remote is None else {remote.name: remote.probe}
    health = Health(probes)
    slow: list[Store] = []
    levels: list[Leases] = []
    one_reader, healing = None, None
    policies = _policies(settings)
    if settings.mode is not Mode.OFF:
        disk = _open_disk(settings, health)
        if disk is not None:
            slow.append(disk)
            levels.append(FileLeases(disk.root))
            one_reader = None if disk.readonly else OneReader(FileLeases(disk.root, fetch=True))
    if remote is not None:
        if settings.keyring.only_checks and remote.readonly and settings.dir not in _told:
            _told.add(settings.dir)
            logger.warning(ONLY_CHECKS)
        slow.append(remote)
        from .remote import healing_beside, leases_beside

        levels.append(leases_beside(remote, settings, health))
        healing = healing_beside(remote, levels[-1], settings, health, policies["redis"].verifier)
        remote.warm_up()
    if settings.mode is not Mode.READWRITE:  # who does not look up, or does not publish, holds up nobody
        levels = []
    wait = 0.0 if settings.mode is Mode.REFRESH else settings.wait
    cache = Cache(
        MemoryStore(),
        slow,
        mode=settings.mode,
        strict=settings.strict,
        max_size=settings.max_size,
        max_files=settings.max_files,
        on_published=on_published,
        health=health,
        policies=policies,
        signer=settings.keyring.signer,
        flights=Flights([one for one in levels if not policies[one.name].readonly], wait=wait),
        learning=_learning(settings, slow, policies, health),
        namespace=settings.namespace,
        healing=healing,
        one_reader=one_reader,
    )
    return cache, remote, health


def _prepare(settings: Settings) -> None:
    try:
        settings.keyring.prepare()
    except ImportError as error:
        name = next((one for one in settings.keyring.ids()), "")
        raise ConfigError(f"the signing key {name} needs PyNaCl ({error}): pip install pynacl") from None


def open_remote(settings: Settings) -> RedisStore | None:
    """The Redis of these settings, if they name one. Connects to nothing."""
    if settings.url is None:
        return None
    from .remote import open_store

    return open_store(
        settings, remote_readonly(settings), partial(learn_revocations, settings, known=revocations_of(settings))
    )


def learn_revocations(
    settings: Settings, data: bytes, *, local: bool = False, known: Revocations | None = None
) -> bool:
    """Add a list of revocations to what is known here, and keep it in the folder; whether anything in it was new.

    local: it was made here, not read from a server. known: to what it is added, if not to what these settings know.
    """
    known, file = known or revocations_of(settings), revocations_file(settings)
    if not known.learn(data, local_verifier(settings) if local else remote_verifier(settings)):
        return False
    logger.info("%d revocations are known (`warmgraph revocations`)", len(known.listed()))
    if Mode.READONLY not in (settings.mode, settings.dir_mode):
        try:
            open_private(settings.dir, create=True)
            # Another process may have kept others meanwhile. If it does so just now they are learnt again: they are
            # on the server.
            known.learn(read_bounded(file, MAX_LIST_BYTES) or b"", local_verifier(settings))
            write_atomically(file, known.data)
        except StoreUnavailable as error:
            logger.warning("revocations hold in this process, and are not kept: %s", error)
    return True


def _learning(
    settings: Settings, stores: Sequence[Store], policies: Mapping[str, Policy], health: Health
) -> ProfileStore:
    signer = settings.keyring.signer
    places = []
    for store in stores:
        policy = policies[store.name]
        unsigned = not policy.remote or signer is None
        revoked = revocations_of(settings)
        vouched = settings.keyring.verifier(unsigned=unsigned, namespace=settings.namespace, revocations=revoked)
        place = Place(store, policy.verifier, vouched, policy.readonly, policy.remote)
        connecting = getattr(store, "connecting", None)
        places.append(place if connecting is None else replace(place, connecting=connecting))
    return ProfileStore(places, mode=settings.mode, strict=settings.strict, health=health, signer=signer)


def _policies(settings: Settings) -> dict[str, Policy]:
    local, remote = local_verifier(settings), remote_verifier(settings)
    policies = {"memory": Policy(verifier=local), "disk": Policy(settings.dir_mode is Mode.READONLY, local)}
    if settings.url is not None:
        from .remote import told_every

        often = told_every(settings.ttl)
        policies["redis"] = Policy(remote_readonly(settings), remote, remote=True, told_every=often)
    return policies


def _open_disk(settings: Settings, health: Health) -> DiskStore | None:
    readonly = Mode.READONLY in (settings.mode, settings.dir_mode)
    root = store_root(settings)
    try:
        if root != settings.dir:  # whoever can write above a namespace's folder can replace it
            mount_of(settings.dir).call(partial(open_private, settings.dir, create=not readonly))
        return DiskStore(root, readonly=readonly)
    except StoreUnavailable as error:
        if settings.strict:
            raise
        health.failed("disk", "read", error)
        return None
