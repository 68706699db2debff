"""A process with torch loaded that forks one child for each step of a probe. See `tests/keys/pairs/server.py`."""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

LIMIT = 300  # seconds for one child, then it says where it stands and ends


def serve() -> None:
    _load()
    gc.freeze()
    for line in sys.stdin:
        task = json.loads(line)
        folder = Path(task["folder"])
        folder.mkdir(parents=True, exist_ok=True)
        child = os.fork()
        if child == 0:
            _child(task, folder)
        status = os.waitpid(child, 0)[1]
        out = folder / "answer.json"
        sys.stdout.write((out.read_text() if out.exists() else json.dumps({"broken": f"status {status}"})) + "\n")
        sys.stdout.flush()


def _load() -> None:
    """What a child would otherwise spend its seconds on; of warmgraph, settings and stores are the child's own."""
    import torch
    import torch._dynamo
    import torch._inductor.config
    from warmgraph.cache import configure, flush, reset_settings

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, torch._inductor.config.patch(fallback_by_default=True):
        configure(dir=folder, frames=True)
        for backend in ("inductor", "warmgraph"):
            torch.compile(lambda x: x.relu() + 1, backend=backend)(torch.ones(4))
            torch._dynamo.reset()
        flush()
    reset_settings()


def _child(task: dict[str, Any], folder: Path) -> None:
    try:
        with (folder / "output.txt").open("w") as output:  # what is printed is not an answer
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        faulthandler.enable()
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        os.environ.update(task["environment"])
        sys.path.insert(0, str(Path(__file__).parent))
        module = importlib.import_module(task["module"])
        (folder / "answer.json").write_text(json.dumps(module.main(task)))
    except BaseException:
        traceback.print_exc()
        (folder / "answer.json").write_text(json.dumps({"broken": traceback.format_exc()[-3000:]}))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # the children of a fork do not run the parent's exit handlers


if __name__ == "__main__":
    serve()
