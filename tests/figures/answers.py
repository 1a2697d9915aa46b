"""Answers made from random numbers, valid in every field: what figures and pages are tested and developed with."""

from dataclasses import dataclass

import numpy as np

from backend.schema import (
    Array,
    Conditions,
    HeadAnswer,
    HeadAsk,
    HeadMaps,
    HeadsAnswer,
    HeadsAsk,
    HeadSide,
    LensGrid,
    Link,
    Overview,
    OverviewAsk,
    Region,
    Statistic,
    Token,
    TokensAnswer,
    TraceAnswer,
    TraceAsk,
    View,
)
from frontend.figures.statistics import LABELS

UNITS = {"entropy": "nats", "normalised": "ratio", "effective": "tokens", "distance": "tokens"}
CONDITIONS = Conditions(
    model="made-up", revision="", digest="0" * 64, quantisation="none", dtype="float32", device="cpu", kernel="eager",
    versions={"lmscope": "0.1.0", "torch": "2.13.0", "transformers": "5.24.0"},
)  # fmt: skip


VOCABULARY = (
    " Paris", " the", "<s>", " a&b", "\n", "", " Rome", " city", " capital", " of", "▁long" * 5, " 東京の首都",
)  # fmt: skip
"""Words of the lens, the awkward ones among them."""


def packed(values: np.ndarray) -> Array:
    """numpy to a schema Array."""
    dtype = {"f": "f4", "i": "i4"}.get(values.dtype.kind, "u1")
    if values.dtype in (np.uint8, np.int8):
        dtype = "u1" if values.dtype == np.uint8 else "i1"
    small = values.astype(np.dtype(dtype).newbyteorder("<"))
    return Array.pack(dtype, values.shape, np.ascontiguousarray(small).tobytes())  # type: ignore[arg-type]


@dataclass(frozen=True)
class MadeUp:
    """A model that exists only as random attention: layers x heads, causal or not."""

    layers: int = 4
    heads: int = 6
    kv_heads: int = 3
    causal: bool = True

    def probabilities(self, layer: int, head: int, tokens: int, edited: bool = True) -> np.ndarray:
        """One head's map [T, T]: some look back, some at themselves, some at the first token, some everywhere."""
        noise = np.random.default_rng(layer * 1009 + head * 31 + tokens + (0 if edited else 7))
        row, column = np.indices((tokens, tokens))
        kind = (layer + head * 2) % 4
        scores = noise.normal(0, 0.8, (tokens, tokens))
        scores += (
            6.0 * (kind == 0) * (column == row - 1)
            + 5.0 * (kind == 1) * (column == 0)
            + 4.0 * (kind == 2) * (column == row)
        )
        if self.causal:
            scores = np.where(column > row, -np.inf, scores)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        return (weights / weights.sum(1, keepdims=True)).astype(np.float32)

    def tokens(self, view: View) -> TokensAnswer:
        """One token a word; the text's own spaces stay with the piece after them."""
        text = view.text or " ".join(turn.content for turn in view.turns or ()) or " ".join(view.pair or ())
        pieces = [piece if place == 0 else " " + piece for place, piece in enumerate(text.split())]
        starts = np.cumsum([0] + [len(piece) for piece in pieces]).tolist()
        shown = tuple(
            Token(position=place, id=100 + place, piece=piece, hex=piece.encode().hex(), start=starts[place],
                  end=starts[place + 1], role="text", punctuation=piece.strip() in {".", ",", "!"})
            for place, piece in enumerate(pieces)
        )  # fmt: skip
        ids = tuple(token.id for token in shown)
        return TokensAnswer(conditions=CONDITIONS, ids=ids, text=text, tokens=shown, prompt=len(ids), templated=False)

    def statistics(self, seed: int) -> tuple[Statistic, ...]:
        """Random statistics; `next` is undefined where the model is causal."""
        noise, size = np.random.default_rng(seed), (self.layers, self.heads)
        top = {"entropy": 3.2, "effective": 18.0, "distance": 12.0}
        made = []
        for name, label in LABELS.items():
            values = noise.beta(1.2, 3, size).astype("f4") * top.get(name, 1.0)
            if name in ("entropy", "normalised"):
                values = (top.get(name, 1.0) - values * 0.8).astype("f4")
            if name == "next" and self.causal:
                values = np.full(size, np.nan, "f4")
            uniform = np.full(size, top.get(name, 1.0) if name != "normalised" else 1.0, "f4")
            uniform *= 1.0 if name in ("entropy", "normalised", "effective") else 0.1
            made.append(
                Statistic(name=name, label=label, unit=UNITS.get(name, "share"), value=packed(values),
                          definition=f"{label}, averaged over the rows used.", uniform=packed(uniform),
                          rows=packed(np.full(size, 9, "i4")))
            )  # fmt: skip
        return tuple(made)

    def overview(self, ask: OverviewAsk) -> Overview:
        """Every head."""
        count = len(self.tokens(ask.view).ids)
        cells = min(count, ask.cells or (64 if self.layers * self.heads <= 300 else 32))
        shape = (self.layers, self.heads, cells, cells)
        edited = np.empty(shape, "f4")
        for layer in range(self.layers):
            for head in range(self.heads):
                edited[layer, head] = self.probabilities(layer, head, cells)
        sides = {"edited": HeadMaps(maps=packed(_bytes(edited)), statistics=self.statistics(1))}
        if ask.view.compare:
            other = np.roll(edited, 1, axis=1)
            scale = float(np.abs(edited - other).max() / 127)
            sides["unedited"] = HeadMaps(maps=packed(_bytes(other)), statistics=self.statistics(2))
            steps = np.round((edited - other) / scale).astype(np.int8)
            sides["difference"] = HeadMaps(maps=packed(steps), scale=scale, statistics=self.statistics(3))
        return Overview(
            conditions=CONDITIONS, ids=self.tokens(ask.view).ids, layers=tuple(range(self.layers)), heads=self.heads,
            kv_heads=self.kv_heads, causal=self.causal, tokens=count, rows_used=max(count - 1, 0), rows_left_out=1,
            cells=(cells, cells), pooled=cells < count, reading=ask.view.reading, noise=1e-6, **sides,
        )  # fmt: skip

    def head(self, ask: HeadAsk) -> HeadAnswer:
        """The mean of the asked heads."""
        ids = self.tokens(ask.view).ids
        count = len(ids)
        region = ask.region or Region(q0=0, q1=count, k0=0, k1=count)
        maps = {"edited": self._mean(ask, count, True)}
        if ask.view.compare:
            maps["unedited"] = self._mean(ask, count, False)
            maps["difference"] = maps["edited"] - maps["unedited"]
        cells = (min(region.q1 - region.q0, ask.cells), min(region.k1 - region.k0, ask.cells))
        visible = np.arange(1, count + 1) if self.causal else np.full(count, count)
        return HeadAnswer(
            conditions=CONDITIONS, ids=ids, heads=ask.heads, region=region, cells=cells, reading=ask.view.reading,
            pooled=cells != (region.q1 - region.q0, region.k1 - region.k0), unit="probability", token=ask.token,
            uniform_entropy=packed(np.log(visible).astype("f4")), visible=packed(visible.astype("i4")), noise=1e-6,
            **{side: _side(ask, values, region, cells) for side, values in maps.items()},
        )  # fmt: skip

    def trace(self, ask: TraceAsk, count: int | None = None) -> TraceAnswer:
        """A lens that grows sure of one word from row to row; an edit shifts its numbers."""
        view, layers = ask.view, self.layers
        ids = self.tokens(view).ids if count is None else tuple(range(count))
        focus = len(ids) - 1 if view.focus.token is None else view.focus.token
        rows, every = range(layers + 1), range(len(ids))
        parts = [(rows, every)] if ask.part == "all" else [([layers], every), (rows, [focus])]
        sides = [
            tuple(self._lens(ask, list(down), list(across), edited) for down, across in parts)
            for edited in ((True, False) if view.compare and view.active_edits else (True,))
        ]
        shown = {VOCABULARY.index(word): word for word in VOCABULARY}
        return TraceAnswer(
            conditions=CONDITIONS, ids=ids, layers=layers, tracked=ask.tracked, edited=sides[0],
            unedited=sides[1] if len(sides) > 1 else None,
            settled=packed(np.full(len(ids), layers - 1, "i4")) if ask.part == "all" else None,
            noise=1e-6, words={str(id): shown.get(id, f" w{id}") for id in (*shown, *ask.tracked)},
        )  # fmt: skip

    def _lens(self, ask: TraceAsk, rows: list[int], columns: list[int], edited: bool) -> LensGrid:
        """Every cell is made from its own row and column, so that parts agree with the whole."""
        logits = np.stack([np.stack([self._logits(row, column, edited) for column in columns]) for row in rows])
        p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        order = np.argsort(-logits, -1)[..., : ask.top]
        final = np.array([np.argmax(self._logits(self.layers, column, edited)) for column in columns])
        tracked = np.array([id % len(VOCABULARY) for id in ask.tracked], int)
        ranks = np.argsort(np.argsort(-logits, -1), -1)
        first = [[int(np.argmax(self._logits(row, column, True))) for column in columns] for row in rows]
        shown = np.take_along_axis(p, np.array(first)[..., None], -1)[..., 0].astype("f4")
        return LensGrid(
            rows=tuple(rows), columns=tuple(columns), ids=packed(order.astype("i4")),
            probability=packed(np.take_along_axis(p, order, -1).astype("f4")),
            logit=packed(np.take_along_axis(logits, order, -1).astype("f4")),
            entropy=packed((-p * np.log(p)).sum(-1).astype("f4")),
            final=packed(np.take_along_axis(p, np.broadcast_to(final[None, :, None], (*p.shape[:2], 1)), -1)[..., 0]),
            rank=packed(ranks[..., tracked].astype("i4")), tracked_probability=packed(p[..., tracked].astype("f4")),
            tracked_logit=packed(logits[..., tracked].astype("f4")), shown=None if edited else packed(shown),
        )  # fmt: skip

    def _logits(self, row: int, column: int, edited: bool) -> np.ndarray:
        noise = np.random.default_rng(row * 977 + column + (0 if edited else 5000)).normal(0, 1, len(VOCABULARY))
        noise[column * 5 % len(VOCABULARY)] += 6 * row / self.layers
        return noise

    def all_heads(self, ask: HeadsAsk) -> HeadsAnswer:
        """The statistics alone."""
        whole = self.overview(OverviewAsk(view=ask.view, cells=4))
        fields = {name: getattr(whole, name) for name in HeadsAnswer.model_fields if hasattr(whole, name)}
        for side in ("edited", "unedited", "difference"):
            fields[side] = None if fields[side] is None else fields[side].statistics
        return HeadsAnswer(**fields)

    def _mean(self, ask: HeadAsk, count: int, edited: bool) -> np.ndarray:
        maps = [self.probabilities(name.layer, name.head, count, edited) for name in ask.heads]
        return np.mean(maps, axis=0, dtype="f4")


def _bytes(probabilities: np.ndarray) -> np.ndarray:
    return np.round(255 * np.sqrt(probabilities)).astype(np.uint8)


def _side(ask: HeadAsk, values: np.ndarray, region: Region, cells: tuple[int, int]) -> HeadSide:
    count, size = len(values), np.abs(values)
    order = np.argsort(-size, 1, kind="stable")[:, : ask.links]
    strongest = np.full((count, ask.links), -1, "i4")
    weights = np.zeros((count, ask.links), "f4")
    strongest[:, : order.shape[1]] = order
    weights[:, : order.shape[1]] = np.take_along_axis(values, order, 1)
    strongest[weights == 0] = -1
    inside = values[region.q0 : region.q1, region.k0 : region.k1]
    signed = bool((values < 0).any())
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(values > 0, values * np.log(values), 0).sum(1)
    token = ask.token
    links = {}
    if token is not None:
        best_out, best_in = np.argsort(-size[token])[:8], np.argsort(-size[:, token])[:8]
        links["links_out"] = tuple(Link(query=token, key=int(k), weight=float(values[token, k])) for k in best_out)
        links["links_in"] = tuple(Link(query=int(q), key=token, weight=float(values[q, token])) for q in best_in)
    return HeadSide(
        map=packed(_pooled(inside, cells)), entropy=None if signed else packed(entropy.astype("f4")),
        strongest=packed(strongest), weights=packed(weights),
        undrawn=packed((size.sum(1) - np.abs(weights).sum(1)).astype("f4")),
        looks_at=None if token is None else packed(values[token]),
        looked_at_by=None if token is None else packed(np.ascontiguousarray(values[:, token])), **links,
    )  # fmt: skip


def _pooled(values: np.ndarray, cells: tuple[int, int]) -> np.ndarray:
    (rows, columns), (q, k) = values.shape, cells
    if (rows, columns) == (q, k):
        return np.ascontiguousarray(values)
    return np.stack(
        [
            [
                values[i * rows // q : (i + 1) * rows // q, j * columns // k : (j + 1) * columns // k].max()
                for j in range(k)
            ]
            for i in range(q)
        ]
    ).astype("f4")
