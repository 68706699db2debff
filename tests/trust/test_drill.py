"""The rotation drill of docs/security.md, run from its own lines: leak, rotate, revoke."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from warmgraph.cache import Hit, parse_keys
from warmgraph.scripts import main
from warmgraph_tests_trust_hosts import Fleet, Host

PAGE = Path(__file__).parent.parent.parent / "docs" / "security.md"


def drill_lines() -> str:
    """The first `sh` block under "When a key leaked"."""
    section = PAGE.read_text().partition("## When a key leaked")[2]
    block = re.search(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert block is not None
    return block[1]


def run(lines: str, folder: Path, **environment: str) -> str:
    bin = Path(sys.executable).parent
    clean = {name: value for name, value in os.environ.items() if not name.startswith("WARMGRAPH_")}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", lines],
        cwd=folder,
        env=clean | {"PATH": f"{bin}{os.pathsep}{os.environ['PATH']}"} | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def learns(host, key):
    """Look up until the server was reached: while a connection is being made, nobody waits for it."""
    until = time.monotonic() + 60
    while not (host.root / "revocations").exists():
        assert time.monotonic() < until, "the host never learnt of the revocation"
        assert host.hits(99, signing_key=key) == []


def test_leak_rotate_revoke(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the leaked key is loaded anywhere afterwards, and what the new key vouches for still hits."""
    desk = tmp_path / "desk"
    desk.mkdir()
    run("warmgraph keygen --to fleet.key", desk)
    old_secret, old_public = (desk / "fleet.key").read_text(), (desk / "fleet.key.pub").read_text()
    leaked = parse_keys(old_secret).ids()[0]

    # Three hosts and an image with entries of the old key, genuine and forged: from the server, by import, by pull.
    signer = fleet.host(signing_key=old_secret)
    signer.publish(1, 2, 3)
    hosts = [fleet.host(signing_key=old_public) for _ in range(3)]
    assert [host.hits(1, 2, 3) for host in hosts] == [[1, 2, 3]] * 3
    image = Host(tmp_path / "image", url="", signing_key=old_public)
    signer.settings()
    assert main(["export", "--to", str(tmp_path / "bundle")]) == 0
    image.settings()
    assert main(["import", str(tmp_path / "bundle")]) == 0
    assert image.hits(1, 2, 3) == [1, 2, 3]

    # The thief.
    fleet.host(signing_key=old_secret).publish(4, 5, text="forged")
    assert hosts[0].hits(4, 5) == [4, 5]

    said = run(
        drill_lines(),
        desk,
        WARMGRAPH_URL=fleet.server.patient_url,
        WARMGRAPH_DIR=str(tmp_path / "admin"),
    )
    assert leaked in said
    new_secret, new_public = (desk / "new.key").read_text(), (desk / "new.pub").read_text()
    assert parse_keys(new_public).ids() == parse_keys(new_secret).ids()
    assert leaked not in parse_keys(new_public).ids()

    # A host that has not got the new file yet, and then all of them; online, offline, by import again.
    everything = range(1, 6)
    late = (desk / "fleet.key.pub").read_text()
    for host in hosts:
        learns(host, late)
        assert host.hits(*everything, signing_key=late) == []
        assert host.hits(*everything, signing_key=late, url="") == [], "from the moment it learnt of it"
        assert host.hits(*everything, signing_key=new_public) == []
        assert host.hits(*everything, signing_key=new_public, url="") == []
    assert image.hits(*everything, signing_key=new_public) == []
    image.settings(signing_key=new_public)
    assert main(["import", str(tmp_path / "bundle")]) == 1
    assert image.hits(*everything, signing_key=new_public) == []

    # The thief goes on; push and pull carry nothing.
    fleet.host(signing_key=old_secret).publish(6, text="forged")
    signer.settings(signing_key=new_secret)
    assert main(["push"]) == 1
    for host in hosts:
        host.settings(signing_key=new_public)
        main(["pull"])
        assert host.hits(*range(1, 7), signing_key=new_public, url="") == []

    # What the new key vouches for hits, on the hosts and in the image.
    maker = fleet.host(signing_key=new_secret)
    maker.publish(1, 2)
    for host in hosts:
        assert host.hits(*range(1, 7), signing_key=new_public) == [1, 2]
        found = host.lookup(1, signing_key=new_public, url="")
        assert isinstance(found, Hit)
        assert found.blobs["result"].startswith(b"ours")
    maker.settings()
    assert main(["export", "--to", str(tmp_path / "new")]) == 0
    image.settings(signing_key=new_public)
    assert main(["import", str(tmp_path / "new")]) == 0
    assert image.hits(*range(1, 7), signing_key=new_public) == [1, 2]
