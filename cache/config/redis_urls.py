"""The address of a Redis or Valkey server, parsed and checked. It opens nothing, and shows no password.

Understands what redis-py's `from_url` does, and two more: `redis+cluster://host:port,host2:port2` and
`redis+sentinel://user:password@host:26379,host2:26379/<service>/<db>`. `valkey` is another word for `redis`; with TLS
it is `rediss` or `valkeys`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, unquote

Kind = Literal["single", "unix", "cluster", "sentinel"]
Option = str | int | bool

# Seconds for a small request; `socket_timeout` in the URL says otherwise. With importing redis-py (0.04 s in a process
# that has torch) a silent server costs 0.2.
DEADLINE = 0.15

_SCHEME = re.compile(r"(redis|valkey)(s?)(?:\+(cluster|sentinel))?", re.ASCII)
_ALLOWED = (
    "allowed are redis://, rediss:// (TLS), unix://, and redis+cluster://, redis+sentinel:// (rediss+... with TLS); "
    "valkey is the same as redis"
)
_ENCODE = "in a user name or password / ? # @ : must be percent-encoded, as %2F %3F %23 %40 %3A"
_PORTS = {"single": 6379, "cluster": 6379, "sentinel": 26379}


@dataclass(frozen=True, slots=True, repr=False)
class RemoteUrl:
    """Where a server is and how to talk to it. deadline, connect_deadline: seconds.

    hosts: (host, port); of the sentinels for Sentinel. masked: the address as it may be shown to anyone.
    tls: ssl options in redis-py's words.
    """

    kind: Kind
    encrypted: bool
    hosts: tuple[tuple[str, int], ...]
    path: str | None
    service: str | None
    db: int
    username: str | None
    password: str | None
    sentinel_username: str | None
    sentinel_password: str | None
    client_name: str | None
    max_connections: int | None
    deadline: float
    connect_deadline: float
    masked: str
    tls: Mapping[str, Option] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"RemoteUrl({self.masked!r})"

    def scrub(self, text: str) -> str:
        """`text` without this URL's secrets, should a server repeat them."""
        alone = None if self.password else self.username  # a forgotten colon makes a user of a password
        for secret in (self.password, alone, self.sentinel_password, self.tls.get("ssl_password")):
            if secret:
                text = text.replace(str(secret), "***")
        return text

    @property
    def local(self) -> bool:
        """Whether the bytes stay on this host."""
        names = {"localhost", "127.0.0.1", "::1"}
        return self.kind == "unix" or (self.kind == "single" and all(host in names for host, _ in self.hosts))


def parse_url(text: str) -> RemoteUrl:
    """Raises ValueError: one line, without any part of the text that could be a secret."""
    if not isinstance(text, str) or any(ord(letter) < 33 or ord(letter) == 127 for letter in text):
        raise ValueError(f"not a URL: white space and control characters are not allowed; {_ALLOWED}")
    scheme, colon, rest = text.partition("://")
    match = _SCHEME.fullmatch(scheme.lower())
    if not colon or not (match or scheme.lower() == "unix"):
        raise ValueError(f"not the URL of a server; {_ALLOWED}")
    kind: Kind = "unix" if match is None else match[3] or "single"  # type: ignore[assignment]
    parts = _split(rest)
    options = _options(parts.query, encrypted=bool(match and match[2]), sentinel=kind == "sentinel")
    credentials, _, places = parts.netloc.rpartition("@")
    username, password = _credentials(credentials, options)
    path, service, db = _target(kind, unquote(parts.path), places, options)
    hosts = () if kind == "unix" else tuple(_host(place, _PORTS[kind]) for place in places.split(","))
    deadline = float(options.pop("socket_timeout", DEADLINE))
    return RemoteUrl(
        kind=kind,
        encrypted=bool(match and match[2]),
        hosts=hosts,
        path=path,
        service=service,
        db=db,
        username=username,
        password=password,
        sentinel_username=_text(options, "sentinel_username"),
        sentinel_password=_text(options, "sentinel_password"),
        client_name=_text(options, "client_name"),
        max_connections=_whole(options, "max_connections"),
        deadline=deadline,
        connect_deadline=float(options.pop("socket_connect_timeout", deadline)),
        masked=_masked(scheme.lower(), username, password, hosts, path or "", service, db),
        tls={
            name: value for name, value in options.items() if name.startswith("ssl_") and not isinstance(value, float)
        },
    )


class _Parts(NamedTuple):
    netloc: str
    path: str
    query: str
    fragment: str


# As RFC 3986 has it in its appendix B. Python's own `urlsplit` refuses, in its later patch releases, a list of hosts in
# which one is [::1].
_PARTS = re.compile(r"([^/?#]*)([^?#]*)(?:\?([^#]*))?(#.*)?")


def _split(rest: str) -> _Parts:
    match = _PARTS.fullmatch(rest)
    assert match is not None  # of any text without a line break
    parts = _Parts(*match.groups(""))
    # An @ after the host is a password with a / in it, far more often than anything else.
    if parts.fragment or "@" in parts.path + parts.query:
        raise ValueError(f"not a URL: there is a # or @ after the host; {_ENCODE}")
    return parts


def _credentials(text: str, options: dict[str, Option | float]) -> tuple[str | None, str | None]:
    username, password = _text(options, "username"), _text(options, "password")
    user, _, secret = text.partition(":")
    return unquote(user) or username, unquote(secret) or password


def _target(
    kind: Kind, path: str, places: str, options: dict[str, Option | float]
) -> tuple[str | None, str | None, int]:
    """(socket's path, service, db)."""
    option_db = _whole(options, "db")
    if kind == "unix":
        if places or not path.startswith("/") or path == "/":
            raise ValueError("unix:// needs the absolute path of a socket, as in unix:///run/redis.sock?db=0")
        return path, None, option_db or 0
    words = path.strip("/").split("/") if path.strip("/") else []
    service = None
    if kind == "sentinel":
        if not words:
            raise ValueError("the service is missing: redis+sentinel://host:26379/<service>/<db>")
        service = words.pop(0)
    if len(words) > 1 or not all(word.isascii() and word.isdigit() and len(word) < 6 for word in words):
        raise ValueError("what follows the host must be the number of a database, as in redis://host:6379/0")
    db = option_db if option_db is not None else int(words[0]) if words else 0
    if kind == "cluster" and db != 0:
        raise ValueError("a cluster has only database 0; leave the number out")
    return None, service, db


def _host(place: str, default: int) -> tuple[str, int]:
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]]*)(?::(\d{1,5}))?", place, re.ASCII)
    port = int(match[2]) if match and match[2] else default
    if match is None or not 0 < port < 65536:
        raise ValueError(f"a host cannot be read: expected host:port with a port from 1 to 65535; {_ENCODE}")
    return unquote(match[1].strip("[]")) or "localhost", port


def _masked(
    scheme: str,
    username: str | None,
    password: str | None,
    hosts: tuple[tuple[str, int], ...],
    path: str,
    service: str | None,
    db: int,
) -> str:
    # A user without a password is a password whose colon was forgotten, more often than not.
    who = f"{username or ''}:***" if password else "***" if username else ""
    where = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in hosts)
    tail = path + (f"/{service}" if service else "") + (f"{'?db=' if path else '/'}{db}" if db else "")
    shown = f"{scheme}://{who}{'@' if who else ''}{where}{tail}"
    return "".join(letter if letter.isprintable() else "?" for letter in shown)


# -- options


def _seconds(value: str) -> float:
    number = float(value)
    if not (math.isfinite(number) and 0 < number <= 60):
        raise ValueError
    return number


def _boolean(value: str) -> bool:
    words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    try:
        return words[value.lower()]
    except KeyError:
        raise ValueError from None


def _number(low: int, high: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        if not (value.isascii() and value.isdigit() and low <= int(value) <= high):
            raise ValueError
        return int(value)

    return parse


def _reqs(value: str) -> str:
    if value not in ("none", "optional", "required"):
        raise ValueError
    return value


_WORD = (str, "a text")
_OPTIONS: dict[str, tuple[Callable[[str], Option | float], str]] = {
    "db": (_number(0, 99999), "a whole number"),
    "username": _WORD,
    "password": _WORD,
    "sentinel_username": _WORD,
    "sentinel_password": _WORD,
    "client_name": _WORD,
    "max_connections": (_number(2, 10000), "a whole number from 2"),
    "socket_timeout": (_seconds, "seconds, above 0 and at most 60"),
    "socket_connect_timeout": (_seconds, "seconds, above 0 and at most 60"),
    "protocol": (_number(2, 3), "2 or 3"),
    "ssl_ca_certs": _WORD,
    "ssl_ca_data": _WORD,
    "ssl_ca_path": _WORD,
    "ssl_certfile": _WORD,
    "ssl_keyfile": _WORD,
    "ssl_password": _WORD,
    "ssl_ciphers": _WORD,
    "ssl_cert_reqs": (_reqs, "none, optional or required"),
    "ssl_check_hostname": (_boolean, "true or false"),
    "ssl_min_version": (_number(769, 772), "771 (TLS 1.2) or 772 (TLS 1.3)"),
}
# Accepted, because URLs that people have hold them, and without effect: values are bytes here, each call has its own
# deadline, and both protocols give the same answers to what is asked (RESP2 needs no greeting).
_IGNORED = frozenset(
    "decode_responses encoding encoding_errors legacy_responses retry_on_timeout retry_on_error "
    "health_check_interval socket_keepalive socket_read_size".split()
)


def _options(query: str, *, encrypted: bool, sentinel: bool) -> dict[str, Option | float]:
    found: dict[str, Option | float] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in _IGNORED or name in found:  # the first one counts, as in redis-py
            continue
        if name not in _OPTIONS:
            raise ValueError(f"an option of the URL is not known; allowed are {', '.join(sorted(_OPTIONS))}")
        if name.startswith("ssl_") and not encrypted:
            raise ValueError(f"option {name} needs TLS: begin the URL with rediss://")
        if name.startswith("sentinel_") and not sentinel:
            raise ValueError(f"option {name} is for redis+sentinel:// only")
        parse, allowed = _OPTIONS[name]
        try:
            found[name] = parse(value)
        except ValueError:
            raise ValueError(f"option {name} of the URL: expected {allowed}") from None
    found.pop("protocol", None)
    return found


def _text(options: dict[str, Option | float], name: str) -> str | None:
    value = options.pop(name, None)
    return None if value is None else str(value) or None


def _whole(options: dict[str, Option | float], name: str) -> int | None:
    value = options.pop(name, None)
    return None if value is None else int(value)
