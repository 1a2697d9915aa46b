"""One steer in training: which texts a step sees, the gradient block by block, what held-out text says.

Every call computes one block of tokens, so that questions of others go between: logits of a block are [P, V], and no
more of them than `LOGITS_ON_CPU` exist at once. The trunk is not run and the model is not touched: the steer acts in
the plan of a read-out, exactly as it will act in a view. Axes: P predicted tokens, R labels, K ranks, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backend.measure.factors import Factors
from backend.measure.tokens import log_probabilities
from backend.models import forward
from backend.models.likelihood import Reading
from backend.models.loaded import Loaded
from backend.models.plan import Plan, Steering
from backend.models.states import StatesTable
from backend.models.taps import Cancel
from backend.schema import MakeAsk

LOGITS_ON_CPU, LOGITS_ON_CARD = 2**24, 2**27
"""Logits of a block: a third of a second on two cores for a model of 135 million parameters."""
COPIES = 5
"""Of a block's logits: as they come, in float32, their log-softmax, its gradient, theirs."""


def block_size(loaded: Loaded) -> int:
    """How many tokens one block has."""
    most = LOGITS_ON_CPU if loaded.conditions.device == "cpu" else LOGITS_ON_CARD
    return max(1, most // loaded.anatomy.shape.vocabulary)


def block_bytes(loaded: Loaded, size: int) -> int:
    """Bytes that one block takes beside the model."""
    return size * (COPIES * loaded.anatomy.shape.vocabulary + 8 * loaded.anatomy.shape.width) * 4


@dataclass
class Places:
    """Predicted tokens that are gone through block by block."""

    places_P: Tensor
    """Rows of the table."""
    labels_P: Tensor
    done: int = 0

    @property
    def left(self) -> bool:
        """Whether there is another block."""
        return self.done < len(self.places_P)


class Training:
    """The texts of a making and its factors. Texts are numbered as in the table: `train` come first, then `stop`."""

    def __init__(
        self, ask: MakeAsk, table: StatesTable, labels_N: Sequence[float], train: int, width: int, device: torch.device
    ) -> None:
        """`width`: of what the output embedding takes, where the factors stand."""
        self.ask, self.table, self.train = ask, table, train
        self.labels_N = torch.tensor(labels_N)
        self.factors = Factors(width, ask.rank, rate=ask.rate, seed=ask.seed, device=device)
        self._dice = torch.Generator().manual_seed(ask.seed)
        self._order: list[int] = []
        self._gradients = [torch.zeros_like(part, requires_grad=False) for part in self.factors.parts]
        self._nll = 0.0
        self.tokens = 0
        """Predicted tokens counted in the loss so far."""

    def batch(self) -> Places:
        """The tokens of the next step: texts without repetition until all were seen, then shuffled anew."""
        texts: list[int] = []
        while len(texts) < min(self.ask.batch, self.train):
            if not self._order:
                self._order = torch.randperm(self.train, generator=self._dice).tolist()
            texts.append(self._order.pop())
        counted = None
        if self.ask.padding == "as published":  # every text is as long as the longest of its batch
            counted = int(self.table.count_N[texts].max())
        for gradient in self._gradients:
            gradient.zero_()
        self._nll = 0.0
        return self._places(texts, counted)

    def held_out(self) -> Places:
        """The tokens of the texts that decide when to stop; padding never counts here."""
        return self._places(range(self.train, len(self.labels_N)), None)

    def _places(self, texts: Sequence[int], counted: int | None) -> Places:
        places = [self.table.places(text, counted) for text in texts]
        lengths = torch.tensor([len(each) for each in places])
        return Places(torch.cat(places), self.labels_N[list(texts)].repeat_interleave(lengths))

    def pull(self, loaded: Loaded, cancel: Cancel, *, places: Places, size: int) -> None:
        """The next block's part of the gradient of the mean NLL over all places."""
        cancel()
        states_PD, targets_P, labels_P = self._block(loaded, places, size)
        with torch.inference_mode(False), torch.enable_grad():
            logits_PV = forward.read_out_traced(loaded, states_PD, self._plan(labels_P)).float()
            logps_PV = logits_PV.log_softmax(-1)
            nll = -logps_PV.gather(-1, targets_P[:, None]).sum()
            found = torch.autograd.grad(nll / len(places.places_P), self.factors.parts)
        # the sum of many small exponentials, which a CPU loses: see `probabilities`
        lost = logps_PV.detach().exp_().sum(-1).log_().sum()
        self._counted(loaded, float(nll.detach() + lost))
        for gradient, part in zip(self._gradients, found, strict=True):
            gradient += part
        places.done += len(targets_P)

    def descend(self, places: Places) -> float:
        """One step of Adam after the last block; the batch's mean NLL, in nats a token, before it."""
        self.factors.descend(self._gradients, self.ask.decay)
        self.tokens += len(places.places_P)
        return self._nll / len(places.places_P)

    def judge(self, loaded: Loaded, cancel: Cancel, *, places: Places, size: int) -> float:
        """The sum of NLL over the next block, each token under its text's own label."""
        cancel()
        states_PD, targets_P, labels_P = self._block(loaded, places, size)
        with torch.no_grad():
            plan = self._plan(labels_P)
        logps_PV = log_probabilities(forward.read_out(loaded, states_PD, plan).float())
        nll = float(-logps_PV.gather(-1, targets_P[:, None]).double().sum())
        places.done += len(targets_P)
        return self._finite(loaded, nll)

    def _block(self, loaded: Loaded, places: Places, size: int) -> tuple[Tensor, Tensor, Tensor]:
        at = slice(places.done, places.done + size)
        rows, device = places.places_P[at], self.factors.parts[0].device
        targets_P = self.table.targets_P[rows].long()
        return self.table.states_PD[rows].to(device), targets_P.to(device), places.labels_P[at].to(device)

    def _plan(self, labels_P: Tensor) -> Plan:
        """The steer as it stands, each token under its text's label."""
        labels_R, row_P = labels_P.unique(return_inverse=True)
        left_DK, right_KD = self.factors.matrices()
        amount_RK = labels_R[:, None].expand(-1, len(right_KD))
        return Plan({}, row_P[None], Steering(left_DK, right_KD, amount_RK))

    def _counted(self, loaded: Loaded, nll: float) -> None:
        self._nll += self._finite(loaded, nll)

    def _finite(self, loaded: Loaded, nll: float) -> float:
        if nll != nll or nll in (float("inf"), float("-inf")):
            raise forward.breaks_down(loaded.model.dtype, edited=True)
        return nll


def padded(texts: Sequence[Reading], with_id: int) -> list[Reading]:
    """Every text as long as the longest, padded behind as LM-Steer's code does: no mask hides the padding."""
    longest = max(len(text.ids) for text in texts)
    return [
        Reading(text.ids + (with_id,) * (longest - len(text.ids)), text.types, text.cut) for text in texts
    ]  # fmt: skip
