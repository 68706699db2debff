"""One process: runs some cases one way, and writes what each saw as a line of JSON. Judges nothing.

worker.py OUT.jsonl eager|inductor|cold|warm [--compiler PATH INDUCTOR_DIR] group/case ...
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import io
import json
import os
import sys
import traceback
import warnings
from typing import Any

import torch
from harness import CASES, Way
from observe import observe


def events() -> list[dict[str, Any]]:
    """What warmgraph's journal says so far."""
    from warmgraph.cache import journal_dir, read, settings

    return [event for event in read(journal_dir(settings())) if event["pid"] == os.getpid()]


def run(way: Way, word: str) -> dict[str, Any]:
    """One case: its observations, what it printed, what became of its graphs."""
    if way.backend is not None:
        torch._dynamo.reset()
        group = sys.modules[word.partition("/")[0]]
        torch._inductor.config.fallback_by_default = getattr(group, "WITHOUT_KERNELS", False)
    torch.manual_seed(0)
    cached = way.backend == "warmgraph"
    before = len(events()) if cached else 0
    printed = io.StringIO()
    found: dict[str, Any] = {"case": word}
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["seen"] = observe(CASES[word](way))
    except Exception:
        found["broken"] = traceback.format_exc()[-3000:]
    found["printed"] = printed.getvalue().splitlines()
    if cached:
        told = ("outcome", "reason", "detail")
        found["events"] = [{what: event.get(what) for what in told} for event in events()[before:]]
    return found


def main(out: str, name: str, *rest: str) -> None:
    """Cases that must hit come first in a warm process; `--compiler` gives the later ones what compiling needs."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(550, exit=True)
    gc.freeze()  # what torch's import leaves, every full collection would pass over: a tenth of the time
    way = Way(name, {"eager": None, "inductor": "inductor"}.get(name, "warmgraph"))
    if way.backend is not None:
        # Scalar kernels take g++ half the time; vector code is not what differs between constructs.
        torch._inductor.config.cpp.simdlen = 1
    waiting = list(rest)
    with open(out, "w") as file:
        while waiting:
            word = waiting.pop(0)
            if word == "--compiler":
                os.environ["PATH"], os.environ["TORCHINDUCTOR_CACHE_DIR"] = waiting.pop(0), waiting.pop(0)
                continue
            importlib.import_module(word.partition("/")[0])
            file.write(json.dumps({"begin": word}) + "\n")
            file.flush()
            file.write(json.dumps(run(way, word)) + "\n")
            file.flush()
    if way.backend == "warmgraph":
        import warmgraph

        warmgraph.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
