"""What docs/security.md names is there: every test in its table."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_every_test_that_the_table_names_is_there() -> None:
    """By file, and by name where it gives one."""
    page = (ROOT / "docs" / "security.md").read_text()
    named = re.findall(r"`((?:tests/[a-z]+/)?test_\w+\.py)(?:::(\w+))?`", page)
    assert len(named) > 12
    for path, name in named:
        file = ROOT / path if "/" in path else ROOT / "tests" / "trust" / path
        assert file.is_file(), path
        assert not name or re.search(rf"^\s*(?:def|class) {name}\b", file.read_text(), re.MULTILINE), (path, name)
