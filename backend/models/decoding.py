"""The batch of a decode loop: lines of different texts, edits and sampling, one token further at every step.

Lines that share a cache are padded on its left; each step feeds one token of each, with its own position, mask and row
of the plan. Caches keep every token, also those that a window has left behind, for then any two fit side by side: the
model's own mask hides what a window hides. A new line runs its text alone and its cache is put beside the others; who
leaves is cut out, and columns that are padding for everybody left go as well.

Axes: B lines, T tokens fed at once, L tokens of the longest line, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from transformers import Cache, DynamicCache

from backend import errors
from backend.measure.sampling import Draw, draw, key_of
from backend.models import forward
from backend.models.acting import Acting
from backend.models.columns import beside, columns, part_of
from backend.models.loaded import Loaded, Way
from backend.models.plan import Plan, Row, fold
from backend.models.taps import Cancel
from backend.models.vectors import Beside
from backend.schema import Sampling


@dataclass(eq=False)
class Line:
    """One text that is being continued."""

    ids: list[int]
    """Prompt and what was written so far; whoever takes a token appends it."""
    row: Row
    sampling: Sampling = field(default_factory=Sampling)
    top: int = 0
    """Likeliest tokens told with each chosen one."""
    types: tuple[int, ...] | None = None
    """Segment numbers of the prompt, where the model takes them; what is written has 0."""
    beside: Beside | None = None
    """Vectors that its edits name and nobody stored."""
    other: Row | Line | None = None
    """Other edits under which its tokens are judged, too: those of its steers alone that act on the same state (a row
    of steers), or a line that follows it, where edits change the states."""
    follows: bool = False
    """It draws nothing and is given what the line writes whose `other` it is."""
    acting: Acting = field(default_factory=Acting, init=False)
    """On how many tokens its edits acted."""
    begun: int = field(init=False)

    def __post_init__(self) -> None:
        self.begun = len(self.ids)

    @property
    def written(self) -> int:
        """Tokens written so far."""
        return len(self.ids) - self.begun

    @property
    def left(self) -> int:
        """Tokens that it may still write."""
        return max(self.sampling.tokens - self.written, 0)

    def draw(self) -> Draw:
        """How its next token is drawn: the random numbers are those of its seed and of this place of the text."""
        how = self.sampling
        return Draw(how.temperature, how.top_k, how.top_p, key_of(how.seed, len(self.ids)))


@dataclass(frozen=True, slots=True)
class Chosen:
    """The next token of a line, and what the model thought of it before temperature and cuts."""

    id: int
    probability: float
    top: tuple[int, ...] = ()
    top_probability: tuple[float, ...] = ()
    ratio: float | None = None
    """nats: ln P of it less ln P under the line's `other`."""


Next = Chosen | errors.LmscopeError
"""What a step gives a line: a token, or why there is none."""


class Batch:
    """Everything that one model writes at once. For the model's thread."""

    def __init__(self, loaded: Loaded, way: Way | None = None) -> None:
        self._loaded = loaded
        self._way: Way = way or loaded.writes
        self._groups: list[_Group] = []

    @property
    def lines(self) -> list[Line]:
        """All lines."""
        return [line for group in self._groups for line in group.lines]

    def join(self, lines: Sequence[Line], cancel: Cancel | None = None) -> dict[Line, Next]:
        """Run the texts of new lines, all of one length, and let them go on with the others; their first tokens.

        Raises what `cancel` raises, and what stands against the edits; nobody has joined then.
        """
        together = self._way == "together"
        groups = [
            _Group(self._loaded, part, self._cache()) for part in ([lines] if together else [[line] for line in lines])
        ]
        found = _each(groups, cancel)
        self._take_in(groups)
        return found

    def step(self, cancel: Cancel | None = None) -> dict[Line, Next]:
        """The next token of every line. After an exception the batch is of no use any more."""
        return _each(self._groups, cancel)

    def watch(self, lines: Sequence[Line] = ()) -> dict[Line, Tensor]:
        """As `join` with lines, else as `step`: the final states [D] in the place of tokens."""
        groups = [_Group(self._loaded, [line], self._cache()) for line in lines]
        found = {
            line: state for group in groups or self._groups
            for line, state in zip(group.lines, group.states(None)[0], strict=True)
        }  # fmt: skip
        self._take_in(groups)
        return found

    def _take_in(self, groups: list[_Group]) -> None:
        groups = [*self._groups, *groups]
        self._groups = [_merged(self._loaded, groups)] if self._way == "together" and len(groups) > 1 else groups

    def leave(self, lines: Iterable[Line]) -> None:
        """Take lines out."""
        gone = {id(line) for line in lines}
        for group in self._groups:
            group.keep([place for place, line in enumerate(group.lines) if id(line) not in gone])
        self._groups = [group for group in self._groups if group.lines]

    def _cache(self) -> Cache | None:
        if self._way == "again":
            return None
        return columns() if self._way == "together" else DynamicCache(config=self._loaded.model.config)


def _each(groups: Sequence[_Group], cancel: Cancel | None) -> dict[Line, Next]:
    heard = _Heard()
    found = {line: told for group in groups for line, told in group.step(cancel, heard).items()}
    judged = [line for line in found if line.other is not None]
    return found | heard.judge(judged, found) if judged else found


@dataclass
class _Heard:
    """Logits [V] of the lines that are judged or that judge; empty where nobody asked for it."""

    own: dict[Line, Tensor] = field(default_factory=dict)
    steered: dict[Line, Tensor] = field(default_factory=dict)
    """Of the same state, under the steers of the line's `other`."""

    def judge(self, lines: list[Line], found: dict[Line, Next]) -> dict[Line, Next]:
        """Their tokens with the ratio, and what the lines that follow them are given."""
        told = [(line, chosen) for line in lines if isinstance(chosen := found[line], Chosen)]
        judged: dict[Line, Next] = {line.other: found[line] for line in lines if isinstance(line.other, Line)}
        if not told:
            return judged
        others = [self.own[line.other] if isinstance(line.other, Line) else self.steered[line] for line, _ in told]
        logits_2NV = torch.stack([torch.stack([self.own[line] for line, _ in told]), torch.stack(others)])
        ids_2N1 = torch.tensor([chosen.id for _, chosen in told], device=logits_2NV.device).expand(2, -1)[..., None]
        lnp_2N = logits_2NV.gather(-1, ids_2N1)[..., 0] - logits_2NV.logsumexp(-1)
        for (line, chosen), ratio in zip(told, (lnp_2N[0] - lnp_2N[1]).tolist(), strict=True):
            judged[line] = replace(chosen, ratio=ratio)
            if isinstance(line.other, Line):
                broken = found[line.other]
                judged[line.other] = broken if isinstance(broken, errors.LmscopeError) else chosen
        return judged


class _Group:
    """Lines that go through the model together."""

    def __init__(self, loaded: Loaded, lines: Sequence[Line], cache: Cache | None) -> None:
        self.loaded, self.lines, self.cache = loaded, list(lines), cache
        self.fed = [0] * len(lines)
        """Tokens of each line that the cache holds."""
        self.held = 0
        """Its columns: as many as the longest has tokens there, all others are padded on the left."""
        self._folded: tuple[Plan | None] | None = None
        self._others_folded: tuple[Plan | None] | None = None

    def keep(self, places: Sequence[int]) -> None:
        """Keep these lines alone."""
        if len(places) == len(self.lines):
            return
        self.lines, self.fed = [self.lines[place] for place in places], [self.fed[place] for place in places]
        self._folded = self._others_folded = None
        if not self.lines or self.cache is None:
            return
        needless = self.held - max(self.fed)
        self.cache = part_of(self.cache, places, needless)
        self.held -= needless

    def step(self, cancel: Cancel | None, heard: _Heard) -> dict[Line, Next]:
        """One pass over what the cache does not hold yet, and the next token of each line."""
        states_BD, broken_B = self.states(cancel)
        plan, last = self._plan(), self._longest() - 1
        acted: dict[str, Tensor] = {}
        logits_BV = forward.read_out(
            self.loaded, states_BD, plan and plan.part(last, last + 1), acted=acted, checked=False
        ).float()
        self._count(acted, last, read_out=True)
        broken_B = broken_B | ~(logits_BV.amax(-1).isfinite())
        self._hear(heard, states_BD, logits_BV)
        chosen = choose(logits_BV, self.lines)
        dtype = self.loaded.model.dtype
        return {
            line: forward.breaks_down(dtype, edited=bool(line.row.edits)) if broken else each
            for line, each, broken in zip(self.lines, chosen, broken_B.tolist(), strict=True)
        }

    def _hear(self, heard: _Heard, states_BD: Tensor, logits_BV: Tensor) -> None:
        """Keep the logits of lines that are judged or judge, and read states out once more where steers judge."""
        heard.own |= {
            line: logits_V for line, logits_V in zip(self.lines, logits_BV, strict=True)
            if line.follows or line.other is not None
        }  # fmt: skip
        steered = [place for place, line in enumerate(self.lines) if isinstance(line.other, Row)]
        if steered:
            plan, last = self._plan_of_others(), self._longest() - 1
            others_NV = forward.read_out(
                self.loaded, states_BD[steered], plan and plan.part(last, last + 1), checked=False
            ).float()
            heard.steered |= {self.lines[place]: logits_V for place, logits_V in zip(steered, others_NV, strict=True)}

    def states(self, cancel: Cancel | None) -> tuple[Tensor, Tensor]:
        """The final states_BD of the last token of each line, and whether they are no numbers any more, as bool [B]."""
        longest, first = self._longest(), self.held
        gaps = [longest - len(line.ids) for line in self.lines]
        fed = longest - first
        if fed < 1:
            raise ValueError("a line was given no token since its last step")
        padded = any(gaps)
        mask_BL = torch.tensor([[0] * gap + [1] * (longest - gap) for gap in gaps]) if padded else None
        places = [range(first - gap, longest - gap) for gap in gaps]
        plan = self._plan()
        acted: dict[str, Tensor] = {}
        states_BTD = forward.run(
            self.loaded, [line.ids[-fed:] for line in self.lines], plan and plan.part(first, longest),
            types_BT=self._types(fed), mask_BT=mask_BL,
            positions_BT=torch.tensor([list(each) for each in places]) if padded else None,
            cache=self.cache, acted=acted, cancel=cancel, checked=False,
        )  # fmt: skip
        self._count(acted, first, read_out=False)
        if self.cache is not None:
            self.held, self.fed = longest, [len(line.ids) for line in self.lines]
        return states_BTD[:, -1], ~states_BTD.flatten(1).isfinite().all(-1)

    def _count(self, acted: dict[str, Tensor], first: int, *, read_out: bool) -> None:
        """Tell every line on how many of its tokens, in columns from `first` on, its edits acted."""
        longest, plan = self._longest(), self._plan()
        told = {tap: row.reshape(len(self.lines), longest - first).cpu() for tap, row in acted.items()}
        for place, line in enumerate(self.lines):
            if line.row.edits:
                begin = max(first - (longest - len(line.ids)), 0)
                fed = len(line.ids) - begin
                prompt = min(max(line.row.prompt - begin, 0), fed)
                own = {tap: row_BF[place, -fed:] for tap, row_BF in told.items()}
                line.acting.add(own, plan, prompt, fed, read_out=read_out)

    def _longest(self) -> int:
        return max(len(line.ids) for line in self.lines)

    def _types(self, fed: int) -> list[tuple[int, ...]] | None:
        types = [None if line.types is None else line.types + (0,) * line.written for line in self.lines]
        return None if types[0] is None else [(each or ())[-fed:] for each in types]

    def _plan(self) -> Plan | None:
        """The edits of all lines, for as many tokens as any may still write; columns as in the cache."""
        if self._folded is None:
            self._folded = (self._fold([(line, line.row) for line in self.lines]),)
        return self._folded[0]

    def _plan_of_others(self) -> Plan | None:
        """The same for the steers that lines are judged under."""
        if self._others_folded is None:
            judged = [(line, line.other) for line in self.lines if isinstance(line.other, Row)]
            self._others_folded = (self._fold(judged),)
        return self._others_folded[0]

    def _fold(self, acting: Sequence[tuple[Line, Row]]) -> Plan | None:
        ahead = max(line.left for line in self.lines)
        rows = [Row(row.edits, row.prompt, len(line.ids) + ahead) for line, row in acting]
        stored = Beside.joined(self.loaded.vectors, [line.beside for line in self.lines if line.beside])
        return fold(self.loaded.anatomy, rows, self._longest() + ahead, stored)


def _merged(loaded: Loaded, groups: Sequence[_Group]) -> _Group:
    """One group of all lines, padded on the left to the longest."""
    held = max(group.held for group in groups)
    cache = beside([group.cache for group in groups], [held - group.held for group in groups])
    whole = _Group(loaded, [line for group in groups for line in group.lines], cache)
    whole.held, whole.fed = held, [count for group in groups for count in group.fed]
    return whole


def choose(logits_BV: Tensor, lines: Sequence[Line]) -> list[Chosen]:
    """The next token of each line; of a line whose logits are no numbers, any."""
    logits_BV = logits_BV.nan_to_num()
    ids_B = draw(logits_BV, [line.draw() for line in lines])
    scale_B1 = logits_BV.logsumexp(-1, keepdim=True)
    probability_B = (logits_BV.gather(1, ids_B[:, None]) - scale_B1).exp()[:, 0]
    most = max(line.top for line in lines)
    likeliest_BK = logits_BV.topk(min(most, logits_BV.shape[1]))
    told = zip(
        lines, ids_B.tolist(), probability_B.tolist(), likeliest_BK.indices.tolist(),
        (likeliest_BK.values - scale_B1).exp().tolist(), strict=True,
    )  # fmt: skip
    return [
        Chosen(id, probability, tuple(top[: line.top]), tuple(shares[: line.top]))
        for line, id, probability, top, shares in told
    ]
