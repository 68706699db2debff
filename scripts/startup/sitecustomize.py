"""Python runs this as it starts, where `warmgraph run` put this folder on PYTHONPATH. Nothing imports it otherwise.

As soon as the process imports torch, `torch.compile` is made to use warmgraph. Apart from that Python is left as it
would be: the folder goes from `sys.path`, another sitecustomize is run, and nothing of warmgraph is imported before.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

# Whose summary is wanted, and the process that the user started: see `scripts/run/command.py`.
_VARIABLE = "WARMGRAPH_RUN"
_WARM = "WARMGRAPH_WARM"  # set by `warmgraph warm`
_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 (this runs in every process: no pathlib)


class _AfterTorch:
    """Finds torch as the other finders do, and has `_adopt` called when it is imported (not: looked for)."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "torch":
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = None if finder is self or find is None else find(name, path, target)
            if spec is not None:
                _adopt_after(spec.loader)
                return spec  # type: ignore[no-any-return]
        return None


def _adopt_after(loader: Any) -> None:
    """The finders make a loader for each look-up: this one is torch's alone, and to all others looks as ever."""
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def exec_module(module: ModuleType) -> None:
        execute(module)
        _adopt(module)

    try:
        loader.exec_module = exec_module
    except AttributeError as error:  # a loader of someone else's, with slots
        _not_used(f"torch is imported in a way that it does not know ({error})")


def _adopt(torch: ModuleType) -> None:
    """Whatever is wrong with us, the program's `import torch` succeeds as it would without us."""
    try:
        from warmgraph.backend import adopt

        adopt(torch, _begin)
        if os.environ.get(_WARM):
            from warmgraph.backend import pretend

            pretend()
    except AttributeError as error:
        version = getattr(torch, "__version__", "of no version")
        _not_used(f"torch {version} is not known to it ({error}); upgrade warmgraph or pin torch")
    except Exception as error:  # noqa: BLE001 (a half-installed environment can raise anything)
        if not isinstance(error, ModuleNotFoundError) or (error.name or "").split(".")[0] != "warmgraph":
            _not_used(f"it cannot be imported ({type(error).__name__}: {error}); `warmgraph doctor` may tell more")
        # Else: another environment, which has no warmgraph.


def _not_used(why: str) -> None:
    _say(f"not used in process {os.getpid()}: {why}")


def _say(what: str) -> None:
    try:
        sys.stderr.write(f"warmgraph: {what}\n")
    except (OSError, ValueError, AttributeError):  # closed, or there is none
        return


def _begin() -> None:
    """This process is about to use `torch.compile` for the first time."""
    try:
        from warmgraph.scripts.run.summary import begin

        begin()
    except Exception as error:  # noqa: BLE001 (a program is not ended for want of a summary)
        _say(f"no summary of process {os.getpid()}: {type(error).__name__}: {error}")


def _end() -> None:
    """The process that the user started has something to say even if it compiled nothing."""
    if "torch" in sys.modules:
        try:
            from warmgraph.scripts.run.summary import tell
        except Exception:  # noqa: BLE001 (told when torch was imported)
            return
        tell()


def _run_the_next() -> None:
    """The sitecustomize that Python would have run without this one."""
    sys.path[:] = [place for place in sys.path if os.path.abspath(place or ".") != _HERE]  # noqa: PTH100
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = sys.modules["sitecustomize"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


_summary, _, _first = os.environ.get(_VARIABLE, "").partition(" ")
if _summary:
    sys.meta_path.insert(0, _AfterTorch())
    if _first == str(os.getpid()):
        atexit.register(_end)
_run_the_next()
