"""Settings: what may be set, and from where. The only reader of the environment. Values are checked in `parsing`."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..format.keyring import Keyring
from ..format.revocations import MAX_LIST_BYTES, Revocations
from ..format.seal import Verifier
from . import parsing
from .parsing import ConfigError, Mode, Trust
from .redis_urls import RemoteUrl


@dataclass(frozen=True, slots=True)
class Settings:
    """Resolved settings.

    max_size: bytes. wait, ttl, skew: seconds (skew None: as the process group has it). verify: the share of hits to
    check. pgo: whether profiles are shared. frames: whether frames are recorded and restored. job: what the
    scheduler calls this run. keyring: what signs and is accepted, from signing_key_file and signing_key. origins: where
    each value came from, by name.
    """

    dir: Path
    url: RemoteUrl | None
    namespace: str
    mode: Mode
    strict: bool
    max_size: int
    max_files: int
    dir_mode: Mode = Mode.READWRITE
    url_mode: Mode = Mode.READWRITE
    signing_key_file: Path | None = None
    signing_key: Keyring = field(default_factory=Keyring)
    trust: Trust = Trust.SIGNED
    wait: float = 300.0
    skew: float | None = None
    ttl: float = 30 * 86_400.0
    verify: float = 0.0
    pgo: bool = True
    frames: bool = True
    job: str | None = None
    keyring: Keyring = field(default_factory=Keyring)
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)


def _default_dir() -> Path:
    """The user's cache folder; where there is no home (a bare container), a private one under /tmp."""
    from platformdirs import user_cache_path  # imported late: 8 ms

    path = user_cache_path("warmgraph")
    if path.is_absolute():
        return path
    import tempfile

    return Path(tempfile.gettempdir()) / f"warmgraph-{os.getuid()}"


def _scheduled_job() -> str | None:
    """What Slurm or torchrun calls this run. By a digest where no job may be called that, which is no user's error."""
    for variable in ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"):
        text = os.environ.get(variable, "")
        if text not in ("", "none"):  # torchrun's default is `none`
            with suppress(ConfigError):
                return parsing.parse_job(variable, text)
            return f"job-{hashlib.sha256(os.fsencode(text)).hexdigest()[:16]}"
    return None


_DEFAULT_MAX_FILES = 200_000

# name -> how its value is checked, and what it is when nobody says.
_SETTINGS: dict[str, tuple[Callable[[str, object], Any], Callable[[], Any]]] = {
    "dir": (parsing.parse_dir, _default_dir),
    "dir_mode": (parsing.parse_access, lambda: Mode.READWRITE),
    "url": (parsing.parse_remote, lambda: None),
    "url_mode": (parsing.parse_access, lambda: Mode.READWRITE),
    "signing_key_file": (parsing.parse_key_file, lambda: None),
    "signing_key": (parsing.parse_signing_key, Keyring),
    "trust": (parsing.parse_trust, lambda: Trust.SIGNED),
    "wait": (parsing.parse_seconds, lambda: 300.0),
    "skew": (parsing.parse_seconds, lambda: None),
    "ttl": (parsing.parse_ttl, lambda: 30 * 86_400.0),
    "verify": (parsing.parse_share, lambda: 0.0),
    "pgo": (parsing.parse_bool, lambda: True),
    "frames": (parsing.parse_bool, lambda: True),
    "job": (parsing.parse_job, _scheduled_job),
    "namespace": (parsing.parse_namespace, lambda: "default"),
    "mode": (parsing.parse_mode, lambda: Mode.READWRITE),
    "strict": (parsing.parse_bool, lambda: False),
    "max_size": (parsing.parse_size, lambda: 10 * 10**9),
}

_explicit: dict[str, object] = {}
_current: Settings | None = None
_revocations: dict[Path, Revocations] = {}


def _variable(name: str) -> str:
    return f"WARMGRAPH_{name.upper()}"


def _resolve(explicit: Mapping[str, object]) -> Settings:
    """Arguments over environment over defaults; every value checked, its origin kept."""
    values: dict[str, Any] = {"max_files": _DEFAULT_MAX_FILES}
    origins = {"max_files": "default"}
    for name, (parse, default) in _SETTINGS.items():
        variable = _variable(name)
        if name in explicit:
            values[name], origins[name] = explicit[name], "configure()"
        elif variable in os.environ:
            values[name], origins[name] = parse(variable, os.environ[variable]), f"environment {variable}"
        else:
            values[name], origins[name] = default(), "default"
    values["keyring"] = _keyring(values, origins)
    found = Settings(**values, origins=origins)
    _check_trust(found)
    return found


def _keyring(values: Mapping[str, Any], origins: Mapping[str, str]) -> Keyring:
    """The file's keys, then those given as text: the first of them all signs."""
    path = values["signing_key_file"]
    if path is None:
        return values["signing_key"]  # type: ignore[no-any-return]
    label = "signing_key_file" if origins["signing_key_file"] == "configure()" else _variable("signing_key_file")
    return parsing.keys_in_file(label, path).with_keys(values["signing_key"])


def _check_trust(found: Settings) -> None:
    """A stored result is code that every reader runs: a remote store needs a signature, or a word that it does not."""
    if found.url is None or found.keyring.keys or found.trust is Trust.NETWORK or found.mode is Mode.OFF:
        return
    raise ConfigError(
        f"{'url' if found.origins['url'] == 'configure()' else 'WARMGRAPH_URL'}={found.url.masked}: "
        "whoever can write there could run code here, and there is no key to tell whose results they are. "
        "Make one with `warmgraph keygen --to FILE` and set WARMGRAPH_SIGNING_KEY_FILE=FILE on every host; "
        "or trust everyone on that network with WARMGRAPH_TRUST=network"
    )


def configure(
    *,
    dir: str | os.PathLike[str] | None = None,
    dir_mode: Mode | str | None = None,
    url: str | None = None,
    url_mode: Mode | str | None = None,
    signing_key_file: str | os.PathLike[str] | None = None,
    signing_key: str | None = None,
    trust: Trust | str | None = None,
    wait: float | str | None = None,
    skew: float | str | None = None,
    ttl: float | str | None = None,
    verify: float | str | None = None,
    pgo: bool | None = None,
    frames: bool | None = None,
    job: str | None = None,
    namespace: str | None = None,
    mode: Mode | str | None = None,
    strict: bool | None = None,
    max_size: int | str | None = None,
) -> Settings:
    """Set some settings for this process; None leaves one as it is. Returns all of them, resolved.

    url: `redis://...`, `rediss://`, `unix://`, `redis+cluster://`, `redis+sentinel://`; empty: none.
    dir_mode, url_mode: `readwrite` or `readonly`, for that tier alone. wait: the most seconds to wait for
    another process that compiles the same graph. skew: the most seconds that a rank that hit waits for ranks of its job
    that compile the same; 0: none. ttl: how long a result that nobody uses stays in Redis.
    verify: on this share of hits (0 to 1) the graph is compiled afresh as well, and both results are compared.
    pgo: which sizes vary is learnt from, and told to, all who use the store. frames: what Dynamo traced once
    is restored where nothing of it has changed. job: the name of this run in the journal; those of Slurm and torchrun
    are known.
    Raises ConfigError, and then changes nothing.
    """
    global _current
    given = {name: value for name, value in locals().items() if name in _SETTINGS and value is not None}
    parsed = {name: _SETTINGS[name][0](name, value) for name, value in given.items()}
    explicit = _explicit | parsed
    resolved = _resolve(explicit)
    _explicit.update(explicit)
    _current = resolved
    return resolved


def settings() -> Settings:
    """The settings of this process, resolved on first use. Raises ConfigError."""
    global _current
    if _current is None:
        _current = _resolve(_explicit)
    return _current


def reset_settings() -> None:
    """Forget what was configured and read. For tests."""
    global _current
    _explicit.clear()
    _revocations.clear()
    _current = None


def describe(current: Settings | None = None) -> list[tuple[str, str, str]]:
    """(name, value, origin) of each setting, for people. No secret is in it."""
    shown = settings() if current is None else current
    names = (*_SETTINGS, "max_files")
    values = {name: _shown(getattr(shown, name)) for name in names}
    if shown.skew is None:
        values["skew"] = "half of the process group's timeout"
    return [(name, value, shown.origins.get(name, "given")) for name, value in values.items()]


def _shown(value: object) -> str:
    if value is None or value == Keyring():
        return "none"
    if isinstance(value, RemoteUrl):
        return value.masked
    if isinstance(value, Keyring):
        return ", ".join(f"key {name}" for name in value.ids())
    return value.value if isinstance(value, (Mode, Trust)) else str(value)


def revocations_of(current: Settings) -> Revocations:
    """What is known to be revoked: one list for each folder in this process, which grows. It lies beside the store."""
    if current.dir not in _revocations:
        _revocations[current.dir] = found = Revocations()
        with suppress(OSError), revocations_file(current).open("rb") as file:
            found.learn(file.read(MAX_LIST_BYTES), local_verifier(current))
    return _revocations[current.dir]


def revocations_file(current: Settings) -> Path:
    return current.dir / "revocations"


def local_verifier(current: Settings) -> Verifier:
    """Whose seals are believed in the user's own folder: private, and with what was compiled here without a key."""
    network = current.trust is Trust.NETWORK
    revoked = revocations_of(current)
    return current.keyring.verifier(unsigned=True, relayed=network, namespace=current.namespace, revocations=revoked)


def remote_verifier(current: Settings) -> Verifier:
    """Whose seals are believed in what others can write to."""
    network = current.trust is Trust.NETWORK
    revoked = revocations_of(current)
    return current.keyring.verifier(unsigned=network, namespace=current.namespace, revocations=revoked)


def remote_readonly(current: Settings) -> bool:
    """Whether the shared tier is only read: as the settings say, or because nothing can be signed here."""
    reading = Mode.READONLY in (current.mode, current.url_mode)
    return reading or (current.keyring.only_checks and current.trust is not Trust.NETWORK)


def store_root(current: Settings) -> Path:
    """Where the disk store of these settings lies: `dir`, or `dir/ns/<namespace>` for another namespace."""
    return current.dir if current.namespace == "default" else current.dir / "ns" / current.namespace


def journal_dir(current: Settings) -> Path:
    """Where the journal of these settings lies."""
    return store_root(current) / "journal"


def rank() -> int | None:
    """This process's rank as torchrun sets it, or else Slurm's `srun`; or None."""
    found = _number("RANK")
    return _number("SLURM_PROCID") if found is None and (_number("SLURM_NTASKS") or 1) > 1 else found


def ranks_of(current: Settings) -> str | None:
    """What the ranks of one job have in common and others have not; None where there is no job, or only one rank.

    Not how often it was restarted: the agents of torchrun do not agree on that.
    """
    size = _number("WORLD_SIZE") or _number("SLURM_NTASKS") or 1
    if current.job is None or size < 2:
        return None
    words = (current.job, os.environ.get("SLURM_JOB_ID", ""), os.environ.get("SLURM_STEP_ID", ""))
    return hashlib.sha256("\0".join(words).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _number(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    return int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else None
