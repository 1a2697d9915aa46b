"""Why this word: direct contributions of every part, and the measured effect of removing each."""

from asyncio import gather
from typing import Any

import plotly.graph_objects as go
from dash import ClientsideFunction, Input, Output, State, callback, clientside_callback, dcc, html

from backend.schema import ContributionsAsk, EffectsAsk, Job
from frontend.figures.contributions import contributions, parts_of
from frontend.pages.sheet import busy, graph
from frontend.pages.trace import ids
from frontend.parts import ids as shell
from frontend.parts.asking import client
from frontend.parts.following import stopped_by
from frontend.parts.notice import notice_place
from frontend.parts.panel import Asked, asked_by, heard, theme_of

ROW_PX, ROOM_PX = 25, 76
"""Height of a row of the picture, and of what stands around them."""


def panel() -> html.Section:
    """Places; assets/trace_why.js fills them."""
    names = (ids.WHY_ASK, ids.WHY, ids.EFFECTS_ASK, ids.EFFECTS, ids.EFFECTS_STOP, ids.SETS_ASK, ids.SETS)
    return html.Section(
        [
            *(dcc.Store(id=name) for name in names),
            html.Header(
                [html.H2("Why this word?", id="why-title"), html.Div(id="why-tools", className="sheet-tools")],
                className="sheet-head",
            ),
            html.Div(id="why-controls", className="why-controls"),
            notice_place(ids.WHY_NOTICE),
            notice_place(ids.EFFECTS_NOTICE),
            html.P(id="why-refused", className="note"),
            html.Div(
                [
                    html.Div(
                        [html.Div(id="why-tools-row", className="why-row"), graph(ids.WHY_FIGURE)],
                        className="why-picture",
                    ),
                    html.Div(
                        [
                            html.Div(id="why-sum"),
                            html.Div(id="why-chosen", className="why-chosen"),
                            html.Div(id="why-table", className="table-scroller", tabIndex=0, **LISTED),
                        ],
                        className="why-side",
                    ),
                ],
                id="why-body",
                className="why-body",
            ),
        ],
        className="sheet trace-why",
        **busy(ids.WHY, "Adding up what every part writes …", "why-title"),
    )


LISTED: Any = {"role": "region", "aria-label": "The parts as a table"}


@asked_by(ids.WHY_ASK, ids.WHY, ids.WHY_NOTICE, ids.WHY_FIGURE, sized=True)
async def show_why(
    asked: Asked, theme: str | None, tab: str | None
) -> tuple[go.Figure, dict[str, Any], dict[str, Any], None]:
    """Contributions, and of the effects what the jobs have found so far."""
    drawn, asking = asked["drawn"], client(tab)
    answer, *jobs = await gather(
        asking.raw(ContributionsAsk.model_validate(asked["ask"])), *(asking.job(id) for id in drawn["jobs"].values())
    )
    told: dict[str, Job] = dict(zip(drawn["jobs"], jobs, strict=True))
    effects = {kind: found for kind, job in told.items() if (found := job.result or job.partial)}
    every = parts_of(answer, drawn["parts"], effects, side=drawn["side"], order=drawn["order"])
    rows = every[: drawn["most"]]
    figure = contributions(rows, answer["conditions"], theme=theme_of(theme))
    data = {
        "answer": answer, "rows": [row.told() for row in rows], "all": [row.told() for row in every],
        "jobs": {kind: job.model_dump(mode="json") for kind, job in told.items()},
        "turn": asked["turn"], "key": asked["key"],
    }  # fmt: skip
    return figure, {"height": ROOM_PX + ROW_PX * max(3, len(rows))}, data, None


@asked_by(ids.EFFECTS_ASK, ids.EFFECTS, ids.EFFECTS_NOTICE)
async def start_effects(asked: Asked, tab: str | None) -> tuple[dict[str, Any], None]:
    """Start to remove parts, one job for each kind of them; an equal one that runs is shared."""
    asks = [EffectsAsk.model_validate(each) for each in asked["asks"]]
    jobs = [await client(tab).raw(each) for each in asks]
    named = {ask.parts: job["id"] for ask, job in zip(asks, jobs, strict=True)}
    return {"key": asked["key"], "turn": asked["turn"], "jobs": named}, None


@callback(Output(ids.SETS, "data"), Input(ids.SETS_ASK, "data"), State(shell.TAB, "data"), prevent_initial_call=True)
async def show_sets(_: int | None, tab: str | None) -> list[dict[str, Any]]:
    """The prompt sets that a mean can be taken over."""
    found = await client(tab).sets()
    return [card.model_dump(mode="json") for card in found]


stopped_by(ids.EFFECTS_STOP, ids.EFFECTS_NOTICE)
heard("trace", {"why": ids.WHY, "began": ids.EFFECTS, "sets": ids.SETS})
clientside_callback(
    ClientsideFunction("trace", "whyPicked"), Input(ids.WHY_FIGURE, "clickData"), prevent_initial_call=True
)
