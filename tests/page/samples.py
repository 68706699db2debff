"""Events of a small, made-up cluster, as the journal gives them: for the page's tests. No cache, no torch, no files."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

BEGAN = 1_763_600_000.0
DAY = 86_400.0
HOSTS = ("gpu-a01", "gpu-a02", "gpu-b01", "cpu-c07")
# name, file, line, nodes, seconds to compile, bytes
FUNCTIONS = (
    ("forward", "/srv/train/model.py", 41, 812, 64.0, 4_800_000),
    ("TransformerBlock.forward", "/srv/train/blocks.py", 118, 345, 31.0, 2_100_000),
    ("training_step", "/srv/train/loop.py", 77, 1290, 118.0, 9_400_000),
    ("sample", "/srv/serve/decode.py", 203, 96, 9.4, 410_000),
    ("attention", "/srv/train/attention.py", 22, 140, 22.0, 1_300_000),
    ("embed", "/srv/search/embed.py", 15, 210, 17.5, 900_000),
    ("loss", "/srv/train/loss.py", 9, 38, 4.2, 120_000),
    ("rotary", "/srv/train/attention.py", 88, 24, 3.1, 70_000),
)
MISSES = (
    ("absent", None, None),
    ("absent", "graph: node 14 mul 2.0 -> 3.0", ["graph"]),
    ("absent", "toolchain: torch 2.12.1 -> 2.13.0", ["toolchain"]),
    ("absent", "machine: gpu NVIDIA A100 -> NVIDIA H100", ["machine"]),
    ("guards", "no entry's guards hold: 2 <= s0 and s0 <= 64; this call has s0 = 96", None),
    ("incomplete", "1 of 14 blobs is gone: cpp-kernel 3f9a", None),
    ("untrusted", "signed with key 7be1c2d0, which is not known here", None),
)
BYPASSES = (
    ("wrapped-call", 3, "node `scale_grad` calls train.hooks.scale_grad, which has no user_cache_hash"),
    ("unsafe-op", 1, "node `cond_1` calls torch.ops.higher_order.cond"),
    ("constant-too-large", 5, "constant `_tensor_constant0` is 96 MiB; the limit is 64 MiB"),
)
SKIPS = (
    ("cpu-device", 2, "skipping cudagraphs due to cpu device (arg4_1) at /srv/train/loop.py:81"),
    ("mutated-input", 3, "mutated input arg2_1, which no CUDA graph produced, at /srv/serve/decode.py:219"),
)
HOSTILE = (
    "<script>document.title='pwned'</script>",
    "</script><img src=x onerror=\"document.title='pwned'\">",
    "\" onmouseover=\"document.title='pwned'",
    "\u202egnp.exe\u202c \u2066x\u2069",
    "\x1b[31mred\x1b[0m\x07\x00",
    "line\u2028separator\u2029",
    "<!--<script>",
    "__proto__",
    "constructor",
    "\ud800 alone",
    "עברית",
    "w" * 3000,
)


def events(count: int, seed: int = 1, hosts: tuple[str, ...] = HOSTS) -> Iterator[dict[str, Any]]:
    """`count` events over five days: mostly hits, a deploy on the third day that misses, some of everything else."""
    chance = random.Random(seed)
    per_process = 12
    clocks: dict[int, float] = {}
    starts = max(1, count // per_process)
    for number in range(count):
        process = number // per_process
        begin = BEGAN + 5 * DAY * process / starts
        now = clocks.get(process, begin + chance.uniform(1.5, 6))
        event = _event(chance, process, hosts, deployed=2.0 < (begin - BEGAN) / DAY < 2.4)
        now += sum(event["seconds"].values()) + chance.uniform(0.05, 1.5)
        clocks = {process: now}
        yield event | {"time": now, "started": begin}


def _event(chance: random.Random, process: int, hosts: tuple[str, ...], *, deployed: bool) -> dict[str, Any]:
    which = chance.choices(range(len(FUNCTIONS)), weights=(9, 12, 6, 10, 8, 5, 4, 3))[0]
    function, file, line, nodes, compile_seconds, size = FUNCTIONS[which]
    shape = chance.randrange(4)
    rank = process % 8 if process % 3 else None
    event: dict[str, Any] = {
        "host": hosts[process % len(hosts)],
        "pid": 4000 + process,
        "rank": rank,
        "parts": {},
        "nodes": nodes,
        "key": f"wg1{which * 16 + shape + (512 if deployed else 256):064x}",
        "function": function,
        "file": file,
        "line": line,
        "bytes": None,
        "reason": None,
        "tier": None,
        "detail": None,
        "seconds_saved": None,
        "nearest": None,
        "differs": None,
        "backend": "warmgraph",
        "namespace": "default",
        "job": f"train-{process // 40}" if rank is not None else None,
    }
    found = chance.random()
    took = compile_seconds * chance.uniform(0.8, 1.3)
    hashing = {"hash": nodes * 2e-5 * chance.uniform(0.7, 1.6)}
    if found < (0.55 if deployed else 0.972):
        tier = chance.choices(("memory", "disk", "redis"), weights=(1, 6, 4))[0]
        fetch = {"memory": 1e-5, "disk": 0.002, "redis": 0.012}[tier] * chance.uniform(0.7, 2.5)
        phases = {**hashing, "fetch": fetch, "load": 0.02 + nodes * 4e-5 * chance.uniform(0.6, 1.5)}
        return event | {"outcome": "hit", "tier": tier, "bytes": size, "seconds_saved": took, "seconds": phases}
    if found < 0.985:
        reason, detail, differs = MISSES[2 if deployed else chance.randrange(len(MISSES))]
        phases = {
            **hashing,
            "fetch": 0.004,
            "wait": chance.choice((0.0, 0.0, took / 3)),
            "compile": took,
            "publish": 0.03,
        }
        nearest = f"wg1{which * 16 + shape:064x}" if differs else None
        missed = {"outcome": "miss", "reason": reason, "detail": detail, "differs": differs, "nearest": nearest}
        return event | missed | {"seconds": phases, "bytes": size}
    if found < 0.993:
        reason, at, detail = chance.choice(BYPASSES)
        function, file, line, *_ = FUNCTIONS[at]
        named = {"function": function, "file": file, "line": line, "key": None}
        return event | named | {"outcome": "bypass", "reason": reason, "detail": detail, "seconds": {"compile": took}}
    if found < 0.998:
        reason, at, detail = chance.choice(SKIPS)
        function, file, line, *_ = FUNCTIONS[at]
        named = {"function": function, "file": file, "line": line}
        return event | named | {"outcome": "skipped", "reason": reason, "detail": detail, "seconds": {}}
    failed = {"outcome": "failed", "reason": "unreadable", "tier": "redis", "detail": "redis: timed out after 0.15 s"}
    return event | failed | {"seconds": {**hashing, "fetch": 0.15}}
