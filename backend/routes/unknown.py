"""Addresses under /api that nothing answers: a Problem, never the page."""

from itertools import takewhile
from typing import Any

from fastapi import APIRouter, Request
from starlette.routing import Match

from backend.routes.problems import id_of, not_found, response_of, wrong_method

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY")
router = APIRouter()


@router.api_route("/api/{path:path}", methods=list(METHODS), include_in_schema=False)
@router.api_route("/api", methods=list(METHODS), include_in_schema=False)
async def unknown(request: Request) -> Any:
    """404, or 405 with the methods that the address does answer."""
    allowed = ", ".join(method for method in METHODS if _answers(request, method))
    if not allowed:
        raise not_found()
    return response_of(wrong_method(request.method, allowed), id_of(request.scope), {"Allow": allowed})


def _answers(request: Request, method: str) -> bool:
    scope = {"type": "http", "path": request.scope["path"], "method": method, "root_path": "", "headers": []}
    ours = takewhile(lambda route: not _is_this(route), request.app.routes)  # pages are added behind
    return any(route.matches(dict(scope))[0] is Match.FULL for route in ours)


def _is_this(route: Any) -> bool:
    return getattr(route, "endpoint", None) is unknown or getattr(route, "original_router", None) is router
