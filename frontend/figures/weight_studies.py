"""The studies of reading weights as words, drawn: every mean with its interval, beside chance."""

from collections.abc import Callable, Mapping
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from frontend.figures.intervals import interval_line
from frontend.figures.theme import INK, Theme, empty, template

Answer = Mapping[str, Any]
VECTORS = {"normal": ("normal vectors", "circle"), "values": ("feed-forward values", "square"),
           "states": ("hidden states", "diamond")}  # fmt: skip
INVERSES = {"transpose": ("Eᵀ", "first"), "pseudo": ("E⁺", "second")}
GROUPS = {"keys": "feed-forward keys", "values": "feed-forward values", "attention_values": "attention values (W_V)",
          "attention_outputs": "attention outputs (W_O)"}  # fmt: skip
AGAINST = {"layer": ("the layer's state", "first", "circle"), "final": ("the final state", "second", "diamond")}
PAIRINGS = {"keys_values": "key and value of a unit", "values_outputs": "W_V and W_O of a coordinate",
            "queries_keys": "W_Q and W_K of a coordinate"}  # fmt: skip
NOTHING = "Nothing has been measured yet."


def keep(answer: Answer, theme: Theme = "light") -> go.Figure:
    """`KeepStudy` as JSON: cosine to the whole products by how many words of each vector are kept."""
    curves = [curve for curve in answer["curves"] if curve["points"]]
    if not curves:
        return empty(NOTHING, theme)
    figure = go.Figure()
    for curve in curves:
        (what, symbol), (inverse, colour) = VECTORS[curve["vectors"]], INVERSES[curve["inverse"]]
        points = curve["points"]
        figure.add_trace(
            interval_line(
                [point["k"] for point in points], [point["cosine"] for point in points], f"{inverse}, {what}",
                colour=INK[theme][colour], symbol=symbol, at="k = %{x:,}",
            )
        )  # fmt: skip
    return figure.update_layout(
        template=template(theme), height=380, uirevision="keep", hovermode="closest",
        xaxis={"type": "log", "title": {"text": "words kept of each vector (k)"}},
        yaxis={"title": {"text": "cosine to the whole products"}},
    )  # fmt: skip


def active(answer: Answer, theme: Theme = "light") -> go.Figure:
    """`ActiveStudy` as JSON: R_k by layer, one picture a group; dotted: the states of other tokens."""
    groups = [name for name in GROUPS if any(point["group"] == name for point in answer["points"])]
    if not groups:
        return empty(NOTHING, theme)
    figure = _tiles([GROUPS[name] for name in groups])
    for place, group in enumerate(groups):
        for against, (name, colour, symbol) in AGAINST.items():
            points = [each for each in answer["points"] if (each["group"], each["against"]) == (group, against)]
            points.sort(key=lambda point: int(point["layer"]))
            for field, dash, whose in (("own", "solid", ""), ("shuffled", "dot", ", shuffled")):
                line = interval_line(
                    [point["layer"] for point in points], [point[field] for point in points], f"{name}{whose}",
                    colour=INK[theme][colour], symbol=symbol, dash=dash, at="layer %{x}",
                )  # fmt: skip
                _add(figure, line, place, f"{against} {field}")
    return _by_layer(figure, f"R_{answer['k']} (share)", theme, len(groups))


def similarity(answer: Answer, theme: Theme = "light") -> go.Figure:
    """`SimilarityStudy` as JSON: mean overlap by layer, one picture a pairing, beside both kinds of chance."""
    points = [point for point in answer["points"] if point["layer"] is not None]
    pairings = [name for name in PAIRINGS if any(point["pairing"] == name for point in points)]
    if not pairings:
        return empty(NOTHING, theme)
    figure = _tiles([PAIRINGS[name] for name in pairings])
    ink = INK[theme]
    kinds = (("own", "belong together", ink["first"], "solid", "circle"),
             ("random", "random pairs of the layer", ink["second"], "dash", "square"),
             ("twin", "random directions", ink["quiet"], "dot", "diamond"))  # fmt: skip
    for place, pairing in enumerate(pairings):
        mine = sorted((point for point in points if point["pairing"] == pairing), key=lambda point: int(point["layer"]))
        for field, name, colour, dash, symbol in kinds:
            line = interval_line(
                [point["layer"] for point in mine], [point[field] for point in mine], name, colour=colour,
                symbol=symbol, dash=dash, at="layer %{x}",
            )  # fmt: skip
            _add(figure, line, place, field)
    return _by_layer(figure, "mean overlap (Jaccard)", theme, len(pairings))


DRAWN: dict[str, Callable[[Answer, Theme], go.Figure]] = {"keep": keep, "active": active, "similarity": similarity}
"""By the name that the page has for a study."""


def _tiles(titles: list[str]) -> go.Figure:
    rows = (len(titles) + 1) // 2
    across = min(len(titles), 2)
    return make_subplots(
        rows=rows, cols=across, subplot_titles=titles, shared_xaxes="all", vertical_spacing=0.16,
        horizontal_spacing=0.09,
    )  # fmt: skip


def _add(figure: go.Figure, line: go.Scatter, place: int, group: str) -> None:
    """One line of one tile; the legend names each kind once."""
    line.update(legendgroup=group, showlegend=place == 0)
    figure.add_trace(line, place // 2 + 1, place % 2 + 1)


def _by_layer(figure: go.Figure, measure: str, theme: Theme, tiles: int) -> go.Figure:
    rows = (tiles + 1) // 2
    figure.update_layout(
        template=template(theme), height=90 + 250 * rows, hovermode="closest", uirevision="layers",
        legend={"orientation": "h", "y": 1.02 + 0.1 / rows, "yanchor": "bottom"}, margin={"t": 30},
    )  # fmt: skip
    last = max((float(line.x[-1]) for line in figure.data if len(line.x)), default=0)
    figure.update_xaxes(title={"text": "layer"}, showticklabels=True, dtick=max(1, round(last / 8)))
    figure.update_yaxes(rangemode="tozero")
    figure.update_yaxes(title={"text": measure}, col=1)
    return figure.update_annotations(font={"size": 12, "color": INK[theme]["text"]})
