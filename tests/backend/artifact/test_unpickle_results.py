"""Real results of many kinds through the allow-list: compiled in one process, loaded in another, strictly."""

import pytest
import torch

KINDS = """
import enum, json, torch, warmgraph
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

class Tag(enum.Enum):
    A = 1

class Tagged(torch.Tensor):
    @staticmethod
    def __new__(cls, inner, tag):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)
    def __init__(self, inner, tag):
        self.inner, self.tag = inner, tag
    def __tensor_flatten__(self):
        return ["inner"], {"tag": self.tag, "dtype": self.inner.dtype}
    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Tagged(inner["inner"], context["tag"])
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args = torch.utils._pytree.tree_map_only(Tagged, lambda t: t.inner, args)
        return Tagged(func(*args, **(kwargs or {})), Tag.A)

def leaves(value):
    found = []
    for v in torch.utils._pytree.tree_leaves(value):
        if isinstance(v, Tagged):
            assert v.tag is Tag.A
            v = v.inner
        if isinstance(v, TwoTensor):
            found += [v.a, v.b]
        elif isinstance(v, torch.Tensor):
            found.append(v)
    return [v.detach() for v in found]

def constants(x):
    dtypes = (torch.float64, torch.bfloat16, torch.float8_e4m3fn, torch.uint16, torch.int64, torch.complex64)
    return [torch.tensor([1.5, 0.0, 2.0] * 5).to(x.dtype), torch.tensor([1j, 2, 3]) * x[0, :3],
            *[torch.tensor(range(12)).to(d).to(torch.complex64).real.reshape(3, 4) + x for d in dtypes]]

def views(x):
    y = x * 2
    return (x.view(-1), x[1:], x.t(), x.expand(2, 3, 4), x.unbind(1), x.split(1), y.view(2, -1), y[0], x.detach(),
            torch.view_as_real(y.to(torch.complex64)))

def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 2))


def run(wrap, x):
    w = x.clone().requires_grad_()
    nested = torch.compiler.nested_compile_region(lambda x: x.sin().cos())
    model = net()
    yield wrap(lambda x: x * 2)(Tagged(x, Tag.A))
    two = TwoTensor(x.clone(), x + 1).requires_grad_()
    loss = wrap(lambda t: t.sin().sum())(two)
    loss.backward()
    yield loss, two.grad
    yield wrap(constants)(x)
    yield wrap(views)(w)
    yield wrap(views, dynamic=True)(torch.ones(3, 4, requires_grad=True))
    yield wrap(lambda x: (x.add_(1), x.view(-1)[2:], x.view(2, -1))[1:], dynamic=True)(x.clone())
    out = wrap(lambda x: (nested(x) + nested(x + 1)).sum())(w)
    out.backward()
    yield out, w.grad.clone()
    yield wrap(model)(x), list(model.buffers())
    wrap(lambda x: model(x).pow(3).mean())(x).backward()
    yield [p.grad for p in model.parameters()]
    yield wrap(lambda x, s: x * s, dynamic=True)(x, 0.5)

x = torch.arange(12.0).reshape(3, 4) / 7
torch._dynamo.reset()
found = []
pairs = zip(run(lambda f, **k: torch.compile(f, backend="warmgraph", **k), x), run(lambda f, **k: f, x))
for number, (got, want) in enumerate(pairs):
    got, want = leaves(got), leaves(want)
    found.append(len(got) == len(want) and all(
        torch.allclose(a.to(torch.complex128), b.to(torch.complex128), 1e-4, 1e-5) for a, b in zip(got, want)))
warmgraph.flush()
print(json.dumps({"agree": found, **warmgraph.stats()}))
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(torch.__version__.startswith("2.11."), reason="asks a subclass for its parts while it is made")
def test_every_kind_of_result_keeps_loading(run_python, tmp_path):
    """Strict, in a fresh process: one name that the tables lack raises here, and says itself."""
    (tmp_path / "kinds.py").write_text(KINDS)  # a file: the source of its subclass is in the key
    cold = run_python("import kinds")
    warm = run_python("import kinds", compiler=False)
    assert all(cold["agree"])
    assert all(warm["agree"])
    assert (cold["bypasses"], cold["failures"]) == (0, 0)
    assert cold["misses"] >= 9
    assert (warm["hits"], warm["misses"]) == (cold["misses"] + cold["hits"], 0)
