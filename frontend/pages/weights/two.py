"""Two models with one vocabulary: what changed between them, which layers are alike, one stitched onto the other."""

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go
from dash import html

from backend.schema import AlignmentAsk, ChangesAsk, LongAsk, StitchingAsk
from frontend.figures.theme import Theme
from frontend.figures.two_models import alignment, changes, stitching
from frontend.pages.sheet import graph, named
from frontend.pages.weights.parts import POLITE, title
from frontend.parts.kept_examples import KeptExamples, keeps
from frontend.parts.knowing import Knowing, know
from frontend.parts.notice import notice_place

KEPT = KeptExamples("weights")
JOBS = {name: Knowing(f"weights-{name}") for name in ("changes", "alignment", "stitching")}
FORMS: dict[str, type[LongAsk]] = {"changes": ChangesAsk, "alignment": AlignmentAsk, "stitching": StitchingAsk}
ABOUT = (
    "Two models with one vocabulary can be compared in words, whatever their widths are. Models with different "
    "vocabularies are refused, unless you ask to go by the tokens that both write alike."
)


def panel() -> html.Section:
    """Places; assets/weights_two.js fills them."""
    return html.Section(
        [
            *KEPT.stores(),
            *(store for job in JOBS.values() for store in job.stores()),
            title("Two models", "weights-two"),
            html.P(ABOUT, className="note"),
            html.Div(id="weights-two-choice", className="weights-filters"),
            html.P(id="weights-two-what", className="note"),
            html.Div(id="weights-two-form", className="weights-filters"),
            html.Div(id="weights-two-state", className="make-state", **POLITE),
            *(notice_place(name) for job in JOBS.values() for name in (job.notice, job.look_notice)),
            notice_place(KEPT.notice),
            html.P(id="weights-two-about", className="note"),
            *(
                html.Div(graph(job.figure), id=f"weights-{name}-picture", className="weights-picture", hidden=True)
                for name, job in JOBS.items()
            ),
            html.Div(id="weights-two-words"),
            html.Div(id="weights-two-table"),
        ],
        className="sheet",
        **named("weights-two-title"),
    )


def _register(name: str) -> None:
    def draw(answer: Mapping[str, Any], drawn: Mapping[str, Any], theme: Theme) -> go.Figure:
        if name == "alignment":
            return alignment(answer, drawn.get("group"), theme)
        return (changes if name == "changes" else stitching)(answer, theme)

    know(JOBS[name], {name: FORMS[name]}, draw)


keeps(KEPT)
for comparison in JOBS:
    _register(comparison)
