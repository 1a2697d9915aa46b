"""Links: what a shared address holds, checked."""

from fastapi import APIRouter
from pydantic import ValidationError

from backend import errors
from backend.routes.house import BASE
from backend.schema import LinkAsk, LinkError, View, reasons

router = APIRouter(prefix=BASE, tags=["links"])


@router.post("/links")
async def open_link(ask: LinkAsk) -> View:
    """The View inside a link. Raises `BadLink` when it is damaged, of another version, too large or impossible."""
    try:
        return View.from_link(ask.link)
    except ValidationError as error:
        raise _bad_link(reasons.said(error.errors(include_url=False, include_input=False))) from error
    except LinkError as error:
        raise _bad_link(str(error)) from error


def _bad_link(why: str) -> errors.BadLink:
    return errors.BadLink("This link cannot be opened", why, "Copy the link again from where it was made, whole")
