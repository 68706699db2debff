"""Requests to Redis, with answers of the kind they must be. Run inside `Client.run`, which maps what they raise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def pipelined(redis: Any, commands: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The answers to all of `commands`, in one round trip (to each node concerned). The first error is raised."""
    pipe = redis.pipeline(transaction=False)
    for command in commands:
        pipe.execute_command(*command)
    answers: list[Any] = pipe.execute(raise_on_error=False)  # raising itself, it would put values into the message
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


def values_at(redis: Any, names: Sequence[str]) -> list[bytes | None]:
    """The values of all of `names`, in one round trip; None for what is absent."""
    answers = pipelined(redis, (("GET", name) for name in names))
    if len(answers) != len(names) or not all(answer is None or isinstance(answer, bytes) for answer in answers):
        raise ValueError("not the answers to GET")
    return answers


def stored(redis: Any, commands: Iterable[tuple[Any, ...]]) -> None:
    """Run commands that are each to be answered by OK."""
    if not all(answer is True for answer in pipelined(redis, commands)):
        raise ValueError("not the answers to SET")


def hash_at(redis: Any, name: str) -> dict[bytes, bytes]:
    """All fields of a hash; none when it is absent."""
    return checked_hash(redis.hgetall(name))


def hashes_at(redis: Any, names: Sequence[str | bytes]) -> list[dict[bytes, bytes]]:
    """All fields of each hash, in one round trip."""
    return [checked_hash(answer) for answer in pipelined(redis, (("HGETALL", name) for name in names))]


def checked_hash(answer: Any) -> dict[bytes, bytes]:
    """`answer`, if it is one to HGETALL."""
    if isinstance(answer, dict) and all(isinstance(part, bytes) for pair in answer.items() for part in pair):
        return answer
    raise ValueError("not the answer to HGETALL")


def nodes_of(redis: Any) -> list[Any]:
    """The clients of every node that holds values of its own: one, or all primaries of a cluster."""
    if not hasattr(redis, "get_primaries"):
        return [redis]
    return [redis.get_redis_connection(node) for node in redis.get_primaries()]
