"""The page's text: no data leaves its block, the policy admits what is there and nothing else. No browser here."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from warmgraph.scripts import page
from warmgraph.scripts.page import render
from warmgraph.scripts.page.rendering import embedded

FOLDER = Path(page.__file__).parent


def parts(text):
    """The policy, the data, and the scripts and styles that run."""
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1]
    return (
        policy,
        data,
        re.findall(r"<script>(.*?)</script>", text, re.S),
        re.findall(r"<style>(.*?)</style>", text, re.S),
    )


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_no_text_leaves_the_data_block(value):
    """Whatever it is, it comes back as it was, and the block holds no character that HTML reads."""
    document = {"x": value}
    text = embedded(document)
    assert not re.search(r"[<>&\u2028\u2029]|[^ -~]", text)
    assert json.loads(text) == document


@pytest.mark.parametrize("text", ["</script>", "<!--<script>", "{{script}}", "{{style}}", "]]>", "\u2028", "\ud800"])
def test_a_page_of_any_text_is_the_same_page(text):
    """One document, one script, one style."""
    policy, data, scripts, styles = parts(render({"text": text}))
    assert json.loads(data) == {"text": text}
    assert (len(scripts), len(styles)) == (1, 1)
    assert (policy, scripts, styles) == (lambda one: (one[0], *one[2:]))(parts(render({})))


def test_the_policy_names_the_digests_of_what_runs():
    """Nothing else may run, nothing may be loaded or asked for; a served page may ask its own server."""

    def digest(text):
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    policy, _, [script], [style] = parts(render({}))
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules == {
        "default-src": "'none'",
        "script-src": digest(script),
        "style-src": digest(style),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert "connect-src 'self'" in parts(render({}, refresh=5))[0]


def test_a_document_of_endless_texts_stays_a_small_page():
    """Long texts are cut, and say so."""
    rows = [{"detail": "x" * 100_000, "count": number} for number in range(500)]
    text = embedded({"rows": rows})
    assert len(text) < 2_000_000
    found = json.loads(text)["rows"]
    assert [row["count"] for row in found] == list(range(500))
    assert "more characters" in found[0]["detail"]


@pytest.mark.parametrize("document", [{"x": float("nan")}, {"x": object()}])
def test_what_is_no_json_is_refused(document):
    """Instead of a page that does not open."""
    with pytest.raises(ValueError, match="not a document that a page can show"):
        render(document)


@pytest.mark.parametrize(
    "name", sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".js", ".css", ".html"))
)
def test_the_files_of_the_page_are_short_and_use_no_html_from_data(name):
    """What they are stands first; nothing that turns text into markup or code is in them."""
    text = (FOLDER / name).read_text("utf-8")
    assert len(text.splitlines()) <= 330
    assert text.startswith(("/* ", "<!DOCTYPE html>"))
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|https?://(?!www\.w3\.org/2000/svg)",
        text,
    )
