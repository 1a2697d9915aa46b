"""A form with long lists, checked some items at a time: a thread that does so lets others run in between."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from annotated_types import MaxLen
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from backend.schema.reasons import OBJECT, by_field, listed

Form = TypeVar("Form", bound=BaseModel)
AT_ONCE = 500
"""Items; the words for as many wrong ones take some milliseconds."""


class WrongFields(ValueError):
    """What no form can be made from. Its text names the first wrong fields and counts the others."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__(listed(fields))
        self.fields = fields


def in_pieces(form: type[Form], told: Any) -> Form:
    """The form that `form.model_validate` gives of JSON values; its validators may look at one field alone.

    Raises `WrongFields`, each field with its reason, however many they are.
    """
    if not isinstance(told, dict):
        raise WrongFields({"": OBJECT})
    fields: dict[str, str] = {}
    long = {name: told[name] for name, field in form.model_fields.items() if _is_long(field, told.get(name))}
    found: dict[str, tuple[Any, ...]] = {}
    for name, items in long.items():
        most = next(limit.max_length for limit in form.model_fields[name].metadata if isinstance(limit, MaxLen))
        if len(items) > most:
            fields[name] = f"it may have {most} at most"
            continue
        of: Any = form.model_fields[name].annotation
        found[name] = tuple(_checked(name, items, TypeAdapter(of), fields))
    try:
        rest = form.model_validate({name: [] if name in long else value for name, value in told.items()})
    except ValidationError as error:
        raise WrongFields(by_field(_errors(error)) | fields) from None
    if fields:
        raise WrongFields(fields)
    return rest.model_copy(update=found)


def _is_long(field: FieldInfo, value: Any) -> bool:
    limited = any(isinstance(limit, MaxLen) for limit in field.metadata)
    return limited and isinstance(value, list) and len(value) > AT_ONCE


def _checked(name: str, items: list[Any], adapter: TypeAdapter[Any], fields: dict[str, str]) -> Iterator[Any]:
    """The items; `fields` hears of those that are wrong."""
    for first in range(0, len(items), AT_ONCE):
        try:
            yield from adapter.validate_python(items[first : first + AT_ONCE])
        except ValidationError as error:
            at = [{**each, "loc": (name, each["loc"][0] + first, *each["loc"][1:])} for each in _errors(error)]
            fields |= by_field(at)


def _errors(error: ValidationError) -> list[Any]:
    return error.errors(include_url=False, include_input=False)
