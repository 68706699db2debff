"""Pieces of a graph, each compiled by itself as vLLM does in its mode 3. `benchmarks.vllm_pieces` runs vLLM itself."""

from __future__ import annotations

import inspect
import logging
import sys
import types

import pytest
from torch.fx.passes.split_module import split_module
from warmgraph.backend.torch_api.entrances import redirect
from warmgraph.backend.vllm import register
from warmgraph.backend.vllm.whole_models import skip_unusable_files

needs_tuples = pytest.mark.skipif(
    "tuple_return" not in inspect.signature(split_module).parameters, reason="this torch splits off single values"
)

PROGRAM = """
import json, sys
from unittest import mock
import torch
from torch._functorch._aot_autograd import autograd_cache
from torch.fx.passes.split_module import split_module
import warmgraph
from warmgraph.backend import warmgraph as backend
from warmgraph.backend.torch_api.entrances.standalone import standalone, writable

WRITTEN, EPILOGUE = sys.argv[1] == "written", sys.argv[2] == "fused"


@torch.library.custom_op("pieces::attention", mutates_args=())
def attention(x: torch.Tensor) -> torch.Tensor:
    return x.softmax(-1)


@attention.register_fake
def _(x):
    return torch.empty_like(x)


def layers(x, weights):
    for weight in weights:
        x = attention(torch.relu(x @ weight) + x.shape[0])
    return x.sin()


def compile_piece(piece):
    fakes = [node.meta["example_value"] for node in piece.graph.nodes if node.op == "placeholder"]
    listens = mock.patch.object(autograd_cache, "autograd_cache_key", lambda *args: (_ for _ in ()).throw(SystemError))
    with listens, standalone(piece, {"epilogue_fusion": EPILOGUE}, written=WRITTEN) as own:
        run = backend(own, fakes)
    if not WRITTEN:
        return run
    artifact = writable(run)
    return type(artifact).deserialize(artifact.serialize())


def split(gm, inputs):
    number, of = 0, {}
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        cut = node.target is torch.ops.pieces.attention.default
        number += cut
        of[node] = number
        number += cut
    pieces = split_module(gm, None, of.get, keep_original_order=True, tuple_return=True)
    for name, piece in list(pieces.named_children()):
        if not any(node.target is torch.ops.pieces.attention.default for node in piece.graph.nodes):
            pieces.__dict__[name] = compile_piece(piece)
    return pieces


torch.manual_seed(0)
weights = [torch.randn(8, 8) for _ in range(4)]
compiled = torch.compile(layers, backend=split, fullgraph=True, dynamic=False)
with torch.no_grad():
    results = []
    for rows in (5, 7, 64):
        x = torch.randn(rows, 8)
        torch._dynamo.mark_dynamic(x, 0)
        found = compiled(x, weights)
        torch.testing.assert_close(found, layers(x, weights))
        results.append(found.numpy().tobytes().hex())
counts = warmgraph.stats()
print(json.dumps({"counts": [counts[name] for name in ("hits", "misses", "bypasses")], "results": results}))
"""


@needs_tuples
@pytest.mark.exhaustive
def test_alike_pieces_are_compiled_once_and_all_hit_in_the_next_process(run_python):
    """Five pieces of which four are alike, of sizes that vary: two compiles, then none; another option is a miss."""
    cold = run_python(PROGRAM, "kept", "fused")
    assert cold["counts"] == [3, 2, 0]
    warm = run_python(PROGRAM, "kept", "fused", compiler=False)
    assert warm == {"counts": [5, 0, 0], "results": cold["results"]}
    assert run_python(PROGRAM, "kept", "apart")["counts"] == [3, 2, 0]


@needs_tuples
@pytest.mark.exhaustive
def test_a_piece_can_be_written_to_a_file_from_a_compile_and_from_a_hit(run_python):
    """vLLM keeps all pieces of a model in one file of its own."""
    cold, warm = (run_python(PROGRAM, "written", "fused") for _ in range(2))
    assert (cold["counts"], warm["counts"]) == ([3, 2, 0], [5, 0, 0])
    assert warm["results"] == cold["results"]


def test_the_plugin_does_nothing_unless_the_program_is_run_by_warmgraph(caplog, monkeypatch):
    """The entry point is installed with warmgraph; and vLLM may have moved what it names, which is one warning."""
    with caplog.at_level(logging.WARNING):
        register()
        assert caplog.records == []
        monkeypatch.setattr(redirect, "redirected", lambda torch: True)
        register()
    (record,) = caplog.records
    assert "not used for vLLM's pieces" in record.getMessage()


@pytest.mark.parametrize(
    ("mode", "backend", "read"), [(2, "warmgraph", False), (2, "inductor", True), (3, "warmgraph", True)]
)
def test_vllm_reads_no_file_that_it_could_not_use(monkeypatch, mode, backend, read):
    """Of a whole model (mode 2) that warmgraph compiles; `benchmarks.programs` runs vLLM itself."""
    decorators = types.ModuleType("vllm.compilation.decorators")
    exec("def _try_load_aot_compiled_fn(model, path):\n    return model.finalize_loading(path)\n", vars(decorators))
    monkeypatch.setitem(sys.modules, decorators.__name__, decorators)
    skip_unusable_files()
    skip_unusable_files()  # of which the second does nothing
    model = types.SimpleNamespace(
        compilation_config=types.SimpleNamespace(mode=mode, backend=backend), finalize_loading=lambda path: path
    )
    assert decorators._try_load_aot_compiled_fn(model, "a file") == ("a file" if read else None)
    monkeypatch.setenv("VLLM_FORCE_AOT_LOAD", "1")
    assert decorators._try_load_aot_compiled_fn(model, "a file") == "a file"


def test_a_vllm_that_reads_any_backends_file_is_left_alone(monkeypatch):
    """It asks for nothing but a function."""
    decorators = types.ModuleType("vllm.compilation.decorators")
    exec("def _try_load_aot_compiled_fn(model, path):\n    return path\n", vars(decorators))
    monkeypatch.setitem(sys.modules, decorators.__name__, decorators)
    read = decorators._try_load_aot_compiled_fn
    skip_unusable_files()
    assert decorators._try_load_aot_compiled_fn is read
