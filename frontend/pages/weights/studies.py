"""Studies: what reading weights in the vocabulary is worth, with intervals, beside chance. Each is a job."""

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go
from dash import html

from backend.schema import ActiveAsk, KeepAsk, LongAsk, SimilarityAsk
from frontend.figures.theme import Theme
from frontend.figures.weight_studies import DRAWN
from frontend.pages.sheet import graph, named
from frontend.pages.weights.parts import POLITE, title
from frontend.parts.knowing import Knowing, know
from frontend.parts.notice import notice_place

JOBS = {name: Knowing(f"weights-{name}") for name in ("keep", "active", "similarity")}
FORMS: dict[str, type[LongAsk]] = {"keep": KeepAsk, "active": ActiveAsk, "similarity": SimilarityAsk}


def panel() -> html.Section:
    """Places; assets/weights_studies.js fills them."""
    return html.Section(
        [
            *(store for job in JOBS.values() for store in job.stores()),
            title("Studies: is it worth reading weights as words?", "weights-studies"),
            html.Div(id="weights-studies-choice", className="weights-filters"),
            html.P(id="weights-studies-what", className="note"),
            html.Div(id="weights-studies-form", className="weights-filters"),
            html.Div(id="weights-studies-state", className="make-state", **POLITE),
            *(notice_place(name) for job in JOBS.values() for name in (job.notice, job.look_notice)),
            html.P(id="weights-studies-about", className="note"),
            *(
                html.Div(graph(job.figure), id=f"weights-{name}-picture", className="weights-picture", hidden=True)
                for name, job in JOBS.items()
            ),
            html.Div(id="weights-studies-table"),
        ],
        className="sheet",
        **named("weights-studies-title"),
    )


def _register(name: str) -> None:
    def draw(answer: Mapping[str, Any], _: Mapping[str, Any], theme: Theme) -> go.Figure:
        return DRAWN[name](answer, theme)

    know(JOBS[name], {name: FORMS[name]}, draw)


for study in JOBS:
    _register(study)
