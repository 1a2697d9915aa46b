"""The shelf of steers: sliders with what is known of them, and whether each fits a model.

A slider is a stored steer or direction with `steer.json`, its SteerCard, beside the numbers. Those of the product lie
in `shipped/`; a steer that was sent without a card is on the shelf as well, and nothing is known of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from filelock import FileLock
from torch import Tensor

from backend import errors
from backend.models.cache import CARD, Draft, is_whole, write_errors
from backend.models.vectors import (
    FOLDERS,
    SHIPPED,
    SLIDER,
    Vectors,
    card_of,
    digest,
    folders,
    read_slider,
    write_slider,
)
from backend.schema import Shelved, SteerCard, SteerShelf, VectorCard

UNKNOWN = "It was sent without a card: for which model it was made, and what it does, is not known."
DAMAGED = (
    "Its card cannot be read: for which model it was made, and what it does, is not known. Delete it, or make it again."
)
LOCK = ".shelf.lock"
"""In the cache folder: held by whoever puts a slider on the shelf or takes it off."""


@dataclass(frozen=True)
class Fit:
    """What a slider must fit."""

    model: str
    digest: str
    """Of the weights."""
    vocabulary: str
    steered: int | None
    """Width of what the output embedding takes; None: it cannot be steered."""
    stream: int | None
    """Width of the residual stream; None: it cannot be edited."""
    layers: int


def fit_of(loaded: Any) -> Fit:
    """What fits an open model."""
    anatomy, card = loaded.anatomy, loaded.card
    steered = None
    if anatomy.unembedding is not None and ("unembed" not in card.edits or card.edits["unembed"].can):
        steered = anatomy.unembedding.get_parameter("weight").shape[1]
    stream = anatomy.shape.width if "residual" not in card.edits or card.edits["residual"].can else None
    return Fit(loaded.name, loaded.conditions.digest, anatomy.vocabulary, steered, stream, anatomy.shape.layers)


def vocabulary_digest(tokenizer: Any) -> str:
    """SHA-256 of the tokens in the order of their ids, as canonical JSON."""
    named: dict[str, int] = tokenizer.get_vocab()
    tokens = [token for token, _ in sorted(named.items(), key=_by_id)]
    # the same letters as canonical_json writes, which would take a second for a large vocabulary
    return sha256(json.dumps(tokens, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")).hexdigest()


def _by_id(item: tuple[str, int]) -> tuple[int, str]:
    return item[1], item[0]


class Steers:
    """The sliders of the product and those below one cache folder."""

    def __init__(self, cache_dir: Path) -> None:
        self.root = Path(cache_dir)
        self._vectors = Vectors(cache_dir)

    def cards(self) -> tuple[SteerCard, ...]:
        """Every slider: those of the product first, then by kind and name."""
        every: dict[str, SteerCard] = {}
        for card in (*_cards(SHIPPED), *_cards(self.root)):
            if card.id not in every or not every[card.id].model:  # the same numbers may also lie there without a card
                every[card.id] = card
        return tuple(every.values())

    def get(self, id: str) -> SteerCard:
        """One card, by its id or its first digits. Raises `UnknownVector`."""
        found = [card for card in self.cards() if card.id == id]
        if not found:
            raise _unknown(id)
        return found[0]

    def shelf(self, fit: Fit) -> SteerShelf:
        """Every slider, and whether it fits; those that fit first."""
        told = [shelved(card, fit) for card in self.cards()]
        return SteerShelf(steers=tuple(sorted(told, key=lambda each: not each.fits)))

    def keep(self, card: SteerCard, numbers: dict[str, Tensor]) -> SteerCard:
        """Store numbers with their card, and give the card with the id that they have.

        Equal numbers that have a card already keep it, and it is given back: see `stands`. `numbers` as of
        `Vectors.keep`, which also says what it raises.
        """
        card = card.model_copy(update={"id": digest(card.kind, numbers)})
        with self._alone():
            if (standing := self._standing(card)) is not None:
                return standing
            self._vectors.keep(VectorCard(kind=card.kind, name=card.name, recipe=card.recipe), numbers, card)
            folder = self._vectors.places(card.kind, card.id)[0]
            if read_slider(folder) is None:  # the numbers were there, without a card or with a damaged one
                with write_errors(self.root):
                    write_slider(folder, card)
        return card

    def _standing(self, card: SteerCard) -> SteerCard | None:
        for folder in self._vectors.places(card.kind, card.id):
            if (found := _card(folder, SHIPPED if folder.is_relative_to(SHIPPED) else self.root)) is not None:
                return found
        return None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One server and one thread at a time."""
        with write_errors(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.root / LOCK)
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def remove(self, id: str) -> None:
        """Take a slider off the shelf and delete its numbers. Raises `UnknownVector`, `Forbidden`."""
        card = self.get(id)
        if card.ours:
            raise errors.Forbidden(
                f"The steer {card.name} cannot be deleted", "it comes with the product",
                "leave it; the shelf shows it last for models that it does not fit",
            )  # fmt: skip
        with self._alone():
            places = self._vectors.places(card.kind, id)
            with write_errors(self.root):
                if not [folder for folder in places if _removed(folder)]:
                    raise _unknown(id)


def _removed(folder: Path) -> bool:
    """Whether a folder was there to delete; renamed first: a removal cut short leaves a draft, never half a steer."""
    doomed = Draft(folder)
    try:
        folder.rename(doomed.folder / folder.name)
    except FileNotFoundError:
        return False
    finally:
        doomed.drop()
    return True


def _unknown(id: str) -> errors.UnknownVector:
    return errors.UnknownVector(
        f"There is no steer {id[:12]} on this server", "none of its shelf has this id",
        "see GET /api/v1/steers, or `lmscope steers`",
    )  # fmt: skip


def stands(asked: SteerCard, kept: SteerCard) -> tuple[str, ...]:
    """What to say where `Steers.keep` gave back the card that equal numbers had already."""
    if kept == asked.model_copy(update={"id": kept.id}):
        return ()
    whose = f", of {kept.owner}" if kept.owner else ""
    return (f"These numbers are on the shelf already as {kept.name}{whose}: that card stands.",)


def shelved(card: SteerCard, fit: Fit) -> Shelved:
    """Whether a slider fits, and why not, or what to know."""
    wrong = _wrong(card, fit)
    if wrong:
        return Shelved(card=card, fits=False, why=wrong)
    if not card.model:
        return Shelved(card=card, fits=True, why=DAMAGED if card.recipe.startswith(DAMAGED) else UNKNOWN)
    if card.digest != fit.digest:
        return Shelved(
            card=card, fits=True,
            why=f"It was made for other weights ({card.model}, digest {card.digest[:12]}) of the same vocabulary: its "
            "evidence and its range were measured there.",
        )  # fmt: skip
    return Shelved(card=card, fits=True)


def _wrong(card: SteerCard, fit: Fit) -> str:
    width = fit.steered if card.kind == "steer" else fit.stream
    whose = f"It was made for {card.model}, " if card.model else ""
    if width is None:
        return f"{fit.model} takes no {card.kind}: its card says why."
    if card.width != width:
        said = f"it has {card.width} numbers a token, and {fit.model} has {width} there."
        return whose + said if whose else said[:1].upper() + said[1:]
    if card.vocabulary and card.vocabulary != fit.vocabulary:
        return f"{whose}whose tokens are not those of {fit.model}: transfer it."
    if card.layer is not None and card.layer >= fit.layers:
        return f"{whose}and added after block {card.layer}; {fit.model} has {fit.layers} blocks."
    return ""


def _cards(root: Path) -> tuple[SteerCard, ...]:
    """Every steer, and of the directions, among which lie thousands of captured states, those with a card."""
    steers = [card for folder in folders(root, "steer") if (card := _card(folder, root) or _bare(folder)) is not None]
    with_cards = sorted(file.parent for file in (root / FOLDERS["direction"]).glob(f"[!.]*@*/{SLIDER}"))
    directions = [_card(folder, root) or _bare(folder) for folder in with_cards if is_whole(folder)]
    return (*steers, *(card for card in directions if card is not None))


def _card(folder: Path, root: Path) -> SteerCard | None:
    """A folder's card, if it has one that can be read."""
    card = read_slider(folder)
    return None if card is None else card.model_copy(update={"ours": root == SHIPPED})


def _bare(folder: Path) -> SteerCard | None:
    """What the numbers say of a slider without a card, or with a damaged one; None where it was deleted meanwhile."""
    card = card_of(folder)
    if card is None:
        return None
    width, *rank = card.shape
    recipe = f"{DAMAGED} {card.recipe}".strip() if (folder / SLIDER).exists() else card.recipe
    try:
        made = (folder / CARD).stat().st_mtime
    except FileNotFoundError:
        return None
    return SteerCard(
        kind=card.kind, name=card.name, id=card.id, plus="+", minus="−", model="", digest="", vocabulary="",
        width=width, rank=rank[0] if rank else None, recipe=recipe, made=made,
    )  # fmt: skip
