"""`warmgraph run` where something is odd: the program runs as it would without. Torch is a stub here: no compile."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RUN = [sys.executable, "-m", "warmgraph", "run"]
PROGRAM = "import torch; print('ran', torch.X)"
KNOWN = "__version__ = '0'\nclass _TorchCompileInductorWrapper: pass\nclass _TorchCompileWrapper: pass\n"


@pytest.fixture
def start(tmp_path: Path, environment: Callable[..., dict[str, str]]) -> Callable[..., Any]:
    """Runs a program beside packages of these texts."""

    def call(program: str, packages: dict[str, str], *, stdin: str | None = None) -> Any:
        for name, text in packages.items():  # in a folder that the program sees, and the command does not
            (tmp_path / "place" / name).mkdir(parents=True)
            (tmp_path / "place" / name / "__init__.py").write_text(text)
        (tmp_path / "place").mkdir(exist_ok=True)
        (tmp_path / "place" / "program.py").write_text(program)
        command = [*RUN, "place/program.py"] if stdin is None else [*RUN, "-", "one"]
        variables = environment(WARMGRAPH_DIR=tmp_path / "store")
        return subprocess.run(
            command, cwd=tmp_path, env=variables, input=stdin, capture_output=True, text=True, timeout=60
        )

    return call


ODD = {
    "a torch without a version": ({"torch": "X = 1"}, "torch of no version is not known to it"),
    "a warmgraph that does not import": (
        {"torch": KNOWN + "X = 1", "warmgraph": "raise ImportError('redis is broken')"},
        "it cannot be imported (ImportError: redis is broken)",
    ),
    "something of ours is missing": (
        {"torch": KNOWN + "X = 1", "warmgraph": "import no_such_module"},
        "it cannot be imported (ModuleNotFoundError: No module named 'no_such_module')",
    ),
}


@pytest.mark.parametrize(("packages", "said"), ODD.values(), ids=ODD.keys())
def test_an_import_of_torch_never_fails_because_of_us(start: Any, packages: dict[str, str], said: str) -> None:
    """It is told once on stderr, and the program goes on."""
    done = start(PROGRAM, packages)
    assert (done.returncode, done.stdout) == (0, "ran 1\n"), done.stderr
    assert done.stderr.count("not used in process") == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_summary_that_cannot_be_made_ends_no_program(start: Any) -> None:
    """It is asked for where `torch.compile` is first called."""
    ours = "import sys, types\nsys.modules['warmgraph.backend'] = backend = types.ModuleType('backend')\n"
    ours += (
        "def adopt(torch, begin): torch.compile = begin\nbackend.adopt = adopt\nsys.modules['warmgraph.scripts'] = None"
    )
    done = start("import torch\ntorch.compile()\nprint('ran')", {"torch": "X = 1", "warmgraph": ours})
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    assert "no summary of process" in done.stderr


def test_a_loader_that_cannot_be_changed_is_left_alone(start: Any) -> None:
    """Somebody else's import hook, with slots: torch is imported by it all the same."""
    program = """
import importlib.machinery, sys, types
class Loader:
    __slots__ = ()
    def create_module(self, spec): return None
    def exec_module(self, module): module.X = 1
class Finder:
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, Loader()) if name == "torch" else None
sys.meta_path.insert(1, Finder())
import torch
print("ran", torch.X)
"""
    done = start(program, {})
    assert (done.returncode, done.stdout) == (0, "ran 1\n"), done.stderr
    assert "torch is imported in a way that it does not know" in done.stderr


def test_a_program_may_come_from_stdin(start: Any) -> None:
    """`-`, as Python has it."""
    done = start("", {}, stdin="import sys; print(sys.argv)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "['-', 'one']\n", "")
