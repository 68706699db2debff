"""torch's ahead-of-time compile (`aot_compile`, as vLLM uses it): a hit can be written to a file as a compile can."""

import os
import subprocess
import sys

import pytest
import torch

import warmgraph

PROGRAM = """
import sys
import torch
import warmgraph

torch.manual_seed(0)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.second(torch.nn.functional.gelu(self.first(x)))


model, x = Model(), torch.randn(3, 8)
path = sys.argv[2]
if sys.argv[1] == "save":
    compiled = torch.compile(Model.forward, backend="warmgraph", fullgraph=True).aot_compile(((model, x), {}))
    compiled.save_compiled_function(path)
    counts = warmgraph.stats()
    print([counts[name] for name in ("hits", "misses", "bypasses")])
else:
    with open(path, "rb") as file:
        compiled = torch.compiler.load_compiled_function(file)
found = compiled(model, x)
found.square().sum().backward()
gradients = [parameter.grad.clone() for parameter in model.parameters()]
model.zero_grad()
expected = model(x)
expected.square().sum().backward()
torch.testing.assert_close(found, expected)
torch.testing.assert_close(gradients, [parameter.grad for parameter in model.parameters()])
print("agrees")
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(torch.__version__.startswith("2.11."), reason="this torch has none of a function")
def test_a_function_saved_from_a_compile_and_from_a_hit_loads_elsewhere(tmp_path):
    """Results and gradients are eager's: saved cold, warm, and where hits are verified; loaded by fresh processes."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def run(*arguments, **extra):
        command = [sys.executable, str(program), *arguments]
        done = subprocess.run(command, env=os.environ | extra, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout.splitlines()

    cold, warm, verified = (str(tmp_path / name) for name in ("cold", "warm", "verified"))
    assert run("save", cold) == ["[0, 1, 0]", "agrees"]
    assert run("save", warm) == ["[1, 0, 0]", "agrees"]
    assert run("save", verified, WARMGRAPH_VERIFY="1") == ["[1, 0, 0]", "agrees"]
    for path in (cold, warm, verified):
        assert run("load", path) == ["agrees"]


@pytest.mark.exhaustive
def test_nothing_is_kept_for_a_file_that_nobody_writes():
    """Without `aot_compile` a loaded function carries no result along, which would take its bytes in memory."""
    x = torch.randn(4)

    def double(x):
        return x * 2 + 1

    torch.compile(double, backend="warmgraph")(x)
    warmgraph.flush()
    torch._dynamo.reset()
    made, before = [], warmgraph.stats()["hits"]

    def watched(gm, inputs):
        made.append(torch._dynamo.lookup_backend("warmgraph")(gm, inputs))
        return made[0]

    torch.compile(double, backend=watched)(x)
    assert warmgraph.stats()["hits"] == before + 1
    assert not hasattr(made[0], "serialize")
