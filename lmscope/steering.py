"""What the command line says about steers, and how it makes those of the product again."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from backend.errors import BadQuestion, UnknownVector
from backend.models.cache import ModelsCache
from backend.models.progress import Progress
from backend.models.snippets import RECIPES, Recipe, fetch
from backend.models.steers import Steers
from backend.models.vectors import Vectors
from backend.schema import ExamplesAsk, Interval, Job, Made, SteerCard
from backend.settings import Settings

DIGITS = 12
"""Of an id, as printed; as many name a steer."""


def shelf() -> Steers:
    """This machine's steers, as the settings say where."""
    return Steers(Settings().cache_dir)


def named(name: str, cards: Sequence[SteerCard]) -> SteerCard:
    """The card of a name, an id or the first digits of one. Raises `UnknownVector`, and `BadQuestion` for several."""
    found = [card for card in cards if card.name == name or (len(name) >= DIGITS and card.id.startswith(name))]
    if not found:
        known = ", ".join(sorted({card.name for card in cards})) or "none"
        raise UnknownVector(f"There is no steer {name}", f"on this machine there are: {known}", "see `lmscope steers`")
    if len(found) > 1:
        ids = ", ".join(card.id[:DIGITS] for card in found)
        raise BadQuestion(
            f"{len(found)} steers are called {name}", f"their ids begin with {ids}", "Name one by its id."
        )
    return found[0]


def recipe(name: str) -> Recipe:
    """How a steer of the product is made. Raises `BadQuestion`."""
    if name not in RECIPES:
        told = "; ".join(f"{each.name} ({each.about})" for each in RECIPES.values())
        raise BadQuestion(
            f"No steer {name} comes with LMScope", f"those that it knows how to make are {told}",
            "Make your own from your examples on the Steer page, or with client.make_steer.",
        )  # fmt: skip
    return RECIPES[name]


def make(chosen: Recipe, progress: Progress) -> Made:
    """Fetch the texts of a steer, train it on this machine as the product's was, and keep it."""
    from lmscope.serving import quiet

    quiet()
    settings = Settings()
    asked = fetch(ModelsCache(settings.cache_dir), chosen, progress)
    return asyncio.run(_made(settings, asked, chosen, progress))


async def _made(settings: Settings, examples: ExamplesAsk, chosen: Recipe, progress: Progress) -> Made:
    """Through a server in this process, whose jobs nobody else sees."""
    from backend.app import create_app
    from backend.store import open_store
    from lmscope.client import AsyncClient

    def told(job: Job) -> None:
        progress(job.what, job.done, job.total, job.unit)

    ask = chosen.make("0" * 64)
    settings = Settings(**{**settings.model_dump(), "models": (ask.model,), "wait_s": 3600.0, "key": None})
    app = create_app(settings, store=open_store("sqlite://", settings.cache_dir))
    async with app.router.lifespan_context(app), AsyncClient("http://127.0.0.1", app=app) as client:
        await client.wait(await client.load(ask.model), told)
        card = await client.keep_examples(
            examples.name, plus=examples.plus, minus=examples.minus, licence=examples.licence
        )  # fmt: skip
        ask = chosen.make(card.id)
        job = await client.wait(await client.start(ask), told)
    return Made.model_validate(job.result)


def compared(made: SteerCard, shipped: SteerCard | None, cache: Steers) -> str:
    """Whether the numbers are those of the product, or how far they are from them."""
    if shipped is None:
        return "No steer of this name comes with LMScope yet."
    if shipped.id == made.id:
        return f"Its numbers are those that come with LMScope, to the last bit ({made.id[:DIGITS]})."
    vectors = Vectors(cache.root)
    ours, theirs = (vectors.steer(card.id) for card in (made, shipped))
    w_DD, shipped_DD = ours.left_DK @ ours.right_KD, theirs.left_DK @ theirs.right_KD
    apart = float((w_DD - shipped_DD).norm() / shipped_DD.norm())
    cosine = float((w_DD * shipped_DD).sum() / (w_DD.norm() * shipped_DD.norm()))
    return (
        f"Its numbers ({made.id[:DIGITS]}) are not those that come with LMScope ({shipped.id[:DIGITS]}): the matrices "
        f"differ by {apart:.3g} of the norm (cosine {cosine:.6f}). Sums run in another order on another processor or "
        "with another number of threads, and training carries that on; compare the evidence of the two."
    )


def table(cards: Iterable[SteerCard]) -> Table:
    """One row a steer."""
    made = Table(box=None, pad_edge=False)
    for column in ("name", "id", "model", "−", "+", "evidence at ±1, nats a token", "range"):
        made.add_column(column, no_wrap=True, overflow="ellipsis")
    for card in cards:
        made.add_row(
            card.name, card.id[:DIGITS], card.model or "not known", card.minus, card.plus, _evidence(card), _range(card)
        )
    return made


def _evidence(card: SteerCard) -> str:
    if card.evidence is None:
        return "without evidence"
    return f"+ {_mean(card.evidence.plus)}, − {_mean(card.evidence.minus)}"


def _mean(told: Interval) -> str:
    return f"{told.mean:+.3f}"


def _interval(told: Interval) -> str:
    return f"{told.mean:+.4f} [{told.low:+.4f}, {told.high:+.4f}] over {told.n} texts"


def _range(card: SteerCard) -> str:
    if card.range is None:
        return ""
    low, high = card.range.low, card.range.high
    signs = ["" if doubled else beyond for doubled, beyond in zip(card.range.doubled, ("≤ ", "≥ "), strict=True)]
    return f"{signs[0]}{low:.3g} to {signs[1]}{high:.3g}"


def described(card: SteerCard) -> list[RenderableType]:
    """Everything that is known of a steer."""
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    facts: dict[str, Any] = {
        "name": card.name, "id": card.id, "kind": card.kind, "+": card.plus, "−": card.minus,
        "model": f"{card.model} (weights {card.digest[:DIGITS]})" if card.model else "not known",
        "size": f"width {card.width}" + (f", rank {card.rank}" if card.rank else "") +
        (f", after block {card.layer}" if card.layer is not None else ""),
        "owner": card.owner, "recipe": card.recipe,
    }  # fmt: skip
    if (data := card.data) is not None:
        facts["data"] = f"{data.name}: {data.plus} + and {data.minus} −, {data.held_out} held out ({data.licence})"
    if (evidence := card.evidence) is not None:
        facts |= {
            "+ texts": _interval(evidence.plus), "− texts": _interval(evidence.minus),
            "random, + texts": _interval(evidence.random_plus), "random, − texts": _interval(evidence.random_minus),
            "evidence": evidence.about,
        }  # fmt: skip
    if card.range is not None:
        facts["range"] = f"{_range(card)}: there the perplexity of neutral text, {card.range.perplexity:.4g}, doubles"
    for name, value in facts.items():
        if value:
            made.add_row(name, str(value))
    return [made]


def curve(made: Made) -> Table:
    """The training, point by point."""
    shown = Table("step", "training loss", "held-out", box=None, pad_edge=False)
    for point in made.curve:
        loss = "" if point.train is None else f"{point.train:.4f}"
        mark = " ← kept" if point.step == made.best else ""
        shown.add_row(str(point.step), loss, f"{point.held_out:.4f}{mark}")
    return shown
