"""What importing the room brings in: not torch, and nothing slow. Names, not times, are asserted."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import warmgraph.cache

ROOM = Path(warmgraph.cache.__file__).parent


def modules_after(statement: str) -> set[str]:
    code = f"{statement}; import sys; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_is_light() -> None:
    """`import warmgraph.cache` leaves torch, and all that is only needed later, unimported."""
    loaded = modules_after("import warmgraph.cache")
    late = {"torch", "numpy", "msgpack", "zstandard", "platformdirs", "redis", "multiprocessing", "tempfile", "socket"}
    late -= modules_after("import warmgraph") | modules_after("pass")  # the front door's own imports are not ours
    assert "torch" in late
    assert not loaded & late


def test_room_never_names_torch() -> None:
    """No file of the room imports torch or another room, at any depth."""
    for path in ROOM.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level <= 1, path
                names = [] if node.level else [node.module or ""]
            for name in names:
                assert name.split(".")[0] not in ("torch", "warmgraph", "redis"), path


def test_only_config_reads_the_environment() -> None:
    """The environment is read in config.py and nowhere else."""
    for path in ROOM.glob("*.py"):
        assert path.name == "config.py" or "environ" not in path.read_text().replace("getenviron", ""), path
        assert "getenv" not in path.read_text(), path


def test_public_names_are_sorted_and_there() -> None:
    """`__all__` is sorted, without doubles, and every name in it exists."""
    names = warmgraph.cache.__all__
    assert names == sorted(set(names))
    assert all(hasattr(warmgraph.cache, name) for name in names)


def test_files_say_what_they_are() -> None:
    """Every file begins with a docstring and is short enough to be read at once."""
    for path in ROOM.glob("*.py"):
        text = path.read_text()
        assert text.startswith('"""'), path
        assert len(text.splitlines()) <= 330, path
