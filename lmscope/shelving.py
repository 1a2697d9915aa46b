"""What the command line says about models."""

from collections.abc import Iterable
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from backend.models.progress import Progress
from backend.models.sources import Sources
from backend.schema import ModelCard
from backend.settings import Settings

WIDE = 120
"""Columns of a terminal that has room for a sentence a model."""


def sources() -> Sources:
    """Where this machine's models come from, as the settings say."""
    settings = Settings()
    token = settings.hub_token
    return Sources(
        settings.cache_dir, settings.models, settings.allow, None if token is None else token.get_secret_value()
    )


def opened(name: str, revision: str | None, progress: Progress) -> ModelCard:
    """Open a model to see what it can show. Whoever sits at the command line may name any folder."""
    from backend.app import open_shelf
    from lmscope.serving import quiet

    quiet()
    settings = Settings()
    shelf = open_shelf(Settings(models=(name, *settings.models)))
    shelf.load(name, revision, progress)
    return shelf.card(name, revision)


def table(cards: Iterable[ModelCard], width: int) -> Table:
    """One row a model; what it is about where there is room."""
    made = Table(box=None, pad_edge=False)
    for column in ("name", "here", "memory"):
        made.add_column(column, no_wrap=True)
    for column in ("licence", "architecture"):
        made.add_column(column, no_wrap=True, overflow="ellipsis")
    if width >= WIDE:
        made.add_column("about")
    for card in cards:
        size = f"{card.estimated_bytes / 1e6:,.0f} MB" if card.estimated_bytes else ""
        here = "yes" if card.state in ("cached", "loaded") else "failed" if card.state == "failed" else "no"
        cells = (card.name, here, size, card.source.licence, card.architecture, card.about)
        made.add_row(*cells[: len(made.columns)])
    return made


def described(card: ModelCard) -> list[RenderableType]:
    """A card, its promises and its `Can`."""
    return [_facts(card), "", _promises(card), "", _can(card)]


def _facts(card: ModelCard) -> Table:
    made = Table(box=None, show_header=False, pad_edge=False)
    source = card.source
    facts: dict[str, Any] = {
        "model": f"{card.name} {card.revision}".strip(),
        "source": f"{source.kind} {source.name}",
        "licence": source.licence,
        "credit": source.credit,
        "architecture": card.architecture,
        "quantisation": source.quantisation,
        "conversion": source.conversion,
        "digest": card.digest[:12],
        "runs in": f"{card.dtype} on {card.device}, kernel {card.kernel}",
        "memory": f"{card.memory_bytes / 1e6:,.0f} MB",
    }
    if card.shape is not None:
        shape = card.shape
        facts["shape"] = (
            f"{shape.layers} layers × {shape.heads} heads ({shape.kv_heads} key/value), width {shape.width}, "
            f"vocabulary {shape.vocabulary:,}, context {shape.context or 'not stated'}"
        )
    for name, value in facts.items():
        if value:
            made.add_row(name, str(value))
    return made


def _promises(card: ModelCard) -> Table:
    made = Table("promise", "kept", "measured", box=None, pad_edge=False)
    for promise in card.promises:
        kept = {True: "yes", False: "NO", None: "–"}[promise.kept]
        made.add_row(promise.name, kept, promise.detail)
    return made


def _can(card: ModelCard) -> Table:
    made = Table("instrument", "can", "why not", box=None, pad_edge=False)
    for name, ability in card.can.items():
        made.add_row(name, "yes" if ability.can else "no", ability.why)
    return made
