"""Every error as a Problem. What was sent is never echoed as a whole."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from backend import errors
from backend.desk.failures import as_refusal
from backend.schema import reasons
from backend.schema.reasons import short

MEDIA_TYPE = "application/problem+json"
CHALLENGE = 'Basic realm="LMScope", charset="UTF-8"'
"""For this a browser asks for the key by itself."""

DOCUMENTED: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "Problem: what went wrong, why, and what to do instead",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
}


class TooMuch(HTTPException):
    """A body beyond its limit, found while FastAPI reads it: FastAPI lets only this kind of exception through."""

    def __init__(self, refusal: errors.TooLarge) -> None:
        super().__init__(refusal.status, refusal.what)
        self.refusal = refusal


def response_of(error: errors.LmscopeError, request_id: str, headers: Mapping[str, str] | None = None) -> Response:
    """The error as an HTTP response."""
    body = error.problem(request_id).model_dump_json(exclude_none=True)
    later = {"Retry-After": "1"} if isinstance(error, errors.NotNow) else {}
    challenge = {"WWW-Authenticate": CHALLENGE} if isinstance(error, errors.KeyNeeded) else {}
    return Response(body, error.status, {**later, **challenge, **(headers or {})}, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Turn every error of the application into a Problem."""

    async def refused(request: Request, error: Any) -> Response:
        return response_of(error, id_of(request.scope))

    async def invalid(request: Request, error: Any) -> Response:
        return response_of(in_words(error), id_of(request.scope))

    async def plain(request: Request, error: Any) -> Response:
        allowed = {"Allow": error.headers["Allow"]} if error.headers and "Allow" in error.headers else {}
        return response_of(of_http(error, request.method), id_of(request.scope), allowed)

    app.add_exception_handler(errors.LmscopeError, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, plain)


def id_of(scope: Any) -> str:
    """The request's id, as in the log."""
    return str(scope.get("state", {}).get("request_id", ""))


def of_failure(error: Exception) -> errors.LmscopeError:
    """Any exception as an error of the tree."""
    return as_refusal(error, "a request")


def in_words(error: RequestValidationError) -> errors.BadQuestion:
    """What pydantic found, in a sentence for each of the first few fields."""
    found = error.errors()
    first = found[0]
    where = tuple(first["loc"])
    if first["type"] == "json_invalid":
        why = f"the body is not JSON: {short(first['ctx']['error'])}, at character {where[-1]}"
        return errors.BadQuestion("The question cannot be read", why, "Send one JSON object")
    if where == ("body",) and first["type"] in ("missing", "model_attributes_type"):
        return no_object()
    counted = any(item["loc"][-1] in ("layer", "head") for item in found)
    return wrong_fields(reasons.said(found), before="Layers and heads are counted from 0. " if counted else "")


def no_object() -> errors.BadQuestion:
    """A body that is something else."""
    why = "the body is not a JSON object, or its Content-Type is not application/json"
    return errors.BadQuestion("The question cannot be read", why, "Send one JSON object as application/json")


def wrong_fields(why: str, *, before: str = "") -> errors.BadQuestion:
    """Fields that no form has, named with their reasons; `before`: what else to know of them."""
    instead = f"{before}Correct what is named; /api/v1/docs says what each field may hold"
    return errors.BadQuestion("The question cannot be asked like this", why, instead)


def of_http(error: HTTPException, method: str) -> errors.LmscopeError:
    """What Starlette and FastAPI refuse by themselves."""
    if isinstance(error, TooMuch):
        return error.refusal
    if error.status_code == 404:
        return not_found()
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return wrong_method(method, allowed)
    if error.status_code == 400:
        why = "it is not valid UTF-8, is nested too deeply, or holds a number that is too long"
        return errors.BadQuestion("The body cannot be read", why, "Send one JSON object in UTF-8")
    return errors.BadQuestion("The request cannot be answered", short(error.detail), "See /api/v1/docs")


def not_found() -> errors.NotFound:
    """No such path."""
    return errors.NotFound("There is nothing at this address", "no route has this path", "See /api/v1/docs")


def wrong_method(method: str, allowed: str) -> errors.WrongMethod:
    """The path exists for other methods."""
    return errors.WrongMethod(
        f"{short(method)} is not possible here",
        f"this address answers {allowed or 'other methods'}",
        "Use one of these",
    )
