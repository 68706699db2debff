"""What everything is called in Redis, and which names are ours. No I/O.

    wg:<ns>:{<key>}:e        entries, last written first, each `<variant> <generation> <length>\n<sealed>`
    wg:<ns>:{<key>}:lease    who compiles this key
    wg:<ns>:{<key>}:fence    the token of its last lease; `<token> done` once that was given back
    wg:<ns>:{<key>}:bad:<v>  the generation up to which variant v was set aside: no folder brings that back
    wg:<ns>:b:<digest>:<i>   piece i of a blob
    wg:<ns>:near:<address>   lines: what the index of resemblances knows, last noted first
    wg:<ns>:events           stream: the fleet's journal, one event per entry in the field `e`
    wg:<ns>:probe:<random>   read and written to see whether that works
    wg:revocations           what is not believed any more, in all namespaces (`format.revocations`)

All but the stream are strings, of which so many bytes can be asked for and no more; and a string is written over
whatever lies in its place.

What stands in braces decides on a cluster's slot, so that what one script touches is on one node.
"""

from __future__ import annotations

import re
import secrets

from msgspec import Struct

from ...format.codec import DIGEST, KEY, VARIANT, check_name

_NAMESPACE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
_GLOB = re.compile(r"([*?\[\]\\^-])")
REVOCATIONS = "wg:revocations"


class Names(Struct, frozen=True):
    """Raises ValueError for a namespace, key, variant or digest that is not one."""

    namespace: str

    def __post_init__(self) -> None:
        check_name(_NAMESPACE, self.namespace, "namespace")

    def entries(self, key: str) -> str:
        return self._of_key(key, "e")

    def lease(self, key: str) -> str:
        return self._of_key(key, "lease")

    def fence(self, key: str) -> str:
        return self._of_key(key, "fence")

    def set_aside(self, key: str, variant: str) -> str:
        check_name(VARIANT, variant, "variant")
        return self._of_key(key, f"bad:{variant}")

    def pieces(self, digest: str, count: int) -> list[str]:
        check_name(DIGEST, digest, "digest")
        return [f"wg:{self.namespace}:b:{digest}:{number}" for number in range(count)]

    def near(self, address: str) -> str:
        check_name(DIGEST, address, "address")
        return f"wg:{self.namespace}:near:{address}"

    @property
    def events(self) -> str:
        return f"wg:{self.namespace}:events"

    @property
    def probe(self) -> str:
        """Another one each time: what somebody put in its place is not met again."""
        return f"wg:{self.namespace}:probe:{secrets.token_hex(8)}"

    def entries_from(self, prefix: str = "") -> str:
        """A pattern for SCAN: entries whose key begins with `prefix`. What it finds is to be matched by `key_of`."""
        return self._pattern(f"{{{_glob(prefix or 'wg1')}*}}:e")

    @property
    def all_pieces(self) -> str:
        return self._pattern("b:*")

    def key_of(self, name: bytes) -> str | None:
        """The key whose entries lie under `name`; None when that is no name of ours."""
        start, end = f"wg:{self.namespace}:{{".encode(), b"}:e"
        if not (name.startswith(start) and name.endswith(end)):
            return None
        key = name[len(start) : -len(end)].decode("ascii", "replace")
        return key if KEY.fullmatch(key) else None

    def digest_of(self, name: bytes) -> str | None:
        """The digest of the blob of which `name` is a piece; None when that is no name of ours."""
        match = re.fullmatch(rb"wg:([A-Za-z0-9._-]+):b:([0-9a-f]{64}):\d{1,5}", name)
        return match[2].decode() if match and match[1].decode() == self.namespace else None

    def _of_key(self, key: str, what: str) -> str:
        check_name(KEY, key, "key")
        return f"wg:{self.namespace}:{{{key}}}:{what}"

    def _pattern(self, rest: str) -> str:
        return f"wg:{_glob(self.namespace)}:{rest}"


def _glob(text: str) -> str:
    return _GLOB.sub(lambda match: chr(92) + match[1], text)
