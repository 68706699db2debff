"""`warmgraph demo`: the command, what it needs, and how its results read. The processes it runs: `demo_runs`."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..output import epilog, json_option, print_json, seconds, table, talk

if TYPE_CHECKING:
    from .runs import Result

COLUMNS = (
    *(("process", "left"), ("first call", "right"), ("compile", "right"), ("lookup", "right")),
    *(("load", "right"), ("restore", "right"), ("rest", "right"), ("results", "left")),
)


@click.command(epilog=epilog("warmgraph demo --keep /tmp/demo", "a process failed, compiled again, or differs"))
@click.option("--keep", metavar="FOLDER", help="Keep the demo's store in this new or empty folder.")
@json_option
def demo(keep: str | None, as_json: bool) -> int:
    """Compile GPT-2 once, load it in fresh processes.

    GPT-2 has 12 layers and random weights here; nothing is downloaded. Four fresh processes each do one training
    step on the CPU: without torch.compile; with an empty store; with the store that leaves; and as another host
    would, without a C++ compiler and with nothing of Inductor's. Their outputs and gradients are compared.

    Takes one to two minutes, most of it the one compile. Uses a store of its own, not yours. Needs transformers
    (pip install 'warmgraph[demo]') and a C++ compiler.
    """
    _check_needs()
    folder = None if keep is None else _empty_folder(keep)
    from .runs import run_all

    results = run_all(folder)
    if as_json:
        print_json({"version": 1, "ok": all(result.agrees for result in results), "runs": [r.plain() for r in results]})
    else:
        _print(results)
        _print_next(folder)
    return 0 if all(result.agrees for result in results) else 1


def _check_needs() -> None:
    for module in ("torch", "transformers"):
        if find_spec(module) is None:
            raise click.ClickException(f"the demo needs {module}. TIP: pip install 'warmgraph[demo]'")
    # As Inductor chooses it.
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    if shutil.which(compiler) is None:
        raise click.ClickException(
            f"the demo compiles once, with a C++ compiler, and {compiler!r} is not there. "
            "TIP: apt-get install g++, or set CXX to the compiler you have"
        )


def _empty_folder(text: str) -> Path:
    """A folder that is made, or empty: with entries in it, cold would not be cold. Raises UsageError."""
    folder = Path(text).absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        full = next(folder.iterdir(), None) is not None
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--keep={text!r}: expected a folder that can be made ({error})") from error
    if full:
        raise click.UsageError(f"--keep={text!r}: expected a folder that does not exist yet, or an empty one")
    return folder


def _print(results: list[Result]) -> None:
    rows: list[list[Any]] = []
    for result in results:
        phases = (("compile",), ("hash", "fetch"), ("load",), ("restore",))
        spent = [sum(result.seconds.get(phase, 0.0) for phase in together) for together in phases]
        rest = result.first_call - sum(spent)
        cells = [seconds(cell) if cell else "-" for cell in spent]
        rows.append([result.name, seconds(result.first_call), *cells, seconds(rest), result.agreement])
    talk("")
    table(COLUMNS, rows, "GPT-2, 12 layers, one training step on the CPU. Each row is a fresh process.")
    click.echo("\nfirst call: forward and backward. lookup: the key, and the store's answer.")
    click.echo("restore: in place of Dynamo's trace. rest: a trace, imports, the step.")
    click.echo("results: outputs and all gradients, compared with those of cold.")
    cold, other = results[1], results[-1]
    ratio = cold.first_call / other.first_call
    click.echo(f"\nOn another host, without a C++ compiler: {ratio:.1f} times as fast as cold.")


def _print_next(folder: Path | None) -> None:
    click.echo(
        '\nNext, in your own script:\n\n    model = torch.compile(model, backend="warmgraph")\n\n'
        "run it twice, and look:\n\n    warmgraph stats\n    warmgraph journal",
        err=True,
    )
    if folder is not None:
        talk("")
        talk(f"The demo's own store: WARMGRAPH_DIR={folder} warmgraph ls")
