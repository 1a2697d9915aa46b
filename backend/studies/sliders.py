"""Sliders of a study: a stored steer or direction, and a random one of equal norm beside it; which texts judge them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from backend import errors
from backend.measure.chance import random_direction, random_steer
from backend.models.examples import split
from backend.models.removal import made_up
from backend.models.vectors import Beside, Direction, SteerMatrix, Stored, unknown_vector
from backend.schema import Example, ResidualAdd, Steer, SteerCard, VectorId
from backend.studies.library import Library


@dataclass(frozen=True)
class Slider:
    """What a strength is put on."""

    id: str
    layer: int | None = None
    """Of a direction; None: it is a steer."""

    def at(self, by: float) -> Steer | ResidualAdd:
        """As an edit."""
        if self.layer is None:
            return Steer(steer=self.id, by=by)
        return ResidualAdd(layer=self.layer, vector=self.id, by=by)


def slider_of(library: Library, id: VectorId, layer: int | None = None) -> Slider:
    """A stored steer, or a direction after block `layer`, by default the one of its card.

    Raises `UnknownVector` for what is not stored here, `BadQuestion` for a layer that is missing or would be ignored.
    """
    try:
        library.vectors.steer(id)
    except errors.UnknownVector:
        try:
            library.vectors.direction(id)
        except errors.UnknownVector:
            raise unknown_vector("steer or direction", id) from None
    else:
        if layer is not None:
            raise errors.BadQuestion(
                "The layer would be ignored", "a steer acts on what the output embedding receives", "Leave it out."
            )
        return Slider(id)
    if layer is None:
        card = card_of(library, id)
        layer = None if card is None else card.layer
    if layer is None:
        raise errors.BadQuestion(
            "The layer of the direction is missing", "it has no card that says after which block it is added",
            "Name the layer.",
        )  # fmt: skip
    return Slider(id, layer)


def card_of(library: Library, id: VectorId) -> SteerCard | None:
    """The card of a slider, where the shelf has one."""
    try:
        return library.steers.get(id)
    except errors.UnknownVector:
        return None


@dataclass(frozen=True)
class Control:
    """Random numbers as large as a slider's, under a made-up id."""

    slider: Slider
    steers: dict[str, SteerMatrix]
    directions: dict[str, Direction]


def control_of(stored: Stored, slider: Slider, seed: int) -> Control:
    """A random steer of equal Frobenius norm and rank, or a random direction as long. Raises `UnknownVector`."""
    id = made_up(f"control of {slider.id} by seed {seed}")
    chance = Slider(id, slider.layer)
    if slider.layer is None:
        matrix = stored.steer(slider.id)
        return Control(chance, {id: SteerMatrix(*random_steer(matrix.left_DK, matrix.right_KD, seed=seed))}, {})
    return Control(chance, {}, {id: Direction(random_direction(stored.direction(slider.id).vector_D, seed=seed))})


def beside(stored: Stored, controls: Sequence[Control]) -> Beside:
    """What is stored, and the random ones."""
    own = {id: each.vector_D for control in controls for id, each in control.directions.items()}
    return Beside(stored, own, {id: each for control in controls for id, each in control.steers.items()})


@dataclass(frozen=True)
class Judges:
    """Labelled texts that judge a slider."""

    plus: tuple[str, ...] = ()
    minus: tuple[str, ...] = ()
    about: str = ""


def judges_of(library: Library, id: VectorId, examples: str | None, most: int) -> Judges:
    """Texts of both poles, `most` of each: of the examples named, else of those that the slider was made from.

    Of the latter only those count that its making neither trained on nor stopped by. The same texts come on every run.
    Raises `UnknownSet` for examples that are named and not here.
    """
    card = card_of(library, id)
    data = None if card is None else card.data
    if examples is None and data is None:
        return Judges()
    try:
        kept = library.examples.get(examples or (data.digest if data else ""))
    except errors.UnknownSet:
        if examples is not None:
            raise
        return Judges()
    own = data is not None and data.digest == kept.card.id
    rows: Sequence[Example] = (
        split(kept.rows, data.share, paired=data.paired).judge if data is not None and own else kept.rows
    )
    plus, minus = (_first([row.text for row in rows if row.label * sign > 0], most) for sign in (1, -1))
    which = "which its making neither trained on nor stopped by" if own else "which may be any texts"
    about = f"{len(plus)} texts of the + pole and {len(minus)} of the − pole of {kept.card.name}, {which}"
    return Judges(plus, minus, about)


def _first(texts: Sequence[str], most: int) -> tuple[str, ...]:
    """In an order that no file has chosen."""
    return tuple(sorted(texts, key=lambda text: sha256(f"judge {text}".encode()).hexdigest())[:most])
