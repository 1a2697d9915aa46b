"""Where a value fires in a text: the coefficient of one feed-forward unit at every token.

Axes: B rows (edited, then unedited), T tokens, F units.
"""

from backend.measure.array import to_array
from backend.models.asking import ask_model
from backend.models.cost import forward_bytes
from backend.models.loaded import Loaded
from backend.models.taps import Cancel
from backend.models.tokens import read_tokens
from backend.models.units import check_units, gated
from backend.models.words import words_of
from backend.models.written import written, written_bytes
from backend.schema import FiresAnswer, FiresAsk, Limits, UnitName


def fires(loaded: Loaded, ask: FiresAsk, limits: Limits, cancel: Cancel | None = None) -> FiresAnswer:
    """One unit over the tokens of a view. Raises `CannotShow` where there is no such unit, and as `ask_model`."""
    check_units(loaded.anatomy, ask.layer, ask.unit)
    asked = ask_model(loaded, ask.view, limits)
    held_BTF = written(loaded, asked, asked.tokens - 1, (ask.layer,), cancel).by_tap[f"ffn.{ask.layer}"]
    edited_T, *unedited = held_BTF[..., ask.unit].float()
    return FiresAnswer(
        conditions=loaded.conditions, ids=asked.read.ids, unit=UnitName(layer=ask.layer, unit=ask.unit),
        edited=to_array(edited_T), unedited=to_array(unedited[0]) if asked.compared else None,
        gated=gated(loaded.anatomy, ask.layer), words=words_of(loaded.tokenizer, set(asked.read.ids)),
        notices=asked.notices,
    )  # fmt: skip


def fires_bytes(loaded: Loaded, ask: FiresAsk, limits: Limits) -> int:
    """Bytes for the forward pass, and for what is written and kept. Raises as `tokenise`."""
    rows = 1 + (ask.view.compare and bool(ask.view.active_edits))
    tokens = len(read_tokens(loaded, ask.view, limits).ids)
    return forward_bytes(loaded, ask.view, limits) + written_bytes(loaded, tokens, rows)
