"""`warmgraph run`: a program whose `torch.compile` calls use warmgraph, unchanged. Not what is patched (`adopting`).

Python itself runs the program in place of this process, with a folder first on its PYTHONPATH (`startup/`), from which
it takes a `sitecustomize`. So all is as without us (`__main__`, arguments, signals, tracebacks, exit status), and
children inherit it: spawned workers, the ranks that torchrun starts, subprocesses.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click
from warmgraph.cache import Mode, settings

from ..output import talk
from .summary import VARIABLE

STARTUP = Path(__file__).resolve().parent.parent / "startup"


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog="""\b
Example:
  warmgraph run train.py --epochs 3
  warmgraph run -m package.train --epochs 3
  torchrun --nproc-per-node 8 --no-python warmgraph run train.py
  torchrun --nproc-per-node 8 -m warmgraph run train.py
  warmgraph run -m torch.distributed.run --nproc-per-node 8 train.py

\b
Exit status:
  2     the command line or a setting is wrong, and nothing was run
  else  the program's own""",
)
@click.option("-m", "as_module", is_flag=True, help="PROGRAM is a module, as with `python -m`.")
@click.option(
    "--summary",
    type=click.Choice(["rank0", "all", "none"]),
    default="rank0",
    show_default=True,
    help="Which ranks of a job say at their end what was hit, missed and bypassed.",
)
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def run(as_module: bool, summary: str, program: str, arguments: tuple[str, ...]) -> int:
    """Run a Python program with warmgraph, without changing it.

    Where it calls torch.compile with no backend or with "inductor", warmgraph is used, with the same mode and options;
    "cudagraphs" becomes "warmgraph_cudagraphs". Other backends are left alone: who names "eager" or "aot_eager" does so
    to debug, and a function of one's own means what it does. Subprocesses are included, unless they clear their
    environment or are started as `python -I`, `-E` or `-S`.

    At the end it says on stderr what became of the program's graphs, and what to do about those that were not
    cached. A process that is killed, or leaves by os._exit(), says nothing.
    """
    if settings().mode is Mode.OFF:  # reads all settings: what is wrong is told before the program loads its data
        talk("WARMGRAPH_MODE=off: the program runs without warmgraph")
    if not as_module and program != "-" and not Path(program).exists():  # `-`: from stdin, as Python has it
        raise click.UsageError(f"there is no file {program}.{_tip(program)}")
    if sys.flags.ignore_environment or sys.flags.no_site:
        raise click.UsageError("Python was started with -I, -E or -S, and so would not run what makes it use warmgraph")
    # The program inherits this process's number: the one of all its processes that the user started.
    environment = {**os.environ, "PYTHONPATH": python_path(), VARIABLE: f"{summary} {os.getpid()}"}
    command = [sys.executable, *interpreter_options(), *(["-m"] if as_module else []), program, *arguments]
    sys.stdout.flush()
    os.execve(sys.executable, command, environment)  # noqa: S606 (it is what the user asked for)


def _tip(program: str) -> str:
    found = shutil.which(program) if os.sep not in program else None
    if found is None:
        return ""
    return f" TIP: {program} is a command; if it is a Python program: warmgraph run {found}"


def python_path() -> str:
    """Ours first, once; a program that runs another by `warmgraph run` has it already."""
    given = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place != str(STARTUP)]
    return os.pathsep.join([str(STARTUP), *(given if any(given) else [])])


def interpreter_options() -> list[str]:
    """Those that this Python was started with (`-u` by torchrun, `-X`, `-W`, `-O`), as multiprocessing has them."""
    import subprocess  # late: 10 ms, and other commands have no use for it

    options: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    unbuffered = getattr(sys.stdout, "write_through", False)
    return [*options, *(["-u"] if unbuffered else [])]
