"""Two programs with the same graph and something else around it: neither is served what was compiled for the other.

Each version compiles on a store of its own, and is the truth; then version 2 comes to the store that version 1 filled,
and version 1 comes again. Four processes a pair, two where both are bypassed (forked from one that has torch loaded;
`tests/fork_server.py`).
"""

from __future__ import annotations

import ast
import contextlib
import os
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

HERE = Path(__file__).parent
FILES = sorted(path for path in HERE.glob("*.py") if path.stem != "harness" and path != Path(__file__))


def pairs() -> dict[str, dict[str, object]]:
    """Name -> keywords of every pair, read from the sources: this process imports none of them."""
    found = {}
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.FunctionDef):
                continue
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "pair":
                    options = {keyword.arg: ast.literal_eval(keyword.value) for keyword in decorator.keywords}
                    found[f"{path.stem}/{node.name}"] = options
    return found


PAIRS = pairs()

# Bypassed before that version of torch, and why.
BYPASSED = {"reads_torch/how_an_operator_is_sharded": ("2.12", "DTensorSpec has no stable identity")}

# Pairs of code that a graph reaches: Inductor may be loaded before. All others are about what is loaded when.
WITH_INDUCTOR = {"reads", "reads_torch", "objects", "trees"}


@pytest.fixture(scope="module")
def serve(cleared, fork_server):
    """`serve(task)`: what a fresh process says to it."""
    # What is bypassed is compiled as Inductor does, and torch's own caches get some of it wrong.
    environment = cleared | {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
    servers = {}

    with contextlib.ExitStack() as stack:

        def ask(task):
            loaded = ("torch._inductor.compile_fx",) if task["pair"].partition("/")[0] in WITH_INDUCTOR else ()
            if loaded not in servers:
                servers[loaded] = stack.enter_context(fork_server(HERE, *loaded, env=environment))
            return servers[loaded](task | {"module": "harness"})

        yield ask


@pytest.fixture
def run(serve, tmp_path, inductor_cache):
    """`run(name, version, store)`: one version on a store, by the store's name."""
    count = 0

    def run(name, version, store):
        nonlocal count
        count += 1
        folder = tmp_path / f"process-{count}"
        folder.mkdir()
        environment = {
            "WARMGRAPH_DIR": str(tmp_path / store),
            "WARMGRAPH_STRICT": "1",
            "WARMGRAPH_PGO": "0",
            "TORCHINDUCTOR_CACHE_DIR": str(inductor_cache),
        }
        found = serve({"pair": name, "version": version, "folder": str(folder), "environment": environment})
        assert "broken" not in found, found["broken"] + (folder / "output.txt").read_text()[-2000:]
        return found

    return run


def outcomes(found):
    """Of lookups of graphs. That a frame was traced or restored is no outcome of its own: results are compared."""
    return [event["outcome"] for event in found["events"] if event["outcome"] not in ("restored", "traced")]


def agree(since):
    """since: whether they do, or the version of torch from which on they do, or up to which (`<2.13`)."""
    if not isinstance(since, str):
        return since
    here, bound = Version(version("torch")), Version(since.lstrip("<"))
    return here < bound if since.startswith("<") else here >= bound


def bypassed_here(name):
    since, why = BYPASSED.get(name, ("0", ""))
    return {"bypass": why} if Version(version("torch")) < Version(since) else {}


@pytest.mark.parametrize("name", PAIRS)
def test_no_version_is_served_what_was_compiled_for_the_other(name, run, tmp_path):
    """Results of each version alone, of the second on the first one's store, and of the first again."""
    options = PAIRS[name] | bypassed_here(name)
    first, second = run(name, 1, "first"), run(name, 2, "second")
    if not agree(options.get("agrees", False)):
        assert first["result"] != second["result"], "the versions compute the same: the pair shows nothing"
    assert outcomes(first), "nothing was compiled"
    if "bypass" in options:  # and nothing is kept that another process could be served
        for found in (first, second):
            assert outcomes(found) == ["bypass"] * len(outcomes(found)), found["events"]
            assert any(options["bypass"] in event["detail"] for event in found["events"]), found["events"]
        return
    shutil.copytree(tmp_path / "first", tmp_path / "shared", copy_function=os.link)
    shared, again = run(name, 2, "shared"), run(name, 1, "first")
    assert (shared["result"], again["result"]) == (second["result"], first["result"])
    assert "hit" not in outcomes(shared), shared["events"]
    assert set(outcomes(first) + outcomes(second) + outcomes(shared)) == {"miss"}, [first, second, shared]
    assert set(outcomes(again)) == {"hit"}, again["events"]
