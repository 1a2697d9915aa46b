"""Measured effects, patches and maps of patches as numpy arrays."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from backend.schema import Edit, EffectsAnswer, PatchAnswer, PatchMap
from lmscope.answers import InNumpy, Numbers, Row, Theme, numbers, on_paper

if TYPE_CHECKING:
    import plotly.graph_objects as go

KINDS = {"heads": "head {layer}.{index}", "units": "L{layer}U{index}"}
Parts = Literal["heads", "attention", "feed_forward", "units"]


class EffectsInNumpy(InNumpy):
    """What the prediction does without each of N parts.

    `layer`, `index` i4 [N] (index −1: the whole layer); `direct`, `effect` f4 [N] in logits, NaN where not defined;
    `disagrees` bool [N]; `noise` logits; `agreement` the share of equal signs, or None.
    """

    answer: EffectsAnswer

    def __init__(self, answer: EffectsAnswer, parts: Parts = "heads") -> None:
        self.answer, self.explained, self.parts = answer, answer.explained, parts
        self.layer: Numbers = np.array([part.layer for part in answer.parts], "i4")
        self.index: Numbers = np.array([-1 if part.index is None else part.index for part in answer.parts], "i4")
        self.direct, self.effect = (
            np.array([np.nan if (value := getattr(part, name)) is None else value for part in answer.parts], "f4")
            for name in ("direct", "effect")
        )
        self.disagrees: Numbers = np.array([part.disagrees is True for part in answer.parts], bool)
        self.noise, self.agreement = answer.noise, answer.agreement

    @property
    def notices(self) -> tuple[str, ...]:
        """How the parts were removed."""
        return (self.answer.about,)

    @property
    def names(self) -> tuple[str, ...]:
        """`head 5.3`, `L12U34`, `attention 5` or `feed-forward 5`."""
        form = KINDS.get(self.parts, self.parts.replace("_", "-") + " {layer}")
        return tuple(form.format(layer=part.layer, index=part.index) for part in self.answer.parts)

    def table(self) -> list[Row]:
        """One row a part."""
        return [
            {"part": name, "direct": part.direct, "effect": part.effect, "disagrees": part.disagrees}
            for name, part in zip(self.names, self.answer.parts, strict=True)
        ]

    def figure(self, *, theme: Theme = "light") -> "go.Figure":
        """Direct contribution and measured effect of every part as bars, the largest effect first."""
        from frontend.figures.contributions import Part, contributions

        told = zip(self.names, self.answer.parts, strict=True)
        rows = [
            Part(name, self.parts, part.layer, part.index, part.direct, part.effect, part.disagrees)
            for name, part in sorted(told, key=lambda each: -abs(each[1].effect or 0.0))
        ]
        return on_paper(contributions(rows, self.conditions.model_dump(), theme=theme), theme)


class PatchInNumpy(InNumpy):
    """Edits that put what another text's run holds into a view: `view.model_copy(update={"edits": patch.edits})`."""

    answer: PatchAnswer

    def __init__(self, answer: PatchAnswer) -> None:
        self.answer = answer
        self.edits: tuple[Edit, ...] = answer.edits
        self.source_ids = answer.source_ids

    def table(self) -> list[Row]:
        """One row an edit."""
        told = [edit.model_dump(mode="json") for edit in self.edits]
        return [{name: each.get(name) for name in ("kind", "layer", "head", "to", "at")} for each in told]

    def figure(self, *, theme: Theme = "light") -> "go.Figure":
        """There is none: `client.trace` of the patched view shows what it does."""
        raise ValueError("an edit has no figure; client.trace(view with these edits, compare=True) shows what it does")


class PatchMapInNumpy(InNumpy):
    """The prediction with one cell patched at a time.

    `logits` f4 [R, T]: logit(target) − logit(foil), NaN where it was not measured; `rows` what the rows are;
    `unpatched` and `source` the same difference of this text and of the source.
    """

    answer: PatchMap

    def __init__(self, answer: PatchMap) -> None:
        self.answer, self.explained = answer, answer.explained
        self.logits = numbers(answer.logits)
        self.rows, self.unpatched, self.source, self.source_ids = (
            answer.rows, answer.unpatched, answer.source, answer.source_ids
        )  # fmt: skip

    @property
    def notices(self) -> tuple[str, ...]:
        """What was patched."""
        return (self.answer.about,)

    def table(self) -> list[Row]:
        """One row a cell."""
        return [
            {"place": name, "token": token, "logits": None if np.isnan(value) else value.item()}
            for name, values in zip(self.rows, self.logits, strict=True)
            for token, value in enumerate(values)
        ]

    def figure(self, *, theme: Theme = "light") -> "go.Figure":
        """Places down, tokens across, the change in logits."""
        from frontend.figures.patch import patch_map

        return on_paper(patch_map(self._json(), theme=theme), theme)
