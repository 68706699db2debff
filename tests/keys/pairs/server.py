"""A process that has torch loaded and forks one child for each request: a fresh process in a tenth of the time.

Reads one JSON object a line from stdin (`environment`; the rest is `harness.main`'s), and answers one line each.
The child reads its environment before anything of warmgraph's is imported; torch and Dynamo are there, Inductor and
warmgraph are not, so that their state is the child's own.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

LIMIT = 300  # seconds for one child, then it says where it stands and ends


def serve() -> None:
    for name in ("torch", "torch._dynamo", *sys.argv[1:]):  # what every child begins with
        importlib.import_module(name)
    gc.freeze()
    for line in sys.stdin:
        task = json.loads(line)
        out = Path(task["folder"]) / "answer.json"
        child = os.fork()
        if child == 0:
            _child(task, out)
        status = os.waitpid(child, 0)[1]
        answer = out.read_text() if out.exists() else json.dumps({"broken": f"it ended with status {status}"})
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


def _child(task: dict[str, Any], out: Path) -> None:
    code = 1
    try:
        with (Path(task["folder"]) / "output.txt").open("w") as output:  # what is printed is not an answer
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        faulthandler.enable()
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        os.environ.update(task["environment"])
        sys.path.insert(0, str(Path(__file__).parent))
        import harness

        answer = harness.main(task)
        waiting = out.with_suffix(".part")
        waiting.write_text(json.dumps(answer))
        waiting.replace(out)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # the children of a fork do not run the parent's exit handlers


if __name__ == "__main__":
    serve()
