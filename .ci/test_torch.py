"""`make test-torch VERSION=2.15.0`: the tests that depend on torch, with that one. Not in `.ci/run`: it takes an hour.

In an environment of its own, made at the first call: that build of torch from the package index, and everything else as
in constraints.txt. What came of it becomes that version's row in docs/versions.md.

    python .ci/test_torch.py 2.15.0 [--envs FOLDER] [--only keys,backend] [--workers 2]
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "versions.md"
# The suite's parts that depend on torch, in the order in which they are run.
PARTS = {
    "keys": ["tests/keys", "tests/hashing"],
    "hooks": ["tests/hooks"],
    "backend": ["tests/backend"],
    "constructs": ["tests/constructs"],
    "frames": ["tests/frames"],
}
# Beside torch: what the tests import. Not the tools (ruff, mypy), and no browser.
PACKAGES = """
    redis msgpack msgspec zstandard platformdirs click rich orjson transformers accelerate numpy pytest pytest-timeout
    pytest-xdist hypothesis einops==0.8.1 fakeredis prometheus-client pydot opentelemetry-sdk pynacl
""".split()
COLUMNS = ("torch", "Python", "surface", "`warmgraph demo`", *PARTS)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("version")
    parser.add_argument("--envs", type=Path, default=ROOT / ".venvs", help="where environments are made and kept")
    parser.add_argument("--only", default="surface,demo," + ",".join(PARTS), help="which columns; others stay")
    parser.add_argument("--workers", default="2")
    given = parser.parse_args()
    python = environment(given.version, given.envs)
    build = ask(python, "import torch; print(torch.__version__)")
    found = {
        "torch": build,
        "Python": platform.python_version(),
    }
    commit = run(["git", "rev-parse", "--short", "HEAD"], quiet=True).stdout.strip() or "no commit"
    # Of each cell, since a run may fill some of them only.
    when = f"; {datetime.datetime.now(datetime.timezone.utc).date().isoformat()}, {commit}"
    wanted, failed = given.only.split(","), False
    if "surface" in wanted:
        done = run([python, "-m", "warmgraph.backend.torch_api.surface"])
        found["surface"] = done.stdout.strip().splitlines()[-1].rpartition(": ")[2] if done.stdout else "broken"
        found["surface"] += when
        failed |= done.returncode != 0
    if "demo" in wanted:
        done = run([python, "-m", "warmgraph", "demo", "--json"])
        found["`warmgraph demo`"] = demo_of(done) + when
        failed |= done.returncode != 0
    for part, folders in PARTS.items():
        if part in wanted:
            begin = time.monotonic()
            log = given.envs / f"torch-{given.version}" / f"{part}.log"
            returned = tests(python, folders, given.workers, log)
            said = log.read_text()
            print(*(line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))), sep="\n")
            found[part] = f"{counts_of(said)}, {(time.monotonic() - begin) / 60:.0f} min{when}"
            failed |= returned != 0
            write(found)  # what stands, should a later part be stopped
    write(found)
    return int(failed)


def tests(python: str, folders: list[str], workers: str, log: Path) -> int:
    """Run these folders' tests. All that they say goes to `log`, as it comes: who stops them can still read it."""
    command = [python, "-m", "pytest", "-v", "-rfE", "-n", workers, "-p", "no:cacheprovider", *folders]
    print(f"+ {' '.join(command)} > {log}", flush=True)
    with log.open("w") as out:
        done = subprocess.run(command, cwd=ROOT, env=plain_environment(), stdout=out, stderr=subprocess.STDOUT)
    return done.returncode


def environment(version: str, folder: Path) -> str:
    """The interpreter of the environment for `version`, made if it is not there."""
    place = folder / f"torch-{version}"
    python = str(place / "bin" / "python")
    done = place / ".complete"
    if not done.exists():
        checked([sys.executable, "-m", "venv", str(place)])
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q"]
        checked([*pip, f"torch=={version}"])
        build = ask(python, "import importlib.metadata as m; print(m.version('torch'))")
        # What torch itself asks for (its setuptools, say) is not asked for again.
        pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("torch==")]
        constraints = place / "constraints.txt"
        constraints.write_text("\n".join([*pins, f"torch=={build}"]) + "\n")
        checked([*pip, "setuptools>=77,<82", "wheel"])
        checked([*pip, "-c", str(constraints), *PACKAGES])
        done.touch()
    link = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    checked([*link, "--no-deps", "--no-build-isolation", "-e", str(ROOT)])
    return python


def checked(command: list[str]) -> None:
    done = run(command)
    if done.returncode:
        sys.exit(done.stdout[-3000:] + done.stderr[-3000:])


def run(command: list[str], *, quiet: bool = False) -> subprocess.CompletedProcess[str]:
    if not quiet:
        print("+", " ".join(command), flush=True)
    return subprocess.run(command, cwd=ROOT, env=plain_environment(), capture_output=True, text=True)


def plain_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def ask(python: str, program: str) -> str:
    return run([python, "-c", program], quiet=True).stdout.strip()


def demo_of(done: subprocess.CompletedProcess[str]) -> str:
    try:
        told = json.loads(done.stdout)
    except ValueError:
        return "failed"
    if not told["ok"]:
        return "differs"
    calls = {one["name"]: one["first_call"] for one in told["runs"]}
    return f"bit-equal; {calls['cold']:.1f} s cold, {calls['warm, other host']:.1f} s on another host"


def counts_of(said: str) -> str:
    """`12 passed, 1 skipped` of pytest's last line; what is marked for a version is `xfailed` or skipped."""
    found = re.findall(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)\b", said.rpartition(" in ")[0][-300:])
    return ", ".join(f"{count} {what}" for count, what in found) or "broken"


def write(found: dict[str, str]) -> None:
    """Put the row into the page's table: in its place by version, with what an older row says of other columns."""
    lines = PAGE.read_text().splitlines()
    first = lines.index(f"| {' | '.join(COLUMNS)} |") + 2
    last = next(number for number, line in enumerate(lines) if number >= first and not line.startswith("|"))
    rows = {}
    for line in lines[first:last]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[cells[0]] = dict(zip(COLUMNS, cells, strict=True))
    rows[found["torch"]] = dict.fromkeys(COLUMNS, "not run") | rows.get(found["torch"], {}) | found
    ordered = sorted(rows.values(), key=lambda row: [int(part) for part in re.findall(r"\d+", row["torch"])[:3]])
    lines[first:last] = ["| " + " | ".join(row[column] for column in COLUMNS) + " |" for row in ordered]
    PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
