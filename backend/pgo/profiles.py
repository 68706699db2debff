"""Which inputs of a frame vary, learnt and told between processes. Not how that is kept (`warmgraph.cache`).

Dynamo compiles a frame for the sizes of its first call, and once more when a call brings others; what it learns from
that (pgo.py) it keeps per process, or with a `job_id` per rank. Here every size that was seen to change is a line of
a profile in the store, and another process's first call with an input that such a line fits is compiled as if it had
changed here before: dynamically, and found in the cache.

A line speaks of one input and of what was compiled for it: `[?,16]`, the first size varies while the second is 16. It
fits inputs with 16 there and no others, so that two programs that share a function but not its widths do not make
each other dynamic. For the same reason sizes that did not vary are not told: they are static in each process alone.
Dynamo asks about each input in `pgo.update_automatic_dynamic`, which is where this listens.
"""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct, field
from torch.fx import GraphModule
from warmgraph.cache import ProfileStore, profile_of, today
from warmgraph.hashing import Uncacheable, changes_metadata

from ..reporting.fail_open import Failure, attempt, warn_once
from ..torch_api import patches
from ..torch_api.frames.dynamic_sizes import (
    InferStride,
    auto_dynamic,
    code_id,
    frame_values,
    innermost_backend,
    known_sizes,
    learns_sizes,
    profile_scope,
    size_entry,
)
from ..torch_api.frames.ran import paused
from .frames import code_digest, frame_key

log = logging.getLogger(__name__)

_DIM = r"(?:\?|\d{1,19})"
_STRIDE = r"(?:\?|-?\d{1,19}|s\d{1,3})"
_LINE = re.compile(
    rf"([0-9a-f]{{16}}) (int|float|\[{_DIM}(?:,{_DIM}){{0,63}}\])(?: \[({_STRIDE}(?:,{_STRIDE}){{0,63}})\])? in (.+)",
    re.ASCII,
)


class Form(Struct, frozen=True):
    """How an input was compiled: `int` or `float` for a number that varies, else each size (`?` if it varies).

    strides: only where no size varies but a stride does; `s1` stands for stride 1 times size 1.
    """

    kind: str
    sizes: tuple[str, ...] = ()
    strides: tuple[str, ...] = ()

    def __str__(self) -> str:
        strides = f" [{','.join(self.strides)}]" if self.strides else ""
        return f"{self.kind}{strides}" if not self.sizes else f"[{','.join(self.sizes)}]{strides}"

    def fits(self, sizes: Sequence[str], strides: Sequence[str]) -> bool:
        return _fits(self.sizes, sizes) and (not self.strides or _fits(self.strides, strides))


def _fits(pattern: Sequence[str], values: Sequence[str]) -> bool:
    return len(pattern) == len(values) and all(
        known in ("?", value) for known, value in zip(pattern, values, strict=True)
    )


class _Frame(Struct):
    """A frame of this process. key: None where it has none. forms: what is known elsewhere, by code and source.

    noted: lines on what was seen to vary here, with the day. untold: some of these are new.
    """

    key: str | None
    about: str
    forms: dict[tuple[str, str], list[Form]]
    noted: dict[str, int] = field(default_factory=dict)
    untold: bool = False


class FrameProfiles:
    """The frames that one backend compiles in this process. Calls come one by one, as Dynamo compiles."""

    def __init__(self, learning: ProfileStore, *, strict: bool = False) -> None:
        self.strict = strict
        self._learning = learning
        self._frames: dict[Any, _Frame] = {}  # by Dynamo's identity of code
        self._digests: dict[Any, str] = {}
        self._varied: set[tuple[Any, str]] = set()
        self._current: _Frame | None = None
        self._told: list[tuple[dict[str, Any], str]] = []  # in this trace: Dynamo's table of sizes, the source

    def begin(self) -> None:
        """A frame is going to be traced."""
        self._current, self._told = None, []

    def withdraw(self) -> bool:
        """The trace failed: take back what the frame was told of other processes, for good. Whether there was any."""
        frame = self._current
        if frame is None or not self._told:
            return False
        for known, source in self._told:
            known.pop(source, None)
        frame.forms = {}
        log.info("%s does not compile for what varied elsewhere; its profile is not used here", frame.about)
        return True

    def expected(self, tx: Any, source: str, entry: Any) -> Any | None:
        """What Dynamo should take an input for that it sees for the first time; None: for what it looks like."""
        known = self._frame(tx).forms
        forms = known.get((self._digest(tx), source)) if known else None
        return None if forms is None else _joined(forms, entry)

    def told(self, known: dict[str, Any], source: str) -> None:
        """Dynamo takes the input for what was `expected`."""
        self._told.append((known, source))

    def varied(self, tx: Any, source: str, entry: Any, known: Any, changed: bool) -> None:
        """Note what an input is compiled for. changed: `known` is more than it was before this call."""
        frame, place = self._frame(tx), (code_id(tx), source)
        if changed:
            self._varied.add(place)
        form = _form(entry, known) if place in self._varied else None
        if form is not None:
            line = f"{self._digest(tx)} {form} in {source}"
            frame.untold = frame.untold or line not in frame.noted
            frame.noted[line] = today()

    def tell(self, gm: GraphModule) -> None:
        """Hand on what is new of the frame last seen, in the background. Called when its compile has succeeded.

        Of one that failed nothing is told: it may be what varies that does not compile. Nor of one whose graph
        changes the geometry of its inputs, now or later: Dynamo compares sizes and strides after the trace with its
        guards on those before it, and fails when they are dynamic from the start; what came to be dynamic here may
        not begin so elsewhere.
        """
        frame = self._current
        if frame is None or frame.key is None:
            return
        if changes_metadata(gm):
            frame.key = None
        elif frame.untold:
            frame.untold = not self._learning.learn(frame.key, profile_of(frame.noted), frame.about)

    def forget(self) -> None:
        self._frames.clear()
        self._varied.clear()
        self._current = None

    def _digest(self, tx: Any) -> str:
        code = code_id(tx)
        if code not in self._digests:
            self._digests[code] = code_digest(tx.f_code)
        return self._digests[code]

    def _frame(self, tx: Any) -> _Frame:
        """The frame being compiled. Its key is that of its first compile: what it works on may change later."""
        root = tx.output.root_tx
        code = code_id(root)
        frame = self._current = self._frames.get(code)
        if frame is None:  # without a key, should what follows fail
            frame = self._current = self._frames[code] = _Frame(None, root.f_code.co_name, {})
            try:
                with paused():  # this asks the user's modules and tensors, and no trace does
                    key = frame_key(root.f_code, frame_values(root), root.f_globals, profile_scope())
            except Uncacheable as why:
                log.debug("%s has no profile: %s", frame.about, why)
                return frame
            frame.forms = _parsed(self._learning.profile(key).lines)
            frame.key = key
            if frame.forms:
                log.info("profile %.11s: %d inputs of %s are known to vary", key, len(frame.forms), frame.about)
        return frame


def _parsed(lines: Iterable[str]) -> dict[tuple[str, str], list[Form]]:
    """The forms in a profile, by code and source. Lines that are none are passed by."""
    found: dict[tuple[str, str], list[Form]] = {}
    for line in sorted(lines):
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        code, kind, strides, source = match.groups()
        sizes = tuple(kind[1:-1].split(",")) if kind.startswith("[") else ()
        form = Form("tensor" if sizes else kind, sizes, tuple(strides.split(",")) if strides else ())
        found.setdefault((code, source), []).append(form)
    return found


def _form(entry: Any, known: Any) -> Form | None:
    """How an input with `entry` is compiled under what is `known` of it; None when nothing of it is dynamic."""
    if type(entry.scalar) in (int, float):
        return Form(type(entry.scalar).__name__) if known.scalar is auto_dynamic else None
    if not isinstance(entry.size, tuple) or not entry.size:
        return None
    sizes = ["?" if known.is_size_dynamic(dim) else _text(size) for dim, size in enumerate(entry.size)]
    if "?" in sizes:
        return Form("tensor", tuple(sizes))
    strides = ["?" if known.is_stride_dynamic(dim) else _text(stride) for dim, stride in enumerate(entry.stride)]
    return Form("tensor", tuple(sizes), tuple(strides)) if "?" in strides else None


def _joined(forms: Sequence[Form], entry: Any) -> Any | None:
    """What Dynamo would know had it seen in this process what `forms` say; None when none of them fits."""
    if type(entry.scalar) in (int, float):
        kind = type(entry.scalar).__name__
        dynamic = auto_dynamic
        return size_entry(dynamic, dynamic) if any(form.kind == kind for form in forms) else None
    if not isinstance(entry.size, tuple):
        return None
    sizes, strides = [_text(size) for size in entry.size], [_text(stride) for stride in entry.stride]
    fitting = [form for form in forms if form.kind == "tensor" and form.fits(sizes, strides)]
    if not fitting:
        return None
    return size_entry(
        _widened(entry.size, [form.sizes for form in fitting]),
        _widened(entry.stride, [form.strides for form in fitting if form.strides]),
    )


def _widened(values: Sequence[Any], patterns: Sequence[Sequence[str]]) -> tuple[Any, ...]:
    return tuple(
        auto_dynamic if any(pattern[dim] == "?" for pattern in patterns) else value for dim, value in enumerate(values)
    )


def _text(value: Any) -> str:
    if isinstance(value, InferStride):
        return f"s{value.dim}"
    return str(value) if type(value) is int else "?"  # a size that is symbolic already


def watch_sizes() -> None:
    """From now on, tell a backend's `frame_profiles()` of what Dynamo learns about the frames it compiles for it."""
    patches.install("sizes", _told_of_sizes)


def _told_of_sizes(original: Callable[..., Any]) -> Callable[..., Any]:
    def update(tx: Any, name: str, entry: Any, **options: Any) -> Any:
        profiles = _profiles_for(tx)
        if profiles is None:
            return original(tx, name, entry, **options)
        return _update(profiles, original, tx, name, entry, options)

    return update


def _profiles_for(tx: Any) -> FrameProfiles | None:
    """The profiles of the backend that this frame is compiled for, if it has any and they may be used."""
    backend = innermost_backend(tx.output.compiler_fn)
    find = getattr(backend, "frame_profiles", None)
    if find is None or not learns_sizes(tx):
        return None
    found: FrameProfiles | None = find()
    return found


def _update(
    profiles: FrameProfiles, original: Callable[..., Any], tx: Any, name: str, entry: Any, options: dict[str, Any]
) -> Any:
    known = known_sizes(tx)
    before = copy.copy(known[name]) if name in known else None
    if before is None:
        _or_none(profiles, _expect, profiles, known, tx, name, entry)
    result = original(tx, name, entry, **options)
    if before is not None:
        _or_none(profiles, profiles.varied, tx, name, entry, result, before != result)
    return result


def _expect(profiles: FrameProfiles, known: dict[str, Any], tx: Any, name: str, entry: Any) -> None:
    expected = profiles.expected(tx, name, entry)
    if expected is not None:
        known[name] = expected
        profiles.told(known, name)


def _or_none(profiles: FrameProfiles, function: Callable[..., None], *args: Any) -> None:
    """A profile is a help; whatever is wrong with it, Dynamo goes on without."""
    done = attempt("profile", profiles.strict, function, *args)
    if isinstance(done, Failure):
        warn_once("profile", "profiles are not used: %s", done.why)
