"""One look for every figure, in light and in dark. Colour scales are safe for colour-blind eyes."""

from textwrap import wrap
from typing import Literal

import plotly.graph_objects as go

Theme = Literal["light", "dark"]
Scale = Literal["linear", "log"]
Stops = list[list[float | str]]

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif'

VIRIDIS = (
    "#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725",
)  # fmt: skip
BLUE_WHITE_RED = (
    "#053061", "#2166ac", "#4393c3", "#92c5de", "#d1e5f0", "#f7f7f7", "#fddbc7", "#f4a582", "#d6604d", "#b2182b",
    "#67001f",
)  # fmt: skip

INK: dict[Theme, dict[str, str]] = {
    "light": {
        "text": "#1c2530", "quiet": "#52606d", "grid": "#e1e6eb", "line": "#9aa5b1", "panel": "#ffffff",
        "first": "#1d5fa8", "second": "#b4531a", "mark": "#c2410c",
    },
    "dark": {
        "text": "#e8ecf1", "quiet": "#a9b4c0", "grid": "#343c46", "line": "#6b7785", "panel": "#1f242b",
        "first": "#7db4f0", "second": "#f2a65a", "mark": "#ffa94d",
    },
}  # fmt: skip
"""Text and lines of both themes; each text colour has at least 4.5:1 on its panel."""

LOG_DECADES = 4
"""A logarithmic colour scale spans this many powers of ten below its largest value."""


def stops(colours: tuple[str, ...] = VIRIDIS) -> Stops:
    """Evenly spaced colour stops in Plotly's form."""
    return [[place / (len(colours) - 1), colour] for place, colour in enumerate(colours)]


def log_stops(steps: int = 64) -> Stops:
    """Viridis over `LOG_DECADES` powers of ten for values that stay linear, so that a hover shows the exact one."""
    shares = [step / steps for step in range(steps + 1)]
    rising: Stops = [[float(10 ** (LOG_DECADES * (share - 1))), shade(share)] for share in shares]
    return [[0.0, shade(0.0)], *rising]


def shade(share: float) -> str:
    """Viridis at `share` of its way, as #rrggbb."""
    place = min(max(share, 0.0), 1.0) * (len(VIRIDIS) - 1)
    low = min(int(place), len(VIRIDIS) - 2)
    first, second = _channels(VIRIDIS[low]), _channels(VIRIDIS[low + 1])
    mixed = (round(a + (b - a) * (place - low)) for a, b in zip(first, second, strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))


def template(theme: Theme = "light") -> go.layout.Template:
    """What every figure of a theme shares: fonts, ink, axes, hover label; the background is the page's own."""
    ink = INK[theme]
    axis = {
        "gridcolor": ink["grid"], "linecolor": ink["line"], "tickcolor": ink["line"], "zerolinecolor": ink["line"],
        "zeroline": False, "automargin": True, "ticklabeloverflow": "allow",  # with margins that fit none overflows
        "title": {"standoff": 8, "font": {"size": 12, "color": ink["quiet"]}},
        "tickfont": {"size": 11, "color": ink["text"]}, "spikecolor": ink["mark"], "spikethickness": 1,
        "spikedash": "solid", "spikemode": "across",
    }  # fmt: skip
    bar = {
        "outlinewidth": 0, "thickness": 12, "tickcolor": ink["line"], "tickfont": {"size": 11, "color": ink["text"]},
        "title": {"side": "right", "font": {"size": 12, "color": ink["quiet"]}},
    }  # fmt: skip
    return go.layout.Template(
        layout={
            "font": {"family": FONT, "size": 12, "color": ink["text"]},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "colorway": [ink["first"], ink["second"], ink["quiet"]],
            "colorscale": {"sequential": stops(), "diverging": stops(BLUE_WHITE_RED)},
            "hoverlabel": {
                "bgcolor": ink["panel"], "bordercolor": ink["line"], "align": "left",
                "font": {"family": FONT, "size": 12, "color": ink["text"]},
            },
            "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
            "legend": {
                "orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom",
                "font": {"color": ink["text"]},
            },
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": ink["quiet"], "activecolor": ink["text"]},
            "xaxis": axis,
            "yaxis": axis,
        },
        data={"heatmap": [{"colorbar": bar}], "scatter": [{"marker": {"colorbar": bar}}]},
    )  # fmt: skip


SENTENCE_CHARACTERS = 44
"""A line of a sentence that stands in the place of a figure: as long as the narrowest figure is wide."""


def empty(sentence: str, theme: Theme = "light") -> go.Figure:
    """A figure that says in words why there is nothing to draw."""
    figure = go.Figure(layout={"template": template(theme), "xaxis": {"visible": False}, "yaxis": {"visible": False}})
    lines = "<br>".join(wrap(sentence, SENTENCE_CHARACTERS))
    return figure.add_annotation(text=lines, showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper")
