"""The lens drawn: the likeliest word at every layer and token, and one token followed through the layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, expm1, log1p
from typing import Any, Literal
from unicodedata import east_asian_width

import numpy as np
import plotly.graph_objects as go

from frontend.figures.names import VISIBLE, Tokens, axis_names, plain, token_name, token_names
from frontend.figures.numbers import decimals, digits, opened
from frontend.figures.theme import BLUE_WHITE_RED, INK, Stops, Theme, empty, shade, stops, template

Side = Literal["edited", "unedited", "difference"]
Colour = Literal["probability", "agreement", "rank", "entropy"]
Answer = Mapping[str, Any]
"""`TraceAnswer` as JSON."""

COLOURS: dict[str, str] = {
    "probability": "Probability of the likeliest word",
    "agreement": "Probability of the answer's word",
    "rank": "Rank of the tracked token",
    "entropy": "Entropy, nats",
}
FIELDS = {"probability": "probability", "agreement": "final", "rank": "rank", "entropy": "entropy"}
COLUMNS_MOST = 128
"""Tokens that one picture shows; a longer text is shown in windows."""
AXES_PX, SLIM_AXES_PX = 250, 180
"""Width that the row names, in full or as numbers, and the colour bar take."""
SLIM_PX = 520
"""A narrower picture names its rows by their numbers alone."""
CHARACTER_PX = 6.6
FEWEST = 3
"""Characters of a word below which a cell shows none."""
LABEL_PX = 15


@dataclass(frozen=True)
class Lens:
    """One side of an answer put together: [rows, columns, ...] with gaps (NaN, id -1) where nothing was read (yet)."""

    grids: Sequence[Mapping[str, Any]]
    rows: list[int]
    columns: list[int]

    @property
    def is_whole(self) -> bool:
        """Whether one grid holds all cells, so that its arrays need not be opened."""
        only = self.grids[0]
        return len(self.grids) == 1 and (list(only["rows"]), list(only["columns"])) == (self.rows, self.columns)

    def values(self, name: str) -> np.ndarray:
        """An array of the answer over all cells."""
        parts = [opened(grid[name]) for grid in self.grids]
        gap = -1 if parts[0].dtype.kind == "i" else np.nan
        whole = np.full((len(self.rows), len(self.columns), *parts[0].shape[2:]), gap, parts[0].dtype)
        for grid, part in zip(self.grids, parts, strict=True):
            across = [place for place, column in enumerate(grid["columns"]) if column in self.columns]
            places = [self.columns.index(grid["columns"][place]) for place in across]
            whole[np.ix_([self.rows.index(row) for row in grid["rows"]], places)] = part[:, across]
        return whole


def lens_grid(
    answer: Answer,
    tokens: Tokens = None,
    *,
    side: Side = "edited",
    colour: Colour = "probability",
    token: int | None = None,
    row: int | None = None,
    window: tuple[int, int] | None = None,
    width: float = 1100,
    theme: Theme = "light",
) -> go.Figure:
    """Rows of the lens down, tokens across, the likeliest next word in each cell where it fits in `width` pixels.

    A word that the last row has too is bold. `token` and `row` mark the open cell (default: the last of each);
    `window` are the tokens [first, last) that are shown (default: the 128 around `token`). `colour="rank"` needs an
    answer that tracks a token: the first one is shown. A part of an answer leaves gaps. `side="difference"` shows the
    edited model's words, and by how much the edits moved their probability.
    """
    grids = answer["edited"] if side == "difference" else answer.get(side)
    if grids is None or (side == "difference" and not answer.get("unedited")):
        return empty("There is no comparison: switch on an edit and “compare with unedited”.", theme)
    if colour == "rank" and side != "difference" and not answer["tracked"]:
        return empty("No token is tracked, so there is no rank to show.", theme)
    count = len(answer["ids"])
    token = count - 1 if token is None else min(token, count - 1)
    row = answer["layers"] if row is None else min(row, answer["layers"])
    low, high = window or window_of(count, token)
    lens = Lens(grids, list(range(answer["layers"] + 1)), list(range(low, high)))
    slim = width < SLIM_PX
    room = (width - (SLIM_AXES_PX if slim else AXES_PX)) / len(lens.columns)
    names = axis_names(token_names(tokens, answer["ids"]), low, high, high - low)
    fits = int((room - 8) / CHARACTER_PX)
    if side == "difference":
        traces = [_moved(answer, lens, names, fits)]
    else:
        traces = list(_heat(answer, lens, side, colour, names, fits))
    return go.Figure(traces, _layout(lens, names, room, slim, _marks(lens, token, row, theme), theme))


def window_of(count: int, token: int) -> tuple[int, int]:
    """Tokens [first, last) of the picture that shows a token: windows stand still while the token moves inside."""
    low = max(0, min(token // COLUMNS_MOST * COLUMNS_MOST, count - COLUMNS_MOST))
    return low, min(count, low + COLUMNS_MOST)


def tracked(answer: Answer, id: int, *, token: int | None = None, theme: Theme = "light") -> go.Figure:
    """Probability, rank (1 is the likeliest, logarithmic) and logit of a token at every row of one column.

    `token` is the column (default: the focused one of a part, the last of a whole); edited beside unedited.
    """
    if id not in answer["tracked"]:
        return empty("This token was not tracked.", theme)
    place = answer["tracked"].index(id)
    axes = (("y3", "tracked_probability", ".%df"), ("y2", "rank", "d"), ("y", "tracked_logit", ".%df"))
    sides = [side for side in ("unedited", "edited") if answer.get(side)]
    traces = [
        _line(answer, side, token, place, axis, field, form, theme) for axis, field, form in axes for side in sides
    ]
    return go.Figure(traces, _tracked_layout(answer, len(sides) > 1, theme))


def row_name(row: int) -> str:
    """Row 0 is the embedding, row n the stream after block n−1."""
    return "embedding" if row == 0 else f"after block {row - 1}"


def word_name(word: str) -> str:
    """A word of the vocabulary with its own spaces visible."""
    spaces = {" ": "·", **VISIBLE}
    return "".join(spaces.get(each, each if each.isprintable() else "�") for each in word) or "∅"


def _heat(
    answer: Answer, lens: Lens, side: Side, colour: Colour, names: list[str], fits: int
) -> tuple[go.Heatmap, go.Scatter]:
    ids = lens.values("ids")
    top = _largest(answer, lens, colour)
    scale = _rank_stops(top) if colour == "rank" else stops()
    words = _words(answer, ids, fits) if fits >= FEWEST else None
    return (
        go.Heatmap(
            z=_shown(lens, colour), x=lens.columns, y=lens.rows, zmin=0, zmax=top, colorscale=scale,
            showscale=colour != "rank", colorbar={"title": {"text": COLOURS[colour]}}, hoverongaps=False,
            text=words, texttemplate="%{text}" if words else None, textfont={"size": 11},
            customdata=_hovers(answer, lens, ids, names), hovertemplate="%{customdata}<extra></extra>",
            xgap=1, ygap=1, name=side,
        ),
        _rank_bar(top, colour == "rank"),
    )  # fmt: skip


def _moved(answer: Answer, lens: Lens, names: list[str], fits: int) -> go.Heatmap:
    """Edited minus unedited: by how much the probability of the edited model's word differs, centred at zero."""
    ids = lens.values("ids")
    after = lens.values("probability")[..., 0]
    before = Lens(answer["unedited"], lens.rows, lens.columns).values("shown")
    change = after - before
    seen = np.abs(change[np.isfinite(change)])
    top = max(float(seen.max(initial=0.0)), float(answer["noise"]), 1e-12)
    figures = digits(answer["conditions"])
    words = {int(id): plain(word_name(word)) for id, word in answer["words"].items()}

    def said(row: int, column: int) -> str:
        if ids[row, column, 0] < 0:
            return ""
        shown = words[int(ids[row, column, 0])]
        return (
            f"<b>{row_name(lens.rows[row])}</b>, read up to <b>{names[column]}</b><br>{shown}: "
            f"{after[row, column]:.{figures}g} edited, {before[row, column]:.{figures}g} unedited<br>"
            f"difference {change[row, column]:+.{figures}g}"
        )

    return go.Heatmap(
        z=change, x=lens.columns, y=lens.rows, zmin=-top, zmax=top, zmid=0, colorscale=stops(BLUE_WHITE_RED),
        colorbar={"title": {"text": "Edited − unedited: probability of the word"}}, hoverongaps=False,
        text=_words(answer, ids, fits) if fits >= FEWEST else None, texttemplate="%{text}" if fits >= FEWEST else None,
        textfont={"size": 11}, xgap=1, ygap=1, name="difference", hovertemplate="%{customdata}<extra></extra>",
        customdata=[[said(row, column) for column in range(len(lens.columns))] for row in range(len(lens.rows))],
    )  # fmt: skip


def _shown(lens: Lens, colour: Colour) -> Any:
    """What the colours say [rows, columns]; typed arrays that have this shape already go in unopened."""
    name = FIELDS[colour]
    if lens.is_whole and colour != "probability":
        array, shape = lens.grids[0][name], f"{len(lens.rows)}, {len(lens.columns)}"
        if colour != "rank" or array["shape"].split(",")[-1].strip() == "1":
            return {**array, "shape": shape}
    values = lens.values(name)
    flat = values if values.ndim == 2 else values[..., 0]
    return np.where(flat < 0, np.nan, flat).astype("f4") if colour == "rank" else np.ascontiguousarray(flat)


def _largest(answer: Answer, lens: Lens, colour: Colour) -> float:
    """The end of the scale, the same on both sides, so that they can be compared by eye."""
    if colour in ("probability", "agreement"):
        return 1.0
    sides = [answer[side] for side in ("edited", "unedited") if answer.get(side)]
    values = [Lens(grids, lens.rows, lens.columns).values(FIELDS[colour]) for grids in sides]
    return max(1.0, *(float(np.nanmax(each)) for each in values))


def _words(answer: Answer, ids: np.ndarray, fits: int) -> list[list[str]]:
    """The likeliest word of each cell, cut to what fits; bold where the last row says the same."""
    names: dict[int, str] = {-1: ""}
    for id in np.unique(ids[..., 0]).tolist():
        names.setdefault(id, plain(_cut(token_name({"piece": answer["words"][str(id)]}), fits)) if id >= 0 else "")
    last = ids[-1, :, 0].tolist()
    return [
        [f"<b>{names[id]}</b>" if id == end and id >= 0 else names[id] for id, end in zip(line, last, strict=True)]
        for line in ids[..., 0].tolist()
    ]


def _cut(word: str, fits: int) -> str:
    """As much of a word as fits; wide characters take the room of two."""
    sizes = np.cumsum([2 if east_asian_width(each) in "WF" else 1 for each in word])
    return word if not len(sizes) or sizes[-1] <= fits else word[: int((sizes < fits).sum())] + "…"


def _hovers(answer: Answer, lens: Lens, ids: np.ndarray, names: list[str]) -> list[list[str]]:
    """What each cell says when it is pointed at."""
    probability, entropy, final = (lens.values(name) for name in ("probability", "entropy", "final"))
    rank = lens.values("rank")[..., 0] if answer["tracked"] else None
    figures, places = digits(answer["conditions"]), decimals("nats", answer["conditions"])
    words = {int(id): plain(word_name(word)) for id, word in answer["words"].items()}

    def said(row: int, column: int) -> str:
        here = ids[row, column]
        if here[0] < 0:
            return ""
        lines = [f"<b>{row_name(lens.rows[row])}</b>, read up to <b>{names[column]}</b>"]
        pairs = zip(here.tolist(), probability[row, column].tolist(), strict=True)
        lines += [f"{p:.{figures}g}  {words[id]}" for id, p in pairs]
        lines.append(f"entropy {entropy[row, column]:.{places}f} nats")
        if (end := int(ids[-1, column, 0])) >= 0:
            lines.append(f"the answer’s word {words[end]} here: {final[row, column]:.{figures}g}")
        if rank is not None:
            lines.append(f"rank of {words[answer['tracked'][0]]}: {int(rank[row, column]) + 1}")
        return "<br>".join(lines)

    return [[said(row, column) for column in range(len(lens.columns))] for row in range(len(lens.rows))]


def _rank_stops(top: float, steps: int = 64) -> Stops:
    """Viridis over the logarithm of the rank, the likeliest brightest; the values stay linear and exact."""
    shares = [step / steps for step in range(steps + 1)]
    return [[min(expm1(share * log1p(top)) / top, 1.0), shade(1 - share)] for share in shares]


def _rank_bar(top: float, visible: bool) -> go.Scatter:
    """An unseen point that carries the logarithmic colour bar."""
    powers = [10.0**power for power in range(len(str(int(top) + 1)))]
    return go.Scatter(
        x=[None], y=[None], mode="markers", visible=visible, hoverinfo="skip", showlegend=False,
        marker={"color": [0], "cmin": 0, "cmax": log1p(top), "colorscale": stops(tuple(shade(1 - share / 9) for share in
                range(10))), "showscale": True, "colorbar": {
            "title": {"text": COLOURS["rank"]}, "tickvals": [float(np.log(power)) for power in powers],
            "ticktext": [f"{int(power):,}" for power in powers]}},
    )  # fmt: skip


def _marks(lens: Lens, token: int, row: int, theme: Theme) -> list[dict[str, Any]]:
    """The last row, the focused column and the open cell. A page moves them by their names."""
    ink, last = INK[theme], lens.rows[-1]
    low, high = lens.columns[0] - 0.5, lens.columns[-1] + 0.5

    def box(name: str, x0: float, x1: float, y0: float, y1: float, colour: str, width: float) -> dict[str, Any]:
        return {"name": name, "type": "rect", "x0": x0, "x1": x1, "y0": y0, "y1": y1,
                "line": {"color": colour, "width": width}}  # fmt: skip

    return [
        box("answer", low, high, last - 0.5, last + 0.5, ink["text"], 2),
        box("column", token - 0.5, token + 0.5, -0.5, last + 0.5, ink["mark"], 1.5),
        box("cell", token - 0.5, token + 0.5, row - 0.5, row + 0.5, ink["mark"], 3.5),
    ]


def _layout(
    lens: Lens, names: list[str], room: float, slim: bool, marks: list[dict[str, Any]], theme: Theme
) -> dict[str, Any]:
    every = max(1, ceil(LABEL_PX / room))
    last, down = lens.rows[-1], max(1, ceil(len(lens.rows) / 64))
    rows = [row for row in lens.rows if (row % down == 0 and row <= last - down) or row == last]
    labels = [_row_label(row, row == last, slim) for row in rows]
    upright = max(map(len, names)) * CHARACTER_PX < room
    return {
        "template": template(theme), "hovermode": "closest", "uirevision": f"{lens.columns[0]} {last}", "shapes": marks,
        "xaxis": {"side": "top", "title": {"text": "token read last"}, "tickvals": lens.columns[::every],
                  "ticktext": names[::every], "tickangle": 0 if upright else -90, "showgrid": False,
                  "range": [lens.columns[0] - 0.55, lens.columns[-1] + 0.55]},
        "yaxis": {"tickvals": rows, "ticktext": labels, "showgrid": False, "range": [last + 0.6, -0.6],
                  "title": {"text": "after block" if slim else None}},
    }  # fmt: skip


def _row_label(row: int, is_last: bool, slim: bool) -> str:
    if slim:
        return "<b>answer</b>" if is_last else str(row - 1) if row else "emb."
    return f"<b>answer: {row_name(row)}</b>" if is_last else row_name(row)


def _column(answer: Answer, side: str, token: int | None) -> tuple[Mapping[str, Any], int]:
    """The grid that holds every row of a column, and the place of the column in it."""
    grid = answer[side][-1]
    return grid, len(grid["columns"]) - 1 if token is None else list(grid["columns"]).index(token)


def _line(
    answer: Answer, side: str, token: int | None, place: int, axis: str, field: str, form: str, theme: Theme
) -> go.Scatter:
    grid, column = _column(answer, side, token)
    array, number = grid[field], form % digits(answer["conditions"]) if "%" in form else form
    if field != "rank" and len(grid["columns"]) == 1 and len(answer["tracked"]) == 1:
        values: Any = {**array, "shape": str(len(grid["rows"]))}
    else:
        values = np.ascontiguousarray(opened(array)[:, column, place]) + (field == "rank")
    edited = side == "edited"
    return go.Scatter(
        x=list(grid["rows"]), y=values, yaxis=axis, mode="lines+markers", name=side, legendgroup=side,
        showlegend=axis == "y", marker={"size": 5 if edited else 4, "symbol": "circle" if edited else "circle-open"},
        line={"color": INK[theme]["first" if edited else "second"], "width": 2,
              "dash": "solid" if edited else "dot"},
        hovertemplate=f"{field.removeprefix('tracked_')} %{{y:{number}}}<extra>{side}</extra>",
    )  # fmt: skip


def _tracked_layout(answer: Answer, compared: bool, theme: Theme) -> dict[str, Any]:
    layers = answer["layers"]
    step = max(1, ceil(layers / 10))
    ticks = list(range(0, layers + 1, step))

    def axis(title: str, low: float, high: float, **more: Any) -> dict[str, Any]:
        return {"title": {"text": title}, "domain": [low, high], "nticks": 5, **more}

    return {
        "template": template(theme), "hovermode": "x", "uirevision": "tracked", "showlegend": compared,
        "xaxis": {"title": {"text": "row: 0 embedding, n after block n−1"}, "tickvals": ticks,
                  "anchor": "y", "range": [-0.4, layers + 0.4], "showgrid": False},
        "yaxis": axis("logit", 0.0, 0.28),
        "yaxis2": axis("rank", 0.36, 0.64, type="log", autorange="reversed", dtick=1, tickformat=",d"),
        "yaxis3": axis("probability", 0.72, 1.0, rangemode="tozero"),
    }  # fmt: skip
