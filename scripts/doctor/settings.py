"""Checks of settings, signing keys, and variables that work against the cache. Not of what they point to."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator
from dataclasses import fields

from warmgraph.cache import ONLY_CHECKS, ConfigError, Mode, Settings, Trust, settings

from ..run.summary import VARIABLE as RUN_VARIABLE
from ..run.summary import WARM
from .command import Finding, ok, problem, warning


def check_settings() -> Iterator[Finding]:
    current = current_settings()
    if isinstance(current, ConfigError):
        yield problem("settings", str(current), "torch.compile raises this; the message says what is allowed")
        return
    given = [name for name, origin in current.origins.items() if origin != "default"]
    if current.mode is Mode.OFF:
        yield problem("settings", "WARMGRAPH_MODE=off: nothing is cached", "unset it, or set readwrite")
    elif current.mode is Mode.REFRESH:
        yield warning("settings", "WARMGRAPH_MODE=refresh: nothing is looked up", "set readwrite once all is published")
    else:
        yield ok("settings", f"mode {current.mode.value}; set: {', '.join(given) or 'none'} (`warmgraph config`)")
    if current.verify > 0:
        yield warning(
            "settings",
            f"WARMGRAPH_VERIFY={current.verify:g}: that share of hits is compiled as well",
            "unset it in time",
        )


def current_settings() -> Settings | ConfigError:
    try:
        return settings()
    except ConfigError as error:
        return error


def check_environment() -> Iterator[Finding]:
    """Names that nobody reads, and variables of torch that work against the cache."""
    found = 0
    for name in sorted(os.environ):
        told = _about_ours(name) if name.startswith(_PREFIX) else _about_theirs(name)
        if told is not None:
            found += 1
            yield told
    if not found:
        yield ok("environment", "no variable works against the cache")


_PREFIX = "WARMGRAPH_"
_NO_VARIABLE = ("keyring", "origins", "max_files")
_OURS = [
    RUN_VARIABLE,
    WARM,
    *(f"{_PREFIX}{one.name.upper()}" for one in fields(Settings) if one.name not in _NO_VARIABLE),
]


def _about_ours(name: str) -> Finding | None:
    if name == "WARMGRAPH_DIR" and not os.environ[name].startswith(("/", "~")):
        what = f"{name}={os.environ[name]} is no full path: there is a store in each folder that programs start in"
        return warning("environment", what, "give all of it, from / on")
    if name in _OURS:
        return None
    near = difflib.get_close_matches(name[len(_PREFIX) :], [known[len(_PREFIX) :] for known in _OURS], 1, 0.5)
    advice = f"did you mean {_PREFIX}{near[0]}?" if near else "`warmgraph config` lists what there is"
    return warning("environment", f"{name} is not a setting and does nothing", advice)


_ON = ("1", "true")
_UNREPLACED = "torch asks a Redis of its own as well, and waits for it for a minute when it is silent"
# variable -> (how bad, the values with which it is, what it does).
_THEIRS: dict[str, tuple[Callable[[str, str, str], Finding], tuple[str, ...], str]] = {
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": (problem, _ON, "all caches of compiled graphs are off, this one too"),
    "TORCH_COMPILE_FORCE_DISABLE_CACHES": (problem, _ON, "all caches of compiled graphs are off, this one too"),
    "TORCH_COMPILE_DISABLE": (problem, _ON, "torch.compile compiles nothing"),
    "TORCHDYNAMO_DISABLE": (problem, _ON, "torch.compile compiles nothing"),
    "TORCHDYNAMO_REPRO_AFTER": (warning, ("dynamo", "aot"), "torch's minifier is at work"),
    "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE": (warning, _ON, _UNREPLACED),
    "TORCHINDUCTOR_AUTOGRAD_REMOTE_CACHE": (warning, _ON, _UNREPLACED),
    "TORCHINDUCTOR_AUTOTUNE_REMOTE_CACHE": (warning, _ON, _UNREPLACED),
}


def _about_theirs(name: str) -> Finding | None:
    if name not in _THEIRS:
        return None
    how_bad, values, what = _THEIRS[name]
    value = os.environ[name]
    return how_bad("environment", f"{name}={value}: {what}", "unset it") if value.lower() in values else None


def check_signing() -> Iterator[Finding]:
    """That others cannot read the key file is checked where it is read: it is then a wrong setting."""
    current = current_settings()
    if isinstance(current, ConfigError):
        return
    ids = current.keyring.ids()
    if current.keyring.only_checks:
        yield ok("signing", f"{len(ids)} public keys check what is loaded")
        if current.url is not None and current.trust is not Trust.NETWORK:
            yield warning("signing", ONLY_CHECKS, "give hosts that are to publish the secret half (`warmgraph keygen`)")
    elif ids:
        accepted = f", {len(ids) - 1} more accepted" if len(ids) > 1 else ""
        yield ok("signing", f"key {ids[0]} signs{accepted}")
    elif current.url is None:
        yield ok("signing", "no key, and none is needed without a server")
    if current.url is not None and current.trust is Trust.NETWORK:
        yield warning(
            "signing",
            "WARMGRAPH_TRUST=network: whoever can write to the server can run code here",
            "`warmgraph keygen --to FILE`, WARMGRAPH_SIGNING_KEY_FILE=FILE on every host, and unset WARMGRAPH_TRUST",
        )
