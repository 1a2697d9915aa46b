"""Notices: an error says what, why and what to do, in the place where it happened."""

import logging
import re
from typing import Any

from dash import ctx, html, no_update, set_props
from dash.exceptions import PreventUpdate
from pydantic import ValidationError

from backend.schema import Problem, reasons
from frontend.parts import ids
from lmscope.client import Refused

log = logging.getLogger("lmscope.frontend")

SILENT = "replaced"
"""A newer question took this one's place: its answer comes."""
STOPPED = {
    "what": "Stopped",
    "why": "the question was ended before its answer came",
    "instead": "Press Run to ask again",
}
"""What is said where an answer was stopped."""
OLDER = "What stands here is still the answer to the question before."
"""Shown by the style sheet where an older answer stands under a notice (assets/notice.js knows where)."""
CALM = ("loading", "cancelled")
"""Problems that are no fault of anybody's."""


def notice_place(id: str) -> html.Div:
    """Where a page shows its errors; make `Output(id, "children")` the last output of the callback, and return None."""
    spoken: Any = {"aria-live": "polite"}
    return html.Div(id=id, className="notice-place", **spoken)


def notice(problem: Problem) -> html.Div:
    """One problem in words, with both numbers where numbers are at stake."""
    data: Any = {"data-type": problem.type, "data-retry": "yes" if problem.status == 503 else "no"}
    return html.Div(
        [
            html.Span(className="icon icon-alert"),
            html.Div(
                [
                    html.Strong(sentence(problem.what), className="notice-what"),
                    html.Span(sentence(problem.why), className="notice-why"),
                    html.Span(sentence(problem.instead), className="notice-instead"),
                    html.Span(_request(problem), className="notice-request"),
                    html.Span("See above.", className="notice-again"),
                    html.Span(OLDER, className="notice-older"),
                ],
                className="notice-words",
            ),
        ],
        className="notice notice-waiting" if problem.type in CALM else "notice",
        role="alert",
        **data,
    )


def sentence(words: str) -> str:
    """Capital letter and full stop. A name of a model keeps its own letters."""
    words = words.strip()
    first = words[:1] if re.match(r"\S*[\d/_.-]", words) else words[:1].upper()
    return first + words[1:] + ("" if words.endswith((".", "!", "?", "…", ":")) or not words else ".")


def problem_of(error: Exception, failed: str) -> Problem:
    """The problem that an exception stands for. A fault of ours is logged as `failed`, and said without details."""
    if isinstance(error, Refused):
        return error.problem
    if isinstance(error, ValidationError):
        return Problem(
            type="invalid", status=422, what="This view asks for something impossible",
            why=reasons.said(error.errors(include_url=False, include_input=False)),
            instead="Correct it, or go back to the last view.",
        )  # fmt: skip
    log.error(failed, exc_info=error)
    return Problem(
        type="broken", status=500, what="This part of the page failed", why=type(error).__name__,
        instead="Try again; if it stays, the server's log has the details.",
    )  # fmt: skip


def on_error(error: Exception) -> Any:
    """Dash's one error handler: a problem goes to the callback's own notice place, the rest of the page lives on."""
    problem = problem_of(error, "a page callback failed")
    if problem.type == SILENT:
        raise PreventUpdate
    if problem.type == "cancelled":
        problem = problem.model_copy(update=STOPPED)
    shown = notice(problem)
    outputs = ctx.outputs_list if isinstance(ctx.outputs_list, list) else [ctx.outputs_list]
    places = [_is_place(output) for output in outputs]
    if not any(places):
        set_props(ids.SHELL_NOTICE, {"children": shown})
        return no_update if len(outputs) == 1 else [no_update] * len(outputs)
    answers = [shown if place else no_update for place in places]
    return answers[0] if not isinstance(ctx.outputs_list, list) else answers


def _is_place(output: dict[str, Any]) -> bool:
    return str(output["id"]).endswith("-notice") and output["property"] == "children"


def _request(problem: Problem) -> str:
    return f"request {problem.request}" if problem.request and problem.status >= 500 else ""
