"""Patching: another text's states put into this one's, one place at once, and a map of every place."""

from asyncio import gather
from typing import Any

import plotly.graph_objects as go
from dash import ClientsideFunction, Input, Output, State, callback, clientside_callback, dcc, html, no_update
from dash.exceptions import PreventUpdate

from backend.schema import PatchAsk, PatchMapAsk, TokensAsk, View
from frontend.figures.patch import patch_map
from frontend.pages.sheet import busy, graph
from frontend.pages.trace import ids
from frontend.parts import ids as shell
from frontend.parts.asking import client
from frontend.parts.following import stopped_by
from frontend.parts.notice import notice_place
from frontend.parts.panel import Asked, asked_by, heard, theme_of

SPOKEN: Any = {"aria-live": "polite"}


def panel() -> html.Section:
    """Places; assets/trace_patch.js fills them."""
    names = (
        ids.SOURCE_ASK, ids.SOURCE, ids.PATCH_ASK, ids.PATCHED, ids.MAP_ASK, ids.MAP_BEGAN, ids.MAP_LOOK, ids.MAP,
        ids.MAP_STOP,
    )  # fmt: skip
    return html.Section(
        [
            *(dcc.Store(id=name) for name in names),
            html.Header(
                [html.H2("Patch", id="patch-title"), html.Div(id="patch-tools", className="sheet-tools")],
                className="sheet-head",
            ),
            html.Div(id="patch-form", className="patch-form"),
            html.P(id="patch-refused", className="note"),
            *(notice_place(name) for name in (ids.SOURCE_NOTICE, ids.PATCH_NOTICE, ids.MAP_NOTICE)),
            html.Div(id="patch-empty", className="empty"),
            html.Div(
                [
                    html.Div(id="patch-unfit"),
                    html.Div(id="patch-strips", className="patch-strips"),
                    html.Div(
                        [
                            html.Div(id="patch-controls", className="patch-controls"),
                            html.Div(id="patch-actions", className="patch-actions"),
                        ],
                        className="patch-row",
                    ),
                    html.P(id="patch-answer-note", className="note", **SPOKEN),
                    html.Div(
                        [
                            html.P(id="patch-note", className="note"),
                            html.Div(graph(ids.MAP_FIGURE), id="patch-place"),
                            html.Div(id="patch-table"),
                        ],
                        id="patch-picture",
                        hidden=True,
                    ),
                ],
                id="patch-body",
                hidden=True,
            ),
        ],
        className="sheet trace-patch",
        **busy(ids.PATCHED, "Running the other text …", "patch-title"),
    )


@asked_by(ids.SOURCE_ASK, ids.SOURCE, ids.SOURCE_NOTICE, by_tab=False)
async def show_source(asked: Asked) -> tuple[dict[str, Any], None]:
    """The other text as the model sees it; asked by nobody, so that the strip's own question lives on."""
    answer = await client(None).raw(TokensAsk(view=View.model_validate(asked["view"]), scores=False))
    return {"answer": answer, "key": asked["key"]}, None


@asked_by(ids.PATCH_ASK, ids.PATCHED, ids.PATCH_NOTICE)
async def show_patch(asked: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
    """What the other text's run holds at some places, as edits of this view."""
    return {"answer": await client(tab).raw(PatchAsk.model_validate(asked["ask"])), "turn": asked["turn"]}, None


@asked_by(ids.MAP_ASK, ids.MAP_BEGAN, ids.MAP_NOTICE)
async def start_map(asked: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
    """Start to patch every place, one at a time."""
    job = await client(tab).raw(PatchMapAsk.model_validate(asked["asks"][0]))
    return {"key": asked["key"], "turn": asked["turn"], "jobs": {"map": job["id"]}}, None


@callback(
    Output(ids.MAP_FIGURE, "figure"),
    Output(ids.MAP, "data"),
    Input(ids.MAP_LOOK, "data"),
    Input(shell.THEME, "data"),
    State(shell.TAB, "data"),
    prevent_initial_call=True,
)
async def show_map(asked: Asked | None, theme: str | None, tab: str | None) -> tuple[Any, dict[str, Any]]:
    """What the job has measured so far."""
    if asked is None:  # the theme has turned, and nothing is drawn yet
        raise PreventUpdate
    views = [View.model_validate(asked[name]) for name in ("view", "source")]
    job, *texts = await gather(
        client(tab).job(asked["id"]), *(client(None).raw(TokensAsk(view=view, scores=False)) for view in views)
    )
    answer = job.result or job.partial
    told = job.model_copy(update={"result": None, "partial": None}).model_dump(mode="json")
    data = {"answer": answer, "job": told, "key": asked["key"], "turn": asked["turn"]}
    figure: go.Figure | Any = no_update
    if answer:
        figure = patch_map(answer, *(text["tokens"] for text in texts), theme=theme_of(theme))
    return figure, data


stopped_by(ids.MAP_STOP, ids.MAP_NOTICE)
heard("trace", {"source": ids.SOURCE, "patched": ids.PATCHED, "mapBegan": ids.MAP_BEGAN, "map": ids.MAP})
clientside_callback(
    ClientsideFunction("trace", "mapPicked"), Input(ids.MAP_FIGURE, "clickData"), prevent_initial_call=True
)
