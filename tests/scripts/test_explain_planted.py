"""`warmgraph explain` names the true cause of misses that were planted one by one (`planted.py`), and of real ones."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parent / "planted.py"
NAMES = [
    node.name
    for node in ast.parse(PROGRAM.read_text()).body
    if isinstance(node, ast.FunctionDef) and any("planted" in ast.unparse(line) for line in node.decorator_list)
]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory, cleared: dict[str, str]) -> tuple[Path, dict[str, Any]]:
    """The folder of all cases, and by name what was planted."""
    folder = tmp_path_factory.mktemp("planted")
    process = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder)],
        env={**cleared, "WARMGRAPH_DIR": str(folder / "unused"), "OMP_NUM_THREADS": "1", "WARMGRAPH_FRAMES": "0"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr[-4000:]
    return folder, json.loads(process.stdout.splitlines()[-1])


def test_thirty_are_planted() -> None:
    """The product's promise is about thirty; one that is not registered would pass unseen."""
    assert len(NAMES) >= 30


@pytest.mark.parametrize("name", NAMES)
def test_the_true_cause_is_named(name: str, planted: Any, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest miss says its cause, down to the line that differs, in JSON, in words, and by its key."""
    folder, told = planted
    case = told[name]
    monkeypatch.setenv("WARMGRAPH_DIR", str(folder / name))
    for setting, value in case["settings"].items():
        monkeypatch.setenv(f"WARMGRAPH_{setting.upper()}", value)
    ran = run("explain", "--json")
    assert ran.status == 0
    newest = ran.json["explained"][0]
    assert newest["time"] >= case["begun"]
    assert newest["reason"] == case["reason"]
    lines = [line["text"] for one in newest["nearest"] for line in one["differences"] or []]
    assert any(case["cause"] in text for text in [newest["cause"], *lines])
    assert newest["advice"]
    # The same in words, and by key, which is as far as a line in the log gets one.
    assert case["cause"] in run("explain", "--all").out
    assert case["cause"] in run("explain", newest["key"][:11], "--all").out


COMPILED = """
import json, logging, sys, torch, warmgraph
from warmgraph.cache import flush
lines = []
logging.getLogger("warmgraph").setLevel(logging.INFO)
told = logging.getLogger("warmgraph.backend.reporting.report")
told.addFilter(lambda record: lines.append(record.getMessage()) or True)
def step(x, y):
    return torch.relu(x) + y if sys.argv[1] == "first" else torch.relu(x) - y
def other(x, y):
    return x.sin() * y
def compiled(function, *args, **options):
    torch._dynamo.reset()
    return torch.compile(function, backend="warmgraph", **options)(*args)
x, y = torch.ones(8, 4), torch.ones(4)
compiled(other, x, y)
compiled(step, x, y)
if sys.argv[1] == "second":
    compiled(other, x, y, options={"epilogue_fusion": False})
    compiled(other, torch.ones(3, 4), y)
assert flush()
print(json.dumps(lines))
"""


@pytest.mark.exhaustive
def test_real_compiles_are_explained(run_python: Any, run: Any) -> None:
    """An edited operation, an option and a size, compiled in a second process beside a hit."""
    first, second = run_python(COMPILED, "first"), run_python(COMPILED, "second")
    found = run("explain", "--json").json
    outcomes = found["run"]["outcomes"]
    assert {name: outcomes[name] for name in outcomes if name not in ("restored", "traced")} == {"hit": 1, "miss": 3}
    misses = [one for one in found["explained"] if one["outcome"] == "miss"]  # not of frames that were traced again
    told = [[line["text"] for one in miss["nearest"] for line in one["differences"]] for miss in misses]
    assert told == [
        ["inputs: p0 size [8, 4] -> [3, 4]"],
        ["compiler: inductor.epilogue_fusion True -> False"],
        ["graph: %3 builtin _operator.add (%2, %1) -> builtin _operator.sub (%2, %1)"],
    ]
    keys = [miss["key"] for miss in misses]
    nearest = misses[0]["nearest"][0]["key"]
    assert run("diff", nearest, keys[0]).out == "inputs: p0 size [8, 4] -> [3, 4]\n"
    assert run("diff", keys[0], nearest, "--json").json["differences"][0]["after"] == "[8, 4]"
    assert run("lint").status == 0
    # The log says the same in one line, with the command that tells the rest.
    assert "nearest" not in first[0]
    assert second[-1].endswith(f"the nearest, {nearest[:11]}, differs in inputs; `warmgraph explain {keys[0][:11]}`")
