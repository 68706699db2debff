"""What frames hold since torch 2.15: graphs of which nothing is left, context variables named after their owner."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import json, os, torch
from warmgraph.cache import journal_dir, read, settings
torch._inductor.config.fallback_by_default = True

@torch._dynamo.disable
def log(*values): pass

def scaled(x, rate):
    log(rate)  # the rate alone was a graph until then, and leaves nothing in it
    return x * rate

def summed(x):
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        return x * x.sum().item()

x = torch.arange(4.0)
compiled = [torch.compile(one, backend="warmgraph") for one in (scaled, summed)]
for rate in (0.25, 0.5, 0.75):
    assert torch.equal(compiled[0](x, rate), x * rate)
assert torch.equal(compiled[1](x), x * 6)
events = [event for event in read(journal_dir(settings())) if event["pid"] == os.getpid()]
told = [[event["outcome"], event["function"], event["detail"]] for event in events]
print(json.dumps([one for one in told if one[0] in ("traced", "restored", "miss", "bypass")]))
"""


def test_all_frames_of_the_next_process_are_restored(environment, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    held = environment()

    def run():
        command = [sys.executable, "program.py"]
        done = subprocess.run(command, env=held, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    cold, warm = run(), run()
    assert any(outcome == "traced" for outcome, *_ in cold)
    assert {outcome for outcome, *_ in warm} == {"restored"}, warm
