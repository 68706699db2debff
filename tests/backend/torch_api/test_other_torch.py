"""Entries of one torch are nothing to another: an environment that was upgraded in place begins anew, and says so."""

import pytest
import torch
from warmgraph.backend.torch_api import versions

# The same environment, as it is before and after torch was exchanged: its version, its commit, its files' list.
PROGRAM = """
import json, logging, os, sys, torch
torch.__version__ = sys.argv[1]
torch.version.git_version = "commit of " + sys.argv[1]
import warmgraph.hashing.parts.toolchain as toolchain
files = toolchain._files
toolchain._files = lambda name, root: f"record of {sys.argv[1]}" if name == "torch" else files(name, root)
import warmgraph
from warmgraph.backend.artifact import load
from warmgraph.cache import flush, journal_dir, read, settings
loaded = []
unpickle = load.unpickle
load.unpickle = lambda *args, **named: loaded.append(1) or unpickle(*args, **named)

for k in (1, 2):
    compiled = torch.compile(lambda x: x.cos() + k, backend="warmgraph", options={"fallback_by_default": True})
    compiled(torch.ones(3))
flush()
events = [event for event in read(journal_dir(settings())) if event["pid"] == os.getpid()]
events = [event for event in events if event["outcome"] not in ("restored", "traced")]
keys = ("outcome", "reason", "detail", "differs")
print(json.dumps([[[event[name] for name in keys] for event in events], len(loaded), warmgraph.stats()]))
"""


@pytest.mark.exhaustive
def test_an_environment_that_was_upgraded_begins_anew_with_one_line_that_says_why(run_python):
    """Nothing of the older entries is loaded; a second process of either version finds its own."""
    older, newer = "2.12.1+cpu", str(torch.__version__)
    run_python(PROGRAM, older)
    events, loaded, stats = run_python(PROGRAM, newer)
    assert [event[:2] for event in events] == [["miss", "absent"]] * 2
    assert (loaded, stats["hits"], stats["failures"]) == (0, 0, 0)
    (line,) = [detail for _, _, detail, _ in events if detail]
    assert line == f"what torch {older} compiled is never used by torch {newer}, which begins anew"
    assert all("toolchain" in differs for *_, differs in events)
    for version in (older, newer):
        events, loaded, stats = run_python(PROGRAM, version)
        assert (stats["hits"], stats["misses"], loaded) == (2, 0, 2)
        assert [detail for _, _, detail, _ in events if detail] == []


@pytest.mark.parametrize("older", versions.KNOWN)
def test_no_two_versions_have_a_key_in_common(older, monkeypatch):
    """Of all that a key holds, the version alone is another."""
    from warmgraph.hashing.parts import toolchain

    here = dict(toolchain.toolchain.__wrapped__())
    monkeypatch.setattr(torch, "__version__", f"{older[0]}.{older[1]}.99")
    there = dict(toolchain.toolchain.__wrapped__())
    assert {name for name in here if here[name] != there[name]} == {"torch"}
