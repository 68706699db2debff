"""Why a graph runs without CUDA graphs: torch's verdicts as a reason and one line. Hears nothing (`watching`).

torch says why in free text, in eight places, now and then with nothing in it ("multiple devices: "). Here it becomes
a reason that can be counted, and a detail with the operation or the input, and the user's line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct
from warmgraph.cache import Reason

from ..torch_api.versions import KNOWN

_MOST = 3  # operations that a detail names
_LONGEST = 160


class Skip(Struct, frozen=True):
    """A verdict. detail: one line for people."""

    reason: Reason
    detail: str


class Unrecorded(Struct, frozen=True):
    """An operation that stands between the recorded pieces of a graph.

    why: in torch's words ("cpu ops"). op: what is called. stack: of the user, as torch prints it, or "".
    """

    why: str
    op: str
    stack: str


# How torch's messages begin, or what stands in them; the first that fits counts. Those of single versions first.
_RULES: tuple[tuple[str, Reason], ...] = (
    *((text, Reason(reason)) for version in KNOWN.values() for text, reason in version.skips),
    (r"cpu device\b|cpu ops|DeviceCopy ops", Reason.SKIP_CPU),
    (r"multiple devices", Reason.SKIP_DEVICES),
    (r"function \d+ exceeding max re-recording limit", Reason.SKIP_RERECORDED),
    (r"graph with symbolic shapes|dynamic shape ops", Reason.SKIP_DYNAMIC),
    (r"input storage mutation|mutated inputs", Reason.SKIP_MUTATION),
    (
        r"incompatible op|control flow operator|index_put_ fallback|sparsity not handled|Conditional ops"
        r"|unbacked|CUDAGraph-unsafe|custom partition op",
        Reason.SKIP_OP,
    ),
    (
        r"cpp-wrapper|override_cudagraphs|force_disable_cudagraph|bisector|caching allocator",
        Reason.SKIP_DISABLED,
    ),
    (r"^\S+ ops$", Reason.SKIP_DEVICES),
)
_PREFIX = re.compile(r"(?:(?:skipping|disabling) cudagraphs? (?:for backward )?due to\s*)+")
_FOUND = re.compile(r"\.?\s*Found from\s*:?\s*")
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in ([^\n]+)(?:\n[ \t]*([^\n]*))?')
_NAMED = re.compile(r" \((\w+)\)$")
_ARGUMENT = re.compile(r"arg(\d{1,6})_1|primals_(\d{1,6})")


def in_words(message: str, names: Sequence[str | None] = ()) -> Skip:
    """A message of torch's. names: of the graph's inputs in the user's program, by position, as far as known."""
    head, stack = _parted(message)
    if head.startswith("[") and head.endswith("]"):  # a list of short reasons, printed as such
        head = ", ".join(re.findall(r"'([^']*)'", head)) or head
    reason = _reason(head)
    if named := _NAMED.search(head):
        head = f"{head[: named.start()]}: {_what(named.group(1), names)}"
    return Skip(reason, _line(head.rstrip(": "), stack))


def on_cpu(notes: Iterable[Unrecorded]) -> Skip:
    """All of a graph works on the CPU, of which torch says "multiple devices" and names none."""
    return Skip(Reason.SKIP_CPU, f"cpu device: {_listed(notes) or 'all of it'}")


def unrecorded(notes: Iterable[Unrecorded], *, partly: bool) -> list[Skip]:
    """One verdict for each reason among operations that are not recorded. partly: what is around them is."""
    groups: dict[Reason, list[Unrecorded]] = {}
    for note in notes:
        groups.setdefault(_reason(note.why), []).append(note)
    begins = "in part only: " if partly else ""
    return [Skip(reason, f"{begins}{group[0].why}: {_listed(group)}") for reason, group in groups.items()]


def mutation(inputs: Sequence[tuple[int | None, str, str | None]], names: Sequence[str | None]) -> Skip:
    """inputs: those written to whose memory CUDA graphs do not manage (position, torch's name, the writing stack)."""
    told = [_input(position, name, names) for position, name, _ in inputs[:_MOST]]
    more = f" and {len(inputs) - _MOST} more" if len(inputs) > _MOST else ""
    stack = next((stack for _, _, stack in inputs if stack), "")
    return Skip(Reason.SKIP_MUTATION, _line(f"mutated inputs: {', '.join(told)}{more}", stack))


def _parted(message: str) -> tuple[str, str]:
    """What is said, and the stack at its end, or ""."""
    head, *stack = _FOUND.split(message, maxsplit=1)
    return " ".join(_PREFIX.sub("", head).split()).rstrip(". "), stack[0] if stack else ""


def _reason(head: str) -> Reason:
    return next((reason for pattern, reason in _RULES if re.search(pattern, head)), Reason.SKIP_OTHER)


def _line(head: str, stack: str) -> str:
    place = _place(stack)
    return f"{head[:_LONGEST]}, {place}" if place else head[:_LONGEST]


def _place(stack: str) -> str:
    """The innermost frame of a printed stack."""
    frames = _FRAME.findall(stack)
    if not frames:
        return ""
    file, line, function, code = frames[-1]
    shown = f": {' '.join(code.split())[:_LONGEST]}" if code else ""
    return f"at {file}:{line} in {function.strip()}{shown}"


def _listed(notes: Iterable[Unrecorded]) -> str:
    """The first few operations, each place once."""
    lines = list(dict.fromkeys(_line(note.op, note.stack) for note in notes))
    more = f"; and {len(lines) - _MOST} more" if len(lines) > _MOST else ""
    return "; ".join(lines[:_MOST]) + more


def _what(name: str, names: Sequence[str | None]) -> str:
    """A node by its name in AOTAutograd's graph: an input, if it is called as one."""
    match = _ARGUMENT.fullmatch(name)
    if match is None:
        return name
    return _input(int(match[1]) if match[1] else int(match[2]) - 1, name, names)


def _input(position: int | None, name: str, names: Sequence[str | None]) -> str:
    known = names[position] if position is not None and 0 <= position < len(names) else None
    return f"input {known or name}" + (f" (position {position})" if position is not None else "")
