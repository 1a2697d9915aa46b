"""Target and foil: which prediction is explained, and how it is read from the final states of any run.

Axes: B rows of a batch, T tokens, D width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from backend import errors
from backend.measure.lens import likeliest
from backend.measure.tokens import BLOCK_BYTES, probabilities, rows_in
from backend.models import forward
from backend.models.asking import Asked
from backend.models.loaded import Loaded
from backend.models.plan import Plan
from backend.models.taps import Cancel
from backend.models.words import words_of
from backend.schema import Explain, Explained


@dataclass(frozen=True)
class Pair:
    """A prediction to explain, ready to be read from other runs of the same text."""

    explained: Explained
    p_V: Tensor | None = None
    """Against the rest: float32, the probabilities of the run in which it was resolved. They stay as they are, so that
    logit(target) − Σ p logit moves as ln p(target) does."""

    @property
    def ids(self) -> set[int]:
        """Target and, where there is one, foil."""
        return {id for id in (self.explained.target, self.explained.foil) if id is not None}

    def of_logits(self, logits_NV: Tensor) -> Tensor:
        """float32 [N]: logit(target) − logit(foil), or − Σ p logit."""
        wide_NV = logits_NV.float()
        target_N = wide_NV[:, self.explained.target]
        if self.p_V is None:
            assert self.explained.foil is not None, "resolved against a foil"
            return target_N - wide_NV[:, self.explained.foil]
        p_V = self.p_V.to(wide_NV.device)
        return target_N - torch.where(p_V > 0, p_V * wide_NV, 0.0).sum(-1)  # a forbidden token: 0 of a logit of −inf


def resolve(loaded: Loaded, asked: Asked, explain: Explain, final_BTD: Tensor) -> Pair:
    """Target and foil of the edited side, which is row 0 of the final states; by default its top two.

    A target or foil that is not named is the likeliest token that the other one is not. Raises `CannotShow` where the
    model predicts no next token, has no such token or never predicts it, `BadQuestion` for a token against itself.
    """
    check_predicts(loaded)
    token = place_of(asked, explain.token)
    _check_ids(loaded, explain)
    (logits_V,) = read_at(loaded, final_BTD[:1], token, asked.plan)
    target, foil = _named(logits_V, explain)
    p_V = probabilities(logits_V)
    against_rest = explain.against == "rest"
    explained = Explained(
        token=token, target=target, foil=None if against_rest else foil, against=explain.against, logits=0.0,
        probability=float(p_V[target]), foil_probability=None if against_rest else float(p_V[foil]),
    )  # fmt: skip
    pair = Pair(explained, p_V if against_rest else None)
    _check_possible(loaded, logits_V, pair)
    told = explained.model_copy(update={"logits": float(pair.of_logits(logits_V[None]))})
    return Pair(told, pair.p_V)


def differences(
    loaded: Loaded, pair: Pair, final_BTD: Tensor, plan: Plan | None = None, cancel: Cancel | None = None
) -> Tensor:
    """float32 [B] on the CPU: the pair's difference in every row of a run of the same text, at the explained token.

    Logits are the model's own, after its caps and multipliers; `plan` is that of the run, whose steers act on them.
    Rows are read in blocks whose logits fit into `BLOCK_BYTES`.
    """
    rows = rows_in(BLOCK_BYTES, loaded.anatomy.shape.vocabulary)
    found = []
    for first in range(0, len(final_BTD), rows):
        if cancel is not None:
            cancel()
        part = None if plan is None else Plan(plan.tables, plan.row_BT[first : first + rows], plan.steering)
        logits_NV = read_at(loaded, final_BTD[first : first + rows], pair.explained.token, part)
        found.append(pair.of_logits(logits_NV).cpu())
    return torch.cat(found)


def read_at(loaded: Loaded, final_BTD: Tensor, token: int, plan: Plan | None) -> Tensor:
    """float32 [B, V]: the logits of every row of a run at one token, under the plan's steers."""
    rows = len(final_BTD)
    column = None if plan is None else Plan(plan.tables, plan.row_BT[:rows, token][None], plan.steering)
    return forward.read_out(loaded, final_BTD[:, token], column).float()


def check_predicts(loaded: Loaded) -> None:
    """Raise `CannotShow` when a model predicts no next token."""
    if loaded.anatomy.unembedding is None or not loaded.anatomy.shape.causal:
        raise errors.CannotShow(
            "This model has no prediction to explain",
            "it predicts no token from those to its left",
            "Choose a model that predicts the next token; attention can be looked at in this one.",
        )


def place_of(asked: Asked, token: int | None) -> int:
    """The position that is asked about; None: the last. Raises `CannotShow` outside the text."""
    return place_in(asked.tokens, token)


def place_in(tokens: int, token: int | None) -> int:
    """A position of a text of so many tokens; None: the last. Raises `CannotShow` outside it."""
    if token is None:
        return tokens - 1
    if token >= tokens:
        raise errors.CannotShow(
            f"There is no token {token}", f"the text has {tokens} tokens, counted from 0",
            "Choose a token of the text.", needed=token + 1, available=tokens,
        )  # fmt: skip
    return token


def _check_ids(loaded: Loaded, explain: Explain) -> None:
    vocabulary = loaded.anatomy.shape.vocabulary
    for id in (explain.target, explain.foil):
        if id is not None and id >= vocabulary:
            raise errors.CannotShow(
                f"There is no token with the id {id}", f"the vocabulary has {vocabulary} tokens, counted from 0",
                "Choose a token of the model's vocabulary.", needed=id + 1, available=vocabulary,
            )  # fmt: skip
    if explain.against == "foil" and explain.target is not None and explain.target == explain.foil:
        raise errors.BadQuestion(
            "Target and foil are the same token",
            "the difference of a logit from itself is 0, and there is nothing to explain",
            "Choose another foil, or explain the target against the rest.",
        )


def _check_possible(loaded: Loaded, logits_V: Tensor, pair: Pair) -> None:
    """A forbidden token has a logit of −inf, and no part of the model writes towards it or away from it."""
    for id in sorted(pair.ids):
        if not bool(logits_V[id].isfinite()):
            (word,) = words_of(loaded.tokenizer, {id}).values()
            raise errors.CannotShow(
                f"The token {id} ({word!r}) cannot be explained", "this model never predicts it: its logit is −inf",
                "Choose another token.",
            )  # fmt: skip


def _named(logits_V: Tensor, explain: Explain) -> tuple[int, int]:
    """Target and foil; one that is not named is the likeliest token that the other one is not."""
    first, second = likeliest(logits_V[None], 2)[1][0].tolist()
    foil = explain.foil if explain.against == "foil" else None
    target = explain.target if explain.target is not None else (second if first == foil else first)
    return target, foil if foil is not None else (second if first == target else first)
