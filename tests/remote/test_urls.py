"""URLs: what is understood, what is refused, and that no secret is ever shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.connection import parse_url as theirs
from warmgraph.cache.stores.redis import parse_url

SECRET = "hunter2secret"


@pytest.mark.parametrize(
    "text",
    [
        "redis://localhost",
        "redis://localhost:6380/3",
        "redis://:pass@localhost",
        "redis://user:p%40ss%2Fw%3A%23@cache.example:6380/0?db=4",
        "redis://user@cache/",
        "rediss://cache:6380/1?ssl_cert_reqs=none&ssl_ca_certs=/a/b%20c.pem",
        "unix:///run/redis.sock?db=2",
        "unix://user:pw@/run/redis%20.sock?db=2",
        "redis://[::1]:7000/0",
        "redis://cache?password=pw&username=me",
    ],
)
def test_reads_what_redis_py_reads(text: str) -> None:
    """The same host, port, path, db, user and password."""
    ours, expected = parse_url(text), theirs(text)
    assert ours.username == expected.get("username")
    assert ours.password == expected.get("password")
    assert ours.db == expected.get("db", 0)
    assert ours.path == expected.get("path")
    if ours.path is None:
        assert ours.hosts == ((expected.get("host", "localhost"), expected.get("port", 6379)),)
    assert {name: value for name, value in expected.items() if name.startswith("ssl_")} == ours.tls
    assert ours.encrypted == text.startswith("rediss")


def test_cluster_and_sentinel() -> None:
    """Several hosts, default ports, a service, and users of both kinds."""
    url = parse_url("rediss+cluster://u:p@a:7000,b,[::1]:7002?socket_timeout=1.5")
    assert (url.kind, url.encrypted, url.deadline) == ("cluster", True, 1.5)
    assert url.hosts == (("a", 7000), ("b", 6379), ("::1", 7002))
    url = parse_url("valkey+sentinel://u:p@a,b:5000/main/3?sentinel_username=s&sentinel_password=t")
    assert (url.kind, url.service, url.db, url.hosts) == ("sentinel", "main", 3, (("a", 26379), ("b", 5000)))
    assert (url.sentinel_username, url.sentinel_password) == ("s", "t")
    assert parse_url("valkeys://cache").encrypted


def test_timeouts() -> None:
    """Ours unless the URL has its own."""
    assert (parse_url("redis://a").deadline, parse_url("redis://a").connect_deadline) == (0.15, 0.15)
    url = parse_url("redis://a?socket_timeout=3&socket_connect_timeout=1")
    assert (url.deadline, url.connect_deadline) == (3.0, 1.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "allowed are redis://"),
        ("http://cache", "allowed are redis://"),
        ("redis:cache", "allowed are redis://"),
        ("redis://ca che", "white space"),
        (f"redis://:{SECRET}@cache:port", "port from 1"),
        (f"redis://:{SECRET}@cache:0", "port from 1"),
        (f"redis://:{SECRET}@cache:99999", "port from 1"),
        (f"redis://:{SECRET}/x@cache:6379", "percent-encoded"),
        (f"redis://:x#{SECRET}@cache:6379", "percent-encoded"),
        (f"redis://:x?{SECRET}@cache:6379", "percent-encoded"),
        (f"redis://:x?{SECRET}=1", "option"),
        (f"redis://:{SECRET}@cache/zero", "number of a database"),
        (f"redis://:{SECRET}@cache/0/1", "number of a database"),
        ("redis://cache?db=-1", "option db"),
        ("redis://cache?socket_timeout=nan", "option socket_timeout"),
        ("redis://cache?socket_timeout=0", "option socket_timeout"),
        ("redis://cache?protocol=4", "option protocol"),
        ("redis://cache?colour=red", "not known; allowed are client_name"),
        ("redis://cache?ssl_ca_certs=/x", "needs TLS"),
        ("rediss://cache?ssl_cert_reqs=maybe", "none, optional or required"),
        ("redis://cache?sentinel_password=x", "redis\\+sentinel"),
        ("redis+sentinel://cache", "service is missing"),
        ("redis+cluster://cache/1", "only database 0"),
        ("redis+ring://cache", "allowed are"),
        ("unix://host/path", "absolute path"),
        ("unix://", "absolute path"),
        (f"redis://[{SECRET}", "cannot be read"),
    ],
)
def test_refused(text: str, says: str) -> None:
    """One line that says what is allowed, and repeats no secret."""
    with pytest.raises(ValueError, match=says) as caught:
        parse_url(text)
    message = str(caught.value)
    assert SECRET not in message
    assert "\n" not in message
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "text", [f"redis://me:{SECRET}@cache/1", f"redis+sentinel://a/main?sentinel_password={SECRET}"]
)
def test_shown_without_secrets(text: str) -> None:
    """Neither repr nor what is for people holds a password."""
    url = parse_url(text)
    assert SECRET not in f"{url!r} {url} {url.masked}"
    assert SECRET not in url.scrub(f"-ERR you sent {SECRET}")
    assert parse_url(f"redis://me:{SECRET}@cache/1").masked == "redis://me:***@cache:6379/1"


def test_a_forgotten_colon_shows_no_secret() -> None:
    """A user without a password is mostly a password."""
    url = parse_url(f"redis://{SECRET}@cache/1")
    assert url.masked == "redis://***@cache:6379/1"
    assert SECRET not in f"{url!r} {url.scrub(SECRET)}"
    assert parse_url("redis://me:p@cache").scrub("me") == "me"


@given(st.text(max_size=60), st.sampled_from(["redis://", "rediss+sentinel://", "redis+cluster://", "unix://", ""]))
def test_total(text: str, scheme: str) -> None:
    """Any text is a URL or a ValueError."""
    try:
        url = parse_url(scheme + text)
    except ValueError as error:
        assert "\n" not in str(error)
    else:
        assert url.masked.isprintable()
