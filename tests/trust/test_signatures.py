"""Signatures that readers cannot make, that stay what they are, and that can be taken back."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from warmgraph.cache import Hit, Miss, Reason, flush, new_key, new_pair, parse_keys, signer_of
from warmgraph.cache.format.seal import ED25519, seal, unverified_body
from warmgraph.scripts import main
from warmgraph_tests_remote_servers import wait_for
from warmgraph_tests_trust_hosts import Fleet, Host, key_of, listed


def cli(host: Host, *arguments: Any, expect: int = 0, **more: Any) -> None:
    host.settings(**more)
    assert main([*map(str, arguments)]) == expect


def entry_file(host: Host, number: int = 1) -> Path:
    (found,) = (host.root / "entries").rglob(f"{key_of(number)}/v0")
    return found


def test_public_keys_read_and_do_not_write(fleet: Fleet, caplog: pytest.LogCaptureFixture, capsys: Any) -> None:
    """Hits from the server; its own compiles stay in its folder; said once in the log, and in `doctor`."""
    fleet.host().publish(1)
    before = {name: fleet.raw.dump(name) for name in fleet.raw.keys("*")}
    reader = fleet.host(signing_key=fleet.public)
    with caplog.at_level(logging.WARNING):
        assert isinstance(reader.lookup(1), Hit)
        reader.publish(2)
        reader.publish(3)
    assert len([one for one in caplog.messages if "public halves" in one]) == 1
    assert {name: fleet.raw.dump(name) for name in fleet.raw.keys("*")} == before
    assert reader.hits(2, 3) == [2, 3]
    assert fleet.host().hits(2, 3) == []
    cli(reader, "push", expect=2)
    reader.settings()
    main(["doctor"])
    assert "public halves" in capsys.readouterr().out


def test_a_reader_cannot_sign(fleet: Fleet) -> None:
    """What a reader has is enough to check, not to forge: its seal under the true signer's id is a broken one."""
    fleet.host().publish(1)
    good = fleet.sealed(1)
    signer = parse_keys(new_pair()[0]).signer

    class Pretender:
        algorithm, key_id = ED25519, parse_keys(fleet.public).keys[0].key_id
        sign = staticmethod(signer.sign)  # type: ignore[union-attr]
        verify = staticmethod(signer.verify)  # type: ignore[union-attr]

    forged = seal(key_of(1), unverified_body(good), Pretender(), 7)
    fleet.raw.set(fleet.entries(1), listed(("v0", 7, forged)))
    found = fleet.host(signing_key=fleet.public).lookup(1)
    assert isinstance(found, Miss)
    assert found.reason is Reason.CORRUPT


def test_hmac_stays_for_one_secret(fleet: Fleet) -> None:
    """Who has it reads and writes; nobody else believes it, nor a public half."""
    host = fleet.host(signing_key=fleet.shared)
    host.publish(1)
    assert isinstance(fleet.host(signing_key=fleet.shared).lookup(1), Hit)
    assert isinstance(fleet.host(signing_key=fleet.public).lookup(1), Miss)
    both = fleet.host(signing_key=f"{fleet.public} {fleet.shared}")
    assert isinstance(both.lookup(1), Hit)


def test_a_namespace_is_sealed(fleet: Fleet) -> None:
    """An entry moved from one namespace to another under the same key: on the server, in a folder. Was a hit."""
    fleet.host(namespace="one").publish(1)
    for name in fleet.raw.keys("wg:one:*"):
        fleet.raw.copy(name, name.replace(b"wg:one:", b"wg:two:"))
    host = fleet.host(namespace="two")
    found = host.lookup(1)
    assert isinstance(found, Miss)
    assert found.reason is Reason.CORRUPT
    assert isinstance(fleet.host(namespace="one").lookup(1), Hit)
    local = fleet.host(namespace="one", url="")
    local.publish(2)
    (local.root / "ns" / "one").rename(local.root / "ns" / "two")
    found = local.lookup(2, namespace="two")
    assert isinstance(found, Miss)
    assert found.reason is Reason.CORRUPT


def test_an_imported_entry_keeps_its_seal(fleet: Fleet, tmp_path: Path) -> None:
    """A bundle forged with a leaked key and imported while that was believed; then the key is rotated out and the
    server flushed. It hit from the folder, and `push` signed it with the new key.
    """
    leaked, new = new_key(), new_pair()[0]
    forger = Host(tmp_path / "forger", url="", signing_key=leaked)
    forger.publish(1, text="forged")
    bundle = tmp_path / "bundle"
    cli(forger, "export", "--to", bundle)
    victim = fleet.host(signing_key=leaked)
    cli(victim, "import", bundle)
    assert isinstance(victim.lookup(1), Hit)
    assert signer_of(entry_file(victim).read_bytes()) == parse_keys(leaked).ids()[0]
    assert flush(), "it was given to the server"
    fleet.raw.flushall()
    found = victim.lookup(1, signing_key=new)
    assert isinstance(found, Miss)
    assert found.reason is Reason.UNTRUSTED
    cli(victim, "push", expect=1, signing_key=new)
    assert fleet.raw.keys("*:e") == []
    again = tmp_path / "again"
    cli(victim, "export", "--to", again, expect=1, signing_key=new)
    other = fleet.host(signing_key=new)
    cli(other, "import", again)
    assert isinstance(other.lookup(1), Miss)


def test_seals_stay_over_pull_push_and_export(fleet: Fleet, tmp_path: Path) -> None:
    """By hosts that sign with another key, or with none."""
    fleet.host().publish(1)
    signer = parse_keys(fleet.secret).ids()[0]
    second = new_pair()[0]
    middle = fleet.host(signing_key=f"{second} {fleet.public}")
    cli(middle, "pull")
    assert signer_of(entry_file(middle).read_bytes()) == signer
    fleet.raw.flushall()
    cli(middle, "push")
    assert signer_of(fleet.sealed(1)) == signer
    reader = fleet.host(signing_key=fleet.public, url="")
    bundle = tmp_path / "bundle"
    cli(middle, "export", "--to", bundle)
    cli(reader, "import", bundle)
    assert signer_of(entry_file(reader).read_bytes()) == signer
    assert isinstance(reader.lookup(1), Hit)


def test_import_of_an_older_entry_does_not_replace_a_newer(fleet: Fleet, tmp_path: Path) -> None:
    maker = fleet.host(url="")
    maker.publish(1, text="old")
    cli(maker, "export", "--to", tmp_path / "old")
    maker.publish(1, text="new")
    cli(maker, "export", "--to", tmp_path / "new")
    host = fleet.host(url="", signing_key=fleet.public)
    for name in ("old", "new", "old"):
        cli(host, "import", tmp_path / name)
    found = host.lookup(1)
    assert isinstance(found, Hit)
    assert found.blobs["result"].startswith(b"new")


# -- revocation


def test_revoked_is_a_miss_everywhere(fleet: Fleet, tmp_path: Path, capsys: Any) -> None:
    """By key; a lookup learns of it in its own round trip; memory, folder, server, push, pull, import obey it."""
    writer = fleet.host()
    writer.publish(1, 2)
    reader = fleet.host(signing_key=fleet.public)
    cache = reader.cache()
    for number in (1, 2):
        assert isinstance(cache.lookup(key_of(number), lambda entry: True), Hit)
    bundle = tmp_path / "bundle"
    cli(writer, "export", "--to", bundle)
    cli(writer, "revoke", key_of(1), "--why", "wrong driver")
    # The same process: what it has in memory is asked again, and not believed from its next trip to the server on.
    assert isinstance(cache.lookup(key_of(9), lambda entry: True), Miss)
    found = cache.lookup(key_of(1), lambda entry: True)
    assert isinstance(found, Miss)
    assert found.reason is Reason.UNTRUSTED
    assert "revoked: wrong driver" in str(found.detail)
    assert isinstance(cache.lookup(key_of(2), lambda entry: True), Hit)
    # Offline from then on.
    assert reader.hits(1, 2, url="") == [2]
    assert fleet.host(signing_key=fleet.public).hits(1, 2) == [2]
    late = fleet.host()
    cli(late, "pull")
    assert late.hits(1, 2, url="") == [2]
    cli(late, "import", bundle, expect=1)
    assert late.hits(1, 2, url="") == [2]
    fleet.raw.flushall()
    cli(writer, "push", expect=0)
    assert fleet.raw.keys("*:e") == [fleet.entries(2).encode()]
    capsys.readouterr()
    cli(late, "revocations", "--json")
    assert '"why": "wrong driver"' in capsys.readouterr().out
    writer.publish(1)
    assert fleet.host().hits(1) == [1], "what is compiled from then on is believed"


def test_revoked_by_signer_and_by_time(fleet: Fleet) -> None:
    """All that a signer signed, whenever; all that was signed before."""
    other = new_pair()
    ring = f"{fleet.secret} {other[1]}"
    fleet.host(signing_key=ring).publish(1)
    fleet.host(signing_key=other[0]).publish(2)
    admin = fleet.host(signing_key=ring)
    assert fleet.host(signing_key=ring).hits(1, 2) == [1, 2]
    cli(admin, "revoke", "--signer", parse_keys(other[1]).ids()[0], "--why", "leaked")
    assert fleet.host(signing_key=ring).hits(1, 2) == [1]
    fleet.host(signing_key=other[0]).publish(3)
    assert fleet.host(signing_key=ring).hits(3) == []
    cli(admin, "revoke", "--before", "0s", "--why", "bad compiler")
    assert fleet.host(signing_key=ring).hits(1, 2, 3) == []
    fleet.host(signing_key=ring).publish(4)
    assert fleet.host(signing_key=ring).hits(4) == [4]


def test_a_list_of_nobodys_revokes_nothing(fleet: Fleet) -> None:
    """Statements of strangers, garbage, a value of another type, a huge one; and who deletes it frees nothing."""
    from warmgraph.cache.format.revocations import Revocation, statement

    host = fleet.host()
    host.publish(1)
    said = Revocation("", "", 0, "mine", 1)
    for value in (
        statement(said, None),
        statement(said, parse_keys(new_pair()[0]).signer),
        os.urandom(5000),
        b"\0" * 9,
    ):
        fleet.raw.set("wg:revocations", value)
        assert fleet.host().hits(1) == [1]
    fleet.raw.setrange("wg:revocations", 40 * 2**20, b"x")
    assert fleet.host().hits(1) == [1]
    fleet.raw.delete("wg:revocations")
    fleet.raw.rpush("wg:revocations", b"x")
    assert fleet.host().hits(1) == [1]
    cli(host, "revoke", key_of(1)[:20], "--why", "heals")
    learnt = fleet.host()
    assert learnt.hits(1) == []
    wait_for((learnt.root / "revocations").exists, "it is not kept")  # whoever learnt it first writes it
    fleet.raw.delete("wg:revocations")
    assert learnt.hits(1) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "that would be everything"),
        (["wg1zz"], "KEY="),
        (["wg1aa"], "KEY="),
        (["--signer", "x"], "--signer='x'"),
        (["--before", "soon"], "--before='soon'"),
        (["wg1" + "a" * 64, "--why", "\x1b[2J"], "--why="),
    ],
)
def test_a_revocation_that_cannot_be(fleet: Fleet, capsys: Any, arguments: list[str], said: str) -> None:
    why = [] if "--why" in arguments else ["--why", "x"]
    cli(fleet.host(), "revoke", *arguments, *why, expect=2)
    assert said in capsys.readouterr().err
    assert not fleet.raw.exists("wg:revocations")


def test_no_import_where_no_signature_is_checked() -> None:
    """HMAC, checksums and the command line leave the library unimported."""
    program = (
        "import sys, warmgraph.cache as c, warmgraph.scripts\n"
        "ring = c.parse_keys(c.new_key()); k = 'wg1' + '0' * 64\n"
        "c.unseal(k, c.seal(k, b'x', ring.signer), ring.verifier(unsigned=True)); c.unseal(k, c.seal(k, b'x'))\n"
        "warmgraph.scripts.main(['config', '--json'])\n"
        "sys.exit(any(name.split('.')[0] in ('nacl', 'cryptography') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
