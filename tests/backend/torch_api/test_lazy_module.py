"""What stands in for `torch._inductor.debug` is that module once anybody wants it (`test_models`: no hit does)."""

PROGRAM = """
import json, sys, torch
torch.compile(lambda x: x, backend="warmgraph")
name, before = "torch._inductor.debug", torch._inductor.debug
found = {"imported": name in sys.modules, "flag": before.RECORD_GRAPH_EXECUTION}
from torch._inductor import debug as held
found["same"] = held is before
with held.record_and_log_graph_execution_order():
    module = sys.modules[name]
    found["replaced"] = torch._inductor.debug is module
    found["told"] = [one.RECORD_GRAPH_EXECUTION for one in (before, module)]
held.GRAPH_EXECUTION_ORDER = ["set"]
found["set"] = module.GRAPH_EXECUTION_ORDER
found["after"] = [one.RECORD_GRAPH_EXECUTION for one in (before, module)]
print(json.dumps(found))
"""


def test_it_gives_way_to_the_module(run_python):
    """Whoever kept it sees what the module says; torch itself finds the module in its place."""
    assert run_python(PROGRAM) == {
        "imported": False,
        "flag": False,
        "same": True,
        "replaced": True,
        "told": [True, True],
        "set": ["set"],
        "after": [False, False],
    }
