"""What a person gave, as the forms of questions, or a refusal in words before anything is sent."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from backend.schema import Example
from backend.schema.reasons import said, short
from lmscope.refused import Refused

Form = TypeVar("Form", bound=BaseModel)
WHAT = "The question cannot be asked like this"


class Impossible(Refused, ValueError):
    """A question that no server was asked: its arguments make none."""


def impossible(why: str, instead: str = "Correct what is named") -> Impossible:
    """Arguments that make no question, as the server says it."""
    return Impossible.because("invalid", 422, WHAT, why, instead)


def asked(form: type[Form], options: dict[str, Any] | None = None, /, **named: Any) -> Form:
    """A form from its fields, `options` among them. Raises `Impossible` for what it cannot hold, or holds twice."""
    options = options or {}
    if twice := [name for name in options if name in named]:
        raise impossible(f"{', '.join(twice)}: given twice, once by another argument", "Give it once")
    try:
        return form(**options, **named)
    except ValidationError as error:
        raise impossible(said(error.errors(include_url=False, include_input=False))) from None


def several(name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    """Numbers of a question, for a text would become its letters. Raises `Impossible`."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise impossible(f"{name}: it should be a list, and it is {short(repr(values), 60)}")
    return tuple(values)


def listed(words: str | Sequence[str], name: str = "texts") -> tuple[str, ...]:
    """Words or texts of a question: one may be given alone. Raises `Impossible`."""
    return (words,) if isinstance(words, str) else several(name, words)


def examples_of(rows: Sequence[tuple[str, float]]) -> tuple[Example, ...]:
    """Labelled texts. Raises `Impossible` for a row that is no pair."""
    found = []
    for place, row in enumerate(several("rows", rows)):
        if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != 2:
            raise impossible(f"rows.{place}: it should be a pair of text and label, such as ('Well done.', 1)")
        found.append(asked(Example, text=row[0], label=row[1]))
    return tuple(found)
