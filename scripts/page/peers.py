"""Whose connection is it? Everybody who has an account on a host reaches what listens on its loopback. Reads /proc."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Any

_OPEN = (0x01, 0x04, 0x05)  # established, or half closed by that end: it can still read
_FIELDS = 10


def is_our_own(peer: Any, here: Any) -> bool:
    """Whether the other end of a loopback connection is this user's, or root's. peer, here: as sockets name them."""
    family = "tcp6" if ":" in str(peer[0]) else "tcp"
    try:
        lines = Path(f"/proc/net/{family}").read_text().splitlines()[1:]
        ends = _hex(str(peer[0]), int(peer[1])), _hex(str(here[0]), int(here[1]))
    except (OSError, ValueError):
        return False
    for line in lines:
        words = line.split()
        if len(words) >= _FIELDS and (words[1], words[2]) == ends:
            # Without an inode nobody holds that end any more.
            return int(words[3], 16) in _OPEN and words[9] != "0" and int(words[7]) in (0, os.geteuid())
    return False


def _hex(address: str, port: int) -> str:
    """As the kernel prints it: the address in words of four bytes, each in this machine's order."""
    packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address.partition("%")[0])
    words = [packed[at : at + 4] for at in range(0, len(packed), 4)]
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words) + f":{port:04X}"
