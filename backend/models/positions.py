"""Positions: what the place of a token does to queries and keys, seen in texts of one token at different places.

A text of one token attends to itself alone, so nothing but the place differs between its runs: a rotary model turns
every query and key by an angle that is the same for all heads of a layer, and a model with learned positions adds a
vector to what enters block 0. Watched models need not take places: there, texts of one token over and over are run, of
which every place is the same but for what its number does, for a mean of equal values is that value. What such a model
adds to its scores (ALiBi, buckets of distances) is seen in them as well.
Axes: P places, N rows, H heads, K numbers of a head, J pairs of them, L layers, D width, S keys.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from backend.models import forward
from backend.models.added import NEAR, added_HTS
from backend.models.kernel import Call
from backend.models.taps import Cancel
from backend.models.watched import Product

if TYPE_CHECKING:
    from backend.models.loaded import Loaded

Kind = Literal["rotary", "learned", "bias", "none", "unknown"]
TOKENS = 3
"""Tokens whose queries and keys are compared."""
AT_ONCE = 85
"""Places that are run at a time."""
REPEATED = 512
"""Tokens of a text of one token over and over, at most."""
LINEAR = 1e-3
"""A bias that lies as near to a line through its distances goes on so beyond them, relative to its largest."""
UNPLACED = "the model takes no places from outside, so tokens cannot be put elsewhere to see what that does"
UNEQUAL = (
    "what a place adds to what enters block 0 is another vector for every token, as where a norm stands behind the sum "
    "of token and place (the embedding norm of BERT), so there is no vector of a place"
)
UNTURNED = "its queries and keys change with the place, and not by a rotation of pairs of numbers"
KEEPS = 1e-3
"""A turned pair keeps its length to this share of its vector's."""


@dataclass(frozen=True)
class Turn:
    """How a layer turns queries and keys at one place."""

    first_J: Tensor
    """Numbers that turn together: the first and the second of each pair."""
    second_J: Tensor
    cos_J: Tensor
    """float64; with `sin_J`, of the angle by which a pair is turned."""
    sin_J: Tensor

    def __call__(self, vectors_NK: Tensor) -> Tensor:
        """The vectors, turned."""
        first_NJ, second_NJ = vectors_NK[:, self.first_J], vectors_NK[:, self.second_J]
        cos_J, sin_J = self.cos_J.to(vectors_NK), self.sin_J.to(vectors_NK)
        turned_NK = vectors_NK.clone()
        turned_NK[:, self.first_J] = first_NJ * cos_J - second_NJ * sin_J
        turned_NK[:, self.second_J] = first_NJ * sin_J + second_NJ * cos_J
        return turned_NK


@dataclass(frozen=True)
class Places:
    """What was seen at some places, in all layers."""

    kind: Mapping[int, Kind] = field(default_factory=dict)
    """By layer."""
    turns: Mapping[tuple[int, int], Turn] = field(default_factory=dict)
    """By layer and place; absent where nothing turns."""
    added_PD: Tensor | None = None
    """Learned positions: what each place adds to the stream, less what place 0 adds."""
    bias: Mapping[int, Tensor] = field(default_factory=dict)
    """float64 [H, P] by layer: what is added to scores at each place as a distance; absent where nothing is."""
    wanted: tuple[int, ...] = ()
    """The places that were asked for."""
    places: tuple[int, ...] = ()
    """Those of them that were run."""
    why: Mapping[int, str] = field(default_factory=dict)
    """By layer whose kind is not known: what was seen instead."""

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        turns = sum(turn.cos_J.nbytes + turn.sin_J.nbytes for turn in self.turns.values())
        turns += sum(bias.nbytes for bias in self.bias.values())
        return turns + (0 if self.added_PD is None else self.added_PD.nbytes)


def places(loaded: Loaded, wanted: list[int], cancel: Cancel | None = None) -> Places:
    """What these places do, in all layers, seen once and kept; place 0 is where nothing is turned."""
    key = f"places {wanted}"
    found: Places | None = loaded.kept.find(key)
    if found is None:
        found = _places(loaded, wanted, cancel)
        loaded.kept.keep(key, found, found.nbytes)
    return found


def _places(loaded: Loaded, wanted: list[int], cancel: Cancel | None) -> Places:
    if not loaded.anatomy.watched and "position_ids" not in inspect.signature(loaded.anatomy.trunk.forward).parameters:
        layers = loaded.anatomy.attention
        return Places(dict.fromkeys(layers, "unknown"), why=dict.fromkeys(layers, UNPLACED))
    run: _Run | _Repeated
    run = _Repeated(loaded, wanted, cancel) if loaded.anatomy.watched else _Run(loaded, [0, *wanted], cancel)
    entered_NPD, ran = run.entered_NPD, tuple(run.near[1:])
    moved_NPD = entered_NPD - entered_NPD[:, :1]
    size = float(entered_NPD.norm())
    if float(moved_NPD.norm()) > 1e-4 * size:
        same = float((moved_NPD - moved_NPD[:1]).norm()) <= 1e-2 * float(moved_NPD.norm())
        kind: Kind = "learned" if same else "unknown"
        return Places(
            dict.fromkeys(run.vectors, kind),
            added_PD=moved_NPD[0, 1:] if same else None,
            bias=run.bias,
            wanted=tuple(wanted),
            places=ran,
            why={} if same else dict.fromkeys(run.vectors, UNEQUAL),
        )
    kinds, turns = dict[int, Kind](), dict[tuple[int, int], Turn]()
    for layer, vectors_PNK in run.vectors.items():
        found = _turns(vectors_PNK)
        kinds[layer] = "unknown" if found is None else "rotary" if any(found) else "none"
        turns |= {(layer, place): turn for place, turn in zip(wanted, found or (), strict=False) if turn is not None}
        if kinds[layer] == "none" and layer in run.bias:
            kinds[layer] = "bias"
    why = {layer: UNTURNED for layer, kind in kinds.items() if kind == "unknown"}
    return Places(kinds, turns, bias=run.bias, wanted=tuple(wanted), places=ran, why=why)


class _Run:
    """Some tokens at some places: what enters block 0, and each layer's queries and keys as one list of vectors."""

    def __init__(self, loaded: Loaded, wanted: list[int], cancel: Cancel | None) -> None:
        vocabulary = loaded.anatomy.shape.vocabulary
        ids_N = torch.randint(0, vocabulary, (TOKENS,), generator=torch.Generator().manual_seed(0))
        self._entered: list[Tensor] = []
        self._calls: dict[int, list[Tensor]] = {}
        self.bias: dict[int, Tensor] = {}
        self.near = wanted
        for some in _passes(wanted, _border(loaded)):
            self._ids = ids_N.repeat(len(some))
            forward.run(
                loaded, self._ids[:, None], hold=self._hold, cancel=cancel,
                positions_BT=torch.tensor(some).repeat_interleave(TOKENS)[:, None],
                read={"embedding": self._enter}, checked=False,
            )  # fmt: skip
        self.entered_NPD = torch.cat(self._entered).view(len(wanted), TOKENS, -1).transpose(0, 1)
        self.vectors = {
            layer: torch.cat(parts).view(len(wanted), -1, parts[0].shape[-1]).double()
            for layer, parts in self._calls.items()
        }

    def _enter(self, held: Tensor) -> None:
        """What enters block 0; of a model of several streams (Gemma 3n) none is that of its places."""
        one = held[:, 0] if held.ndim == 3 else held.new_zeros(len(self._ids), 1)
        self._entered.append(one.float().cpu())

    def _hold(self, call: Call) -> None:
        if call.query_BHTD.shape[-1] == call.key_BGSD.shape[-1]:
            both_NHK = torch.cat([call.query_BHTD[:, :, 0], call.key_BGSD[:, :, 0]], 1)
            self._calls.setdefault(call.layer, []).append(both_NHK.float().cpu())


class _Repeated:
    """Some tokens, each over and over: what enters block 0, each layer's queries and keys, what is added to scores."""

    def __init__(self, loaded: Loaded, wanted: list[int], cancel: Cancel | None) -> None:
        self._loaded, self._wanted, shape = loaded, wanted, loaded.anatomy.shape
        self._count = min(max(wanted, default=0) + 1, REPEATED, shape.context or REPEATED)
        self.near = [place for place in [0, *wanted] if place < self._count]
        self.vectors: dict[int, Tensor] = {}
        self.bias: dict[int, Tensor] = {}
        entered: list[Tensor] = []
        ids_N = torch.randint(0, shape.vocabulary, (TOKENS,), generator=torch.Generator().manual_seed(0))
        for id in ids_N:
            forward.run(
                loaded, id.expand(1, self._count), hold=self._hold, products=True, cancel=cancel,
                read={"embedding": lambda held: entered.append(held[0, self.near].float().cpu())}, checked=False,
            )  # fmt: skip
        self.entered_NPD = torch.stack(entered)

    def _hold(self, call: Call) -> None:
        found, scaling = call.product, self._loaded.projections.scaling.get(call.layer)
        if found is None or scaling is None:
            return
        both_HPK = torch.cat([found.query_BHTK[0][:, self.near], found.key_BGSK[0][:, self.near]])
        both_PNK = both_HPK.transpose(0, 1).double().cpu()
        before_PNK = self.vectors.get(call.layer)
        self.vectors[call.layer] = both_PNK if before_PNK is None else torch.cat([before_PNK, both_PNK], 1)
        if call.layer in self.bias:
            return
        last = Product(found.query_BHTK[:1, :, -1:], found.key_BGSK[:1], found.logits_BHTS[:1, :, -1:])
        added_HS = added_HTS(last, scaling)[:, 0].flip(-1).cpu()
        added_HS = added_HS - added_HS[:, :1]
        if call.mask_BTS is not None:
            added_HS[:, ~call.mask_BTS[0, 0, -1].flip(-1).cpu()] = torch.nan
        size = 1 + float(last.logits_BHTS[..., call.mask_BTS[0, 0, -1]].abs().max()) if call.mask_BTS is not None else 1
        if float(added_HS.nan_to_num(0).abs().max()) > NEAR * size:
            self.bias[call.layer] = _further(added_HS, self._wanted)


def _further(added_HS: Tensor, wanted: list[int]) -> Tensor:
    """float64 [H, P]: what is added at the wanted distances; beyond those seen only where it lies on a line."""
    distance_S = torch.arange(added_HS.shape[1], dtype=torch.float64)
    slope_H1 = added_HS[:, -1:] / max(1, len(distance_S) - 1)
    linear = float((added_HS - slope_H1 * distance_S).abs().max()) <= LINEAR * float(added_HS.abs().max())
    wanted_P = torch.tensor(wanted)
    if linear:
        return slope_H1 * wanted_P
    seen_P = wanted_P < added_HS.shape[1]
    return torch.where(seen_P, added_HS[:, wanted_P.clamp_max(added_HS.shape[1] - 1)], torch.nan)


def _border(loaded: Loaded) -> int | None:
    """The place from which the model turns a whole batch otherwise (longrope: its long factors); None: nowhere."""
    config = loaded.model.config.get_text_config()
    stretched = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    asked = [getattr(config, "original_max_position_embeddings", None)]
    asked += [
        one.get("original_max_position_embeddings") for one in (stretched, *stretched.values()) if isinstance(one, dict)
    ]
    return next((int(border) for border in asked if border), None)


def _passes(wanted: list[int], border: int | None) -> Iterator[list[int]]:
    """Places that may be run together, in their order: the largest of a batch decides how all of it are turned."""
    for _, same in groupby(wanted, lambda place: border is not None and place >= border):
        places = list(same)
        yield from (places[first : first + AT_ONCE] for first in range(0, len(places), AT_ONCE))


def _turns(vectors_PNK: Tensor) -> list[Turn | None] | None:
    """The turn of every place but the first, None where nothing turned; None: it is no turn of pairs."""
    base_NK, width = vectors_PNK[0], vectors_PNK.shape[-1]
    if torch.allclose(vectors_PNK, base_NK.expand_as(vectors_PNK), rtol=1e-4, atol=1e-5 * float(base_NK.abs().max())):
        return [None] * (len(vectors_PNK) - 1)
    for first_J, second_J in _layouts(width):
        kept = _length(vectors_PNK, first_J, second_J) - _length(base_NK, first_J, second_J)
        rest_K = torch.ones(width, dtype=torch.bool)
        rest_K[first_J] = rest_K[second_J] = False
        moved = (vectors_PNK - base_NK)[..., rest_K]
        if max(float(kept.abs().max()), float(moved.abs().max()) if moved.numel() else 0.0) > KEEPS * float(
            base_NK.norm(dim=-1).max()
        ):
            continue
        return [_turn(base_NK, one_NK, first_J, second_J) for one_NK in vectors_PNK[1:]]
    return None


def _layouts(width: int) -> list[tuple[Tensor, Tensor]]:
    """Numbers that may turn together: halves or neighbours, of the first so many numbers of a head."""
    found = []
    for turned in range(width - width % 2, 0, -2):
        half = torch.arange(turned // 2)
        found += [(half, half + turned // 2), (2 * half, 2 * half + 1)]
    return found


def _length(vectors: Tensor, first_J: Tensor, second_J: Tensor) -> Tensor:
    return torch.hypot(vectors[..., first_J], vectors[..., second_J])


def _turn(base_NK: Tensor, turned_NK: Tensor, first_J: Tensor, second_J: Tensor) -> Turn:
    """The angle of each pair, over all vectors: least squares."""
    u_NJ, v_NJ = base_NK[:, first_J], base_NK[:, second_J]
    x_NJ, y_NJ = turned_NK[:, first_J], turned_NK[:, second_J]
    along_J, across_J = (u_NJ * x_NJ + v_NJ * y_NJ).sum(0), (u_NJ * y_NJ - v_NJ * x_NJ).sum(0)
    length_J = torch.hypot(along_J, across_J).clamp_min(torch.finfo(torch.float64).tiny)
    return Turn(first_J, second_J, along_J / length_J, across_J / length_J)
