"""Keys of a real model, whatever else its program imports, and in whatever order: the same."""

import pytest
import torch
import torch._inductor.ops_handler

PROGRAM = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
for name in sys.argv[1:]:
    importlib.import_module(name)
import torch
from transformers import BertConfig, BertModel
from warmgraph.backend.key.context import key_context
from warmgraph.hashing import key_of

found = []
def backend(gm, inputs):
    found.append(key_of(gm, inputs, key_context(gm, inputs, "warmgraph")))
    return gm.forward

torch.manual_seed(0)
config = BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=64)
model = BertModel(config).eval()
with torch.no_grad():
    torch.compile(model, backend=backend)(torch.ones(1, 8, dtype=torch.long))
print(json.dumps([[key.id, key.digests()] for key in found]))
"""

ORDERS = {
    "Inductor first": ["torch._inductor.compile_fx", "transformers"],
    "transformers and accelerate first": ["transformers", "accelerate", "torch.distributed.tensor"],
    "what is rarely imported": [
        "torch.export",
        "torch.nn.attention.flex_attention",
        "torch._functorch.vmap",
        "torch.onnx",
    ],
}


@pytest.fixture(scope="module")
def plain(once, run_in, tmp_path_factory):
    return once("import-orders", lambda: of(run_in, tmp_path_factory.mktemp("plain"), []))


def of(run_in, folder, names):
    (folder / "program.py").write_text(PROGRAM)
    return run_in(folder, "program.py", *names)


@pytest.mark.parametrize("order", ORDERS)
def test_what_a_program_imports_and_when_is_in_no_key(order, plain, run_in, tmp_path):
    """Torch adds to its own tables as its modules are imported, and libraries add operators of theirs."""
    found = of(run_in, tmp_path, ORDERS[order])
    assert len(plain) >= 1
    assert [
        {part for part in digests if digests[part] != plain[n][1][part]} for n, (_, digests) in enumerate(found)
    ] == [set() for _ in plain]


EARLY = """
import json, sys, torch
from warmgraph.backend.key.context import key_context
from warmgraph.hashing import key_of
from torch._inductor.ops_handler import register_pointwise_op
if "registers" in sys.argv:
    register_pointwise_op("ours")
assert "torch._inductor.lowering" not in sys.modules

found = []
def backend(gm, inputs):
    found.append(key_of(gm, inputs, key_context(gm, inputs, "warmgraph")).id)
    return gm.forward

torch.compile(lambda x: x.sin() + 1, backend=backend)(torch.ones(3))
print(json.dumps(found))
"""


@pytest.mark.skipif(not hasattr(torch._inductor.ops_handler, "register_pointwise_op"), reason="since torch 2.15")
def test_what_a_program_registers_before_inductor_is_imported_is_in_its_keys(run_in, tmp_path):
    (tmp_path / "program.py").write_text(EARLY)
    without, with_it = run_in(tmp_path, "program.py"), run_in(tmp_path, "program.py", "registers")
    assert without == run_in(tmp_path, "program.py") != with_it == run_in(tmp_path, "program.py", "registers")
