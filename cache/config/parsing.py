"""How each setting's value is checked: from a text or an argument to what is meant. Not where values come from.

Every parser takes the name to show and the value, and raises ConfigError: one line with the setting, its value
(unless it is secret) and what is allowed.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import TypeVar

from ..format.keyring import Keyring, parse_keys
from .redis_urls import RemoteUrl, parse_url


class ConfigError(ValueError):
    """A setting that cannot be. One line: the setting, its value, and what is allowed."""


class Mode(str, Enum):
    """What the cache may do. refresh: never look up, always publish."""

    READWRITE = "readwrite"
    READONLY = "readonly"
    REFRESH = "refresh"
    OFF = "off"


class Trust(str, Enum):
    """Whose results a remote store may hold. network: of anyone who can write there."""

    SIGNED = "signed"
    NETWORK = "network"


_NAMESPACE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*([KMGT]i?B|B)?", re.ASCII | re.IGNORECASE)
_SIZE_UNITS = {"": 1, "b": 1} | {
    f"{letter}{middle}b": base**power
    for middle, base in (("", 1000), ("i", 1024))
    for power, letter in enumerate("kmgt", start=1)
}
_SECONDS = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(s|m|min|h|d)?", re.ASCII | re.IGNORECASE)
_SECOND_UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_BOOLEANS = {"1": True, "true": True, "yes": True, "on": True} | {
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}
_MAX_SIZE_LIMIT = 2**62  # far above any disk, far below where 64-bit sums overflow
_MAX_SECONDS = 10 * 366 * 86_400.0
_MAX_KEY_FILE = 2**20


def refuse(label: str, value: object, allowed: str) -> ConfigError:
    shown = repr(value)  # repr keeps control characters, and so the message, on one line
    if len(shown) > 120:
        shown = f"{shown[:117]}..."
    return ConfigError(f"{label}={shown}: {allowed}")


def parse_dir(label: str, value: object) -> Path:
    """A folder, absolute. It need not exist, but it must be possible."""
    allowed = "expected a path to a folder, or to one that can be created"
    path = _path(label, value, allowed)
    try:
        nearest = next(p for p in (path, *path.parents) if p.exists())
        usable = nearest.is_dir()
    except PermissionError:
        return path  # it may well exist: whether it can be used is the store's to say
    except OSError as error:  # too long, a loop, ...
        raise refuse(label, value, f"{allowed} ({error.strerror or error})") from error
    if not usable:
        raise refuse(label, value, f"{allowed} ({nearest} is not a folder)")
    return path


def _path(label: str, value: object, allowed: str) -> Path:
    if not isinstance(value, (str, os.PathLike)):
        raise refuse(label, value, allowed)
    text = os.fspath(value)
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise refuse(label, value, allowed)
    try:
        return Path(text).expanduser().absolute()
    except (OSError, RuntimeError, ValueError) as error:  # `~` without a home, ...
        raise refuse(label, text, f"{allowed} ({error})") from error


def parse_remote(label: str, value: object) -> RemoteUrl | None:
    """A Redis, or None for an empty text. The value is never shown whole: it may hold a password."""
    if isinstance(value, RemoteUrl):
        return value
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ConfigError(f"{label}: expected a text such as redis://host:6379/0, not {type(value).__name__}")
    try:
        return parse_url(value)
    except ValueError as error:
        raise ConfigError(f"{label}: {error}") from None  # the cause's own message might hold the password


def parse_key_file(label: str, value: object) -> Path | None:
    """The path of a file of signing keys; it is read by `keys_in_file`. An empty text is none."""
    return None if value in (None, "") else _path(label, value, "expected a path to a file made by `warmgraph keygen`")


def keys_in_file(label: str, path: Path) -> Keyring:
    """The keys in a file that nobody else can read; if all are public halves, that nobody else can write."""
    advice = "make one with `warmgraph keygen`, or give a key as text in WARMGRAPH_SIGNING_KEY"
    data, info = _in_file(label, path, advice)
    try:
        keys = parse_keys(data.decode("ascii", "replace"))
    except ValueError as error:
        _check_private(label, path, info)
        raise refuse(label, str(path), f"{error}; make a key file with `warmgraph keygen`") from None
    if not keys.only_checks:
        _check_private(label, path, info)
    elif info.st_uid not in (os.geteuid(), 0) or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise refuse(label, str(path), f"others can write this file; run `chmod 644 {path}` as its owner")
    return keys


def secret_in_file(label: str, path: Path, otherwise: str) -> bytes:
    """What is in a file that nobody else can read. otherwise: what to do where there is none."""
    data, info = _in_file(label, path, otherwise)
    _check_private(label, path, info)
    return data


def _in_file(label: str, path: Path, otherwise: str) -> tuple[bytes, os.stat_result]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # opening a pipe must not block
        with open(descriptor, "rb") as file:  # noqa: PTH123 (a descriptor, not a path)
            info = os.fstat(descriptor)
            data = file.read(_MAX_KEY_FILE) if stat.S_ISREG(info.st_mode) else None
    except OSError as error:
        what = f"cannot be read ({error.strerror or error}); {otherwise}"
        raise refuse(label, str(path), what) from error
    if data is None:
        raise refuse(label, str(path), f"not a regular file; {otherwise}")
    return data, info


def _check_private(label: str, path: Path, info: os.stat_result) -> None:
    # Group may read only what is root's: so secrets arrive in containers whose user is not root.
    private = stat.S_IRWXO | (stat.S_IWGRP | stat.S_IXGRP if info.st_uid == 0 else stat.S_IRWXG)
    if info.st_uid not in (os.geteuid(), 0) or info.st_mode & private:
        raise refuse(label, str(path), f"others can read or write this file; run `chmod 600 {path}` as its owner")


def parse_signing_key(label: str, value: object) -> Keyring:
    """Keys, separated by commas or white space. They are never shown. An empty text is none."""
    if isinstance(value, Keyring):
        return value
    if value is None or value == "":
        return Keyring()
    if not isinstance(value, str):
        raise ConfigError(f"{label}: expected a text, not {type(value).__name__}")
    try:
        return parse_keys(value)
    except ValueError as error:
        raise ConfigError(f"{label}: {error}; make a key with `warmgraph keygen`") from None


def parse_namespace(label: str, value: object) -> str:
    if isinstance(value, str) and _NAMESPACE.fullmatch(value):
        return value
    raise refuse(label, value, "expected 1 to 64 of A-Z a-z 0-9 . _ - and no leading dot")


def parse_job(label: str, value: object) -> str | None:
    """A name for people and filters; an empty text is none."""
    if value is None or value == "":
        return None
    if isinstance(value, str) and len(value) <= 64 and value.isprintable():
        return value
    raise refuse(label, value, "expected up to 64 printable characters")


def parse_mode(label: str, value: object) -> Mode:
    return _one_of(list(Mode), label, value)


def parse_access(label: str, value: object) -> Mode:
    """What may be done with one tier: readwrite or readonly."""
    return _one_of([Mode.READWRITE, Mode.READONLY], label, value)


def parse_trust(label: str, value: object) -> Trust:
    return _one_of(list(Trust), label, value)


_E = TypeVar("_E", Mode, Trust)


def _one_of(allowed: list[_E], label: str, value: object) -> _E:
    if isinstance(value, str):  # these enums are texts too
        for one in allowed:
            if one.value == value:
                return one
    raise refuse(label, value, f"allowed are {', '.join(one.value for one in allowed)}")


def parse_bool(label: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _BOOLEANS:
        return _BOOLEANS[value.lower()]
    raise refuse(label, value, f"allowed are {', '.join(_BOOLEANS)}")


def parse_size(label: str, value: object) -> int:
    """Bytes, from a number or a text such as `5GB`. label: the name to use in the ConfigError."""
    allowed = "expected more than 0, in bytes or with KB, MB, GB, TB, KiB, MiB, GiB, TiB (for example 5GB)"
    size = 0
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        number, unit = match[1], _SIZE_UNITS[(match[2] or "").lower()]
        size = int(float(number) * unit) if "." in number else int(number) * unit
    if 0 < size <= _MAX_SIZE_LIMIT:
        return size
    raise refuse(label, value, allowed)


def parse_seconds(label: str, value: object) -> float:
    """Seconds, 0 or more, from a number or a text such as `5m` or `30d`."""
    seconds = -1.0
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _MAX_SECONDS:
        seconds = float(value)
    elif isinstance(value, str) and (match := _SECONDS.fullmatch(value.strip())):
        seconds = float(match[1]) * _SECOND_UNITS[(match[2] or "").lower()]
    if 0 <= seconds <= _MAX_SECONDS:
        return seconds
    raise refuse(label, value, "expected seconds, 0 or more, or with s, m, h, d (for example 5m)")


def parse_share(label: str, value: object) -> float:
    """A share from 0 (never) to 1 (always)."""
    share = -1.0
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        share = float(value)
    elif isinstance(value, str):
        with suppress(ValueError):
            share = float(value)
    if 0 <= share <= 1:
        return share
    raise refuse(label, value, "expected a share from 0 (never) to 1 (always), for example 0.01")


def parse_ttl(label: str, value: object) -> float:
    """As `parse_seconds`, and at least a minute: results that vanish while they are written help nobody."""
    seconds = parse_seconds(label, value)
    if seconds < 60:
        raise refuse(label, value, "expected at least 60 seconds, or with s, m, h, d (for example 30d)")
    return seconds
