"""What a Redis that fails costs a process: milliseconds added, for each way to fail.

    python -m benchmarks.faults                 # five minutes

Each run is a fresh process that imports torch, and then, timed until it has exited: opens the cache, looks up five
keys, publishes five results. Before each run with a fault there is one without any Redis; what is reported is the
median over rounds of the difference. Nothing is compiled, as its seconds would drown the difference; a pause stands
for Dynamo's tracing, during which the connection is made. The faults are made by `tests/remote/proxy.py`, in
front of a real server. Writes benchmarks/results/faults.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from warmgraph.cache import new_key

from .bytecode import compile_modules
from .redis_server import redis_server

RESULTS = Path(__file__).with_name("results") / "faults.json"
PROXY = Path(__file__).resolve().parent.parent / "tests" / "remote" / "proxy.py"
BUDGET_MS = 250

PROGRAM = """
import logging, time
import torch, torch._dynamo
logging.disable()
print("ready", flush=True)
from warmgraph.cache import Entry, Miss, Role, open_cache, settings
cache = open_cache(settings())
time.sleep(0.3)  # in a process that compiles, Dynamo traces meanwhile
for number in range(5):
    key = f"wg1{number:064x}"
    found = cache.lookup(key, lambda entry: True)
    assert isinstance(found, Miss), found
    with cache.flight(key) as flight:
        draft = Entry(key, "v0", {}, None, {}, ())
        cache.publish(draft, [(Role.AOT_RESULT, "result", bytes(range(256)) * 400)], flight)
"""

FAULTS: list[tuple[str, str, bytes]] = [
    ("healthy", "PASS", b""),
    ("refused", "REFUSE", b""),
    ("accepts, never answers", "SILENT", b""),
    ("a byte per second", "DRIP", b""),
    ("dies in the middle of an answer", "CUT", b""),
    ("not a Redis", "GARBAGE", b""),
    ("LOADING", "ERROR", b"-LOADING Redis is loading the dataset in memory\r\n"),
    ("NOAUTH", "ERROR", b"-NOAUTH Authentication required.\r\n"),
    ("MOVED", "ERROR", b"-MOVED 1 127.0.0.1:1\r\n"),
    ("OOM", "WRITE_ERROR", b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"),
    ("READONLY", "WRITE_ERROR", b"-READONLY You can't write against a read only replica.\r\n"),
    ("name that does not resolve", "", b""),
]


def proxying() -> Any:
    spec = importlib.util.spec_from_file_location("warmgraph_benchmarks_proxy", PROXY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(url: str | None) -> float:
    """Seconds of one fresh process, from when torch is imported until it has exited."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WARMGRAPH_")}
    with tempfile.TemporaryDirectory(prefix="warmgraph-faults-") as folder:
        environment |= {"WARMGRAPH_DIR": folder, "WARMGRAPH_SIGNING_KEY": new_key()}
        if url is not None:
            # A namespace for each run: every lookup is a miss, also where the server works.
            environment |= {"WARMGRAPH_URL": url, "WARMGRAPH_NAMESPACE": os.path.basename(folder)}  # noqa: PTH119
        process = subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        begin = time.perf_counter()
        if process.wait() != 0:
            sys.exit("a process failed")
        seconds = time.perf_counter() - begin
        process.stdout.close()
        return seconds


def measure(name: str, mode: str, error: bytes, port: int, rounds: int) -> dict[str, Any]:
    module = proxying()
    added, plain = [], []
    for _ in range(rounds):
        with module.Proxy(("127.0.0.1", port)) as proxy:
            proxy.error, proxy.cut_after = error or proxy.error, 2
            if mode:
                proxy.mode = module.Mode[mode]
            url = f"redis://127.0.0.1:{proxy.port}" if mode else "redis://no-such-host.invalid:6379"
            without, with_fault = run(None), run(url)
        plain.append(without)
        added.append(1000 * (with_fault - plain[-1]))
    return {"fault": name, "added_ms": median(added), "worst_ms": max(added), "process_ms": 1000 * median(plain)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    compile_modules()
    found = []
    with redis_server() as port:
        if port is None:
            sys.exit("redis-server is not installed")
        run(None)  # what is compiled to bytecode once
        for name, mode, error in FAULTS:
            found.append(measure(name, mode, error, port, options.rounds))
            one = found[-1]
            over = " !" if one["added_ms"] > BUDGET_MS else ""
            print(f"{name}: {one['added_ms']:.0f} ms added, at worst {one['worst_ms']:.0f} ms{over}", flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(
        json.dumps({"budget_ms": BUDGET_MS, "rounds": options.rounds, "faults": found}, indent=1) + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
