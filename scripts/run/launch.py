"""What `warmgraph warm` starts as each rank: a program, or what a `torchrun` line would start. Starts nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import click

from .command import interpreter_options


@dataclass(frozen=True, slots=True)
class Launch:
    """One rank's command. world: how many ranks there are; local: how many of them a host has.

    one_device: each rank sees a device of its own, and calls it the first. environment: what is set for all ranks.
    """

    command: list[str]
    world: int
    local: int
    one_device: bool = False
    environment: dict[str, str] = field(default_factory=dict)


def launch(program: str, arguments: Sequence[str], *, as_module: bool, world: int | None, local: int | None) -> Launch:
    """The launch of a command line; world and local, where told, come before what a torchrun line says.

    Raises click.UsageError.
    """
    if program == "torch.distributed.run" if as_module else Path(program).name == "torchrun":
        return _of_torchrun(list(arguments), world, local)
    if not as_module and not Path(program).exists():
        raise click.UsageError(f"there is no file {program}. TIP: name the program, or give the job's torchrun line")
    if world is None:
        raise click.UsageError("how many ranks has the job? TIP: --world-size N, or give the job's torchrun line")
    command = [sys.executable, *interpreter_options(), *(["-m"] if as_module else []), program, *arguments]
    return Launch(command, world, local or world)


def _of_torchrun(line: list[str], world: int | None, local: int | None) -> Launch:
    """As torch reads it, with what torch takes from the environment."""
    from torch.distributed.run import config_from_args, get_args_parser  # late: two seconds

    before, parser = dict(os.environ), get_args_parser()
    parser.prog, parser.error = "torchrun", _wrong
    options = parser.parse_args(line)
    try:
        job, program, arguments = config_from_args(options)
    except (ValueError, RuntimeError, AssertionError) as error:
        _wrong(str(error))
    # One thread for each rank, where nobody said how many: generated code depends on it, and so do keys.
    told = {name: value for name, value in os.environ.items() if before.get(name) != value}
    if not isinstance(program, str):
        raise click.UsageError("torchrun --run-path runs a function of torchrun's own process. TIP: leave it out")
    if world is None and job.min_nodes != job.max_nodes:
        raise click.UsageError(f"--nnodes {options.nnodes}: of how many ranks is the job? TIP: --world-size N")
    world = world or job.max_nodes * job.nproc_per_node
    if world < 1 or job.nproc_per_node < 1:
        raise click.UsageError(f"--nproc-per-node {options.nproc_per_node}: a job has one rank at least")
    return Launch(
        [program, *arguments],
        world,
        local or min(job.nproc_per_node, world),
        one_device=options.virtual_local_rank,
        environment=told,
    )


def _wrong(why: str) -> NoReturn:
    raise click.UsageError(f"torchrun: {why}")
