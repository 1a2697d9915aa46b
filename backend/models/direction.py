"""The direction of the final states along which a pair's difference lies, before any soft-cap.

Axes: D width of what the read-out takes, V vocabulary, W words.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from backend import errors
from backend.measure.reading import Reader
from backend.models import forward
from backend.models.explain import Pair
from backend.models.loaded import Loaded
from backend.models.plan import Plan
from backend.models.reading import read_out_scale

LARGE = 1e3
"""Logits of the state that the read-out is asked with to see whether it caps them."""
APART = 1e-3
ROWS = 256
"""Rows of the embedding that are added up in float32; beside a likely token's, unlikely ones of thousands more are
rounded away, and a part with large numbers sees it.
"""


@dataclass(frozen=True)
class Head:
    """The read-out as numbers: logits = cap · tanh(z / cap) of z = scale · E c + bias, or z itself."""

    embedding_VD: Tensor
    scale: float
    bias_V: Tensor | None
    cap: float | None

    def before_cap(self, states_ND: Tensor) -> Tensor:
        """float32 [N, V]: z."""
        z_NV = self.scale * Reader(self.embedding_VD).logits(states_ND)
        return z_NV if self.bias_V is None else z_NV + self.bias_V


@dataclass(frozen=True)
class Direction:
    """The pair's difference before any cap is state · direction + constant."""

    direction_D: Tensor
    constant: float
    """What the read-out's bias adds."""
    cap: float | None


def direction_of(loaded: Loaded, pair: Pair, plan: Plan | None, row: int, token: int) -> Direction:
    """Of one row of a run, whose steers act on the state. Raises `CannotShow` where logits are no such function."""
    head = head_of(loaded)
    target, foil = pair.explained.target, pair.explained.foil
    if pair.p_V is not None:
        away_D = expected(head.embedding_VD, pair.p_V)
        away = 0.0 if head.bias_V is None else float(pair.p_V @ head.bias_V)
    else:
        assert foil is not None, "resolved against a foil"
        away_D, away = head.embedding_VD[foil].float(), 0.0 if head.bias_V is None else float(head.bias_V[foil])
    direction_D = head.scale * (head.embedding_VD[target].float() - away_D)
    constant = (0.0 if head.bias_V is None else float(head.bias_V[target])) - away
    return Direction(_steered(direction_D, plan, row, token), constant, head.cap)


def head_of(loaded: Loaded) -> Head:
    """Ask the read-out, once. Raises `CannotShow` when it is no multiple of the embedding's product, capped or not."""
    kept: Head | None = loaded.kept.find("head")
    if kept is None:
        kept = _asked(loaded)
        loaded.kept.keep("head", kept, 0 if kept.bias_V is None else kept.bias_V.nbytes)
    return kept


def _asked(loaded: Loaded) -> Head:
    assert loaded.anatomy.unembedding is not None, "checked when the pair was resolved"
    embedding_VD = loaded.anatomy.unembedding.get_parameter("weight")
    scale = read_out_scale(loaded, embedding_VD)
    dice = torch.Generator().manual_seed(1)
    state_D = torch.randn(embedding_VD.shape[1], generator=dice).to(embedding_VD.device)
    plain_V = scale * Reader(embedding_VD).logits(state_D[None])[0]
    sizes = torch.tensor([0.0, 5.0, LARGE], device=embedding_VD.device)
    states_ND = (state_D * (sizes / plain_V.abs().max())[:, None]).to(embedding_VD.dtype)
    none_V, some_V, large_V = forward.read_out(loaded, states_ND).float()
    none_V = torch.where(none_V.isfinite(), none_V, 0.0)  # a forbidden token has no logit
    most = float(large_V[large_V.isfinite()].abs().max())
    cap = float(f"{most:.4g}") if most < LARGE / 2 else None
    bias_V = none_V if cap is None else cap * torch.atanh((none_V / cap).clamp(-0.999999, 0.999999))
    head = Head(embedding_VD, scale, bias_V if bool(none_V.any()) else None, cap)
    found_V = head.before_cap(states_ND[1:2])[0]
    found_V = found_V if cap is None else cap * torch.tanh(found_V / cap)
    known_V = some_V.isfinite()
    allowed = APART if embedding_VD.dtype in (torch.float32, torch.float64) else 30 * APART
    if float((found_V - some_V)[known_V].abs().max()) > allowed * (1 + float(some_V[known_V].abs().max())):
        raise errors.CannotShow(
            "Direct contributions of this model cannot be added up",
            "its logits are no multiple of the product of its final state with its output embedding, not even capped",
            "Measure the effect of removing a part instead.",
        )
    return head


def expected(embedding_VD: Tensor, p_V: Tensor) -> Tensor:
    """float32 [D]: Σ p E, without a second embedding in float32."""
    blocks = embedding_VD.split(ROWS)
    parts = zip(p_V.to(embedding_VD.device).split(ROWS), blocks, strict=True)
    sums_ND = torch.stack([p_W @ block_WD.float() for p_W, block_WD in parts])
    return sums_ND.cpu().double().sum(0).float().to(embedding_VD.device)  # not every device has float64


def _steered(direction_D: Tensor, plan: Plan | None, row: int, token: int) -> Tensor:
    """What the direction is before the steers, each of which makes c into c + amount · (c left) right."""
    if plan is None or plan.steering is None:
        return direction_D
    steering = plan.steering
    amount_K = steering.amount_RK[plan.row_BT[row, token].to(steering.amount_RK.device)]
    device = steering.left_DK.device
    return direction_D + (steering.left_DK @ (amount_K * (steering.right_KD @ direction_D.to(device)))).to(direction_D)
