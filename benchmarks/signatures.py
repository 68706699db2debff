"""What a signature costs a hit: Ed25519 against HMAC, at 1 MB, from a folder. Not the network.

python -m benchmarks.signatures    # writes benchmarks/results/signatures.json
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warmgraph.cache import Entry, Hit, Role, configure, new_key, new_pair, open_cache, parse_keys, reset_settings
from warmgraph.cache.format.seal import seal, unseal

from .machines import machine_with

MB = 2**20
ROUNDS = 200
KEY = f"wg1{'0' * 64}"
RESULT = Path(__file__).parent / "results" / "signatures.json"


def median_ms(work: Any, rounds: int = ROUNDS) -> float:
    spent = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return round(statistics.median(spent) * 1e3, 4)


def seals(kind: str, text: str, check: str) -> dict[str, float]:
    """Sealing and unsealing 1 MB."""
    signer, verifier = parse_keys(text).signer, parse_keys(check).verifier(unsigned=False)
    body = os.urandom(MB)
    sealed = seal(KEY, body, signer, 1)
    return {
        "seal_1mb_ms": median_ms(lambda: seal(KEY, body, signer, 1)),
        "unseal_1mb_ms": median_ms(lambda: unseal(KEY, sealed, verifier)),
    }


def hits(kinds: Mapping[str, tuple[str, str]]) -> dict[str, float]:
    """A lookup of an entry with a blob of 1 MB, by a fresh cache each time, so that memory does not answer.

    In turns, so that what else this machine does falls on all alike.
    """
    spent: dict[str, list[float]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for kind, (text, check) in kinds.items():
            reset_settings()
            cache = open_cache(configure(dir=Path(folder) / kind, signing_key=text))
            cache.publish(Entry(KEY, "v0", {}, None, {}, ()), [(Role.AOT_RESULT, "r", os.urandom(MB))])
            assert cache.flush()
            reset_settings()
            found[kind] = configure(dir=Path(folder) / kind, signing_key=check)
        for _ in range(ROUNDS):
            for kind, settings in found.items():
                cache = open_cache(settings)
                start = time.perf_counter()
                assert isinstance(cache.lookup(KEY, lambda entry: True), Hit)
                spent[kind].append(time.perf_counter() - start)
    return {kind: round(statistics.median(times) * 1e3, 4) for kind, times in spent.items()}


def imported() -> dict[str, float]:
    """Seconds that the library's import takes in a fresh process, once per process and only if there is a signature."""
    program = "import time; t = time.perf_counter(); import nacl.bindings; print(time.perf_counter() - t)"
    found = [float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(5)]
    return {"import_ms": round(statistics.median(found) * 1e3, 3)}


def main() -> None:
    secret, public = new_pair()
    shared = new_key()
    kinds = {"hmac": (shared, shared), "ed25519": (secret, public)}
    found: dict[str, Any] = {kind: seals(kind, *keys) for kind, keys in kinds.items()}
    for kind, spent in hits(kinds).items():
        found[kind]["hit_1mb_ms"] = spent
    found["ed25519"] |= imported()
    more = found["ed25519"]["hit_1mb_ms"] - found["hmac"]["hit_1mb_ms"]
    sealing = found["ed25519"]["unseal_1mb_ms"] - found["hmac"]["unseal_1mb_ms"]
    found["more_ms"] = {"hit_1mb": round(more, 4), "unseal_1mb": round(sealing, 4)}
    RESULT.write_text(json.dumps({"machine": machine_with("cpu"), **found}, indent=1) + "\n")
    print(RESULT.read_text())


if __name__ == "__main__":
    main()
