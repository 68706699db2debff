"""One process of the reproduction in pytorch#149665: functions whose sizes partly vary, called with given sizes. JSON.

Of a function's inputs, `kept` have a size that stays symbolic, and `extra` have one that is compared with 40, so that
it is allocated a symbol and then specialised. With a profile that knows of all of them, torch names the symbols that
stay differently than without. Calls: A (the extra ones at 40), B (the others changed), C (all changed).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

CALLS = {"A": (5, 40), "B": (150, 40), "C": (350, 41)}  # the first kept size, all extra sizes


def source(kept: int, extra: int, seed: int) -> str:
    """A module with a function `f`: its parameters shuffled by `seed`, each sorted (no C++ has to be compiled)."""
    names = [f"k{number}" for number in range(kept)] + [f"e{number}" for number in range(extra)]
    random.Random(f"{kept} {extra} {seed}").shuffle(names)
    lines = [f"def f({', '.join(names)}):", "    found = []"]
    for name in names:
        lines.append(f"    found.append({name}.sort().values)")
        if name.startswith("e"):
            lines += [f"    if {name}.shape[0] == 40:", "        found.append(found[-1][1:])"]
    return "\n".join([*lines, "    return found", ""])


def inputs(function: Callable[..., Any], call: str) -> list[torch.Tensor]:
    first, extra = CALLS[call]
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    sizes = [first + 3 * int(name[1:]) if name.startswith("k") else extra for name in names]
    return [torch.arange(float(size)).flip(0) for size in sizes]


def load(folder: Path, name: str, text: str) -> Callable[..., Any]:
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., Any] = module.f
    return function


def counts(backend: str) -> dict[str, int]:
    """Of this process so far. compiled: graphs that Inductor compiled; torch may miss one cache and hit another."""
    if backend == "warmgraph":
        import warmgraph

        found = warmgraph.stats()
        misses = found["misses"] + found["bypasses"] + found["failures"]
        return {"hits": found["hits"], "misses": misses, "compiled": misses}
    counters = torch._dynamo.utils.counters
    autograd, inductor = counters["aot_autograd"], counters["inductor"]
    misses = autograd["autograd_cache_miss"] + autograd["autograd_cache_bypass"]
    return {"hits": autograd["autograd_cache_hit"], "misses": misses, "compiled": inductor["fxgraph_cache_miss"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backend", choices=("warmgraph", "inductor"))
    parser.add_argument("folder", type=Path, help="where the functions' files are written")
    parser.add_argument("calls", help="such as ABC")
    parser.add_argument("cases", type=json.loads, help="[[kept, extra, seed], ...]")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for kept, extra, seed in options.cases:
        function = load(options.folder, f"case_{kept}_{extra}_{seed}", source(kept, extra, seed))
        compiled = torch.compile(function, backend=options.backend)
        before = counts(options.backend)
        agree = True
        for call in options.calls:
            values = inputs(function, call)
            agree &= all(map(torch.equal, compiled(*values), function(*values)))
        now = counts(options.backend)
        rows.append({name: now[name] - before[name] for name in now} | {"agree": agree})
    if options.backend == "warmgraph":
        import warmgraph

        warmgraph.flush()
    print(json.dumps(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
