"""A process that has torch loaded and forks one child for each request: a fresh process in a tenth of the time.

Arguments: a folder, and modules to import before any fork, of torch or of that folder. Reads one JSON object a line
from stdin (`environment`; `folder`, where the child's output and answer go; `module`, of that folder, whose `main` is
given the task), and answers one line each. The child reads its environment before anything of warmgraph's is imported,
unless one of the modules did: torch and Dynamo are there, Inductor and warmgraph are not, so that their state is the
child's own.
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


def serve(folder: str, modules: list[str]) -> None:
    sys.path.insert(0, folder)
    for name in ("torch", "torch._dynamo", *modules):  # what every child begins with
        importlib.import_module(name)
    gc.freeze()
    for line in sys.stdin:
        task = json.loads(line)
        out = Path(task["folder"]) / "answer.json"
        out.parent.mkdir(parents=True, exist_ok=True)
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
        with out.with_name("output.txt").open("w") as output:  # what is printed is not an answer
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        faulthandler.enable()
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        os.environ.update(task["environment"])
        answer = importlib.import_module(task["module"]).main(task)
        waiting = out.with_suffix(".part")
        waiting.write_text(json.dumps(answer))
        waiting.replace(out)
        code = 0
    except BaseException:
        traceback.print_exc()
        out.write_text(json.dumps({"broken": traceback.format_exc()[-3000:]}))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # the children of a fork do not run the parent's exit handlers


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:])
