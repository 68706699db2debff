"""What happened to one graph, told once: to the journal, the counts and the log. Decides nothing."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch
from msgspec import Struct, field
from msgspec.structs import replace
from torch.fx import GraphModule
from warmgraph.cache import ONE_DEVICE, Event, Hit, Journal, Miss, Outcome, Reason, Waited, rank, record, signer_of
from warmgraph.hashing import Key

from .fail_open import Failure, warn_once
from .tracing import trace

log = logging.getLogger(__name__)


class Place(Struct, frozen=True):
    """The user's code that a graph comes from."""

    function: str | None = None
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.function or 'a graph'} ({self.file}:{self.line})" if self.file else "a graph"


_TORCH = str(Path(torch.__file__).parent)


def made_here() -> dict[str, Any]:
    """Facts of an entry that is made now: by which host, with which torch, and when (seconds since 1970)."""
    return {"host": socket.gethostname(), "torch": str(torch.__version__), "created": time.time()}


def place_of(gm: GraphModule) -> Place:
    """The user's function, file and line whose tracing made `gm`, as far as Dynamo says."""
    stack = getattr(getattr(gm, "compile_subgraph_reason", None), "user_stack", None)
    if not stack:
        return Place()
    # torch's own frames (a wrapper around a module's forward) say nothing; without others, the innermost does.
    frame = next((frame for frame in stack if not frame.filename.startswith(_TORCH)), stack[-1])
    return Place(frame.name, frame.filename, frame.lineno)


@contextmanager
def timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Add what passes meanwhile to the seconds of phase `name`."""
    begin = time.perf_counter()
    try:
        yield
    finally:
        seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - begin


def _only_here(key: Key | None) -> str | None:
    """Said of code for one accelerator of several, where ranks of this host compile the same for others."""
    if key is None or not key.device or rank() is None or torch.accelerator.device_count() < 2:
        return None
    return f"{ONE_DEVICE}{key.device}"


def tell(journal: Journal | None, event: Event) -> None:
    """To the journal and the counts, and to torch's trace."""
    record(journal, event)
    trace(event)


class Report(Struct):
    """Collects one graph's facts and seconds; one of `hit`, `miss`, `bypass`, `failed` closes it."""

    journal: Journal | None
    place: Place
    backend: str
    seconds: dict[str, float] = field(default_factory=dict)
    _key: Key | None = None
    _name_of_key: str | None = None
    _waited: Waited | None = None

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Time a phase (`hash`, `fetch`, `load`, `compile`, `publish`)."""
        return timed(self.seconds, name)

    def key(self, key: Key) -> None:
        self._key = key

    def named(self, key_id: str) -> None:
        """A key of which only the name is known (a restored frame's graph)."""
        self._name_of_key = key_id

    @property
    def key_id(self) -> str | None:
        return self._key.id if self._key is not None else self._name_of_key

    def waited(self, waited: Waited) -> None:
        """For a rank that compiles what this one hits: a phase of the hit, whose detail says whom."""
        self.seconds["skew"] = waited.seconds
        self._waited = waited

    def hit(self, hit: Hit) -> None:
        compiled = hit.entry.facts.get("compile_seconds")
        spent = sum(self.seconds.values())
        saved = max(0.0, compiled - spent) if isinstance(compiled, (int, float)) else 0.0
        signer = signer_of(hit.sealed)
        waited = self._waited
        said = None if waited is None else f"waited for {waited.owner}" + (", in vain" if waited.in_vain else "")
        self._write(Outcome.HIT, tier=hit.tier, bytes=hit.stored_bytes, seconds_saved=saved, signer=signer, detail=said)
        log.info("hit %s: %s from %s in %.3f s, %.1f s saved", self._name(), self.place, hit.tier, spent, saved)

    def miss(self, miss: Miss, stored_bytes: int) -> None:
        miss = replace(miss, detail=miss.detail or _only_here(self._key))
        self._write(Outcome.MISS, reason=miss.reason, bytes=stored_bytes, detail=miss.detail, miss=miss)
        log.info(
            "miss %s (%s): %s compiled in %.1f s%s",
            self._name(),
            miss.reason.value,
            self.place,
            self.seconds.get("compile", 0.0),
            self._why(miss),
        )

    def _why(self, miss: Miss) -> str:
        """For the end of the line: what the nearest entry has otherwise, and how to see it."""
        if miss.differs and miss.nearest is not None:
            said = f"the nearest, {miss.nearest.key[:11]}, differs in {', '.join(miss.differs)}"
            said += f" ({miss.detail})" if miss.detail else ""
        elif miss.detail is not None:
            said = miss.detail
        else:
            return ""
        return f"; {said}; `warmgraph explain {self._name()}`"

    def bypass(self, reason: Reason, detail: str) -> None:
        self._write(Outcome.BYPASS, reason=reason, detail=detail)
        if reason is Reason.UNSUPPORTED_TORCH:
            return  # said once in this process, and not of each function
        warn_once(f"bypass {reason.value} {self.place}", "not cached: %s: %s (%s)", self.place, detail, reason.value)

    def failed(self, reason: Reason, failure: Failure) -> None:
        self._write(Outcome.FAILED, reason=reason, detail=f"{failure.stage}: {failure.why}")
        warn_once(
            f"failed {reason.value} {failure.stage}",
            "%s of %s failed, compiling normally: %s. `warmgraph journal` has all of them; strict=True raises",
            failure.stage,
            self.place,
            failure.why,
        )

    def verified(self, tier: str, reason: Reason | None, detail: str | None) -> None:
        """A hit was compared with a fresh compile. reason: None when they agree."""
        self._write(Outcome.VERIFIED, tier=tier, reason=reason, detail=detail)
        if reason is Reason.DIFFERS:
            log.error(
                "WRONG RESULT from the cache: %s of %s (%s from %s). The entry is set aside in every tier, and this "
                "graph runs eagerly here from now on; results of this process so far may be wrong",
                detail, self.place, self._name(), tier,
            )  # fmt: skip
        elif reason is not None:
            warn_once(f"verify {self.place}", "a hit was not verified: %s: %s", self.place, detail)
        else:
            log.info("verified %s: %s agrees with a fresh compile", self._name(), self.place)

    def skipped(self, reason: Reason, detail: str) -> None:
        """The graph was to run in CUDA graphs, and runs without. May come long after `hit` or `miss`."""
        self._write(Outcome.SKIPPED, reason=reason, detail=detail)
        warn_once(
            f"skipped {reason.value} {self.place}",
            "without CUDA graphs: %s: %s (%s)",
            self.place,
            detail,
            reason.value,
        )

    def _name(self) -> str:
        return (self.key_id or "-")[:11]

    def _write(
        self,
        outcome: Outcome,
        *,
        reason: Reason | None = None,
        tier: str | None = None,
        bytes: int = 0,
        seconds_saved: float = 0.0,
        detail: str | None = None,
        miss: Miss | None = None,
        signer: str | None = None,
    ) -> None:
        key = self._key
        event = Event(
            outcome=outcome,
            reason=reason.value if reason is not None else None,
            tier=tier,
            key=self.key_id,
            parts=key.digests() if key is not None else {},
            function=self.place.function,
            file=self.place.file,
            line=self.place.line,
            nodes=key.nodes if key is not None else None,
            bytes=bytes,
            seconds_saved=seconds_saved,
            # A verdict costs nothing; the seconds so far are those of the hit or miss.
            seconds={} if outcome is Outcome.SKIPPED else dict(self.seconds),
            detail=detail,
            nearest=miss.nearest.key if miss is not None and miss.nearest is not None else None,
            differs=miss.differs if miss is not None and miss.nearest is not None else None,
            backend=self.backend,
            signer=signer,
        )
        tell(self.journal, event)
