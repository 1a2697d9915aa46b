"""Panels ask when somebody asks: nothing is sent to a server for a panel that is put into the document."""

from typing import Any

import pytest
from dash import Dash, _callback
from dash.exceptions import PreventUpdate

from frontend.app import create_app
from frontend.figures.theme import Theme
from frontend.parts.panel import asked_by, theme_of
from frontend.settings import Settings
from tests.browser.fake import FakeClient

AT_ONCE = {"started", "-started", "shelf", "attention-overview"}
"""What begins a page, the models, and the heads of a view that may be known before the page is."""


@pytest.fixture
def app() -> Dash:
    return create_app(Settings(), FakeClient())


def test_only_what_begins_a_page_is_called_when_it_opens(app: Dash) -> None:
    called = [each["output"] for each in app._callback_list if not each["prevent_initial_call"]]
    begun = [output for output in called if any(f"{name}." in output for name in AT_ONCE)]
    assert called == begun
    assert len([output for output in called if "attention-overview" in output]) == 1


@pytest.fixture
def drawn() -> Any:
    """A callback that draws, as Dash has registered it, and what it was called with."""
    calls: list[Any] = []

    @asked_by("made-up-ask", "made-up-told", "made-up-notice", "made-up-figure")
    async def show(asked: dict[str, Any], theme: str | None, tab: str | None) -> tuple[Theme, dict[str, Any], None]:
        calls.append((asked, theme, tab))
        return theme_of(theme), asked, None

    found = _callback.GLOBAL_CALLBACK_LIST.pop()
    registered = _callback.GLOBAL_CALLBACK_MAP.pop(found["output"])
    return registered["callback"].__wrapped__, calls


async def test_a_theme_that_turns_before_anything_is_asked_draws_nothing(drawn: Any) -> None:
    show, calls = drawn
    with pytest.raises(PreventUpdate):
        await show(None, "dark", "tab-1")
    assert calls == []
    assert await show({"ask": 1}, "dark", "tab-1") == ("dark", {"ask": 1}, None)
