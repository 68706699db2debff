"""Settings: arguments over environment over defaults, each with its origin; wrong ones refused in one line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from warmgraph.cache import (
    ConfigError,
    Mode,
    Settings,
    configure,
    describe,
    journal_dir,
    new_key,
    parse_keys,
    parse_size,
    reset_settings,
    settings,
    store_root,
)


def test_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without anything set: the user's cache folder, 10 GB, read and write."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    found = settings()
    assert found.dir.name == "warmgraph"
    assert tmp_path in found.dir.parents
    assert not found.dir.exists(), "resolving settings makes no folder"
    assert (found.url, found.namespace, found.mode) == (None, "default", Mode.READWRITE)
    assert (found.strict, found.max_size, found.max_files) == (False, 10**10, 200_000)
    assert set(found.origins.values()) == {"default"}


def test_argument_over_environment_over_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each setting comes from the nearest place that has it, and says which."""
    monkeypatch.setenv("WARMGRAPH_DIR", str(tmp_path / "env"))
    monkeypatch.setenv("WARMGRAPH_MODE", "readonly")
    found = configure(dir=tmp_path / "arg")
    assert (found.dir, found.mode, found.strict) == (tmp_path / "arg", Mode.READONLY, False)
    rows = {name: (value, origin) for name, value, origin in describe()}
    assert rows["dir"] == (str(tmp_path / "arg"), "configure()")
    assert rows["mode"] == ("readonly", "environment WARMGRAPH_MODE")
    assert rows["strict"] == ("False", "default")
    names = "dir dir_mode url url_mode signing_key_file signing_key trust wait skew ttl verify pgo frames job namespace"
    assert list(rows) == [*names.split(), "mode", "strict", "max_size", "max_files"]


def test_configure_adds_up(tmp_path: Path) -> None:
    """A second call keeps what the first one set."""
    configure(dir=tmp_path, mode="refresh")
    found = configure(strict=True)
    assert (found.dir, found.mode, found.strict) == (tmp_path, Mode.REFRESH, True)
    assert settings() is found
    reset_settings()
    assert settings().mode is Mode.READWRITE


def test_settings_are_resolved_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment is read on first use, and not again."""
    monkeypatch.setenv("WARMGRAPH_DIR", str(tmp_path / "one"))
    first = settings()
    monkeypatch.setenv("WARMGRAPH_DIR", str(tmp_path / "two"))
    assert settings() is first


def test_refused_configure_changes_nothing(tmp_path: Path) -> None:
    """After a ConfigError the settings are what they were."""
    before = configure(dir=tmp_path)
    with pytest.raises(ConfigError):
        configure(strict=True, mode="fast")
    assert settings() is before


@pytest.mark.parametrize("mode", [*Mode, *(mode.value for mode in Mode)])
def test_modes(mode: Mode | str) -> None:
    """A mode may be given by name."""
    assert configure(mode=mode).mode == mode
    assert isinstance(settings().mode, Mode)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("5GB", 5 * 10**9),
        ("5 gb", 5 * 10**9),
        ("500MB", 500 * 10**6),
        ("10GiB", 10 * 2**30),
        ("1.5KiB", 1536),
        ("12KB", 12_000),
        ("2TB", 2 * 10**12),
        ("7B", 7),
        (12345, 12345),
    ],
)
def test_sizes(text: int | str, size: int) -> None:
    """Sizes are bytes, or a number with a decimal or binary unit."""
    assert parse_size("x", text) == size
    assert configure(max_size=text).max_size == size


@pytest.mark.parametrize(
    ("text", "strict"),
    [
        ("1", True),
        ("TRUE", True),
        ("yes", True),
        ("on", True),
        ("0", False),
        ("Off", False),
        ("no", False),
        ("false", False),
    ],
)
def test_booleans(monkeypatch: pytest.MonkeyPatch, text: str, strict: bool) -> None:
    """strict takes the usual words."""
    monkeypatch.setenv("WARMGRAPH_STRICT", text)
    assert settings().strict is strict


@pytest.mark.parametrize(
    ("variables", "job"),
    [
        ({}, None),
        ({"SLURM_JOB_ID": "42", "TORCHELASTIC_RUN_ID": "nightly"}, "42"),
        ({"TORCHELASTIC_RUN_ID": "nightly"}, "nightly"),
        ({"TORCHELASTIC_RUN_ID": "none"}, None),  # torchrun's default
        ({"SLURM_JOB_ID": "x" * 65}, "job-9537c5fdf120482f"),  # too long for a name: by its digest
        ({"TORCHELASTIC_RUN_ID": "\x1b[2J"}, "job-05704e8a84c06017"),
        ({"SLURM_JOB_ID": "42", "WARMGRAPH_JOB": "mine"}, "mine"),
        ({"SLURM_JOB_ID": "42", "WARMGRAPH_JOB": ""}, None),
    ],
)
def test_job_is_the_schedulers(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], job: str | None) -> None:
    """What nobody names is called as Slurm or torchrun calls it, if that can be a name; and nothing fails over it."""
    for name in ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert settings().job == job


BAD: list[tuple[str, Any, str]] = [
    ("frames", "gpu", "false, no, off"),
    ("job", "x" * 65, "64 printable"),
    ("job", "a\nb", "64 printable"),
    ("mode", "fast", "readwrite, readonly, refresh, off"),
    ("mode", "", "readwrite"),
    ("mode", "READWRITE", "readwrite"),
    ("strict", "maybe", "true"),
    ("strict", "", "true"),
    ("namespace", "", "1 to 64"),
    ("namespace", ".hidden", "no leading dot"),
    ("namespace", "..", "no leading dot"),
    ("namespace", "a/b", "1 to 64"),
    ("namespace", "a" * 65, "1 to 64"),
    ("namespace", "é", "1 to 64"),
    ("namespace", "a\n", "1 to 64"),
    ("max_size", "0", "more than 0"),
    ("max_size", "-5GB", "more than 0"),
    ("max_size", "", "more than 0"),
    ("max_size", "lots", "KB, MB, GB"),
    ("max_size", "5XB", "KB, MB, GB"),
    ("max_size", "1e9", "KB, MB, GB"),
    ("max_size", "\u0665GB", "KB, MB, GB"),
    ("max_size", "0.0001B", "more than 0"),
    ("max_size", "9" * 5000, "KB, MB, GB"),
    ("max_size", "99999999999TB", "more than 0"),
    ("dir", "", "a path to a folder"),
    ("dir_mode", "refresh", "readwrite, readonly"),
    ("url_mode", "off", "readwrite, readonly"),
    ("trust", "everyone", "signed, network"),
    ("wait", "-1", "0 or more"),
    ("wait", "nan", "0 or more"),
    ("wait", "5 weeks", "s, m, h, d"),
    ("ttl", "5", "at least 60"),
    ("ttl", "for ever", "s, m, h, d"),
    ("dir", "  ", "a path to a folder"),
    ("dir", "x" * 5000, "a path to a folder"),
    ("dir", "~nobody-of-this-name/cache", "a path to a folder"),
]


@pytest.mark.parametrize(("name", "value", "allowed"), BAD)
def test_bad_value_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch, name: str, value: str, allowed: str) -> None:
    """A wrong value, in the environment or as an argument, is named with what is allowed, in one short line."""
    variable = f"WARMGRAPH_{name.upper()}"
    with monkeypatch.context() as patch:
        patch.setenv(variable, value)
        with pytest.raises(ConfigError) as from_environment:
            settings()
    with pytest.raises(ConfigError) as from_argument:
        configure(**{name: value})
    for error, label in ((from_environment, variable), (from_argument, name)):
        text = str(error.value)
        assert text.startswith(f"{label}=")
        assert repr(value)[1:20] in text or repr(value) in text
        assert allowed in text
        assert "\n" not in text
        assert len(text) < 400


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dir", "a\0b"),
        ("dir", b"bytes"),
        ("dir", 3),
        ("mode", 1),
        ("strict", 2),
        ("namespace", 5),
        ("max_size", True),
        ("max_size", -1),
        ("max_size", 1.5),
        ("max_size", 2**80),
    ],
)
def test_bad_argument_is_refused(name: str, value: object) -> None:
    """An argument of a wrong type is a ConfigError that names it."""
    with pytest.raises(ConfigError, match=f"^{name}="):
        configure(**{name: value})  # type: ignore[arg-type]


def test_dir_below_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder below a regular file can never be: refused, with the file named."""
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "a" / "b"):
        monkeypatch.setenv("WARMGRAPH_DIR", str(folder))
        with pytest.raises(ConfigError, match=r"^WARMGRAPH_DIR=.*file is not a folder\)$"):
            settings()


def test_relative_dir_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A relative folder is relative to where the process was when it was set; `~` is the home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert configure(dir="cache").dir == tmp_path / "cache"
    monkeypatch.chdir("/")
    assert configure(strict=True).dir == tmp_path / "cache"
    assert configure(dir="~/cache").dir == tmp_path / "home" / "cache"


def test_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a home (a container with an unknown user) the default is a folder of this user under /tmp."""
    import platformdirs

    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: Path("~/.cache") / name)
    assert settings().dir.is_absolute()
    assert settings().dir.name == f"warmgraph-{os.getuid()}"


def test_url_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A remote store without a key is refused, naming both ways out and no password; an empty URL is none."""
    monkeypatch.setenv("WARMGRAPH_URL", "redis://:hunter2@host/0")
    with pytest.raises(ConfigError, match=r"^WARMGRAPH_URL=.*warmgraph keygen.*WARMGRAPH_TRUST=network") as refused:
        settings()
    assert "hunter2" not in str(refused.value)
    assert "\n" not in str(refused.value)
    for name, value in (("TRUST", "network"), ("SIGNING_KEY", new_key()), ("MODE", "off")):
        with monkeypatch.context() as patch:
            patch.setenv(f"WARMGRAPH_{name}", value)
            assert "hunter2" not in repr(settings()) + str(describe())
        reset_settings()
    monkeypatch.setenv("WARMGRAPH_URL", "")
    assert settings().url is None


def test_bad_url_shows_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL that cannot be read is refused without being shown: what is wrong may be the password."""
    monkeypatch.setenv("WARMGRAPH_TRUST", "network")
    for url in ("http://:hunter2@host", "redis://:hunter2@host:99999", "redis://:hun/ter2@host", "hunter2"):
        monkeypatch.setenv("WARMGRAPH_URL", url)
        with pytest.raises(ConfigError, match=r"^WARMGRAPH_URL: ") as refused:
            settings()
        assert "ter2" not in str(refused.value)
        assert "\n" not in str(refused.value)


def test_signing_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The file's first key signs; all keys of file and text are accepted; none is ever shown."""
    old, new, extra = new_key(), new_key(), new_key()
    file = tmp_path / "keys"
    file.write_text(f"# rotated today\n{new}\n{old}  # until Monday\n")
    file.chmod(0o600)
    monkeypatch.setenv("WARMGRAPH_SIGNING_KEY_FILE", str(file))
    monkeypatch.setenv("WARMGRAPH_SIGNING_KEY", f"{extra}, {old}")
    found = settings()
    assert found.keyring.signer == parse_keys(new).signer
    assert found.keyring.ids() == parse_keys(f"{new} {old} {extra}").ids()
    shown = repr(found) + str(found) + str(describe())
    assert not any(key[5:] in shown or repr(bytes.fromhex(key[5:])) in shown for key in (old, new, extra))
    assert found.keyring.ids()[2] in str(describe())


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o606, 0o644])
def test_key_file_that_others_can_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: int) -> None:
    """A key file that others can read or write is refused, with what to do."""
    file = tmp_path / "keys"
    file.write_text(new_key())
    file.chmod(mode)
    if os.geteuid() == 0:  # what belongs to root may be read by a group: root is not simply "me" here
        os.chown(file, 12345, 12345)
    monkeypatch.setenv("WARMGRAPH_SIGNING_KEY_FILE", str(file))
    with pytest.raises(ConfigError, match=r"^WARMGRAPH_SIGNING_KEY_FILE=.*chmod 600"):
        settings()


BAD_KEYS = ["", "# nothing", "wgk1-12", "hunter2", f"{new_key()} x", new_key().upper()]


@pytest.mark.parametrize("text", BAD_KEYS, ids=["empty", "comment", "short", "word", "two", "capitals"])
def test_bad_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    """A file or text that holds something else is refused without being shown; a missing file is named."""
    file = tmp_path / "keys"
    file.write_text(text)
    file.chmod(0o600)
    for name, value in (("SIGNING_KEY_FILE", str(file)), ("SIGNING_KEY", text), ("SIGNING_KEY_FILE", "/no/such")):
        with monkeypatch.context() as patch:
            patch.setenv(f"WARMGRAPH_{name}", value)
            if value == "":
                assert settings().keyring.keys == ()
                reset_settings()
                continue
            with pytest.raises(ConfigError, match=rf"^WARMGRAPH_{name}.*warmgraph keygen") as refused:
                settings()
            assert "hunter2" not in str(refused.value)


def test_where_things_lie(tmp_path: Path) -> None:
    """The default namespace lies in the folder itself, others below it."""
    assert store_root(configure(dir=tmp_path)) == tmp_path
    nightly = configure(namespace="nightly-2.1")
    assert store_root(nightly) == tmp_path / "ns" / "nightly-2.1"
    assert journal_dir(nightly) == tmp_path / "ns" / "nightly-2.1" / "journal"


def test_settings_compare_by_value(tmp_path: Path) -> None:
    """Where a value came from makes no difference between settings."""
    by_hand = Settings(tmp_path, None, "default", Mode.READWRITE, False, 10**10, 200_000)
    assert configure(dir=tmp_path) == by_hand
