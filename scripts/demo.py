"""`warmgraph demo`: GPT-2 compiled once and loaded twice, each in a fresh process, and compared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from warmgraph.cache import read as read_journal

from .output import json_option, print_json, seconds, table

PHASES = ("hash", "fetch", "load", "compile")


@dataclass(frozen=True, slots=True)
class Run:
    """One fresh process: what it is called, what it compiles with, and whether it has a compiler."""

    name: str
    backend: str
    what: str
    other_host: bool = False


RUNS = (
    Run("eager", "eager", "no torch.compile"),
    Run("cold", "warmgraph", "empty store: compiles and publishes"),
    Run("warm", "warmgraph", "same store, fresh process"),
    Run("warm, other host", "warmgraph", "same store, empty Inductor cache, no C++ compiler", other_host=True),
)


@click.command(epilog="Example: warmgraph demo --json")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep the demo's store in this folder.")
@json_option
def demo(keep: Path | None, as_json: bool) -> int:
    """Compile GPT-2 (12 layers, random weights) once; load it in fresh processes; compare.

    Takes one to two minutes, most of it the one cold compile. Needs transformers (warmgraph[demo]).
    """
    if find_spec("transformers") is None:
        raise click.ClickException("the demo needs transformers. TIP: pip install 'warmgraph[demo]'")
    with tempfile.TemporaryDirectory(prefix="warmgraph-demo-") as folder:
        work = Path(folder)
        store = keep.absolute() if keep is not None else work / "store"
        results = _run_all(work, store)
    if as_json:
        print_json({"version": 1, "runs": results})
    else:
        _print(results, keep)
    return 0 if all(result["agrees"] for result in results) else 1


def _run_all(work: Path, store: Path) -> list[dict[str, Any]]:
    from rich.console import Console

    talk, results = Console(stderr=True), []
    for number, run in enumerate(RUNS, 1):
        with talk.status(f"[{number}/{len(RUNS)}] {run.name}: {run.what}"):
            results.append(_run(run, work / str(number), store))
        if not talk.is_terminal:
            talk.print(f"[{number}/{len(RUNS)}] {run.name}: first call {seconds(results[-1]['first_call'])}")
    _compare(results, work)
    return results


def _run(run: Run, work: Path, store: Path) -> dict[str, Any]:
    work.mkdir()
    environment = dict(os.environ, WARMGRAPH_DIR=str(store), TORCHINDUCTOR_CACHE_DIR=str(work / "inductor"))
    environment.pop("WARMGRAPH_NAMESPACE", None)
    environment.pop("WARMGRAPH_MODE", None)
    if run.other_host:
        (work / "bin").mkdir()
        environment["PATH"] = str(work / "bin")
    process = subprocess.Popen(
        [sys.executable, "-m", "warmgraph.scripts.demo_worker", run.backend, str(work / "out")],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    _, errors = process.communicate()
    if process.returncode != 0:
        raise click.ClickException(f"the process `{run.name}` failed:\n{errors[-2000:]}")
    facts = json.loads((work / "out.json").read_text())
    events = [event for event in read_journal(store / "journal") if event["pid"] == process.pid]
    spent = {phase: sum(event["seconds"].get(phase, 0.0) for event in events) for phase in PHASES}
    outcomes = [event["outcome"] for event in events]
    return {"run": run.name, "what": run.what, **facts, "seconds": spent, "outcomes": outcomes}


def _compare(results: list[dict[str, Any]], work: Path) -> None:
    """Eager against cold within tolerance, warm against cold bit for bit."""
    import torch

    values = [torch.load(work / str(number) / "out.pt") for number in range(1, len(RUNS) + 1)]
    cold = values[1]
    for result, found in zip(results, values, strict=True):
        pairs = list(zip(found, cold, strict=True))
        result["bit_equal"] = all(torch.equal(a, b) for a, b in pairs)
        close = all(torch.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in pairs)
        result["agrees"] = result["bit_equal"] or (result["run"] == "eager" and close)


def _print(results: list[dict[str, Any]], keep: Path | None) -> None:
    columns = [("process", "left"), ("first call", "right"), ("compile", "right"), ("hash", "right")]
    columns += [
        ("fetch", "right"),
        ("load", "right"),
        ("tracing and run", "right"),
        ("outputs and gradients", "left"),
    ]
    rows = []
    for result in results:
        spent = result["seconds"]
        rest = result["first_call"] - sum(spent.values())
        shown = [seconds(spent[phase]) if spent[phase] else "-" for phase in ("compile", "hash", "fetch", "load")]
        agreement = "bit-equal to cold" if result["bit_equal"] else "close to cold" if result["agrees"] else "DIFFER"
        if result["run"] == "cold":
            agreement = "the reference"
        rows.append([result["run"], seconds(result["first_call"]), *shown, seconds(rest), agreement])
    table(columns, rows, "GPT-2, 12 layers, one training step")
    cold, other = results[1]["first_call"], results[3]["first_call"]
    click.echo(f"\nOn another host, without a C++ compiler: {cold / other:.0f} times faster than cold.")
    click.echo('\nNext, in your script:\n\n    model = torch.compile(model, backend="warmgraph")\n')
    click.echo("and then: warmgraph stats; warmgraph ls" + (f"  (with WARMGRAPH_DIR={keep})" if keep else ""))
