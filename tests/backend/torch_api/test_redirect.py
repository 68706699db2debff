"""What `warmgraph run` takes over in torch, and what of it stays torch's own. Whole programs: `scripts/test_run.py`."""

import pytest

PROGRAM = """
import json, logging, torch
from warmgraph.backend import adopt

adopt(torch, lambda: None)

class Own(torch._TorchCompileInductorWrapper):
    pass

said = []
handler = logging.Handler()
handler.emit = lambda record: said.append(record.getMessage())
logging.getLogger("warmgraph.backend.torch_api.entrances.redirect").addHandler(handler)

def double(x):
    return x * 2

def result(**given):
    torch._dynamo.reset()
    return torch.compile(double, backend="cudagraphs", **given)(torch.ones(2)).tolist()

def sizes(wrapper):
    return wrapper(None, None, None).frame_profiles() is not None

taken = torch._TorchCompileInductorWrapper
found = {"option": result(options={"nonsense": 1}), "mode": result(mode="nonsense"), "plain": result(), "said": said}
found["sizes"] = [sizes(taken), sizes(Own), sizes(torch._TorchCompileAOTInductorWrapper)]
with torch._functorch.config.patch(bundled_autograd_cache=True):
    found["sizes"].append(sizes(taken))
print(json.dumps(found))
"""


@pytest.fixture
def found(run_python):
    return run_python(PROGRAM)


def test_modes_and_options_that_cudagraphs_ignores_are_ignored(found):
    """torch's `cudagraphs` takes any with a warning; a program that names one runs as it did."""
    assert found["option"] == found["mode"] == found["plain"] == [2.0, 2.0]
    assert found["said"] == [
        "cudagraphs backend ignoring extra kwargs {'options': {'nonsense': 1}}",
        "cudagraphs backend ignoring extra kwargs {'mode': 'nonsense'}",
    ]


def test_only_what_is_taken_over_is_told_which_sizes_vary(found):
    """A subclass, AOTInductor and what torch writes down itself compile for the sizes that they would without us."""
    assert found["sizes"] == [True, False, False, False]
