"""The continuation's tokens, put after a prompt whose tokens stay as they are."""

from typing import Any

from backend.errors import CannotShow
from backend.models.encoding import Encoded, encode
from backend.models.prompt import Prompt
from backend.models.spelling import Spelling

APART = "Prompt and continuation are tokenised apart; as one text, the tokens at their border would differ."
_ANCHORS = ("\n", ".", "a", "0")


def append_continuation(
    tokenizer: Any, spelling: Spelling, prompt: Prompt, encoded: Encoded, continuation: str
) -> tuple[Encoded, tuple[str, ...]]:
    """Prompt and continuation as one, and a notice when tokenising them together would have cut them otherwise.

    Raises `CannotShow` when the tokenizer closes a text with a special token: nothing can follow it.
    """
    if prompt.second is not None or (encoded.added and encoded.added[-1] and len(encoded.ids) > 1):
        raise CannotShow(
            "This prompt cannot be continued", f"its tokenizer closes it with {encoded.names[-1]}",
            "Leave the continuation empty, or choose a model that writes.",
        )  # fmt: skip
    whole = encode(tokenizer, prompt.text + continuation, specials=not prompt.templated)
    length = len(encoded.ids)
    if encoded.names[:1] != whole.names[:1] and whole.added and whole.added[0]:
        whole = whole.without(0)
    if whole.ids[:length] == encoded.ids and _begins_after(whole, length, len(prompt.text)):
        return whole, ()
    apart = _alone(tokenizer, spelling, continuation)
    return _joined(encoded, apart, len(prompt.text)), (APART,)


def _begins_after(whole: Encoded, length: int, border: int) -> bool:
    """Whether the tokens from `length` on cover everything after the border and nothing before it."""
    if len(whole.ids) == length:
        return False
    if whole.offsets is None:
        return True
    before = whole.offsets[length - 1][1] if length else 0
    return before <= border <= whole.offsets[length][0] or whole.offsets[length] == (border - 1, border)


def _alone(tokenizer: Any, spelling: Spelling, continuation: str) -> Encoded:
    """The continuation by itself, without the space that some tokenizers put before a text."""
    direct = encode(tokenizer, continuation, specials=False)
    wanted = continuation.encode()
    if _bytes(spelling, direct) == wanted:
        return direct
    for anchor in _ANCHORS:
        anchored = encode(tokenizer, anchor + continuation, specials=False)
        for first in range(1, min(len(anchored.ids), 6)):
            tail = anchored.tail(first)
            if _bytes(spelling, tail) == wanted:
                return _shifted(tail, -len(anchor))
    return direct


def _bytes(spelling: Spelling, encoded: Encoded) -> bytes:
    return b"".join(map(spelling.bytes_of, encoded.ids, encoded.names))


def _shifted(encoded: Encoded, by: int) -> Encoded:
    if encoded.offsets is None:
        return encoded
    offsets = tuple((max(0, start + by), max(0, end + by)) for start, end in encoded.offsets)
    return Encoded(**{**vars(encoded), "offsets": offsets})


def _joined(prompt: Encoded, rest: Encoded, border: int) -> Encoded:
    moved = _shifted(rest, border)
    return Encoded(
        ids=prompt.ids + rest.ids,
        names=prompt.names + rest.names,
        added=prompt.added + rest.added,
        sequence=prompt.sequence + rest.sequence,
        offsets=None if prompt.offsets is None or moved.offsets is None else prompt.offsets + moved.offsets,
        type_ids=None if prompt.type_ids is None else prompt.type_ids + (rest.type_ids or (0,) * len(rest.ids)),
    )
