"""Distance: a head's scores when the key stands so far before the query, by turns of both or by what is added to them.

Axes: V vocabulary, D width, K numbers of a head, P places, H heads.
"""

from __future__ import annotations

import torch
from torch import Tensor

from backend import errors
from backend.models import circuits, forward
from backend.models.circuits import Table
from backend.models.loaded import Loaded
from backend.models.positions import REPEATED, Places, places
from backend.models.positions import Kind as PositionKind
from backend.models.taps import Cancel
from backend.schema import CurvePoint, LineAsk, PairsAsk, ReadAs

AT = "The key stands {distance} tokens before the query."
AT_ZERO: dict[PositionKind, tuple[str, ...]] = {
    "rotary": ("Positions are rotary, so scores depend on the distance: this is distance 0, where nothing is turned.",),
    "bias": ("A number that depends on the distance is added to scores: this is distance 0, where nothing is added.",),
    "learned": ("Learned positions are part of every query and key: they are left out here.",),
}
BIASED = (
    "To each score the model adds a number of this head that the distance decides, {added:+.4g} here. At distance 0 it "
    "is taken as 0: what is added to all keys of a query alike changes no weight."
)
HIDDEN = "the queries of layer {layer} see no keys so far away"
CURVE_POINTS = 48
LEARNED_PLACES = 128
"""Places of a model with learned positions over which the curve is a mean."""
CURVES: dict[PositionKind, str] = {
    "rotary": "Curve: the mean score over all pairs of tokens when the key stands so many tokens before the query, "
    "each turned as the model's rotary positions turn it.",
    "learned": "Curve: the mean score over all pairs of tokens at so great a distance, the learned vectors of their "
    "places added to their embeddings as the model takes them, over its first places; divisors are taken as 1.",
    "bias": "Curve: the mean score over all pairs of tokens, and what the model adds to it at so great a distance "
    "(ALiBi, or a number for each bucket of distances), as seen in its own scores; 0 at distance 0.",
    "none": "No position turns the queries and keys of this layer: the mean score is the same at every distance.",
    "unknown": "How positions act on the queries and keys of this layer is not known, so there is no curve.",
}


def table(loaded: Loaded, ask: PairsAsk | LineAsk, reading: ReadAs, cancel: Cancel | None) -> Table:
    """The table that is asked for, at its distance. Raises `CannotShow` where its scores have none."""
    made = circuits.table(loaded, ask.circuit, ask.layer, ask.head, reading, ask.inverse)
    if not ask.distance:
        return made
    if ask.circuit == "vo":
        raise errors.CannotShow(
            "W_VO has no distance",
            "what a head writes does not depend on where the token stands",
            "Leave distance at 0.",
        )
    _check_place(loaded, ask.distance)
    seen = places(loaded, [ask.distance], cancel)
    kind = seen.kind.get(ask.layer, "unknown")
    if kind not in ("rotary", "bias", "none"):
        why = "its positions are no rotation of queries and keys, nor numbers added to scores, that were seen"
        why = seen.why.get(ask.layer, why)
        raise errors.CannotShow(f"The scores of layer {ask.layer} have no distance", why, "Leave distance at 0.")
    if ask.distance not in seen.places and kind == "rotary":
        raise errors.CannotShow(
            f"The scores of layer {ask.layer} at distance {ask.distance} are not known",
            f"its turns were seen over {REPEATED} tokens", f"Choose a distance below {REPEATED}.",
            needed=ask.distance + 1, available=REPEATED,
        )  # fmt: skip
    added = _added(seen, ask.layer, ask.head, ask.distance)
    if added != added:
        raise errors.CannotShow(
            f"The scores of layer {ask.layer} at distance {ask.distance} are not known",
            f"what is added to them was not seen so far, or {HIDDEN.format(layer=ask.layer)}",
            "Choose a smaller distance.",
        )  # fmt: skip
    return made.turned(seen.turns.get((ask.layer, ask.distance))).raised(added)


def notices(loaded: Loaded, ask: PairsAsk | LineAsk, cancel: Cancel | None) -> tuple[str, ...]:
    """What is said of the distance."""
    if ask.circuit == "vo":
        return ()
    if ask.distance:
        seen = places(loaded, [ask.distance], cancel)
        added = _added(seen, ask.layer, ask.head, ask.distance)
        return (AT.format(distance=ask.distance), *([BIASED.format(added=added)] if ask.layer in seen.bias else []))
    return AT_ZERO.get(places(loaded, [1], cancel).kind.get(ask.layer, "unknown"), ())


def curve(
    loaded: Loaded, layer: int, head: int, made: Table, cancel: Cancel | None
) -> tuple[PositionKind, tuple[CurvePoint, ...]]:  # fmt: skip
    """Mean scores against distance: in closed form, from the mean query and the mean key."""
    distances = _distances(loaded)
    seen = places(loaded, distances, cancel)
    kind = seen.kind.get(layer, "unknown")
    query_K, key_K = (side.vectors().double().mean(0) for side in (made.rows, made.columns))
    if kind == "learned":
        learned = _learned(loaded, layer, head, made, (query_K, key_K), cancel)
        return (kind if learned else "unknown"), learned
    if kind == "unknown":
        return kind, ()
    scores = {0: float(query_K @ key_K)}
    for distance in distances:
        added = _added(seen, layer, head, distance)
        if added != added or (kind == "rotary" and distance not in seen.places):
            continue
        turn = seen.turns.get((layer, distance))
        scores[distance] = float((query_K if turn is None else turn(query_K[None])[0]) @ key_K) + added
    return kind, tuple(CurvePoint(distance=distance, score=score) for distance, score in scores.items())


def no_curve(loaded: Loaded, layer: int, cancel: Cancel | None) -> str:
    """Why positions are not known; empty where they are."""
    return places(loaded, _distances(loaded), cancel).why.get(layer, "")


def _distances(loaded: Loaded) -> list[int]:
    """At which the curve is measured, beside 0."""
    far = min(loaded.context or 1024, 4096) - 1
    return sorted({round(far ** (step / (CURVE_POINTS - 1))) for step in range(CURVE_POINTS)})


def _added(seen: Places, layer: int, head: int, distance: int) -> float:
    """What is added to the scores of a head at a distance; NaN where that is not known."""
    bias_HP = seen.bias.get(layer)
    if bias_HP is None or not distance:
        return 0.0
    return float(bias_HP[head, seen.wanted.index(distance)])


def _check_place(loaded: Loaded, distance: int) -> None:
    context = loaded.context
    if context is not None and distance >= context:
        raise errors.CannotShow(
            f"No key stands {distance} tokens before a query", f"the model was made for {context} tokens",
            f"Choose a distance below {context}.", needed=distance + 1, available=context,
        )  # fmt: skip


def _learned(
    loaded: Loaded, layer: int, head: int, made: Table, means: tuple[Tensor, Tensor], cancel: Cancel | None
) -> tuple[CurvePoint, ...]:  # fmt: skip
    """Over the first places of the model: each place's vector goes with every token."""
    if not made.bilinear:
        return ()
    query_K, key_K = means
    count = min(LEARNED_PLACES, loaded.context or LEARNED_PLACES)
    seen = places(loaded, list(range(1, count)), cancel)
    if seen.added_PD is None:
        return ()
    entered = _entered(loaded)
    if entered is None:
        return ()
    factor, zero_D = entered
    added_PD = torch.cat([zero_D[None], zero_D + seen.added_PD]).to(made.rows.map_KD).double()
    queries_PK = factor * query_K + added_PD @ made.rows.map_KD.double().T
    keys_PK = factor * key_K + added_PD @ made.columns.map_KD.double().T
    scores_PP = queries_PK @ keys_PK.T
    scores = {
        distance: float(scores_PP.diagonal(-distance).mean()) + _added(seen, layer, head, distance)
        for distance in range(count)
    }
    return tuple(CurvePoint(distance=distance, score=score) for distance, score in scores.items() if score == score)


def _entered(loaded: Loaded) -> tuple[float, Tensor] | None:
    """What the model multiplies its embeddings with (BioGPT: √D), and what place 0 adds to them, float32 [D].

    From three tokens at place 0; None where what enters block 0 is not that.
    """
    held: list[Tensor] = []
    weight_VD = loaded.anatomy.embedding.get_parameter("weight")
    ids_31 = torch.tensor([[0], [len(weight_VD) // 2], [len(weight_VD) - 1]])
    forward.run(loaded, ids_31, read={"embedding": lambda entered: held.append(entered[:, 0].float().cpu())})
    entered_3D, rows_3D = held[0], weight_VD[ids_31[:, 0].to(weight_VD.device)].float().cpu()
    apart_3D, rows_apart_3D = entered_3D - entered_3D.mean(0), rows_3D - rows_3D.mean(0)
    factor = float((apart_3D * rows_apart_3D).sum() / rows_apart_3D.square().sum())
    if not torch.allclose(apart_3D, factor * rows_apart_3D, rtol=1e-2, atol=1e-2 * float(apart_3D.abs().max())):
        return None
    return factor, (entered_3D - factor * rows_3D).mean(0)
