"""Two models drawn: how much each part changed, which layers are alike, what a stitched model can do."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from frontend.figures.intervals import interval_line
from frontend.figures.numbers import digits, opened
from frontend.figures.theme import INK, Theme, empty, stops, template

Answer = Mapping[str, Any]
KERNELS = {"stitched": ("stitched by the vocabulary", "first", "circle", "solid"),
           "identity": ("nothing in between", "second", "square", "dash"),
           "random": ("random kernel", "quiet", "diamond", "dot")}  # fmt: skip
MEASURES = {"accuracy": "accuracy", "nll": "nats a token", "agreement": "cosine with the upper model alone"}
SCORES = {"mean": "mean |correlation|", "best": "mean of the best |correlation|"}
NOTHING = "Nothing has been measured yet."


def changes(answer: Answer, theme: Theme = "light") -> go.Figure:
    """`ChangesAnswer` as JSON: the size of the difference over that of the parameters before, by layer and group."""
    sizes = [size for size in answer["sizes"] if size["layer"] is not None]
    if not sizes:
        return empty(NOTHING, theme)
    groups = list(dict.fromkeys(size["group"] for size in sizes))
    layers = sorted({size["layer"] for size in sizes})
    z = np.full((len(layers), len(groups)), np.nan)
    figures = digits(answer["conditions"])
    hovers = [["" for _ in groups] for _ in layers]
    for size in sizes:
        row, column = layers.index(size["layer"]), groups.index(size["group"])
        if size["relative"] is not None:
            z[row, column] = size["relative"]
        hovers[row][column] = (
            f"layer {size['layer']}, {size['group']}: {size['norm']:.{figures}g} of {size['before']:.{figures}g}<br>"
            f"{size['changed']:,} of {size['numbers']:,} numbers differ"
        )
    bar = {"title": {"text": "difference over what was there"}}
    return go.Figure(
        go.Heatmap(z=z, x=groups, y=layers, zmin=0, colorscale=stops(), colorbar=bar, xgap=1, ygap=1, hoverongaps=False,
                   customdata=hovers, hovertemplate="%{customdata}<extra></extra>"),
        {"template": template(theme), "height": 120 + max(160, 16 * len(layers)), "uirevision": "changes",
         "xaxis": {"type": "category", "showgrid": False, "title": {"text": "parameters"}},
         "yaxis": {"autorange": "reversed", "showgrid": False, "title": {"text": "layer"},
                   "dtick": max(1, len(layers) // 12)}},
    )  # fmt: skip


def alignment(answer: Answer, group: str | None, theme: Theme = "light") -> go.Figure:
    """`AlignmentAnswer` as JSON: one group's scores layer by layer, the assignment ringed, beside the control."""
    found = next((one for one in answer["groups"] if one["group"] == group), None)
    found = found or next(iter(answer["groups"]), None)
    if found is None:
        return empty(NOTHING, theme)
    sides = [(name, found[key]) for key, name in (("projected", "in the vocabulary"), ("control", "not projected"))
             if found[key] is not None]  # fmt: skip
    figure = make_subplots(rows=1, cols=len(sides), subplot_titles=[name for name, _ in sides], horizontal_spacing=0.12)
    tables = [opened(side["scores"]) for _, side in sides]
    most = max((float(np.nanmax(table)) for table in tables if np.isfinite(table).any()), default=1.0)
    for place, ((name, side), table) in enumerate(zip(sides, tables, strict=True), 1):
        heat = go.Heatmap(
            z=table, x=list(answer["other_layers"]), y=list(answer["layers"]), zmin=0, zmax=most, colorscale=stops(),
            showscale=place == len(sides), colorbar={"title": {"text": SCORES[answer["score"]]}}, hoverongaps=False,
            hovertemplate=f"layer %{{y}} and layer %{{x}} of the other, {name}: %{{z:.3f}}<extra></extra>",
        )  # fmt: skip
        ring = go.Scatter(
            x=[pair["other"] for pair in side["pairs"]], y=[pair["layer"] for pair in side["pairs"]], mode="markers",
            marker={"symbol": "circle-open", "size": 9, "color": "#ffffff", "line": {"width": 2, "color": "#ffffff"}},
            hoverinfo="skip", showlegend=False,
        )  # fmt: skip
        under = go.Scatter(ring).update(marker={"size": 12, "line": {"color": "#000000", "width": 1}})
        for trace in (heat, under, ring):
            figure.add_trace(trace, 1, place)
    figure.update_layout(template=template(theme), height=420, uirevision="alignment", margin={"t": 30})
    across, down = (max(1, len(answer[name]) // 8) for name in ("other_layers", "layers"))
    figure.update_xaxes(title={"text": "layer of the other model"}, showgrid=False, dtick=across)
    figure.update_yaxes(autorange="reversed", showgrid=False, dtick=down)
    figure.update_yaxes(title={"text": "layer of this model"}, col=1)
    return figure.update_annotations(font={"size": 12, "color": INK[theme]["text"]})


def stitching(answer: Answer, theme: Theme = "light") -> go.Figure:
    """`StitchingAnswer` as JSON: the measure by how many lower blocks came from the first model."""
    ink = INK[theme]
    read = "agreement" if answer["measure"] == "agreement" else "value"
    figure = go.Figure()
    for kernel, (name, colour, symbol, dash) in KERNELS.items():
        points = sorted(
            (each for each in answer["points"] if each["kernel"] == kernel and each[read] is not None),
            key=lambda point: int(point["lower"]),
        )
        if points:
            x, intervals = [point["lower"] for point in points], [point[read] for point in points]
            figure.add_trace(
                interval_line(x, intervals, name, colour=ink[colour], symbol=symbol, dash=dash, at="%{x} lower blocks")
            )
    if not figure.data:
        return empty(NOTHING, theme)
    for name, value, dash in (
        ("the upper model alone", (answer["whole"] or {}).get("mean"), "solid"),
        ("the lower model alone", (answer["lower_whole"] or {}).get("mean"), "dash"),
        ("chance", answer["chance"], "dot"),
    ):
        if value is not None and read == "value":
            figure.add_hline(y=value, line={"color": ink["line"], "width": 1.2, "dash": dash}, annotation={
                "text": name, "font": {"size": 11, "color": ink["quiet"]}})  # fmt: skip
    return figure.update_layout(
        template=template(theme), height=360, uirevision="stitching", hovermode="closest",
        xaxis={"title": {"text": "blocks of this model at the bottom"}},
        yaxis={"title": {"text": MEASURES[answer["measure"]]}},
    )  # fmt: skip
