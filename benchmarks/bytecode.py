"""warmgraph's modules compiled to bytecode, as pip leaves what it installs. Measures nothing.

A checkout has no bytecode where PYTHONDONTWRITEBYTECODE is set: there each process compiles the 230 files that it loads
anew, which takes as long as half of a restored first call.
"""

from __future__ import annotations

import compileall
import importlib.util


def compile_modules() -> None:
    """Called before anything is timed. Does nothing for files whose bytecode is up to date."""
    for package in ("warmgraph", *(f"warmgraph.{room}" for room in ("hashing", "cache", "backend", "scripts"))):
        found = importlib.util.find_spec(package)
        folders = (found.submodule_search_locations if found else None) or ()
        for folder in folders[:1]:  # in a checkout the package's second one is the root, with all that lies there
            compileall.compile_dir(folder, quiet=2)


if __name__ == "__main__":
    compile_modules()
