"""Requests to Redis, with answers of the kind they must be. Run inside `Client.run`, which maps what they raise.

What lies on the server may be anybody's: a value is asked for up to a length, and one of the wrong type is as if it
were not there. It costs who asks for it a miss, is no failure of the server's, and is written over by the next SET.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def answers_to(redis: Any, commands: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The answers to all of `commands`, in one round trip (to each node concerned); errors among them."""
    pipe = redis.pipeline(transaction=False)
    for command in commands:
        pipe.execute_command(*command)
    answers: list[Any] = pipe.execute(raise_on_error=False)  # raising itself, it would put values into the message
    return answers


def pipelined(redis: Any, commands: Iterable[tuple[Any, ...]]) -> list[Any]:
    """As `answers_to`; the first error is raised."""
    answers = answers_to(redis, commands)
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


def read(redis: Any, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    """As `pipelined`, with None for a value of the wrong type."""
    answers = [None if _is_wrong_type(answer) else answer for answer in answers_to(redis, commands)]
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    if len(answers) != len(commands):
        raise ValueError("not as many answers as questions")
    return answers


def up_to(name: str | bytes, most: int) -> tuple[Any, ...]:
    """The command for the first `most` bytes of a value."""
    return ("GETRANGE", name, 0, most - 1)


def values_at(redis: Any, wanted: Sequence[tuple[str | bytes, int]]) -> list[bytes | None]:
    """The beginning of each value (name, the most bytes); None for what is absent, empty, or no string."""
    answers = read(redis, [up_to(name, most) for name, most in wanted])
    for (_, most), answer in zip(wanted, answers, strict=True):
        if answer is not None and not (isinstance(answer, bytes) and len(answer) <= most):
            raise ValueError("not the answers to GETRANGE")
    return [answer or None for answer in answers]


def lengths_at(redis: Any, names: Sequence[str | bytes]) -> list[int]:
    """The length of each value; 0 for what is absent, or no string."""
    answers = read(redis, [("STRLEN", name) for name in names])
    if not all(answer is None or isinstance(answer, int) for answer in answers):
        raise ValueError("not the answers to STRLEN")
    return [answer or 0 for answer in answers]


def stored(redis: Any, commands: Iterable[tuple[Any, ...]]) -> None:
    """Run commands that are each to be answered by OK."""
    if not all(answer is True for answer in pipelined(redis, commands)):
        raise ValueError("not the answers to SET")


def nodes_of(redis: Any) -> list[Any]:
    """The clients of every node that holds values of its own: one, or all primaries of a cluster."""
    if not hasattr(redis, "get_primaries"):
        return [redis]
    return [redis.get_redis_connection(node) for node in redis.get_primaries()]


def _is_wrong_type(answer: Any) -> bool:
    return isinstance(answer, Exception) and "WRONGTYPE" in str(answer)
