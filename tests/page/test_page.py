"""The page as a reader meets it: in a real browser, by mouse and by keyboard, on a desk and on a phone."""

from __future__ import annotations

import re

import pytest
from warmgraph.scripts.audit import audit_events

SIZES = (10, 100_000)


@pytest.mark.parametrize("count", (0, *SIZES))
def test_a_page_opens_without_a_complaint_and_asks_the_network_for_nothing(count, document, open_page):
    """No console message, no violation of its own policy; one sentence says how things are."""
    opened = open_page(document(count))
    assert all(address.startswith(("file:", "data:")) for address in opened.asked)
    sentence = opened.page.locator("h1").inner_text()
    if count == 0:
        assert sentence == "No events yet."
    else:
        totals = document(count)["totals"]
        assert f"of {totals['hits'] + totals['misses']:,} lookups were hits" in sentence
    assert len(opened.page.content()) < 2_000_000


def test_a_hundred_thousand_events_give_their_numbers(document, open_page):
    """The totals, the causes and the tables say what the document says."""
    opened = open_page(document(100_000))
    totals = document(100_000)["totals"]
    tiles = dict(zip(opened.texts(".tile dt"), opened.texts(".tile dd b"), strict=True))
    assert tiles["Misses"] == f"{totals['misses']:,}"
    assert tiles["Bypassed"] == f"{totals['bypasses']:,}"
    assert tiles["Failed"] == f"{totals['failed']:,}"
    causes = [row for row in document(100_000)["reasons"] if row["outcome"] == "miss"]
    assert opened.numbers("#misses .cause-count") == [row["count"] for row in causes]
    assert "100" not in tiles["Hit rate"]


def test_a_wrong_hit_comes_before_all_else(samples, open_page):
    """The page's first words, and its title; a hit that was found right is no such thing."""
    event = next(samples.events(1)) | {"outcome": "verified"}
    found = audit_events(
        [event | {"reason": "differs"}, event | {"reason": "not-comparable"}, event | {"reason": None}]
    )
    sentence = open_page(found.as_json()).page.locator("h1").inner_text()
    assert sentence.startswith("1 hit gave another result than a fresh compile; ")
    right = audit_events([event | {"reason": None}]).as_json()
    assert "another result" not in open_page(right).page.locator("h1").inner_text()


def test_a_table_is_sorted_by_its_headers(document, open_page):
    """By click and by keyboard; the header says in which order, and the focus stays."""
    opened = open_page(document(1000))
    table = opened.page.locator("#functions table")
    spent = table.locator("th", has_text="Spent")
    assert spent.get_attribute("aria-sort") == "descending"

    misses = table.locator("th", has_text="Misses")
    misses.locator("button").click()
    column = "#functions tbody > tr:first-child > :nth-child(3)"
    assert opened.numbers(column) == sorted(opened.numbers(column), reverse=True)
    assert misses.get_attribute("aria-sort") == "descending"
    assert spent.get_attribute("aria-sort") is None

    opened.page.keyboard.press("Enter")
    assert opened.numbers(column) == sorted(opened.numbers(column))
    assert misses.get_attribute("aria-sort") == "ascending"
    assert opened.page.evaluate("document.activeElement.textContent").startswith("Misses")


def test_a_filter_narrows_every_list_and_is_cleared(document, open_page):
    """By text, outcome and host; lists that are then empty say so."""
    opened = open_page(document(1000))
    names = "#functions .name"
    everything = opened.texts(names)

    opened.page.get_by_label("Filter", exact=True).fill("TRAINING loop.py")
    opened.settled()
    assert opened.texts(names) == ["training_step"]
    assert "Nothing here passes the filter." in opened.page.locator("#bypasses").inner_text()
    opened.page.get_by_role("button", name="Clear").click()
    opened.settled()
    assert opened.texts(names) == everything

    opened.page.locator("#outcome").select_option("bypass")
    opened.settled()
    assert opened.page.locator("#misses .cause").count() == 0
    assert opened.page.locator("#bypasses .name").count() > 0
    bypassed = [row["function"] for row in document(1000)["functions"] if row["bypasses"]]
    assert sorted(opened.texts(names)) == sorted(bypassed)

    opened.page.get_by_role("button", name="Clear").click()
    opened.page.locator("#host").select_option("gpu-b01")
    opened.settled()
    assert set(opened.texts("#processes .name")) == {"gpu-b01"}
    assert "other lists are not told apart by host" in opened.page.locator("#host-note").inner_text()


def test_rows_open_by_click_and_by_keyboard(document, open_page):
    """A cause, a miss in it, a process; what is open stays open when another filter draws the lists again."""
    opened = open_page(document(1000))
    page = opened.page
    cause = page.locator("#misses > details").first
    cause.locator("summary").focus()
    page.keyboard.press("Enter")
    opened.settled()
    row = cause.locator(".opener").first
    row.click()
    assert row.get_attribute("aria-expanded") == "true"
    assert re.search(r"warmgraph explain wg1[0-9a-f]{64}", cause.inner_text())

    process = page.locator("#processes .opener").first
    process.focus()
    page.keyboard.press("Space")
    opened.settled()
    figure = page.locator("#processes figure svg[role=img]")
    assert figure.count() == 1
    assert "events of process" in figure.locator("desc").text_content()
    assert figure.locator("rect[class^=phase-]").count() > 5
    page.locator("#processes .waterfall summary").click()
    assert page.locator("#processes .waterfall tbody tr").count() == len(document(1000)["processes"][0]["events"])

    page.locator("#outcome").select_option("miss")
    opened.settled()
    assert page.locator("#processes .opener[aria-expanded=true]").count() == 1
    process.press("Enter")
    assert page.locator("#processes .opener[aria-expanded=true]").count() == 0
    assert page.locator("#processes figure").first.is_hidden()


def test_a_long_list_begins_short(document, open_page):
    """Twelve rows, and a button for the rest that keeps the focus."""
    opened = open_page(document(1000))
    rows = "#processes table.sortable > tbody"
    assert opened.page.locator(rows).count() == 12
    opened.page.locator("#processes .more").press("Enter")
    assert opened.page.locator(rows).count() == len(document(1000)["processes"])
    assert opened.page.evaluate("document.activeElement.textContent") == "Show the first 12"


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("scheme", ("light", "dark"))
def test_a_phone_shows_the_page_without_scrolling_sideways(count, scheme, document, open_page):
    """360 pixels, everything opened."""
    opened = open_page(document(count), width=360, scheme=scheme)
    opened.open_everything()
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 360


def test_light_and_dark_follow_the_reader(document, open_page):
    """As the system says, and when it changes."""
    opened = open_page(document(10))
    ground = "getComputedStyle(document.body).backgroundColor"
    light = opened.page.evaluate(ground)
    opened.page.emulate_media(color_scheme="dark")
    dark = opened.page.evaluate(ground)
    brightness = [sum(map(int, re.findall(r"\d+", colour))) for colour in (light, dark)]
    assert brightness[0] > 600
    assert brightness[1] < 150


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_axe_finds_nothing_that_keeps_anybody_out(width, scheme, document, open_page):
    """Contrast, names, roles, tables, order of headings: every rule of axe-core, everything opened."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    opened = open_page(document(60), width=width, scheme=scheme, reduced_motion="reduce")
    opened.open_everything()
    found = axe.Axe().run(opened.page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"][:200], len(one["nodes"])) for one in found] == []


def test_every_table_and_chart_says_what_it_is(document, open_page):
    """A caption and scopes; a title and a description."""
    opened = open_page(document(300))
    opened.open_everything()
    assert opened.page.locator("table").count() > 8
    assert opened.page.locator("table:not(:has(> caption))").count() == 0
    assert opened.page.locator("th:not([scope])").count() == 0
    assert opened.page.locator("svg:not([role=img])").count() == 0
    assert opened.page.locator("svg:not(:has(> title + desc))").count() == 0


def test_hostile_texts_are_shown_as_texts(samples, document, open_page):
    """Markup, quotes, directions and controls in every place an event can put them: read, not obeyed."""
    hostile = _everywhere(document(300), samples.HOSTILE)
    opened = open_page(hostile)
    opened.page.get_by_label("Filter", exact=True).fill("<")
    opened.settled()
    opened.page.get_by_label("Filter", exact=True).fill("")
    opened.settled()
    opened.open_everything()
    page = opened.page
    assert "pwned" not in page.title()
    assert page.locator("script").count() == 2
    assert page.locator("img, [onmouseover], [onerror]").count() == 0
    assert page.evaluate("Object.getOwnPropertyNames(Object.prototype).includes('polluted')") is False
    text = page.locator("body").inner_text()
    for shown in (
        "<script>document.title='pwned'</script>",
        '" onmouseover=',
        "\\u{202e}gnp.exe",
        "\\u{1b}[31mred",
        "__proto__",
    ):
        assert shown in text
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x1b]", text)
    page.set_viewport_size({"width": 360, "height": 800})
    opened.settled()
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def _everywhere(value, hostile, seed=0):
    """`value` with every text that an event may bring replaced, in turn, by a hostile one."""
    state = [seed]

    def walk(one, name=None):
        if isinstance(one, dict):
            plain = {key: walk(item, key) for key, item in one.items()}
            return plain | (dict.fromkeys(hostile[:9], 0.5) if name == "seconds" else {})
        if isinstance(one, list):
            return [walk(item, name) for item in one]
        if isinstance(one, str) and name not in ("outcome", "kind"):
            state[0] += 1
            return hostile[state[0] % len(hostile)]
        return one

    return walk(value)
