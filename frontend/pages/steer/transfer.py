"""Transfer: a steer moved to another model of this server, and how much of its effect survives."""

from typing import Any

from dash import html

from backend.schema import TransferAsk
from frontend.pages.sheet import named
from frontend.parts.following import Following, follow
from frontend.parts.notice import notice_place

JOB = Following("steer-transfer")
SPOKEN: Any = {"aria-live": "polite"}


def panel() -> html.Section:
    """Places; assets/steer_transfer.js fills them."""
    return html.Section(
        [
            *JOB.stores(),
            html.Header(
                [
                    html.H2("Move to another model", id="transfer-title"),
                    html.Div(id="transfer-tools", className="sheet-tools"),
                ],
                className="sheet-head",
            ),
            html.Div(id="transfer-form", className="steer-row"),
            html.Div(id="transfer-state", className="make-state", **SPOKEN),
            *(notice_place(name) for name in (JOB.notice, JOB.look_notice)),
            html.Div(id="transfer-done", **SPOKEN),
        ],
        className="sheet steer-transfer",
        **named("transfer-title"),
    )


follow(JOB, {"transfer": TransferAsk})
