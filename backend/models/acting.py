"""On how many tokens of a continuation each edit acted: counted from what the taps did, not from what was asked.

A tap that changes something tells which row of the plan it took for every token; the row says which edits are in it.
A token that is run again counts again. Axes: F tokens of a pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from backend.models.naming import tap_of
from backend.models.plan import Plan
from backend.schema import Acted, Edit


@dataclass
class Acting:
    """The count of one line."""

    acted: Counter[tuple[Edit, bool]] = field(default_factory=Counter)
    """By edit and whether the tokens are generated."""
    ran: Counter[tuple[bool, bool]] = field(default_factory=Counter)
    """Tokens that went through the blocks (False) or were read out (True), by whether they are generated."""

    def add(self, told: Mapping[str, Tensor], plan: Plan | None, prompt: int, fed: int, *, read_out: bool) -> None:
        """One pass over `fed` tokens of the line, the first `prompt` of which are prompt, or a read-out of them.

        `told`: by tap, the rows [F] of the plan that it took for these tokens.
        """
        self.ran[read_out, False] += prompt
        self.ran[read_out, True] += fed - prompt
        for tap, row_F in told.items():
            for generated, part in ((False, row_F[:prompt]), (True, row_F[prompt:])):
                for row, tokens in enumerate(part.bincount().tolist()):
                    for edit in {edit for edit in (plan.edits[row] if plan else ()) if tap_of(edit) == tap}:
                        self.acted[edit, generated] += tokens

    def told(self, edits: Sequence[Edit]) -> tuple[Acted, ...]:
        """For every edit that is on, by its place."""
        return tuple(
            Acted(
                edit=place, prompt=self.acted[edit, False], of_prompt=self.ran[edit.kind == "steer", False],
                written=self.acted[edit, True], of_written=self.ran[edit.kind == "steer", True],
            )
            for place, edit in enumerate(edits) if edit.on
        )  # fmt: skip
