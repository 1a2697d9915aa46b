"""Write: a continuation, edited and unedited side by side."""

from typing import Annotated, Literal

from pydantic import Field

from backend.schema.conditions import Conditions
from backend.schema.explain import TokenId
from backend.schema.frozen import Frozen
from backend.schema.view import View

Side = Literal["edited", "unedited"]
Ended = Literal["length", "stop", "end", "full"]
"""`length`: as many tokens as asked for. `stop`: a stop text came. `end`: the model ended its text. `full`: its context
is full."""


class WriteAsk(Frozen):
    """POST /api/v1/write, and POST /api/v1/write/stream (server-sent events `write`, each a WriteEvent).

    `view.sampling` says how; `view.compare` asks for both sides, which share the random numbers.
    """

    view: View
    top: Annotated[int, Field(ge=0, le=10)] = 0
    """Likeliest tokens told with each written one."""
    ratio: bool = False
    """Tell with each token how much likelier the sliders (`SLIDERS`) of the view make it; with `view.compare` the other
    side is then the view without its sliders, all other edits staying. One more read-out a token for steers, one more
    row of the batch a side where a direction is among them."""


class Written(Frozen):
    """One token that was written."""

    id: int
    text: str
    """What it adds to the text: empty while a character is not whole yet."""
    probability: float
    """Under the model (and its edits) before temperature and cuts."""
    top: tuple[TokenId, ...] = ()
    top_probability: tuple[float, ...] = ()
    ratio: float | None = None
    """nats, where asked for: ln P(token | with the sliders) − ln P(token | without them), given the same text so far,
    on either side; None where no slider is on."""


class Acted(Frozen):
    """On how many tokens one edit of the view acted while its side was written, as counted while the model ran.

    The last written token is not run, for nothing follows it. Blocks run every other one; where a model keeps no cache
    they run the whole text for every token, and each run counts. A steer acts on what is read out: the last token of
    the prompt, and every written one but the last.
    """

    edit: int
    """Its place in `view.edits`; edits that are off are left out."""
    prompt: int
    of_prompt: int
    """Tokens of the prompt that were run, or read out for a steer."""
    written: int
    of_written: int
    """Later ones: written, or given as the view's continuation. An edit at `all` or `generated` acts on all of them."""


class WrittenSide(Frozen):
    """A whole continuation."""

    text: str
    tokens: tuple[Written, ...]
    ended: Ended


class WriteAnswer(Frozen):
    """Both continuations."""

    conditions: Conditions
    ids: tuple[int, ...]
    """The prompt's token ids that were really used."""
    edited: WrittenSide
    unedited: WrittenSide | None = None
    parted: int | None = None
    """The first token at which the two differ; None: they do not, or there is one."""
    acted: tuple[Acted, ...] = ()
    """One for every edit of the view that is on, counted on the edited side."""
    words: dict[str, str]
    notices: tuple[str, ...] = ()


class WriteEvent(Frozen):
    """One event of a stream: `begun` first, then `token`s of either side, an `ended` for each side."""

    kind: Literal["begun", "token", "ended"]
    side: Side = "edited"
    conditions: Conditions | None = None
    """With `begun`."""
    ids: tuple[int, ...] = ()
    """With `begun`: the prompt's."""
    notices: tuple[str, ...] = ()
    token: Written | None = None
    words: dict[str, str] = Field({})
    ended: Ended | None = None
    acted: tuple[Acted, ...] = ()
    """With `ended` of the edited side."""
