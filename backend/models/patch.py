"""Patching: what one text's run holds at a place, put into another's run as an edit.

The texts are aligned by position. Axes: T tokens, H heads, W head width, D width.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import SequenceMatcher

from torch import Tensor

from backend import errors
from backend.models import forward
from backend.models.asking import Asked, ask_model
from backend.models.checks import check_edits
from backend.models.cost import SCRATCH, forward_bytes
from backend.models.loaded import Loaded
from backend.models.taps import Cancel
from backend.models.tokens import Tokenised
from backend.models.variants import edited_side
from backend.models.vectors import Vectors
from backend.schema import (
    Ability,
    Edit,
    FfnOutSet,
    HeadSet,
    Limits,
    PatchAnswer,
    PatchAsk,
    PatchPlace,
    ResidualSet,
    VectorCard,
    View,
)

SPANS_TOLD = 3
RECIPE_MOST = 8_000
SAME = "Both runs have the same tokens and the same edits, so the patch puts in what is there already."
SHORT_NAMES = {"residual": "residual", "heads": "head", "ffn_out": "ffn-out"}


def patch(loaded: Loaded, ask: PatchAsk, limits: Limits, vectors: Vectors, cancel: Cancel | None = None) -> PatchAnswer:
    """Edits that put what the source holds into the view. Raises `BadQuestion` and `CannotShow` in words."""
    asked, source = align(loaded, ask.view, ask.source, limits)
    for place in ask.places:
        check_place(loaded, place, asked.tokens)
    held = held_by(loaded, source, {f"{place.tap}.{place.layer}" for place in ask.places}, cancel)
    edits = tuple(_kept(loaded, place, source, held, vectors) for place in ask.places)
    notices = source.notices + asked.notices
    if same_run(asked, source):
        notices += (SAME,)
    return PatchAnswer(
        conditions=loaded.conditions, edits=edits, ids=asked.read.ids, source_ids=source.read.ids,
        notices=tuple(dict.fromkeys(notices)),
    )  # fmt: skip


def ability(loaded: Loaded) -> Ability:
    """Whether any place of the model can be put into."""
    taps = [loaded.card.edits[tap] for tap in SHORT_NAMES if tap in loaded.card.edits]
    can = any(tap.can for tap in taps)
    return Ability(can=can, why="" if can else "; ".join(dict.fromkeys(tap.why for tap in taps)))


def patch_bytes(loaded: Loaded, ask: PatchAsk, limits: Limits) -> int:
    """Bytes for the source's run and what it holds. Raises as `tokenise`."""
    taps = {f"{place.tap}.{place.layer}" for place in ask.places}
    return forward_bytes(loaded, edited_side(ask.source), limits) + held_bytes(loaded, ask.source, len(taps), limits)


def held_bytes(loaded: Loaded, view: View, taps: int, limits: Limits) -> int:
    """Bytes for what so many taps hold of a text, float32. Raises as `tokenise`."""
    shape = loaded.anatomy.shape
    asked = ask_model(loaded, edited_side(view), limits)
    return taps * asked.tokens * max(shape.width, shape.heads * shape.head_width) * 4 + SCRATCH


def align(loaded: Loaded, view: View, source: View, limits: Limits) -> tuple[Asked, Asked]:
    """Both sides made ready. Raises `BadQuestion` for another model, `CannotShow` for another number of tokens."""
    if (view.model, view.revision) != (source.model, source.revision):
        raise errors.BadQuestion(
            "The two views name different models", f"one names {view.model} and the other {source.model}",
            "Patch within one model: what another model holds means nothing to this one.",
        )  # fmt: skip
    asked, other = (ask_model(loaded, edited_side(each), limits) for each in (view, source))
    if asked.tokens != other.tokens:
        raise errors.CannotShow(
            "The two texts have different numbers of tokens",
            f"this text has {asked.tokens} and the source {other.tokens}, and they are aligned by position; "
            + _differing(asked.read, other.read),
            "Choose words that are as many tokens as those they replace (the strip shows them), or lengthen the "
            "shorter text.",
            needed=asked.tokens, available=other.tokens,
        )  # fmt: skip
    return asked, other


def same_run(asked: Asked, source: Asked) -> bool:
    """Whether two runs are one run."""
    return asked.states_key() == source.states_key()


def check_place(loaded: Loaded, place: PatchPlace, tokens: int) -> None:
    """Raise `BadQuestion` or `CannotShow` for a place that this model or text does not have."""
    if (place.head is None) != (place.tap != "heads"):
        raise errors.BadQuestion(
            "This place is not a place", "`head` goes with the tap `heads`, and only with it",
            "Name the head to patch, or take another tap.",
        )  # fmt: skip
    check_edits(loaded.anatomy, [_edit(place, 0.0)], tokens, loaded.vectors, loaded.card.edits)


def put(place: PatchPlace, id: str) -> Edit:
    """The edit that puts a vector there."""
    return _edit(place, id)


def held_by(loaded: Loaded, asked: Asked, taps: Iterable[str], cancel: Cancel | None = None) -> dict[str, Tensor]:
    """What taps hold in a run: float32 on the CPU, [T, D], of heads [T, H, W]."""
    found: dict[str, Tensor] = {}
    shape = loaded.anatomy.shape

    def keep(tap: str, held: Tensor) -> None:
        each = (shape.heads, -1) if tap.startswith("heads") else (-1,)
        found[tap] = held.reshape(asked.tokens, *each).float().cpu().clone()

    read = {tap: (lambda held, tap=tap: keep(tap, held)) for tap in taps}
    forward.run(loaded, asked.ids_BT, asked.plan, types_BT=asked.types_BT, read=read, cancel=cancel)
    return found


def vector_at(held: dict[str, Tensor], place: PatchPlace) -> Tensor:
    """What stands at a place."""
    at_token = held[f"{place.tap}.{place.layer}"][place.token]
    return at_token if place.head is None else at_token[place.head]


def named(place: PatchPlace) -> str:
    """A place in words."""
    parts = {
        "residual": f"the residual stream after block {place.layer}", "heads": f"head {place.layer}.{place.head}",
        "ffn_out": f"what the feed-forward part of block {place.layer} writes",
    }  # fmt: skip
    return parts[place.tap]


def _kept(loaded: Loaded, place: PatchPlace, source: Asked, held: dict[str, Tensor], vectors: Vectors) -> Edit:
    head = "" if place.head is None else f".{place.head}"
    name = f"patch-{SHORT_NAMES[place.tap]}-{place.layer}{head}-token-{place.token}"
    card = VectorCard(kind="direction", name=name, recipe=_recipe(loaded, place, source))
    return _edit(place, vectors.keep(card, {"vector": vector_at(held, place).clone()}).id)


def _recipe(loaded: Loaded, place: PatchPlace, source: Asked) -> str:
    """How the vector can be made again."""
    told = source.view.question().canonical()
    whose = told if len(told) <= RECIPE_MOST else f"view {source.view.digest()}"
    piece = json.dumps(source.read.tokens[place.token].piece, ensure_ascii=False)
    weights = loaded.conditions.digest[:12]
    return f"{named(place)} at token {place.token} ({piece}) of {loaded.name} (weights {weights}) on {whose}"


def _edit(place: PatchPlace, to: float | str) -> Edit:
    at = (place.token,)
    if place.tap == "heads":
        return HeadSet(layer=place.layer, head=place.head or 0, to=to, at=at)
    if place.tap == "ffn_out":
        return FfnOutSet(layer=place.layer, to=to, at=at)
    return ResidualSet(layer=place.layer, to=to, at=at)


def _differing(one: Tokenised, other: Tokenised) -> str:
    """Where two texts differ, token by token."""
    spans = [
        span for span in SequenceMatcher(None, one.ids, other.ids, autojunk=False).get_opcodes() if span[0] != "equal"
    ]
    told = [
        f"from token {first} {_pieces(one, first, last)} stands against {_pieces(other, start, end)}"
        for _, first, last, start, end in spans[:SPANS_TOLD]
    ]
    more = f" (and {len(spans) - SPANS_TOLD} more places)" if len(spans) > SPANS_TOLD else ""
    return "; ".join(told) + more


def _pieces(read: Tokenised, first: int, last: int) -> str:
    """Some tokens as they are read."""
    pieces = [json.dumps(token.piece, ensure_ascii=False) for token in read.tokens[first : min(last, first + 6)]]
    return " ".join(pieces) + " …" * (last > first + 6) if pieces else "nothing"
