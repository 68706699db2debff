"""One compile for the fleet: leases in Redis, with a heartbeat and a fencing token. It compiles and stores nothing.

A lease is a value that expires. Its owner prolongs it, so that a dead owner's is free after `seconds`; a token that
grows from owner to owner lets the store ignore one who only seemed dead and publishes late (`scripts`).
A waiter knows until when the lease that it saw lasts. When it goes before that without having been given back, the
server has forgotten it, and its owner gets a third of its time to say so; a lease that expired is taken at once.
After C. Gray and D. Cheriton, "Leases" (1989), and M. Kleppmann, "How to do distributed locking" (2016).
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from ...process.calls import start_thread
from ...process.exits import ending, seconds_ending
from ...process.forks import reset_in_child
from ...process.writer import Writer
from ...typing import Held, StoreUnavailable
from .client import Clients
from .names import Names
from .requests import values_at
from .scripts import ACQUIRE, BEAT, RELEASE, Argument, Script

logger = logging.getLogger(__package__)

_FAILED_MS = 5000  # that waiters are told that there is nothing to wait for
_TOKEN = re.compile(r"\d{1,19}", re.ASCII)
_MAX_OWNER = 100
MAX_VALUE = 1024  # bytes
_REMEMBERED = 1024  # tokens of leases that this process had
_EARLY_SECONDS = 0.1  # before its end a lease that is gone was not one that expired
_PERHAPS = "someone, perhaps: the server was restarted a moment ago"
_GIVEN, _FORGOTTEN, _DONE = 1, 2, 3
_LOST, _GIVEN_BACK = 0, 2
_EXIT_SECONDS = 0.25  # that the end of a process may be held up by giving back; what is left expires


class RedisLease:
    """The right to compile one key. Only `RedisLeases` makes one."""

    def __init__(self, leases: RedisLeases, keys: Sequence[str], token: int, value: str) -> None:
        self._leases = leases
        self.keys = keys
        self.value = value
        self._token = token

    @property
    def token(self) -> int:
        return self._token

    @property
    def lost(self) -> bool:
        """Whether someone else has it by now, or it was given back."""
        return not self._leases.holds(self)

    def release(self, *, ok: bool) -> None:
        """Give it back, in the background. Waits for nothing."""
        self._leases.give_back(self, ok=ok)

    def abandon(self) -> None:
        """Let it expire: no heartbeat, and no request. For a server that is known not to answer."""
        self._leases.forget(self)


class RedisLeases:
    """Leases of a namespace. One thread prolongs all that are held, and lives only while some are.

    seconds: that a lease outlives its owner; beat: between two heartbeats. A forked child holds nothing.
    """

    def __init__(
        self,
        clients: Clients,
        *,
        namespace: str,
        seconds: float = 10.0,
        beat: float | None = None,
        rank: int | None = None,
        job: str | None = None,
        name: str = "redis",
    ) -> None:
        self.name = name
        self.seconds = seconds
        self._beat = seconds / 5 if beat is None else beat
        self._milliseconds = max(1, round(seconds * 1000))
        self._clients = clients
        self._names = Names(namespace)
        self._rank = rank
        self._job = job
        self._background = Writer(max_jobs=1024)
        self.after_fork_in_child()
        reset_in_child(self)

    def after_fork_in_child(self) -> None:
        self._lock = threading.RLock()  # not by the condition, whose `with` an interrupt may leave half done
        self._changed = threading.Condition(self._lock)
        self._held: set[RedisLease] = set()
        self._beating = False
        self._seen: dict[str, _Seen] = {}  # by key; single operations only
        self._tokens: dict[str, int] = {}  # by key, of the lease it last had; single operations only

    # -- the Leases protocol

    def acquire(self, key: str, *, waits: bool = False) -> RedisLease | Held:
        keys = [self._names.lease(key), self._names.fence(key)]
        owner, seen = self._owner(), self._seen.get(key)
        if seen is None or seen.is_over(self.seconds / 3):
            token, early = "", ""
        else:
            token, early = seen.token, "early" if seen.is_early() else ""
        since = self._clients.small.since
        known = "" if since is None else f"{time.monotonic() - since:.0f}"
        arguments: list[Argument] = [owner, self._milliseconds, token, early, known, "waits" if waits else ""]
        try:
            given, text, left = self._clients.small.run(
                lambda redis: _answer(ACQUIRE.run(redis, keys, arguments)),
                self._clients.deadline,
                doing="take a lease",
                use="write",
            )
        except StoreUnavailable:
            # It may have been given, and only the answer lost: others must not wait for an owner who knows nothing.
            self._release_soon(keys, f" {owner}", "")
            raise
        if given == _FORGOTTEN:
            # Restarted within the blink of an eye, or evicted: its owner may live, and says so with its next heartbeat.
            if seen is None:
                return Held(_PERHAPS)
            seen.forgotten = seen.forgotten or time.monotonic()
            return seen.held
        if given == _DONE:
            self._seen.pop(key, None)
            return Held("nobody: it was given back", given_back=True)
        if given != _GIVEN:
            return self._note(key, text, left)
        self._seen.pop(key, None)
        if len(self._tokens) >= _REMEMBERED:
            self._tokens.clear()
        self._tokens[key] = int(text)
        lease = RedisLease(self, keys, int(text), f"{text} {owner}")
        with self._lock:
            self._held.add(lease)
            if not self._beating:
                self._beating = start_thread(self._keep_alive, "warmgraph-lease")
            self._changed.notify_all()
        return lease

    def peek(self, key: str) -> Held | None:
        name = self._names.lease(key)
        [value] = self._clients.small.run(
            lambda redis: values_at(redis, [(name, MAX_VALUE)]), self._clients.deadline, doing="see a lease"
        )
        return held_in(value)

    def token_of(self, key: str) -> int:
        """The token of the last lease that this process had of `key`; 0 if there was none."""
        return self._tokens.get(key, 0)

    def _note(self, key: str, text: str, left: int) -> Held:
        """Who has it; remembered, so that a server that forgets it is found out. left: milliseconds it lasts."""
        held, token = _held(text), text.partition(" ")[0]
        if _TOKEN.fullmatch(token):
            self._seen[key] = _Seen(token, held, time.monotonic() + left / 1000)
        else:
            self._seen.pop(key, None)
        return held

    # -- for leases

    def holds(self, lease: RedisLease) -> bool:
        return lease in self._held

    def give_back(self, lease: RedisLease, *, ok: bool) -> None:
        """Never raises, nor waits. What was lost, given back before, or taken before a fork is left alone."""
        if self.forget(lease):
            self._release_soon(lease.keys, lease.value, "" if ok else f"failed {lease.token}")

    def forget(self, lease: RedisLease) -> bool:
        """Prolong it no more. False: it was not held."""
        with self._lock:
            if lease not in self._held:
                return False
            self._held.discard(lease)
            self._changed.notify_all()
        return True

    def flush(self, timeout: float) -> bool:
        """Wait until what was given back is so on the server; False when `timeout` seconds were too few."""
        return self._background.flush(timeout)

    # -- inside

    def _owner(self) -> str:
        """Who we are, for people; and a nonce, so that no two owners are alike."""
        who = {"host": os.uname().nodename[:64], "pid": os.getpid(), "rank": self._rank, "nonce": secrets.token_hex(8)}
        who |= {} if self._job is None else {"job": self._job}
        return json.dumps(who, separators=(",", ":"))

    def _run(
        self, doing: str, script: Script, keys: Sequence[str], arguments: Sequence[Argument], seconds: float
    ) -> Any:
        return self._clients.small.run(
            lambda redis: script.run(redis, keys, arguments), seconds, doing=doing, use="write", inline=True
        )

    def _release_soon(self, keys: Sequence[str], end: str, left: str) -> None:
        if ending():  # who calls now is waited for anyway, and a thread may not be had any more
            self._release(keys, end, left)
        else:
            self._background.submit(lambda: self._release(keys, end, left))  # refused: it expires

    def _release(self, keys: Sequence[str], end: str, left: str) -> None:
        """Replace a lease that ends with `end` by `left`."""
        seconds = min(self._clients.deadline, _EXIT_SECONDS - seconds_ending()) if ending() else self._clients.deadline
        if seconds <= 0:
            return
        try:
            self._run("give back a lease", RELEASE, keys, [end, left, _FAILED_MS], seconds)
        except StoreUnavailable as error:
            logger.debug("a lease is not given back; it expires: %s", error)

    def _keep_alive(self) -> None:
        due = time.monotonic() + self._beat
        while True:
            with self._lock:
                while self._held and (left := due - time.monotonic()) > 0:
                    self._changed.wait(left)
                if not self._held:
                    self._beating = False
                    return
                held = list(self._held)
            due = time.monotonic() + self._beat
            for lease in held:
                self._prolong(lease)

    def _prolong(self, lease: RedisLease) -> None:
        arguments: list[Argument] = [lease.value, str(lease.token), self._milliseconds]
        try:
            # Longer than a lookup may take: nobody waits for this, and to lose the lease costs a compile.
            seconds = max(self._clients.deadline, self._beat / 2)
            kept = self._run("prolong a lease", BEAT, lease.keys, arguments, seconds)
        except StoreUnavailable as error:  # tried again at the next beat, however long this lasts
            logger.debug("a lease is not prolonged: %s", error)
            return
        if kept == _GIVEN_BACK:  # with its entry, see PUT_ENTRY
            self.forget(lease)
        elif kept == _LOST:
            logger.info("a lease was lost to someone else, who may compile the same")
            self.forget(lease)
        elif lease not in self._held:
            # It was given back while the heartbeat was on its way, which found it gone and took it again.
            self._release(lease.keys, lease.value, "")


class _Seen(Struct):
    """Whom a waiter saw with the lease. Monotonic: until when it lasts, and when the server had forgotten it."""

    token: str
    held: Held
    until: float
    forgotten: float | None = None

    def is_early(self) -> bool:
        """Whether a lease that is gone cannot have expired: its owner may live. Also while waiting for that owner."""
        return self.forgotten is not None or time.monotonic() < self.until - _EARLY_SECONDS

    def is_over(self, seconds: float) -> bool:
        return self.forgotten is not None and time.monotonic() - self.forgotten >= seconds


def _answer(answer: Any) -> tuple[int, str, int]:
    """What ACQUIRE says: (_GIVEN, token, 0), (0, who has it, milliseconds), (_FORGOTTEN or _DONE, nothing, 0)."""
    if isinstance(answer, list) and 2 <= len(answer) <= 3 and answer[0] in range(4) and isinstance(answer[1], bytes):
        given, text, left = int(answer[0]), answer[1].decode("utf-8", "replace"), answer[-1]
        if given != _GIVEN or _TOKEN.fullmatch(text):
            return given, text, left if isinstance(left, int) else 0
    raise ValueError("not the answer to taking a lease")


def held_in(value: bytes | None) -> Held | None:
    """Who has a lease, by its value; None where there is none."""
    return None if value is None else _held(value.decode("utf-8", "replace"))


def _held(value: str) -> Held:
    """What a lease says, for people. It is anyone's text, and not believed beyond that."""
    first, _, rest = value.partition(" ")
    if first == "failed":
        return Held("nobody: the last compile could not be kept", failed=True)
    owner, job = rest, None
    try:
        plain = json.loads(rest)
        rank = plain["rank"]
        owner = f"{'' if rank is None else f'rank {rank} '}(pid {plain['pid']} on {plain['host']})".lstrip()
        job = plain.get("job") if isinstance(plain.get("job"), str) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    return Held("".join(letter if letter.isprintable() else "?" for letter in owner)[:_MAX_OWNER] or "someone", job=job)
