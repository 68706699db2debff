"""A process that publishes, and reads what others publish, until it is done or killed. Run by the tests."""

import contextlib
import os
import random
import sys
from pathlib import Path

from warmgraph.cache import Entry, Hit, Mode, Role, Settings, open_cache


def key_of(number: int) -> str:
    return f"wg1{number:064x}"


def content_of(number: int, seed: int) -> bytes:
    """Incompressible, so that files are long enough to be torn."""
    return random.Random(f"{number} {seed}").randbytes(60_000)


def publish(cache, number: int, seed: int) -> None:
    draft = Entry(key_of(number), f"v{seed % 3}", {"graph": "x"}, None, {}, (), {"number": number, "seed": seed})
    content = content_of(number, seed)
    cache.publish(draft, [(Role.AOT_RESULT, "aot", content), (Role.CPP_KERNEL, "k", content[::-1])])


def check(hit: Hit) -> None:
    """A hit must be exactly what one process published."""
    content = content_of(hit.entry.facts["number"], hit.entry.facts["seed"])
    assert hit.blobs == {"aot": content}, "a hit with wrong bytes"
    assert hit.entry.key == key_of(hit.entry.facts["number"]), "a hit of another key"
    with contextlib.suppress(FileNotFoundError):  # evicted since: allowed
        assert hit.files["k"].read_bytes() == content[::-1], "a kernel with wrong bytes"


def main() -> None:
    root, seed, rounds, max_size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    settings = Settings(root, None, "default", Mode.READWRITE, False, max_size, 10_000)
    random.seed(seed)
    hits = 0
    writer = open_cache(settings)
    print("ready", flush=True)
    for _ in range(rounds):
        publish(writer, random.randrange(12), seed)
        reader = open_cache(settings)  # without a memory of its own
        found = reader.lookup(key_of(random.randrange(12)), lambda entry: True)
        if isinstance(found, Hit):
            check(found)
            hits += 1
        assert reader.health() == {}, reader.health()
    assert writer.flush(60)
    assert writer.health() == {}, writer.health()
    print("hits", hits, "dropped", writer.dropped, os.getpid(), flush=True)


if __name__ == "__main__":
    main()
