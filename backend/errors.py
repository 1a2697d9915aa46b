"""What can go wrong. One tree; each leaf knows its HTTP status and its stable word.

LmscopeError
├── BadQuestion            422 invalid             a question that can never be answered as asked
│   ├── BadLink            400 bad-link
│   ├── TooLong            422 too-long            more tokens than the context, or than this server allows
│   ├── TooLarge           413 too-large           a body, an answer or a map beyond a limit
│   └── CannotShow         422 cannot-show         the model has no such part; says why
│       └── SeveralTokens  422 several-tokens      some words are no single token; they can be left out
├── NotFound               404 not-found
│   ├── UnknownModel       404 unknown-model
│   ├── UnknownJob         404 unknown-job
│   ├── UnknownVector      404 unknown-vector      a direction or steer that this server does not hold
│   └── UnknownSet         404 unknown-set         a prompt set that this server does not hold
├── WrongMethod            405 wrong-method
├── Forbidden              403 forbidden
│   ├── WrongHost          421 wrong-host
│   └── KeyNeeded          401 key-needed
├── ModelRefused           422 model-refused       a model that will not be opened
│   ├── PickleOnly         422 pickle-only
│   ├── RemoteCode         422 remote-code
│   ├── MissingFile        422 missing-file
│   ├── WrongChecksum      422 wrong-checksum
│   ├── NoAttention        422 no-attention
│   └── OverBudget         507 over-budget
├── FetchFailed            502 fetch-failed        interrupted download, or nobody answers
├── DiskFull               507 disk-full
├── CacheUnwritable        507 cache-unwritable    the models cache cannot be written
├── StoreUnusable          503 store-unusable      the database cannot be opened, read or written
├── Lost                   410 lost                a job's server died, and the job cannot go on
├── NotNow                 503 not-now             the same question may work later
│   ├── Busy               503 busy
│   ├── Waited             503 waited
│   ├── Loading            503 loading
│   └── OutOfMemory        503 out-of-memory
├── Replaced               409 replaced            a newer question of the same tab took its place
├── Cancelled              499 cancelled           Stop, or the client left
└── Broken                 500 broken              our fault
"""

from math import isfinite
from typing import ClassVar

from backend.schema.problem import Problem


class LmscopeError(Exception):
    """An error that says what, why and what to do instead."""

    type: ClassVar[str] = "broken"
    status: ClassVar[int] = 500

    def __init__(
        self, what: str, why: str, instead: str, *, needed: float | None = None, available: float | None = None
    ) -> None:
        super().__init__(f"{what}: {why}")
        self.what, self.why, self.instead = what, why, instead
        self.needed, self.available = needed, available

    def problem(self, request: str = "") -> Problem:
        """The body that the caller receives; what is needed or available is left out where it is no finite number."""
        needed, available = _told(self.needed), _told(self.available)
        return Problem(
            type=self.type, status=self.status, what=self.what, why=self.why, instead=self.instead,
            needed=needed, available=available, request=request,
        )  # fmt: skip


class BadQuestion(LmscopeError):
    type, status = "invalid", 422


class BadLink(BadQuestion):
    type, status = "bad-link", 400


class TooLong(BadQuestion):
    type = "too-long"


class TooLarge(BadQuestion):
    type, status = "too-large", 413


class CannotShow(BadQuestion):
    type = "cannot-show"


class SeveralTokens(CannotShow):
    type = "several-tokens"


class NotFound(LmscopeError):
    type, status = "not-found", 404


class UnknownModel(NotFound):
    type = "unknown-model"


class UnknownJob(NotFound):
    type = "unknown-job"


class UnknownVector(NotFound):
    type = "unknown-vector"


class UnknownSet(NotFound):
    type = "unknown-set"


class WrongMethod(LmscopeError):
    type, status = "wrong-method", 405


class Forbidden(LmscopeError):
    type, status = "forbidden", 403


class WrongHost(Forbidden):
    type, status = "wrong-host", 421


class KeyNeeded(Forbidden):
    type, status = "key-needed", 401


class ModelRefused(LmscopeError):
    type, status = "model-refused", 422


class PickleOnly(ModelRefused):
    type = "pickle-only"


class RemoteCode(ModelRefused):
    type = "remote-code"


class MissingFile(ModelRefused):
    type = "missing-file"


class WrongChecksum(ModelRefused):
    type = "wrong-checksum"


class NoAttention(ModelRefused):
    type = "no-attention"


class OverBudget(ModelRefused):
    type, status = "over-budget", 507


class FetchFailed(LmscopeError):
    type, status = "fetch-failed", 502


class DiskFull(LmscopeError):
    type, status = "disk-full", 507


class CacheUnwritable(LmscopeError):
    type, status = "cache-unwritable", 507


class StoreUnusable(LmscopeError):
    type, status = "store-unusable", 503


class Lost(LmscopeError):
    type, status = "lost", 410


class NotNow(LmscopeError):
    type, status = "not-now", 503


class Busy(NotNow):
    type = "busy"


class Waited(NotNow):
    type = "waited"


class Loading(NotNow):
    type = "loading"


class OutOfMemory(NotNow):
    type = "out-of-memory"


class Replaced(LmscopeError):
    type, status = "replaced", 409


class Cancelled(LmscopeError):
    type, status = "cancelled", 499


class Broken(LmscopeError):
    type, status = "broken", 500


def _told(number: float | None) -> float | None:
    return number if number is not None and isfinite(number) else None
