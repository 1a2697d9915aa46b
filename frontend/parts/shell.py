"""The shell, the same on every page: rail, top bar, token strip, edit bar, and the place of the page."""

from typing import Any

from dash import ClientsideFunction, Input, Output, clientside_callback, dcc, html, page_container

from frontend.parts import ids, shelf, steers, strip  # noqa: F401  (their callbacks register on import)
from frontend.parts.notice import notice_place
from frontend.parts.panel import heard
from frontend.parts.rail import rail

POLITE: Any = {"aria-live": "polite"}
READING: Any = {"data-busy": ids.STRIP_SCORES, "data-sentence": "The model is reading the text"}


def layout(path: str) -> html.Div:
    """The whole page; assets/*.js fill the places that are empty here."""
    return html.Div(
        [
            *_stores(),
            html.A("Skip to the page", href="#page", className="skip", id="skip"),
            html.Div([rail(path), html.Main([_top(), _page()], className="main")], id=ids.SHELL),
            html.Div(id="announcer", role="status", **POLITE),
            html.Div(id="tooltip", role="tooltip", hidden=True),
        ]
    )


def _stores() -> list[dcc.Store]:
    names = (
        ids.VIEW, ids.QUESTION, ids.TAB, ids.THEME, ids.SHELF, ids.SHELF_DUE, ids.STRIP_TOKENS, ids.STRIP_SCORES,
        ids.STEERS_ASK, ids.STEERS, "started",
    )  # fmt: skip
    return [dcc.Store(id=name) for name in names]


def _top() -> html.Header:
    return html.Header(
        [
            html.Div(
                [
                    html.Div(id=ids.PICKER, className="picker"),
                    html.Div(id=ids.PROMPT, className="prompt"),
                    html.Div(id=ids.STATUS, className="status"),
                    html.Div(
                        [
                            html.Button(html.Span(className="icon icon-share"), id="share-button", className="quiet"),
                            html.Button(html.Span(className="icon icon-system"), id="theme-button", className="quiet"),
                        ],
                        className="tools",
                    ),
                ],
                className="bar",
            ),
            html.Div(
                [
                    html.Div(id=ids.STRIP, className="strip"),
                    notice_place(ids.STRIP_NOTICE),
                    notice_place(ids.SCORES_NOTICE),
                ],
                className="strip-panel",
                **READING,
            ),
            html.Div(id=ids.EDITS, className="edits"),
        ],
        className="top",
    )


def _page() -> html.Div:
    return html.Div(
        [
            html.Div(id="progress", className="progress-place", hidden=True),
            html.Div(id="tab-notice", className="notice-place"),
            html.Div(id="update-notice", className="notice-place"),
            html.Div(id=ids.LINK_NOTICE, className="notice-place"),
            notice_place(ids.SHELF_NOTICE),
            notice_place(ids.STEERS_NOTICE),
            notice_place(ids.SHELL_NOTICE),
            page_container,
        ],
        id=ids.PAGE,
        tabIndex=-1,
    )


clientside_callback(
    ClientsideFunction("shell", "start"), Output("started", "data"), Input(ids.SHELL, "id"), hidden=True
)
heard("shell", {"shelf": ids.SHELF, "steers": ids.STEERS, "tokens": ids.STRIP_TOKENS, "scores": ids.STRIP_SCORES})
