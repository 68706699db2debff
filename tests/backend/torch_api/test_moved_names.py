"""Each private name of torch that warmgraph takes, deleted alone: never an exception, and at most one line."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

TORCH_API = Path(__file__).parents[3] / "backend" / "torch_api"

# One process imports torch and forks a child for each name. The child says what it saw; torch's own compile comes
# first, for a name without which torch itself does not work says nothing of us.
PROGRAM = """
import json, logging, os, sys
import torch, torch._dynamo, torch._inductor.compile_fx, torch._inductor.fx_passes.reinplace
import torch._inductor.cudagraph_trees, torch.distributed.config, torch._inductor.config_comms, torch._dynamo.pgo
import torch._functorch._aot_autograd.aot_autograd_result, torch._inductor.runtime.triton_heuristics

def step(x, w, k):
    return (x @ w).relu().sum() * k

LIGHT = {"fallback_by_default": True}  # no kernels: g++ is not what is looked at

def once(backend):
    x, w = torch.ones(3, 4), torch.ones(4, 5, requires_grad=True)
    torch._dynamo.reset()
    found = []
    for k in (1, 2):
        compiled = torch.compile(lambda x, w, k=k: step(x, w, k), backend=backend, options=LIGHT)
        value = compiled(x, w)
        value.backward()
        found.append([value.item(), w.grad.sum().item()])
    return found

def delete(name):
    import importlib
    *parts, last = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            owner = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            owner = getattr(owner, part)
        delattr(owner, last)
        return

def child(name):
    said = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage()) if record.levelno >= logging.WARNING else None
    logging.getLogger("warmgraph").addHandler(handler)
    logging.getLogger("warmgraph").propagate = False
    try:
        delete(name)
        wanted = once("inductor")
        torch.compile(lambda x: x, backend="eager")(torch.ones(2))
    except BaseException as error:
        return {"name": name, "torch": repr(error)}
    try:
        found = [once("warmgraph")]
        import warmgraph
        warmgraph.flush()
        found.append(once("warmgraph"))
        return {"name": name, "said": said, "right": found == [wanted, wanted], "stats": warmgraph.stats()}
    except BaseException as error:
        import traceback
        return {"name": name, "said": said, "raised": traceback.format_exc()[-1500:]}

once("inductor")
for name in json.loads(sys.argv[1]):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.environ["WARMGRAPH_DIR"] = os.environ["WARMGRAPH_DIR"] + name
        answer = json.dumps(child(name)).encode()
        os.close(read)
        with os.fdopen(write, "wb") as out:
            out.write(answer)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        print(answer.read().decode() or json.dumps({"name": name, "raised": "it ended without a word"}), flush=True)
    os.waitpid(pid, 0)
"""


def is_private(name):
    first, *parts = name.split(".")
    return first == "torch" and parts[:1] != ["ops"] and any(re.match(r"_[a-zA-Z]", part) for part in parts)


def names():
    """Every private name that is imported or written out in `torch_api`, to its last attribute."""
    found = set()
    for path in TORCH_API.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Attribute):
                found.add(ast.unparse(node))
    found = {name for name in found if is_private(name) and re.fullmatch(r"[\w.]+", name)}
    return sorted(name for name in found if not any(other.startswith(f"{name}.") for other in found))


# A build with CUDA starts autograd's threads where a backward is traced, and what is forked then may run none.
@pytest.mark.skipif(torch.backends.cuda.is_built(), reason="each name is tried in a fork, as a CPU build can")
def test_a_private_name_that_is_gone_costs_the_cache_and_nothing_else(environment, tmp_path):
    """Results are right, cold and warm, forward and backward; where nothing hits, the one line says the name."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(names())],
        env=environment() | {"WARMGRAPH_STRICT": "0"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers = [answer for answer in map(json.loads, done.stdout.splitlines()) if "torch" not in answer]
    assert len(answers) > 40, "torch itself needs the others"
    assert {one["name"]: one["raised"] for one in answers if "raised" in one} == {}
    assert [one["name"] for one in answers if not one["right"]] == []
    assert {one["name"]: one["said"] for one in answers if len(one["said"]) > 1} == {}
    silent = [one["name"] for one in answers if not one["said"] and not one["stats"]["hits"]]
    assert silent == []
    told = [(one["name"].rpartition(".")[2], one["said"][0]) for one in answers if one["said"]]
    assert [pair for pair in told if pair[0] not in pair[1]] == []
