"""What a question of attention needs beyond what is loaded, in bytes, estimated before it runs."""

from __future__ import annotations

from backend.measure.pile import PILE_BYTES
from backend.models.loaded import Loaded
from backend.models.tokens import read_tokens
from backend.schema import HeadAsk, HeadsAsk, Limits, OverviewAsk, View
from backend.schema.limits import THUMBNAIL_CELLS

SCORES_AT_ONCE = 3
"""Copies of a layer's scores that an eager attention function holds: raw, scaled or masked, and after the softmax."""
STATES_AT_ONCE = 8
"""Vectors of the stream's width that a block holds for each token."""
SCRATCH = 8 * 1024 * 1024


def overview_bytes(loaded: Loaded, ask: OverviewAsk, limits: Limits) -> int:
    """Bytes for all thumbnails and statistics. Raises as `tokenise`."""
    shape = loaded.anatomy.shape
    cells = ask.cells or THUMBNAIL_CELLS
    sides = 1 + 2 * _compared(ask.view)
    thumbnails = sides * len(shape.attention_layers) * shape.heads * cells**2 * 4
    return forward_bytes(loaded, ask.view, limits) + 2 * thumbnails + _scratch(loaded, sides)


def heads_bytes(loaded: Loaded, ask: HeadsAsk, limits: Limits) -> int:
    """Bytes for all statistics. Raises as `tokenise`."""
    return forward_bytes(loaded, ask.view, limits) + _scratch(loaded, 1 + _compared(ask.view))


def _scratch(loaded: Loaded, sides: int) -> int:
    """For a reduction; on a graphics card layers wait to be reduced together."""
    return SCRATCH + (2 * PILE_BYTES * sides if loaded.anatomy.device.type == "cuda" else 0)


def head_bytes(loaded: Loaded, ask: HeadAsk, limits: Limits) -> int:
    """Bytes for one head: the forward, its exact map on every side, and the inputs kept. Raises as `tokenise`."""
    tokens = len(read_tokens(loaded, ask.view, limits).ids)
    shape = loaded.anatomy.shape
    rows = 1 + _compared(ask.view)
    each = (shape.heads + 2 * shape.kv_heads) * shape.head_width * loaded.model.dtype.itemsize
    kept = min(loaded.kept.budget, rows * tokens * each * len(shape.attention_layers))
    maps = (2 * rows + 2) * tokens**2 * 4
    answer = (1 + 2 * _compared(ask.view)) * min(tokens, ask.cells) ** 2 * 8
    return forward_bytes(loaded, ask.view, limits) + kept + maps + answer


def capture_bytes(loaded: Loaded, view: View, limits: Limits) -> int:
    """Bytes for the forward pass that a capture reads from. Raises as `tokenise`."""
    return forward_bytes(loaded, view, limits) + SCRATCH


def _compared(view: View) -> bool:
    return view.compare and bool(view.active_edits)


def forward_bytes(loaded: Loaded, view: View, limits: Limits) -> int:
    """Bytes at the peak of one forward pass with maps."""
    tokens = len(read_tokens(loaded, view, limits).ids)
    shape = loaded.anatomy.shape
    rows = 1 + _compared(view)
    item = loaded.model.dtype.itemsize
    scores = rows * shape.heads * tokens**2 * 4 * SCORES_AT_ONCE
    masks = tokens**2 * (item + 1)
    units = loaded.anatomy.units or 4 * shape.width
    states = rows * tokens * (STATES_AT_ONCE * shape.width + 3 * units) * item
    return scores + masks + states
