"""What the page tells its scripts is what the schema says."""

import json
import re

from backend.schema import HeadScale, HeadSet, View
from frontend.parts.browser import browser_config, edit_defaults, index_string, view_defaults


def test_the_browser_knows_every_default_of_a_view() -> None:
    view = View(model="m", text="t")
    known = view_defaults() | {"model": "m", "text": "t"}
    assert View.model_validate(known) == view
    assert set(known) == set(View.model_fields)


def test_defaults_that_kinds_of_edit_share_are_left_out_of_links() -> None:
    assert edit_defaults() == {"at": "all", "on": True}
    for edit in (HeadScale(layer=1, head=2, by=0), HeadSet(layer=1, head=2, to=0)):
        short = json.loads(View(model="m", text="t", edits=(edit,)).canonical())["edits"][0]
        assert not set(edit_defaults()) & set(short)


def test_an_example_text_cannot_break_out_of_the_page() -> None:
    page = index_string("/", "</script><script>alert(1)</script>")
    assert page.count("alert(1)") == 1
    found = re.search(r'id="lmscope-config">(.*?)</script>', page)
    assert found is not None
    assert json.loads(found[1])["example"] == "</script><script>alert(1)</script>"
    assert browser_config("/", "x")["bytes"] == 256 * 1024
