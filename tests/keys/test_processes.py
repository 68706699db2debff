"""Keys in other processes: hash seed, -O, folder, home, user, rank, visible devices and paths change nothing."""

import json
import subprocess
import sys
from pathlib import Path

from warmgraph.hashing import PART_NAMES

# A user's own module: another path on every host, the same source.
THEIRS = """
import torch

SETTINGS = {"scale": 2.0, "names": {"a", "b", "c", "d"}}

@torch.library.custom_op("wgtheirs::scale", mutates_args=())
def scale(x: torch.Tensor) -> torch.Tensor:
    return x * SETTINGS["scale"]

@scale.register_fake
def _(x):
    return torch.empty_like(x) if SETTINGS["names"] else x

def backward(ctx, gradient):
    return gradient * SETTINGS["scale"]

scale.register_autograd(backward)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.LayerNorm(8))

    def forward(self, x):
        return scale(self.layers(x))
"""

PROGRAM = """
import json, os, sys, torch
sys.path.insert(0, {folder!r})
import theirs
from warmgraph.backend.key.context import key_context
from warmgraph.hashing import key_of
found = []
def backend(gm, inputs):
    found.append(key_of(gm, inputs, key_context(gm, inputs, "warmgraph")))
    return gm.forward
torch.compile(theirs.Model(), backend=backend, dynamic=True)(torch.ones(3, 8))
for k in found:
    for text in k.texts().values():
        for place in (sys.prefix, os.getcwd(), {folder!r}, os.environ.get("HOME", sys.prefix)):
            assert place not in text
print(json.dumps([(k.id, k.texts()) for k in found]))
"""


def test_process_seed_folder_home_user_rank_and_paths_do_not_matter(tmp_path):
    """The same program in processes that share nothing but torch and the machine; without assertions it is another."""
    ranks = {"LOCAL_RANK": "1", "RANK": "3", "WORLD_SIZE": "8", "CUDA_VISIBLE_DEVICES": "1", "MASTER_ADDR": "10.0.0.1"}
    settings = [
        {"PYTHONHASHSEED": "0", "HOME": "/nonexistent", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "a")},
        {"PYTHONHASHSEED": "1", "HOME": str(tmp_path), "USER": "somebody", "LOGNAME": "somebody", **ranks},
        {"PYTHONHASHSEED": "2", "HOSTNAME": "other", "WARMGRAPH_DIR": str(tmp_path / "b"), "TMPDIR": str(tmp_path)},
        {"PYTHONHASHSEED": "3"},
    ]
    found = []
    for number, extra in enumerate(settings):
        folder = tmp_path / f"elsewhere-{number}"
        folder.mkdir()
        (folder / "theirs.py").write_text(THEIRS)
        output = subprocess.run(
            [sys.executable, *(["-O"] if number == 3 else []), "-c", PROGRAM.format(folder=str(folder))],
            env={"PATH": "/usr/bin:/bin", **extra},
            cwd=folder if number else Path.cwd(),
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        found.append(json.loads(output))
    assert '"wgtheirs::scale' in found[0][0][1]["code"]
    *same, optimized = found
    for later in same[1:]:
        for (first_id, first_texts), (other_id, other_texts) in zip(found[0], later, strict=True):
            assert {name: other_texts[name] for name in PART_NAMES} == first_texts
            assert first_id == other_id
    for (first_id, first_texts), (other_id, other_texts) in zip(found[0], optimized, strict=True):
        assert {name for name in PART_NAMES if other_texts[name] != first_texts[name]} == {"toolchain"}
        assert "optimize: 1" in other_texts["toolchain"]
        assert first_id != other_id
