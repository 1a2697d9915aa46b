"""Refused: every way in which a question can fail, as one exception that carries a Problem."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import httpx
from pydantic import ValidationError

from backend.schema import Job, Problem
from backend.schema.capture import MEDIA_TYPE

WORD = re.compile(r"[a-z]+[ ,]")
"""A sentence that begins with a plain word, and not with an address or a name such as `smollm2-135m`."""
SPOKEN = ("application/json", "text/event-stream", MEDIA_TYPE)
"""Content types of the answers that are no refusals."""


class Refused(Exception):
    """The server, or the way to it, said no; `problem` says what, why and what to do instead."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(sentences(problem))
        self.problem = problem

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problem,)

    @classmethod
    def because(cls, type: str, status: int, what: str, why: str, instead: str) -> Self:
        """A refusal that no server wrote."""
        return cls(Problem(type=type, status=status, what=what, why=why, instead=instead))


def sentences(problem: Problem) -> str:
    """What, why and instead as one line."""
    said = [part.strip().rstrip(".") for part in (problem.what, problem.why, problem.instead) if part.strip()]
    return " ".join(f"{part[0].upper() if WORD.match(part) else part[0]}{part[1:]}." for part in said)


def is_answer(response: httpx.Response) -> bool:
    """Whether it is one of LMScope's answers, and no refusal."""
    return response.is_success and response.headers.get("content-type", "").startswith(SPOKEN)


def raise_refusal(response: httpx.Response) -> None:
    """Raise the Problem of an error answer; an answer that is not LMScope's own is told as such."""
    if is_answer(response):
        return
    if response.status_code == 204:
        return
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        raise not_lmscope(response) from None
    raise Refused(problem)


def not_lmscope(response: httpx.Response) -> Refused:
    """Something else answers at this address."""
    kind = response.headers.get("content-type", "no content type").split(";")[0]
    return Refused.because(
        "not-lmscope",
        502,
        f"{origin(response.request)} did not answer as LMScope does",
        f"It sent status {response.status_code} and {kind}, not a form that this client knows",
        "Check the address, and whether a proxy stands in between",
    )


def other_version(form: str, error: ValidationError) -> Refused:
    """An answer that this version cannot read."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"])) or "the body"
    return Refused.because(
        "other-version",
        502,
        f"The answer is not the {form} that this client knows",
        f"At {place}: {first['msg']}",
        "Give the server and the client the same version of LMScope",
    )


def not_done(job: Job) -> Refused:
    """Why a job has no result."""
    if job.problem is not None:
        return Refused(job.problem)
    why = {"cancelled": "It was cancelled", "lost": "The server ended while it ran"}.get(job.state, "It failed")
    return Refused.because(
        f"job-{job.state}", 409 if job.state == "cancelled" else 500, f"{job.what} did not end", why, "Start it again"
    )


@contextmanager
def in_words() -> Iterator[None]:
    """Turn httpx's exceptions into refusals."""
    try:
        yield
    except httpx.ConnectTimeout as error:
        raise unreachable(error, "It did not answer in time") from error
    except httpx.TimeoutException as error:
        raise Refused.because(
            "timed-out",
            504,
            f"{origin(error.request)} took too long",
            "No answer came in the time that this client waits",
            "Ask about a shorter text, or give the client a longer timeout_s",
        ) from error
    except httpx.ConnectError as error:
        raise unreachable(error, "Nothing listens there") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise cut_short(f"{type(error).__name__}: {error}") from error


def cut_short(why: str) -> Refused:
    """An answer that ended early."""
    return Refused.because(
        "cut-short", 502, "The answer did not arrive whole", why, "Ask again; if it stays, look at the server's log"
    )


def unreachable(error: httpx.TransportError, why: str) -> Refused:
    """Nobody at this address."""
    return Refused.because(
        "unreachable",
        503,
        f"No LMScope at {origin(error.request)}",
        f"{why} ({error})" if str(error) else why,
        "Start it with `lmscope serve`, or check the address",
    )


def origin(request: httpx.Request) -> str:
    """Scheme, host and port of a request."""
    return str(request.url.copy_with(raw_path=b"", query=None, fragment=None)).rstrip("/")
