"""A sweep drawn: what a slider does at every strength, with intervals, beside a random steer; a map for two sliders."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from frontend.figures.names import plain
from frontend.figures.theme import BLUE_WHITE_RED, INK, Theme, empty, stops, template

Measure = Literal["plus", "minus", "perplexity", "kl", "distinct"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
Point = Mapping[str, Any]
"""A `SweepPoint` as JSON."""

TITLES: dict[Measure, str] = {
    "plus": "likelihood of texts of the + pole",
    "minus": "likelihood of texts of the − pole",
    "perplexity": "perplexity of neutral text",
    "kl": "KL from the base (nats)",
    "distinct": "distinct 2-grams (share)",
}
LEAST = 1e-6
"""nats at which a scale stops to narrow: smaller changes are rounding."""


def sweep(
    answer: Mapping[str, Any],
    *,
    poles: tuple[str, str] = ("+", "−"),
    measure: Measure = "plus",
    theme: Theme = "light",
) -> go.Figure:
    """`Sweep` as JSON, perhaps partial: lines over the strength, or with a second slider a map of one `measure`."""
    points = answer["points"]
    if not points:
        return empty("The first strength has not been measured yet.", theme)
    if any(point["other"] is not None for point in points):
        return _map(points, measure, poles, theme)
    return _lines(sorted(points, key=_by), sorted(answer["control"], key=_by), poles, theme)


def likelier(interval: Mapping[str, float] | None) -> tuple[float, float, float] | None:
    """(mean, low, high) of how much likelier a text became, in nats a token: the change of its NLL negated."""
    return None if interval is None else (-interval["mean"], -interval["high"], -interval["low"])


def value(point: Point, measure: Measure) -> float | None:
    """What a cell of the map shows."""
    if measure in ("plus", "minus"):
        found = likelier(point[measure])
        return None if found is None else found[0]
    if measure == "distinct":
        return None if point["distinct"] is None else float(point["distinct"][1])
    return float(point[measure]["mean"])


def _shares(point: Point) -> Sequence[float | None]:
    """Of different 1-, 2- and 3-grams; nothing while no continuation is written."""
    return point["distinct"] or (None, None, None)


def _by(point: Point) -> float:
    return float(point["by"])


def interval_of(field: str) -> Callable[[Point], tuple[float, float, float] | None]:
    """Reads (mean, low, high) of a field."""

    def read(point: Point) -> tuple[float, float, float] | None:
        found = point[field]
        return None if found is None else (found["mean"], found["low"], found["high"])

    return read


def _lines(points: Sequence[Point], control: Sequence[Point], poles: tuple[str, str], theme: Theme) -> go.Figure:
    ink = INK[theme]
    titles = ("How much likelier (nats a token)", "Perplexity of neutral text", "Different n-grams (share)")
    figure = make_subplots(rows=3, cols=1, shared_xaxes=True, vertical_spacing=0.1, subplot_titles=titles)
    classes = (("plus", poles[0], ink["first"], "circle"), ("minus", poles[1], ink["second"], "diamond"))
    for field, pole, colour, symbol in classes:
        if any(point[field] is not None for point in points):
            read = likelihood_of(field)
            figure.add_trace(with_interval(points, read, f"texts: {pole}", colour, symbol, "nats a token"), 1, 1)
            if control:
                figure.add_trace(
                    with_interval(control, read, f"random steer: {pole}", colour, symbol, "nats a token", True), 1, 1
                )
    perplexity = interval_of("perplexity")
    figure.add_trace(with_interval(points, perplexity, "this steer", ink["first"], "circle", ""), 2, 1)
    if control:
        figure.add_trace(with_interval(control, perplexity, "random steer", ink["quiet"], "circle", "", True), 2, 1)
    dashes, marks = ("solid", "dash", "dot"), ("circle", "square", "diamond")
    for grams in range(3):
        line = go.Scatter(
            x=[point["by"] for point in points], y=[_shares(point)[grams] for point in points],
            name=f"{grams + 1}-grams", mode="lines+markers",
            line={"color": ink["first"], "dash": dashes[grams], "width": 1.8},
            marker={"symbol": marks[grams], "size": 6},
            hovertemplate=f"%{{x:+.4g}}: %{{y:.3f}} of the {grams + 1}-grams differ<extra></extra>",
        )  # fmt: skip
        figure.add_trace(line, 3, 1)
    return figure.update_layout(**_layout(points, theme)).update_annotations(
        font={"size": 12, "color": ink["text"]}, x=0, xanchor="left"
    )


def likelihood_of(field: str) -> Callable[[Point], tuple[float, float, float] | None]:
    """Reads `likelier` of a field."""
    return lambda point: likelier(point[field])


def with_interval(
    points: Sequence[Point], read: Callable[[Point], tuple[float, float, float] | None], name: str, colour: str,
    symbol: str, unit: str, dotted: bool = False,
) -> go.Scatter:  # fmt: skip
    """Means as a line, their 95 % intervals as bars."""
    found = [(point["by"], *told) for point in points if (told := read(point)) is not None]
    x, mean, low, high = (list(column) for column in zip(*found, strict=True)) if found else ([], [], [], [])
    return go.Scatter(
        x=x, y=mean, name=plain(name), mode="lines+markers",
        line={"color": colour, "width": 1.2 if dotted else 2, "dash": "dot" if dotted else "solid"},
        marker={"symbol": f"{symbol}-open" if dotted else symbol, "size": 6 if dotted else 7},
        error_y={"type": "data", "symmetric": False, "thickness": 1.1, "width": 4,
                 "array": [top - at for at, top in zip(mean, high, strict=True)],
                 "arrayminus": [at - bottom for at, bottom in zip(mean, low, strict=True)]},
        customdata=[[bottom, top] for bottom, top in zip(low, high, strict=True)],
        hovertemplate=f"<b>{plain(name)}</b> at %{{x:+.4g}}: %{{y:.4g}} {unit}<br>"
        "95 %: %{customdata[0]:.4g} to %{customdata[1]:.4g}<extra></extra>",
    )  # fmt: skip


def _layout(points: Sequence[Point], theme: Theme) -> dict[str, Any]:
    ink = INK[theme]
    largest = max(point["perplexity"]["high"] for point in points)
    least = min(point["perplexity"]["low"] for point in points)
    return {
        "template": template(theme), "hovermode": "closest", "uirevision": "sweep", "height": 640,
        "legend": {"orientation": "h", "y": 1.07, "yanchor": "bottom"}, "margin": {"t": 30, "l": 8, "r": 8, "b": 8},
        "xaxis3": {"title": {"text": "strength of the slider"}},
        "yaxis": {"zeroline": True, "zerolinecolor": ink["line"]},
        "yaxis2": {"type": "log" if least > 0 and largest > 4 * least else "linear"},
        "yaxis3": {"range": [0, 1.05]},
    }  # fmt: skip


def _map(points: Sequence[Point], measure: Measure, poles: tuple[str, str], theme: Theme) -> go.Figure:
    across = sorted({point["by"] for point in points})
    up = sorted({point["other"] for point in points})
    z = np.full((len(up), len(across)), np.nan)
    hovers = [["" for _ in across] for _ in up]
    for point in points:
        row, column, found = up.index(point["other"]), across.index(point["by"]), value(point, measure)
        if found is not None:
            z[row, column] = found
            hovers[row][column] = _said(point, measure, found)
    signed = measure in ("plus", "minus")
    most = max(float(np.nanmax(np.abs(z), initial=0.0)) if np.isfinite(z).any() else 0.0, LEAST)
    scale: dict[str, Any] = {"colorscale": stops()}
    if signed:
        scale = {"zmin": -most, "zmax": most, "zmid": 0, "colorscale": stops(BLUE_WHITE_RED)}
    title = TITLES[measure].replace("+ pole", plain(poles[0])).replace("− pole", plain(poles[1]))
    return go.Figure(
        go.Heatmap(
            z=z, x=[f"{each:+g}" for each in across], y=[f"{each:+g}" for each in up], xgap=1, ygap=1,
            hoverongaps=False, **scale,
            colorbar={"title": {"text": title + (", nats a token" if signed else "")}},
            customdata=hovers, hovertemplate="%{customdata}<extra></extra>",
        ),
        {"template": template(theme), "uirevision": "sweep", "height": 460,
         "xaxis": {"title": {"text": "strength of the first slider"}, "type": "category", "showgrid": False},
         "yaxis": {"title": {"text": "strength of the second slider"}, "type": "category", "showgrid": False}},
    )  # fmt: skip


def _said(point: Point, measure: Measure, found: float) -> str:
    interval: tuple[float, float, float] | None = None
    if measure in ("plus", "minus"):
        interval = likelier(point[measure])
    elif measure != "distinct":
        interval = interval_of(measure)(point)
    bounds = f"<br>95 %: {interval[1]:.4g} to {interval[2]:.4g}" if interval else ""
    return f"first {point['by']:+g}, second {point['other']:+g}<br><b>{found:.4g}</b>{bounds}"
