"""Every link between the README, the pages of docs/ and the examples leads somewhere. No addresses on the network."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
LINK = re.compile(r"!?\[[^\]\n]*\]\(([^()\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)


def links_of(page: Path) -> list[str]:
    """The targets of a page's links, but for those that begin with a scheme."""
    found = LINK.findall(CODE.sub("", page.read_text("utf-8")))
    return [target for target in found if not re.match(r"[a-z][a-z0-9+.-]*:", target)]


def anchors_of(page: Path) -> set[str]:
    """The names that GitHub gives to a page's headings."""
    seen: Counter[str] = Counter()
    names = set()
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for heading in HEADING.findall(text):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        names.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return names


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    """To a file of the checkout, and to a heading that is on that page."""
    dead = []
    for target in links_of(page):
        file, _, anchor = unquote(target).partition("#")
        place = (page.parent / file).resolve() if file else page
        if not place.exists() or not place.is_relative_to(ROOT) or (anchor and anchor not in anchors_of(place)):
            dead.append(target)
    assert not dead


def test_the_guides_are_linked() -> None:
    """From the README a reader comes to each page of docs/."""
    linked = {(ROOT / target.partition("#")[0]).resolve() for target in links_of(ROOT / "README.md")}
    assert not {page for page in PAGES if page.parent.name == "docs"} - linked
