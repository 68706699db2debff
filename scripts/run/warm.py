"""`warmgraph warm`: what a job will compile, compiled before it runs, by one process at a time. Not the job itself.

Each rank that is asked for runs the program alone, with fake process groups (`backend/torch_api/ranks/pretended.py`),
and publishes what it compiles. Keys do not speak of what carries a collective, so the job finds it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import click
from warmgraph.cache import ConfigError, Mode, journal_dir, read, settings

from ..output import json_option, print_json, talk
from .command import python_path
from .launch import Launch, launch
from .summary import VARIABLE, WARM

_LAST_WORDS = 2.0  # seconds


@dataclass(slots=True)
class Rank:
    """What became of one rank. status: of its process. graphs: outcome, function, line, key and reason of each."""

    rank: int
    status: int = 0
    seconds: float = 0.0
    said: str = ""  # the last line on stderr
    graphs: list[dict[str, Any]] = field(default_factory=list)

    def count(self, outcome: str) -> int:
        return sum(graph["outcome"] == outcome for graph in self.graphs)

    def line(self) -> str:
        counts = (self.count("miss"), self.count("hit"), self.count("bypass") + self.count("failed"))
        told = f"rank {self.rank}: %d compiled, %d there, %d not cached, {self.seconds:.1f} s" % counts
        return f"{told}; it ended with status {self.status}: {self.said}" if self.status else told


def _ranks(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """`0,3-5` as numbers; None for the usual ones, and nothing for all."""
    if value is None:
        return None
    if value == "all":
        return ()
    try:
        spans = [[int(end) for end in part.split("-")] for part in value.split(",")]
        return tuple(rank for span in spans for rank in range(span[0], span[-1] + 1))
    except ValueError:
        raise click.BadParameter(f"{value!r}: expected all, or numbers such as 0,3-5", ctx, param) from None


def usual(world: int) -> tuple[int, ...]:
    """0, the last, and between them powers of two: where a mesh's dimensions begin, most often."""
    return tuple(sorted({0, world - 1, *(1 << power for power in range(world.bit_length()) if 1 << power < world)}))


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog="""\b
Example:
  warmgraph warm torchrun --nproc-per-node 8 train.py --max-steps 2
  warmgraph warm --ranks all torchrun --nnodes 2 --nproc-per-node 8 train.py --max-steps 2
  warmgraph warm --world-size 8 train.py --max-steps 2

\b
Exit status:
  0  done
  1  a rank did not come to the program's end
  2  the command line or a setting is wrong""",
)
@click.option("--world-size", type=click.IntRange(1, 1_000_000), help="How many ranks the job has.")
@click.option("--local-world-size", type=click.IntRange(1), help="How many of them a host has; all, unless told.")
@click.option(
    "--ranks",
    callback=_ranks,
    metavar="LIST",
    help="Which to run: all, or such as 0,3-5. Unless told: 0, 1, 2, 4, 8, ... and the last.",
)
@click.option("-m", "as_module", is_flag=True, help="PROGRAM is a module, as with `python -m`.")
@json_option
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def warm(
    world_size: int | None,
    local_world_size: int | None,
    ranks: tuple[int, ...] | None,
    as_module: bool,
    as_json: bool,
    program: str,
    arguments: tuple[str, ...],
) -> int:
    """Compile what a job of many ranks needs before it runs.

    PROGRAM is a Python program with --world-size, or the line that starts the job, from `torchrun` on. Runs the program
    as each of some ranks, one after the other, with process groups that give back what they are given, and publishes
    what is compiled to the store. Ranks that mean the same share it, so a few stand for all. The program is run to its
    end: let its own options make that early. What it computes is not right, and it should write no checkpoint.

    A program that needs what other ranks send it (objects, sizes, a loss that is no nan) cannot be run so; its own
    error says where. It may look at WARMGRAPH_WARM in its environment.
    """
    if settings().mode not in (Mode.READWRITE, Mode.REFRESH):
        raise ConfigError(f"WARMGRAPH_MODE={settings().mode.value} keeps nothing of what would be compiled")
    job = launch(program, arguments, as_module=as_module, world=world_size, local=local_world_size)
    chosen = usual(job.world) if ranks is None else ranks or tuple(range(job.world))
    if wrong := [rank for rank in chosen if not 0 <= rank < job.world]:
        raise click.UsageError(f"there is no rank {wrong[0]} in a world of {job.world}")
    found = []
    for rank in dict.fromkeys(chosen):
        found.append(_run(job, rank))
        talk(found[-1].line())
        if found[-1].status:
            break
    _tell(found, job.world, as_json)
    return int(any(rank.status for rank in found))


def _run(job: Launch, rank: int) -> Rank:
    place: dict[str, object] = {
        "RANK": rank,
        "WORLD_SIZE": job.world,
        "LOCAL_RANK": 0 if job.one_device else rank % job.local,
        "LOCAL_WORLD_SIZE": min(job.local, job.world),
    }
    place |= {"GROUP_RANK": rank // job.local, "MASTER_ADDR": "localhost", "MASTER_PORT": 29500}
    place |= {"PYTHONPATH": python_path(), VARIABLE: "none 0", WARM: "1"}
    environment = os.environ | job.environment | {name: str(value) for name, value in place.items()}
    begin, done = time.time(), Rank(rank)
    # What the program prints is talk here.
    process = subprocess.Popen(
        job.command, env=environment, stdout=sys.stderr.fileno(), stderr=subprocess.PIPE, text=True, errors="replace"
    )

    def read_on() -> None:
        for line in process.stderr or ():
            sys.stderr.write(line)
            done.said = line.strip() or done.said

    reader = threading.Thread(target=read_on, daemon=True)
    reader.start()
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        done.status = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
    reader.join(_LAST_WORDS)  # and no longer: what the program started may outlive it, and hold its standard error open
    done.seconds = time.time() - begin
    events = [event for event in read(journal_dir(settings()), begin - 1) if event["pid"] == process.pid]
    wanted = ("outcome", "function", "line", "key", "reason")
    told = ("hit", "miss", "bypass", "failed")
    done.graphs = [{name: event[name] for name in wanted} for event in events if event["outcome"] in told]
    return done


def _tell(found: Sequence[Rank], world: int, as_json: bool) -> None:
    keys = {graph["key"] for rank in found for graph in rank.graphs if graph["outcome"] in ("hit", "miss")}
    alone = len(found) > 1 and found[-1].count("miss") > 0 and len(found) < world
    if as_json:
        print_json({"version": 1, "world_size": world, "distinct": len(keys), "ranks": [asdict(r) for r in found]})
        return
    click.echo(f"{len(keys)} graphs are in the store, of {len(found)} of {world} ranks")
    if alone:
        click.echo(f"rank {found[-1].rank} had graphs of its own: others may, too. TIP: --ranks all")
    if found[-1].status:
        click.echo(
            "the program did not come to its end: with no other rank, a collective gives back what it was given, and "
            "what is sent to this rank never comes. TIP: let the program leave that out where WARMGRAPH_WARM is set"
        )
