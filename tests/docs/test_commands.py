"""Every command that the README and the pages of docs/ show is run, as it stands there, in the order of its page."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`(warmgraph(?: [a-z-]+)[^`\n]*)`")

WARMGRAPH = Path(sys.executable).with_name("warmgraph")

# What begins so is a command, and must stand in an `sh` block.
COMMAND = re.compile(r"^ {4,}(\$ )?(?:[A-Z_]+=\S+ )*(warmgraph|python3?|pip|make|torchrun|tlparse) .*$", re.MULTILINE)

# What a test cannot run here, and who does. One that stands on no page any more fails.
NOT_RUN = {
    "python examples/saved_tensors_hooks.py": "tests/test_examples.py runs it",
    "make gpu-check PYTHON=/opt/torch/bin/python3": "needs a GPU; without one it says so (tests/gpu)",
    "make gpu-check ARGS='--quick'": "needs a GPU",
    "make gpu-check ARGS='--models resnet50 --what training'": "needs a GPU",
    "python3 -m benchmarks.gpu_check --help": "needs the checkout as its folder",
    "python3 -m benchmarks.operators --device cuda --dtypes float32 bfloat16 --ops 'norm|softmax'": "needs a GPU",
    "python3 -m pip install --no-index --no-deps --target /tmp/carried wheels/*.whl": "for the GPU machine",
    "PYTHONPATH=/tmp/carried make gpu-check": "for the GPU machine",
    "pip install tlparse": "changes the environment of the tests",
    "tlparse trace/*.log -o report --overwrite --no-browser": "no package of the tests",
    "pip install 'warmgraph[otel]'": "not on an index yet",
    "make demo": "the demo has a test of its own; this downloads its packages",
    "make test": "this is part of it",
    "make test-torch VERSION=2.15.0": "gigabytes, and an hour",
    "warmgraph journal --json | grep restored": "nothing was restored by what is run here",
    "vllm serve MODEL -cc.mode=2 -cc.backend=warmgraph": "needs vLLM and a model",
    "warmgraph run -m vllm.entrypoints.openai.api_server --model MODEL": "needs vLLM and a model",
    "pip install .": "CI installs it",
    "docker compose -f deploy/compose.yaml up -d": "needs a Docker daemon; nobody runs it",
}
# Pages for hosts that have a server already.
ON_A_CLUSTER = ("configuration.md", "operations.md", "security.md", "audit.md")
# Programs that go on until they are stopped.
ENDLESS = ("warmgraph serve", "warmgraph top", "redis-server")
TRAIN = """
import sys
import torch

def step(x):
    return (x.sin() * 2).sum()

def other(x):
    return x.cos() + 1

for function in (step, other):
    torch.compile(function, options={"fallback_by_default": True})(torch.ones(4))
"""


def commands(page):
    """The lines of a page's `sh` blocks; comments cut off, continued lines joined."""
    lines = []
    for block in BLOCK.findall(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            line = re.sub(r"(^|\s)#\s.*$", "", line).strip()
            if line:
                lines.append(line)
    return lines


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with the users and the password that the pages write down."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    import redis

    folder = tmp_path_factory.mktemp("redis")
    (folder / "users.acl").write_text(
        "user default on nopass ~* &* +@all\nuser user on >password ~* &* +@all\n"
        "user warmgraph-writer on >PASSWORD ~* &* +@all\n"
    )
    socket = folder / "s"
    command = [program, "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, "--aclfile", str(folder / "users.acl")], stdout=log, stderr=log)
    with redis.Redis(unix_socket_path=str(socket)) as client:
        for _ in range(200):
            with contextlib.suppress(redis.ConnectionError):
                client.ping()
                break
            time.sleep(0.05)
        yield client, socket
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def store(tmp_path_factory, inductor_cache, cleared):
    """A folder with the results of one small program, which ran twice; and its environment."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "train.py").write_text(TRAIN)
    found = cleared | {
        "WARMGRAPH_DIR": str(folder / "store"),
        "TORCHINDUCTOR_CACHE_DIR": str(inductor_cache),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHON": sys.executable,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    for _ in range(2):
        subprocess.run([WARMGRAPH, "run", "train.py"], cwd=folder, env=found, check=True, capture_output=True)
    return folder / "store", found


@pytest.fixture
def place(tmp_path, store):
    """A folder as a checkout looks from outside: the examples, what is in deploy/, a program to train."""
    for name in ("examples", "deploy"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "train.py").write_text(TRAIN)
    shutil.copytree(store[0], tmp_path / "store")
    return tmp_path


def prepared(line, keys, socket):
    """A line as it can run here: this server in the place of theirs, keys that are there, an end to what has none."""
    line = re.sub(r"^warmgraph serve\b", "warmgraph serve --port 0", line)
    line = re.sub(r"\bwg13f9a\b", keys[0][:12], line)
    line = re.sub(r"\bwg1c07b\b", keys[1][:12], line)
    line = re.sub(r"redis://(?:([\w-]+):(\w+)@)?cache:6379/0", rf"unix://\1:\2@{socket}?socket_timeout=5", line)
    line = line.replace("/etc/warmgraph/warmgraph.key", "$PWD/warmgraph.key").replace("unix://:@", "unix://")
    if line.startswith(ENDLESS):
        line = f"timeout --signal=INT 3 {line} >/dev/null || test $? = 124 -o $? = 130"
    return line


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_every_command_of_a_page_works(page, place, store, server):
    """In one shell from top to bottom, as a reader would who follows the page."""
    lines = [line for line in commands(page) if line not in NOT_RUN]
    if not lines:
        return
    client, socket = server
    client.flushall()
    environment = store[1] | {"WARMGRAPH_DIR": str(place / "store")}
    if page.name in ON_A_CLUSTER:
        environment |= {"WARMGRAPH_URL": f"unix://{socket}?socket_timeout=5", "WARMGRAPH_TRUST": "network"}
    listed = subprocess.run([WARMGRAPH, "ls", "--json"], env=environment, capture_output=True, text=True, check=True)
    entries = json.loads(listed.stdout)["entries"]
    keys = sorted({entry["key"] for entry in entries if not entry["function"].startswith("frame of")})
    script = "\n".join(f"echo '+' {number} >&2\n{prepared(line, keys, socket)}" for number, line in enumerate(lines))
    process = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    reached = re.findall(r"^\+ (\d+)$", process.stderr, re.MULTILINE)
    assert process.returncode == 0, f"{page.name}: {lines[int(reached[-1])]}\n{process.stderr[-3000:]}"


def test_every_command_named_in_a_sentence_exists():
    """`warmgraph verify --fix` in running text names a command and options that are there."""
    spans = {span for page in PAGES for span in SPAN.findall(page.read_text())}
    helps = {}
    for span in sorted(spans):
        words = span.split()
        name = words[1]
        if name not in helps:
            asked = subprocess.run([WARMGRAPH, name, "--help"], capture_output=True, text=True, check=False)
            assert asked.returncode == 0, f"`{span}`: there is no command {name}"
            helps[name] = asked.stdout
        for option in re.findall(r"(?<!\S)--[a-z-]+", span):
            assert option in helps[name], f"`{span}`: {name} takes no {option}"


def test_every_command_stands_where_it_is_run():
    """An indented line is output or a program; one that is a command would be passed over."""
    indented = {
        page.name: found for page in PAGES if (found := [m.group(0) for m in COMMAND.finditer(page.read_text())])
    }
    assert not indented


def test_what_is_not_run_is_still_shown():
    """The list of exceptions holds nothing that no page shows."""
    shown = {line for page in PAGES for line in commands(page)}
    assert NOT_RUN.keys() - shown == set()
