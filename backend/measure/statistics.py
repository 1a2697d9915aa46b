"""The statistics of attention: means over the rows of a map.

Definitions: "Statistics of attention, said once"; `clark` follows Clark et al. 2019 (What does BERT look at?, §3, §6).
Axes: H heads, before them L layers where several are taken together; T queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from backend.measure.seen import Seen
from backend.schema.view import Reading

NAMES = (
    "entropy", "normalised", "effective", "previous", "next", "self", "first", "separators", "punctuation", "distance",
)  # fmt: skip
"""The statistics of one text, in the order of every answer; `induction` is measured on other tokens."""
SINK = "sink"
"""The share of a learned sink, in models that have one."""
SHARES = ("previous", "next", "self", "first", "separators", "punctuation")
CLARK_KEPT = 0.9999
"""Clark et al. smooth a to 0.9999·a + 0.0001/T before they take the entropy."""


@dataclass(frozen=True, slots=True)
class Means:
    """One statistic of every head of a layer, or of several layers."""

    value_H: Tensor
    """[..., H]; NaN where no row counts."""
    uniform_H: Tensor
    """Under uniform attention over the same visible keys, same rows."""
    rows_H: Tensor
    """int64: rows that count."""


def statistics(
    rows: dict[str, Tensor], facts: Seen, rows_T: Tensor, reading: Reading, *, sinks: bool
) -> dict[str, Means]:
    """By name, the means of what was gathered row by row. `rows_T`: the rows that are averaged over."""
    counts_HT = rows_T & (facts.n_T > 0)  # an axis H comes only where heads differ
    if reading.without_first:
        counts_HT = counts_HT & (rows["mass"] > 0)
    lost = {SINK: _sink(rows, counts_HT, reading)} if sinks else {}
    if reading.definitions == "clark":
        return _means({name: _clark(name, rows, facts) for name in NAMES} | lost)
    if sinks:
        counts_HT = _divide_by_mass(rows, counts_HT)
    entropy_HT, n_T = rows["entropy"], facts.n_T
    log_T = n_T.double().log()
    found = {
        "entropy": _Averaged(entropy_HT, log_T, counts_HT),
        "normalised": _Averaged(entropy_HT / log_T, torch.ones_like(log_T), counts_HT & (n_T >= 2)),
        "effective": _Averaged(entropy_HT.double().exp(), n_T, counts_HT),
        "distance": _Averaged(rows["distance"], facts.distance_T, counts_HT),
    }
    for name in SHARES:
        sees_T = facts.targets[name]
        found[name] = _Averaged(rows[name], sees_T / n_T, counts_HT & (sees_T > 0))
    return _means({name: found[name] for name in NAMES} | lost)


class _Averaged(NamedTuple):
    """What one statistic is the mean of."""

    values_HT: Tensor
    uniform_T: Tensor
    counts_HT: Tensor
    """Which rows count; [T] where they are the same for all heads."""


def _sink(rows: dict[str, Tensor], counts_HT: Tensor, reading: Reading) -> _Averaged:
    """1 − what each row gives to keys. Without the first token that is not known any more: n/a."""
    if reading.without_first:
        counts_HT = torch.zeros_like(counts_HT)
    nowhere_T = torch.full(counts_HT.shape[-1:], torch.nan, device=rows["sum"].device)
    return _Averaged(1 - rows["sum"], nowhere_T, counts_HT)


def _divide_by_mass(rows: dict[str, Tensor], counts_HT: Tensor) -> Tensor:
    """Entropy and distance of the part of each row that is on keys; which rows have such a part.

    With m = Σ a: −Σ (a/m) ln (a/m) = (−Σ a ln a) / m + ln m.
    """
    mass_HT = rows["sum"]
    some_HT = counts_HT & (mass_HT > 0)
    safe_HT = torch.where(some_HT, mass_HT, 1.0)
    rows["entropy"] = rows["entropy"] / safe_HT + safe_HT.log()
    rows["distance"] = rows["distance"] / safe_HT
    return some_HT


def _clark(name: str, rows: dict[str, Tensor], facts: Seen) -> _Averaged:
    """As published: every sum over all queries is divided by T, whether or not a query sees the target."""
    every_HT = torch.ones_like(rows["entropy"], dtype=torch.bool)
    if name == "entropy":
        return _Averaged(rows[name], smoothed_uniform(facts.n_T.double(), len(facts.n_T)), every_HT)
    if name not in SHARES or not bool((facts.targets[name] > 0).any()):
        return _Averaged(rows["entropy"], facts.n_T, ~every_HT)
    return _Averaged(rows[name], facts.targets[name] / facts.n_T, every_HT)


def _means(found: dict[str, _Averaged]) -> dict[str, Means]:
    """Means over the rows that count, in float64; NaN where none does."""
    means = {}
    for (name, each), rows_H, uniform_H in zip(found.items(), *_without_heads(found), strict=True):
        value_H = torch.where(each.counts_HT, each.values_HT, 0.0).sum(-1, dtype=torch.float64) / rows_H
        means[name] = Means(value_H, uniform_H.expand_as(value_H), rows_H.expand_as(value_H))
    return means


def _without_heads(found: dict[str, _Averaged]) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """How many rows count, and the mean of `uniform_T` over them, of each statistic.

    Where all heads have the same rows, all statistics N are taken at once: on a graphics card each step costs the
    same, however small.
    """
    if all(each.counts_HT.ndim == 1 for each in found.values()):
        counts_NT = torch.stack([each.counts_HT for each in found.values()])
        uniform_NT = torch.stack([each.uniform_T.double() for each in found.values()])
        rows_N = counts_NT.sum(-1)
        return rows_N.unbind(), (torch.where(counts_NT, uniform_NT, 0.0).sum(-1) / rows_N).unbind()
    rows = [each.counts_HT.sum(-1) for each in found.values()]
    sums = [torch.where(each.counts_HT, each.uniform_T.double(), 0.0).sum(-1) for each in found.values()]
    return rows, [sum_H / rows_H for sum_H, rows_H in zip(sums, rows, strict=True)]


def surprise(p: float) -> float:
    """−p ln p in nats."""
    return -p * float(torch.tensor(p, dtype=torch.float64).log())


def smoothed_uniform(n_T: Tensor, tokens: int) -> Tensor:
    """Clark et al.'s entropy of uniform attention over n of T keys; ln T when all are seen."""
    floor = (1 - CLARK_KEPT) / tokens
    each_T = CLARK_KEPT / n_T + floor
    return -n_T * each_T * each_T.log() + (tokens - n_T) * surprise(floor)
