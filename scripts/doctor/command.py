"""`warmgraph doctor`: is everything here as the cache needs it, and what to do if not. The checks are in `doctor_*`."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from enum import Enum

import click

from ..output import epilog, json_option, plain, print_json


class Verdict(str, Enum):
    """warning: it works, and not as well as it could. problem: something is not cached, or cannot be loaded."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """check: what was looked at. found: what is the case. advice: what to do; None where there is nothing to do."""

    check: str
    verdict: Verdict
    found: str
    advice: str | None = None


def ok(check: str, found: str) -> Finding:
    return Finding(check, Verdict.OK, found)


def warning(check: str, found: str, advice: str) -> Finding:
    return Finding(check, Verdict.WARNING, found, advice)


def problem(check: str, found: str, advice: str) -> Finding:
    return Finding(check, Verdict.PROBLEM, found, advice)


@dataclass(frozen=True, slots=True)
class Check:
    """run: gives findings as it comes to them. seconds: the most it may take; what it has not found by then is told."""

    name: str
    run: Callable[[], Iterable[Finding]]
    seconds: float


@click.command(epilog=epilog("warmgraph doctor --json", "there is a problem; warnings alone exit 0"))
@json_option
def doctor(as_json: bool) -> int:
    """Is everything here as warmgraph needs it?

    Looks at versions, the compiler, the folder, clocks, the server, signing, and settings that work against the
    cache, and says of each what to do. Changes nothing; to measure, it writes a file into the folder and 8 MiB to
    the server and removes them, unless they are readonly. No check takes longer than a minute.
    """
    from .checks import all_checks  # late: other commands need none of this

    findings = []
    for check in all_checks():
        for finding in examine(check):
            findings.append(finding)
            if not as_json:  # at once: importing torch may take a while
                _show(finding)
    sick = any(finding.verdict is Verdict.PROBLEM for finding in findings)
    if as_json:
        listed = [asdict(finding) | {"verdict": finding.verdict.value} for finding in findings]
        print_json({"version": 1, "ok": not sick, "findings": listed})
    return 1 if sick else 0


def _show(finding: Finding) -> None:
    click.echo(plain(f"{finding.verdict.value:<9}{finding.check:<12}{finding.found}"))
    if finding.advice is not None:
        click.echo(plain(f"{'':<9}{'':<12}-> {finding.advice}"))


def examine(check: Check) -> Iterable[Finding]:
    """What a check finds. One that takes too long is left behind in its thread; one that fails has found just that."""
    found: queue.SimpleQueue[Finding | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            for finding in check.run():
                found.put(finding)
        except Exception as error:  # noqa: BLE001 (a check that breaks must not hide what the others find)
            said = f"{type(error).__name__}: {error}".splitlines()[0]
            found.put(problem(check.name, f"could not be checked: {said}", "please report this"))
        found.put(None)

    threading.Thread(target=run, name=f"warmgraph-doctor-{check.name}", daemon=True).start()
    try:
        while (finding := found.get(timeout=check.seconds)) is not None:
            yield finding
    except queue.Empty:
        yield problem(
            check.name,
            f"no answer within {check.seconds:g} s",
            "what it looks at hangs (a network file system, a server): whatever uses it will, too",
        )
