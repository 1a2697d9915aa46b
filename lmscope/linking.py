"""From the options of `lmscope link` to a view."""

from collections.abc import Iterable, Sequence

from backend.schema import Edit, Focus, HeadName, HeadScale, HeadSet, LinkError, View
from lmscope.asking import Impossible
from lmscope.client import head_name


def view_of(
    *,
    model: str | None,
    text: str | None,
    pair: tuple[str, str] | None,
    off: Sequence[str],
    scale: Sequence[str],
    to: Sequence[str],
    compare: bool,
    head: str | None,
) -> View:
    """A view. Edits stand in the order: off, scale, set. Raises `LinkError` for a head or number that is none."""
    edits: list[Edit] = [*_scales((each, 0.0) for each in off)]
    edits += _scales(map(_named, scale))
    for each in to:
        name, value = _named(each)
        edits.append(HeadSet(**_head(name).model_dump(), to=value))
    focus = Focus() if head is None else Focus(heads=(_head(head),))
    return View(
        model=model or default_model(), text=text, pair=pair, edits=tuple(edits),
        compare=compare, focus=focus,
    )  # fmt: skip


def default_model() -> str:
    """The first model of the settings."""
    from backend.settings import Settings

    return Settings().models[0]


def _scales(given: Iterable[tuple[str, float]]) -> list[Edit]:
    return [HeadScale(**_head(name).model_dump(), by=by) for name, by in given]


def _named(each: str) -> tuple[str, float]:
    name, _, value = each.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise LinkError(f"{each!r} is no edit; write the head and a number, such as 5.3=0.5") from None


def _head(name: str) -> HeadName:
    try:
        return head_name(name)
    except Impossible as error:
        raise LinkError(error.problem.why) from None
