"""The demo's processes: each fresh, timed, and compared with the cold one. Prints progress only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
from warmgraph.cache import Outcome, read

from ..output import seconds, talk

PHASES = ("hash", "fetch", "load", "compile", "restore")
OF_FRAMES = (Outcome.RESTORED.value, Outcome.TRACED.value)
# What the user's shell may say that would make this another experiment.
FOREIGN = ("WARMGRAPH_", "TORCHINDUCTOR_", "TORCHDYNAMO_", "TORCH_COMPILE", "AOTINDUCTOR_")


@dataclass(frozen=True, slots=True)
class Run:
    """One fresh process. outcome: what its every graph must come to; None without torch.compile."""

    name: str
    backend: str
    what: str
    outcome: str | None
    other_host: bool = False


RUNS = (
    Run("eager", "eager", "without torch.compile", None),
    Run("cold", "warmgraph", "an empty store: compiles (half a minute or more)", "miss"),
    Run("warm", "warmgraph", "the store that cold left: loads", "hit"),
    Run("warm, other host", "warmgraph", "same store, no C++ compiler: loads", "hit", True),
)


@dataclass(slots=True)
class Result:
    """What came of a run. first_call, seconds (by phase): in seconds. compiler: the one on its PATH. outcomes: of its
    graphs. frames: of its frames, restored or traced; none where frames cannot be restored.
    """

    name: str
    what: str
    first_call: float
    compiler: str | None
    seconds: dict[str, float]
    outcomes: list[str]
    agreement: str = "not compared"
    agrees: bool = False
    frames: list[str] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def run_all(keep: Path | None) -> list[Result]:
    """Every run in order, compared. keep: where the store goes; else it is removed. Raises ClickException."""
    with tempfile.TemporaryDirectory(prefix="warmgraph-demo-") as folder:
        work = Path(folder)
        store = work / "store" if keep is None else keep
        results = []
        for number, run in enumerate(RUNS, 1):
            with _progress(f"[{number}/{len(RUNS)}] {run.name}: {run.what}"):
                results.append(_run(run, work / str(number), store))
            talk(f"[{number}/{len(RUNS)}] {run.name}: first call {seconds(results[-1].first_call)}")
        compare(results, [work / str(number) / "out.pt" for number in range(1, len(RUNS) + 1)])
    return results


@contextmanager
def _progress(line: str) -> Iterator[None]:
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(Text(line)):
            yield
    else:
        talk(line)
        yield


def environment(run: Run, work: Path, store: Path) -> dict[str, str]:
    """The environment of a run: the user's, less what would change the experiment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    kept |= {"WARMGRAPH_DIR": str(store), "TORCHINDUCTOR_CACHE_DIR": str(work / "inductor")}
    if run.other_host:
        (work / "bin").mkdir()
        kept["PATH"] = str(work / "bin")
        kept.pop("CXX", None)
        kept.pop("CC", None)
    return kept


def _run(run: Run, work: Path, store: Path) -> Result:
    work.mkdir()
    worker = [sys.executable, "-m", "warmgraph.scripts.demo.worker", run.backend, str(work / "out")]
    # subprocess.run kills the child when this process is stopped.
    done = subprocess.run(worker, env=environment(run, work, store), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = done.stderr.decode(errors="replace")[-3000:]
    if done.returncode != 0:
        raise click.ClickException(f"the process {run.name!r} ended with status {done.returncode}:\n{said}")
    facts = json.loads((work / "out.json").read_text())
    events = [event for event in read(store / "journal") if event["pid"] == facts["pid"]]
    found = [event["outcome"] for event in events]
    frames = [outcome for outcome in found if outcome in OF_FRAMES]
    outcomes = [outcome for outcome in found if outcome not in OF_FRAMES]
    if set(outcomes) != ({run.outcome} if run.outcome else set()):
        told = "; ".join(f"{event['outcome']}: {event['reason']} {event['detail'] or ''}" for event in events)
        expected = f"a {run.outcome}" if run.outcome else "no event"
        raise click.ClickException(f"the process {run.name!r} was to be {expected}, and was {told or 'none'}\n{said}")
    spent = {phase: sum(event["seconds"].get(phase, 0.0) for event in events) for phase in PHASES}
    spent["restore"] -= spent["load"] if spent["restore"] else 0.0  # a frame that is restored loads its graphs
    return Result(run.name, run.what, facts["first_call"], facts["compiler"], spent, outcomes, frames=frames)


def compare(results: list[Result], files: list[Path]) -> None:
    """Compare outputs and gradients with the cold run's: eager within tolerance, warm bit for bit."""
    import torch

    values = [torch.load(file) for file in files]
    cold = values[1]
    for number, (result, found) in enumerate(zip(results, values, strict=True)):
        pairs = list(zip(found, cold, strict=True))
        equal = all(torch.equal(a, b) for a, b in pairs)
        close = all(torch.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in pairs)
        result.agrees = equal or (close and number == 0)
        result.agreement = "bit-equal" if equal else "close" if result.agrees else "DIFFER"
    results[1].agreement = "reference"
