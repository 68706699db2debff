"""The live page in a browser: it follows the journal, keeps what its reader did, and says when nobody answers."""

from __future__ import annotations

import json

import pytest
from warmgraph.cache import StoreUnavailable
from warmgraph.scripts.audit import Source
from warmgraph.scripts.page import Live

TOKEN = "correct-horse-battery"


def test_a_live_page_follows_the_journal(serve, journal, samples, open_page, monkeypatch):
    """New events appear; the filter, what is open and the focus stay. Behind a token, given as a password."""
    monkeypatch.setattr("warmgraph.scripts.page.live.REFRESH", 1)
    journal.write(samples.events(400))
    here = serve(TOKEN)
    login = {"username": "anyone", "password": TOKEN}
    here.until(lambda answer: answer.status == 200, "/healthz")
    opened = open_page(address=f"http://127.0.0.1:{here.port}/", http_credentials=login)
    page = opened.page
    page.wait_for_function("() => document.querySelector('h1').textContent.includes(' of ')")
    page.locator("#text").fill("training_step")
    opened.settled()
    page.locator("#functions .opener").first.click()
    page.locator("#functions th button").nth(2).focus()
    before = page.locator("h1").inner_text()

    journal.write(samples.events(200, seed=2))
    page.wait_for_function("before => document.querySelector('h1').textContent !== before", arg=before)
    assert opened.texts("#functions .name") == ["training_step"]
    assert page.locator("#functions .opener[aria-expanded=true]").count() == 1
    assert page.evaluate("document.activeElement.textContent") == "Misses"
    assert page.locator("#live").inner_text() == "live"
    assert {address.partition(str(here.port))[2] for address in opened.asked} <= {"/", "/audit.json", ""}

    here.stop()
    page.wait_for_function("() => document.querySelector('#live').className === 'stale'")
    assert "not reachable since" in page.locator("#live").inner_text()
    assert opened.texts("#functions .name") == ["training_step"]
    refused = [line for line in opened.said if "ERR_CONNECTION" in line or "ERR_EMPTY_RESPONSE" in line]
    opened.said = [line for line in opened.said if line not in refused]


def test_what_came_before_an_error_is_counted(journal, samples, tmp_path):
    """A server that fails in the middle of a look does not take away what it had sent: it is not sent again."""

    class Failing:
        source, skipped = Source("stream", "x"), 0
        looks = iter([100, 5])

        def __iter__(self):
            count = next(self.looks)
            yield from samples.events(count)
            if count == 100:
                raise StoreUnavailable("it went")

    live = Live(Failing(), list, tmp_path / "kept")
    with pytest.raises(StoreUnavailable):
        live._look()
    live._look()
    assert json.loads(live.json()[0])["source"]["events"] == 105
    assert sum(live._sums.events.values()) == 105
