"""Values on the trace page: found by words, one of them open, and what the team calls them; with their callbacks."""

from typing import Any

from dash import dcc, html

from backend.schema import FiresAsk, LookupAsk, NoteAsk, Notes, SearchAsk, ValueAsk
from frontend.pages.sheet import busy
from frontend.parts.asking import client
from frontend.parts.notice import notice_place
from frontend.parts.panel import Asked, asked_by, heard

ASK, ANSWER, NOTICE = "value-ask", "value-answer", "value-notice"
"""Stores: {ask, key}, which assets/values.js derives from the view, and {answer, key}; where a refusal stands."""
FIRES_ASK, FIRES, FIRES_NOTICE = "fires-ask", "fires-answer", "fires-notice"
SEARCH_ASK, FOUND, SEARCH_NOTICE = "search-ask", "search-answer", "search-notice"
NOTE_ASK, NOTES, NOTE_NOTICE = "value-note-ask", "value-notes", "value-note-notice"
"""Stores: {digest, write | take | export}, and {digest, notes, taken | exported}."""


def panel() -> html.Div:
    """Places; assets/values.js fills them."""
    stores = (ASK, ANSWER, FIRES_ASK, FIRES, SEARCH_ASK, FOUND, NOTE_ASK, NOTES)
    return html.Div([*(dcc.Store(id=name) for name in stores), _search(), _value()], className="values-panel")


def _search() -> html.Section:
    spoken: Any = {"aria-live": "polite"}
    return html.Section(
        [
            html.Header(
                [html.H2("Search values", id="search-title"), html.Div(id="search-tools", className="sheet-tools")],
                className="sheet-head",
            ),
            html.Div(id="search-form"),
            notice_place(SEARCH_NOTICE),
            html.Div(id="search-found", **spoken),
            html.Div(id="value-library"),
        ],
        className="sheet values-search",
        **busy(FOUND, "Searching all values …", "search-title"),
    )


def _value() -> html.Section:
    spoken: Any = {"aria-live": "polite"}
    return html.Section(
        [
            html.Header(
                [html.H2("Value", id="value-title"), html.Div(id="value-tools", className="sheet-tools")],
                className="sheet-head",
            ),
            html.Div(id="value-open"),
            notice_place(NOTICE),
            html.Div(id="value-body", **spoken),
            html.Div(id="value-fires"),
            notice_place(FIRES_NOTICE),
            notice_place(NOTE_NOTICE),
        ],
        className="sheet values-one",
        **busy(ANSWER, "Reading the value …", "value-title"),
    )


@asked_by(ASK, ANSWER, NOTICE)
async def show_value(asked: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
    """One value."""
    return {"answer": await client(tab).raw(ValueAsk.model_validate(asked["ask"])), "key": asked["key"]}, None


@asked_by(FIRES_ASK, FIRES, FIRES_NOTICE)
async def show_fires(asked: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
    """Where the open value fires in the text."""
    return {"answer": await client(tab).raw(FiresAsk.model_validate(asked["ask"])), "key": asked["key"]}, None


@asked_by(SEARCH_ASK, FOUND, SEARCH_NOTICE)
async def show_found(asked: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
    """Values that move some words, or values and keys near a concept."""
    form = LookupAsk if asked["lookup"] else SearchAsk
    return {"answer": await client(tab).raw(form.model_validate(asked["ask"])), "key": asked["key"]}, None


@asked_by(NOTE_ASK, NOTES, NOTE_NOTICE)
async def keep_notes(asked: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
    """Write a note, take notes in or give all of them away; then what is noted about these weights."""
    asking, told = client(tab), dict[str, Any]()
    if "write" in asked:
        await asking.note(NoteAsk.model_validate(asked["write"]))
        told["written"] = True
    if "take" in asked:
        told["taken"] = (await asking.import_notes(Notes.model_validate(asked["take"]))).model_dump(mode="json")
    if "export" in asked:
        told["exported"] = (await asking.export_notes()).model_dump(mode="json")
    notes = await asking.notes(digest=asked["digest"])
    return {"digest": asked["digest"], "notes": [note.model_dump(mode="json") for note in notes]} | told, None


heard("values", {"value": ANSWER, "fires": FIRES, "found": FOUND, "notes": NOTES})
