"""Our own scripts and style sheets, each kind as one file: a page asks for two files instead of some eighty."""

from functools import cache
from hashlib import sha256
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import Response

FOLDER = Path(__file__).resolve().parents[1] / "assets"
JOINED = r"\.(js|css)$"
"""What Dash need not name in its page, as a regular expression."""

router = APIRouter(include_in_schema=False)


@cache
def joined(kind: str) -> bytes:
    """Every file of a kind ("js", "css") in the order of their names, as they lay there at the first question."""
    files = sorted(FOLDER.glob(f"*.{kind}"))
    return b"\n".join(b"/* %s */\n%s" % (file.name.encode(), file.read_bytes()) for file in files)


def address(kind: str) -> str:
    """Where the joined file is, below the path of the pages; it changes with the content, so browsers may keep it."""
    return f"assets/lmscope.{kind}?m={sha256(joined(kind)).hexdigest()[:16]}"


@router.get("/assets/lmscope.js")
async def scripts() -> Response:
    """All scripts; each is a function of its own."""
    return Response(joined("js"), media_type="text/javascript")


@router.get("/assets/lmscope.css")
async def styles() -> Response:
    """All style sheets."""
    return Response(joined("css"), media_type="text/css")
