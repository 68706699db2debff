"""Settings: what may be set, from where, how values are checked. The only reader of the environment. No store."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any


class ConfigError(ValueError):
    """A setting that cannot be. One line: the setting, its value, and what is allowed."""


class Mode(str, Enum):
    """What the cache may do. refresh: never look up, always publish."""

    READWRITE = "readwrite"
    READONLY = "readonly"
    REFRESH = "refresh"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Settings:
    """Resolved settings. max_size is in bytes. origins: where each value came from, by name."""

    dir: Path
    url: str | None
    namespace: str
    mode: Mode
    strict: bool
    max_size: int
    max_files: int
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)


_NAMESPACE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*([KMGT]i?B|B)?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "b": 1} | {
    f"{letter}{middle}b": base**power
    for middle, base in (("", 1000), ("i", 1024))
    for power, letter in enumerate("kmgt", start=1)
}
_BOOLEANS = {"1": True, "true": True, "yes": True, "on": True} | {
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}
_MAX_SIZE_LIMIT = 2**62  # far above any disk, far below where 64-bit sums overflow
_DEFAULT_MAX_SIZE = 10 * 10**9
_DEFAULT_MAX_FILES = 200_000


def _refuse(label: str, value: object, allowed: str) -> ConfigError:
    shown = repr(value)  # repr keeps control characters, and so the message, on one line
    if len(shown) > 120:
        shown = f"{shown[:117]}..."
    return ConfigError(f"{label}={shown}: {allowed}")


def _parse_dir(label: str, value: object) -> Path:
    allowed = "expected a path to a folder, or to one that can be created"
    if not isinstance(value, (str, os.PathLike)):
        raise _refuse(label, value, allowed)
    text = os.fspath(value)
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise _refuse(label, value, allowed)
    try:
        path = Path(text).expanduser().absolute()
        nearest = next(p for p in (path, *path.parents) if p.exists())
        usable = nearest.is_dir()
    except PermissionError:
        return path  # it may well exist: whether it can be used is the store's to say
    except (OSError, RuntimeError, ValueError) as error:  # too long, a loop, `~` without a home, ...
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise _refuse(label, text, f"{allowed} ({why})") from error
    if not usable:
        raise _refuse(label, text, f"{allowed} ({nearest} is not a folder)")
    return path


def _parse_url(label: str, value: object) -> str | None:
    """No remote store exists in this version. The value is not shown: it may hold a password."""
    if value is None or value == "":
        return None
    raise ConfigError(f"{label}: a remote store arrives with the Redis tier and is not available yet; unset it")


def _parse_namespace(label: str, value: object) -> str:
    if isinstance(value, str) and _NAMESPACE.fullmatch(value):
        return value
    raise _refuse(label, value, "expected 1 to 64 of A-Z a-z 0-9 . _ - and no leading dot")


def _parse_mode(label: str, value: object) -> Mode:
    if isinstance(value, str):  # Mode is a str too
        for mode in Mode:
            if mode.value == value:
                return mode
    raise _refuse(label, value, f"allowed are {', '.join(mode.value for mode in Mode)}")


def _parse_strict(label: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _BOOLEANS:
        return _BOOLEANS[value.lower()]
    raise _refuse(label, value, f"allowed are {', '.join(_BOOLEANS)}")


def parse_size(label: str, value: object) -> int:
    """Bytes, from a number or a text such as `5GB`. label: the name to use in the ConfigError."""
    allowed = "expected more than 0, in bytes or with KB, MB, GB, TB, KiB, MiB, GiB, TiB (for example 5GB)"
    size = 0
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        number, unit = match[1], _UNITS[(match[2] or "").lower()]
        size = int(float(number) * unit) if "." in number else int(number) * unit
    if 0 < size <= _MAX_SIZE_LIMIT:
        return size
    raise _refuse(label, value, allowed)


def _default_dir() -> Path:
    """The user's cache folder; where there is no home (a bare container), a private one under /tmp."""
    from platformdirs import user_cache_path  # imported late: 8 ms

    path = user_cache_path("warmgraph")
    if path.is_absolute():
        return path
    import tempfile

    return Path(tempfile.gettempdir()) / f"warmgraph-{os.getuid()}"


_PARSERS: dict[str, tuple[Callable[[str, object], Any], Callable[[], Any]]] = {
    "dir": (_parse_dir, _default_dir),
    "url": (_parse_url, lambda: None),
    "namespace": (_parse_namespace, lambda: "default"),
    "mode": (_parse_mode, lambda: Mode.READWRITE),
    "strict": (_parse_strict, lambda: False),
    "max_size": (parse_size, lambda: _DEFAULT_MAX_SIZE),
}

_explicit: dict[str, object] = {}
_current: Settings | None = None


def _resolve(explicit: Mapping[str, object]) -> Settings:
    """Arguments over environment over defaults; every value checked, its origin kept."""
    values: dict[str, Any] = {"max_files": _DEFAULT_MAX_FILES}
    origins = {"max_files": "default"}
    for name, (parse, default) in _PARSERS.items():
        variable = f"WARMGRAPH_{name.upper()}"
        if name in explicit:
            values[name], origins[name] = explicit[name], "configure()"
        elif variable in os.environ:
            values[name], origins[name] = parse(variable, os.environ[variable]), f"environment {variable}"
        else:
            values[name], origins[name] = default(), "default"
    return Settings(**values, origins=origins)


def configure(
    *,
    dir: str | os.PathLike[str] | None = None,
    url: str | None = None,
    namespace: str | None = None,
    mode: Mode | str | None = None,
    strict: bool | None = None,
    max_size: int | str | None = None,
) -> Settings:
    """Set some settings for this process; None leaves one as it is. Returns all of them, resolved.

    Raises ConfigError, and then changes nothing.
    """
    global _current
    given: dict[str, object] = {"dir": dir, "url": url, "namespace": namespace, "mode": mode, "strict": strict}
    given["max_size"] = max_size
    parsed = {name: _PARSERS[name][0](name, value) for name, value in given.items() if value is not None}
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
    _current = None


def describe(current: Settings | None = None) -> list[tuple[str, str, str]]:
    """(name, value, origin) of each setting, for people."""
    shown = settings() if current is None else current
    rows: list[tuple[str, str, str]] = []
    for name in (*_PARSERS, "max_files"):
        value = getattr(shown, name)
        text = "none" if value is None else value.value if isinstance(value, Mode) else str(value)
        rows.append((name, text, shown.origins.get(name, "given")))
    return rows


def store_root(current: Settings) -> Path:
    """Where the disk store of these settings lies: `dir`, or `dir/ns/<namespace>` for another namespace."""
    return current.dir if current.namespace == "default" else current.dir / "ns" / current.namespace


def journal_dir(current: Settings) -> Path:
    """Where the journal of these settings lies."""
    return store_root(current) / "journal"


def rank() -> int | None:
    """This process's rank as torchrun sets it, or None."""
    text = os.environ.get("RANK", "")
    return int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else None
