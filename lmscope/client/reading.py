"""Answers as they arrive, in their forms."""

import json
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from lmscope.refused import not_lmscope, other_version

Form = TypeVar("Form", bound=BaseModel)


def typed(form: type[Form], response: httpx.Response) -> Form:
    """The answer in its form."""
    return read(form, response.content)


def read(form: type[Form], body: bytes) -> Form:
    """Read a form. Raises `Refused` when the server speaks another version."""
    try:
        return form.model_validate_json(body)
    except ValidationError as error:
        raise other_version(form.__name__, error) from None


def json_of(response: httpx.Response) -> dict[str, Any]:
    """An answer as plain data. Raises `Refused` when it is not even JSON."""
    try:
        value: dict[str, Any] = json.loads(response.content)
    except ValueError:
        raise not_lmscope(response) from None
    return value


async def events_in(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, str]]:
    """Kind and data of each server-sent event."""
    kind, data = "message", list[str]()
    async for line in lines:
        if not line:
            if data:
                yield kind, "\n".join(data)
            kind, data = "message", []
        elif not line.startswith(":"):
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                kind = value
            elif field == "data":
                data.append(value)
