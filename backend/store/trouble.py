"""What a database says when it cannot be used, in our words and without its password."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from backend import errors

INSTEAD = "mend that, or set LMSCOPE_DATABASE_URL to another database, or LMSCOPE_CACHE_DIR to a folder you may write"


def unusable(why: str, instead: str = INSTEAD, *, url: URL | None = None) -> errors.StoreUnusable:
    """The one form of it."""
    place = "" if url is None else f" {shown(url)}"
    return errors.StoreUnusable(f"The database{place} cannot be used", why, instead)


def shown(url: URL) -> str:
    """The address as anybody may read it: no password, and nothing of what follows the question mark."""
    return url.set(query={}).render_as_string(hide_password=True)


@contextmanager
def told(url: URL) -> Iterator[None]:
    """Turn what the driver or the file system raises into `StoreUnusable`."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        # the cause is left out: a driver's message may hold the whole address
        raise unusable(_why(error, url), url=url) from None


def _why(error: Exception, url: URL) -> str:
    said: object = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    if isinstance(error, OSError) and error.filename:
        said = f"{error.filename}: {error.strerror}"
    first = (str(said).strip().splitlines() or [type(said).__name__])[0][:300]
    for secret in _secrets(url):
        first = first.replace(secret, "***")
    return first if isinstance(error, OSError) else f"it says: {first}"


def _secrets(url: URL) -> list[str]:
    stated = [url.password, *(value for values in url.normalized_query.values() for value in values)]
    return [str(secret) for secret in stated if secret]
